"""The benchmarks by name. A name, once given, stays: results are compared over years.

A benchmark names what its figures depend on, as git names it: the modules of this package that it is made of, and the
folders with the code that it measures. A stored figure is older than its code once one of these has changed. A test
holds the names against what is imported. No module is loaded before its benchmark runs: printing stored figures must
not wait for libraries that only measuring needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from controlplane.benchmarks.figure import Options, Progress, Result

HERE = "controlplane/benchmarks"

# Folders. "controlplane" has all below it but this package; with /* it has the files directly in it alone.
CORE = ("gpushare", "scheduler")
SIMULATION = (*CORE, "controlplane/simulator")
ADAPTER = (*SIMULATION, "controlplane/*", "controlplane/cluster", "controlplane/manifests", "controlplane/testbed")
SERVER = ("gpushare", "scheduler", "autoscaler", "controlplane")
PAGES = (*SERVER, "frontend")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How one is run, and what its figures depend on."""

    modules: tuple[str, ...]  # of this package; the first has the function
    folders: tuple[str, ...]
    function: str = "run"

    def __call__(self, options: Options, progress: Progress) -> Result:
        """Measure. Raises BenchmarkError."""
        run: Callable[[Options, Progress], Result] = getattr(
            import_module(f"controlplane.benchmarks.{self.modules[0]}"), self.function
        )
        return run(options, progress)


BENCHMARKS: Mapping[str, Benchmark] = {
    "admission": Benchmark(("admission", "podless", "processes"), SERVER),
    "api": Benchmark(("api", "processes"), SERVER),
    "authorization": Benchmark(("authorization", "processes", "tenants"), PAGES),
    "start": Benchmark(("start", "processes"), PAGES),
    "replay": Benchmark(("replay", "processes"), SERVER),
    "requests": Benchmark(("requests",), (*SIMULATION, "controlplane/*", "controlplane/cluster")),
    "round": Benchmark(("rounds", "roundload", "podless", "processes"), SERVER),
    "page": Benchmark(("page", "processes"), PAGES),
    "page-large": Benchmark(("pagelarge", "largeworld", "processes"), PAGES),
    "accessibility": Benchmark(("accessibility", "processes"), PAGES),
    "sse": Benchmark(("streams", "processes"), PAGES),
    "first-job": Benchmark(("firstjob", "processes"), PAGES),
    "kubernetes-bind": Benchmark(("binding", "bindload", "rights", "processes"), SERVER),
    "fencing": Benchmark(("fencing", "recovery", "site", "stopping", "rights", "processes"), SERVER),
    "fuzz": Benchmark(("fuzz", "processes", "tenants"), PAGES),
    "recovery": Benchmark(("recovery", "site", "rights", "processes"), SERVER),
    "manifests": Benchmark(("manifests",), ADAPTER),
    "parsers": Benchmark(("parsers", "patterns", "worstkinds"), PAGES),
    "storage": Benchmark(("storage", "storageload", "storagerows", "processes"), SERVER),
    "strangers": Benchmark(("strangers", "floods", "processes"), PAGES),
    "kubernetes-resync": Benchmark(("watching", "faults", "rights"), ADAPTER, "resync"),
    "turnaround": Benchmark(("turnaround", "podwatch", "rights", "processes"), SERVER),
    "watch": Benchmark(("watching", "faults", "rights"), ADAPTER, "watch"),
    "test-cluster": Benchmark(("testcluster",), (*SIMULATION, "controlplane/testbed")),
    "fairness": Benchmark(("fairness",), SIMULATION),
    "openb": Benchmark(
        ("openb", "arrivals", "cores", "lookahead", "openblists", "podrounds", "rolegangs"),
        (*SIMULATION, "controlplane/*"),
    ),
    "backfill": Benchmark(("backfill",), SIMULATION),
    "explanations": Benchmark(("explanations", "eta", "everychange", "fullcluster", "smallworlds"), SIMULATION),
}
