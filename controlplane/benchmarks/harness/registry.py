"""The benchmarks by name. A name, once given, stays: results are compared over years.

A benchmark names what its figures depend on, as git names it: the modules of this package that it is made of, and the
folders with the code that it measures. A stored figure is older than its code once one of these has changed. A test
holds the names against what is imported. No module is loaded before its benchmark runs: printing stored figures must
not wait for libraries that only measuring needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from controlplane.benchmarks.harness.figure import Options, Progress, Result

HERE = "controlplane/benchmarks"

# Folders. "controlplane" has all below it but this package; with /* it has the files directly in it alone.
ROOMS = (
    "controlplane/*",
    "controlplane/adopted",
    "controlplane/domain",
    "controlplane/jobspec",
    "controlplane/runtime",
    "controlplane/security",
)
CORE = ("gpushare", "scheduler")
SIMULATION = (*CORE, "autoscaler", "controlplane/simulator")
ADAPTER = (
    *SIMULATION,
    *ROOMS,
    "controlplane/webhook",
    "controlplane/kubeobjects",
    "controlplane/cluster",
    "controlplane/enforcer",
    "controlplane/manifests",
    "controlplane/testbed",
)
# The world of notebooks, a service and trainings, and what plays it.
MIX = (
    "mix.measure",
    "mix.bounds",
    "mix.cells",
    "mix.courses",
    "mix.draws",
    "mix.engine",
    "mix.jobs",
    "mix.ondemand",
    "mix.planned",
    "mix.policies",
    "mix.requests",
    "mix.runs",
    "mix.speeds",
    "slo.judge",
    "slo.looks",
    "slo.policies",
    "slo.traces",
    "training.goodput",
    "training.mapfit",
    "training.tables",
    "training.trainings",
)
# What a replay runs: the life cycle in memory, under the scheduler and the autoscaler.
REPLAY = (
    *SIMULATION,
    *ROOMS,
    "controlplane/cluster",
    "controlplane/invariants",
    "controlplane/lifecycle",
)
# The largest cluster, beside which `round` measures its own.
LARGE = (
    "large.measure",
    "large.load",
    "scheduling.roundload",
    "scheduling.podless",
    "harness.databases",
    "harness.processes",
)
SERVER = ("gpushare", "scheduler", "autoscaler", "controlplane")
PAGES = (*SERVER, "frontend")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How one is run, and what its figures depend on."""

    modules: tuple[str, ...]  # of this package; the first has the function
    folders: tuple[str, ...]
    function: str = "run"

    @property
    def files(self) -> tuple[str, ...]:
        """Where its modules are, as git names them."""
        return tuple(f"{HERE}/{module.replace('.', '/')}.py" for module in self.modules)

    def __call__(self, options: Options, progress: Progress) -> Result:
        """Measure. Raises BenchmarkError."""
        run: Callable[[Options, Progress], Result] = getattr(
            import_module(f"controlplane.benchmarks.{self.modules[0]}"), self.function
        )
        return run(options, progress)


BENCHMARKS: Mapping[str, Benchmark] = {
    "admission": Benchmark(("scheduling.admission", "scheduling.podless", "harness.processes"), SERVER),
    "api": Benchmark(("serving.api", "harness.processes"), SERVER),
    "api-large": Benchmark(
        (
            "large.reads",
            "large.load",
            "scheduling.largeworld",
            "scheduling.roundload",
            "scheduling.podless",
            "harness.databases",
            "harness.processes",
        ),
        PAGES,
    ),
    "authorization": Benchmark(("reliability.authorization", "harness.processes", "harness.tenants"), PAGES),
    "demo-week": Benchmark(("serving.demoweek", "serving.demoweekload", "harness.processes"), SERVER),
    "start": Benchmark(("serving.start", "harness.processes"), PAGES),
    "replay": Benchmark(("scheduling.replay", "harness.processes"), SERVER),
    "slo": Benchmark(
        (
            "slo.measure",
            "slo.batching",
            "slo.cells",
            "slo.compare",
            "slo.engine",
            "slo.judge",
            "slo.looks",
            "slo.notes",
            "slo.onset",
            "slo.policies",
            "slo.together",
            "slo.traces",
        ),
        (*CORE, "autoscaler", "controlplane/cluster"),
    ),
    "slo-faults": Benchmark(
        ("slo.faults", "slo.judge", "slo.looks", "slo.traces", "harness.cores"),
        (*CORE, "autoscaler", "controlplane/cluster", "controlplane/runtime"),
    ),
    "detection": Benchmark(
        ("training.detection", "training.watchers", "training.planted", "training.paces"),
        ("autoscaler/bottleneck", "autoscaler/experiment"),
    ),
    "reporter": Benchmark(("reliability.reporter",), ("weft",)),
    "tokens": Benchmark(("sharing.tokens", "sharing.divisions"), ("gpushare",)),
    "notebooks": Benchmark(
        ("notebooks.measure", "notebooks.engine", "notebooks.policies", "notebooks.runs", "notebooks.sessions"),
        ("gpushare",),
    ),
    "interposer": Benchmark(
        ("sharing.interposer", "sharing.enforced"),
        ("gpushare", "controlplane/enforcer", "controlplane/testbed"),
    ),
    "limits": Benchmark(("sharing.limits",), (*SIMULATION, *ROOMS, "controlplane/cluster")),
    "sia": Benchmark(
        (
            "training.againstsia",
            "training.clusters",
            "training.goodput",
            "training.jobs",
            "training.rounds",
            "training.sia",
            "training.tables",
        ),
        ("autoscaler",),
    ),
    "nearchus": Benchmark(
        (
            "training.nearchus",
            "training.nearchuscluster",
            "training.classics",
            "training.cluster16",
            "training.clusters",
            "training.elasticpolicy",
            "training.goodput",
            "training.jobs",
            "training.mapfit",
            "training.planted",
            "training.published",
            "training.rounds",
            "training.singlecases",
            "training.singlecourse",
            "training.singlejobs",
            "training.tables",
            "training.trainings",
        ),
        REPLAY,
    ),
    "training": Benchmark(
        MIX,
        REPLAY,
    ),
    "mixed": Benchmark(
        ("mix.mixed", *MIX),
        REPLAY,
    ),
    "elasticity": Benchmark(("training.elasticity", "training.clusters", "training.elasticdraws"), ("autoscaler",)),
    "requests": Benchmark(("serving.requests",), (*SIMULATION, *ROOMS, "controlplane/cluster")),
    "round": Benchmark(("scheduling.rounds", *LARGE), SERVER),
    "round-large": Benchmark(LARGE, SERVER),
    "cells": Benchmark(
        (
            "large.cells",
            "large.cellsload",
            "large.cellsday",
            "large.load",
            "scheduling.roundload",
            "scheduling.podless",
            "harness.databases",
            "harness.processes",
        ),
        SERVER,
    ),
    "page": Benchmark(("serving.page", "harness.processes"), PAGES),
    "page-large": Benchmark(("serving.pagelarge", "scheduling.largeworld", "harness.processes"), PAGES),
    "accessibility": Benchmark(("serving.accessibility", "harness.processes"), PAGES),
    "sse": Benchmark(("serving.streams", "harness.processes"), PAGES),
    "first-job": Benchmark(("scheduling.firstjob", "harness.processes"), PAGES),
    "kubernetes-bind": Benchmark(
        ("scheduling.binding", "scheduling.bindload", "harness.rights", "harness.processes"), SERVER
    ),
    "fencing": Benchmark(
        (
            "reliability.fencing",
            "reliability.recovery",
            "reliability.doubles",
            "reliability.faults",
            "reliability.storms",
            "harness.site",
            "harness.siteload",
            "reliability.stopping",
            "harness.rights",
            "harness.processes",
        ),
        SERVER,
    ),
    "fuzz": Benchmark(("reliability.fuzz", "harness.processes", "harness.tenants"), PAGES),
    "recovery": Benchmark(
        (
            "reliability.recovery",
            "reliability.doubles",
            "reliability.faults",
            "reliability.storms",
            "harness.site",
            "harness.siteload",
            "harness.rights",
            "harness.processes",
        ),
        SERVER,
    ),
    "gateway": Benchmark(
        ("serving.gateway", "serving.gatewayload"),
        ("autoscaler", *ROOMS, "controlplane/activator", "controlplane/testbed"),
    ),
    "manifests": Benchmark(("reliability.manifests",), ADAPTER),
    "node": Benchmark(("reliability.node", "scheduling.podwatch", "harness.rights", "harness.processes"), SERVER),
    "parsers": Benchmark(("reliability.parsers", "reliability.patterns", "reliability.worstkinds"), PAGES),
    "reclaim": Benchmark(
        (
            "reliability.reclaim",
            "reliability.reclaiming",
            "harness.record",
            "scheduling.podwatch",
            "harness.rights",
            "harness.processes",
        ),
        SERVER,
    ),
    "storage": Benchmark(
        ("reliability.storage", "reliability.storageload", "reliability.storagerows", "harness.processes"), SERVER
    ),
    "strangers": Benchmark(("reliability.strangers", "serving.floods", "harness.processes"), PAGES),
    "kubernetes-resync": Benchmark(("serving.watching", "reliability.faults", "harness.rights"), ADAPTER, "resync"),
    "turnaround": Benchmark(
        ("scheduling.turnaround", "scheduling.podwatch", "harness.rights", "harness.processes"), SERVER
    ),
    "watch": Benchmark(("serving.watching", "reliability.faults", "harness.rights"), ADAPTER, "watch"),
    "webhook": Benchmark(("reliability.webhook", "harness.rights", "harness.processes"), SERVER),
    "test-cluster": Benchmark(("serving.testcluster",), (*SIMULATION, "controlplane/testbed")),
    "fairness": Benchmark(("scheduling.fairness",), REPLAY),
    "openb": Benchmark(
        (
            "scheduling.openb",
            "scheduling.arrivals",
            "harness.cores",
            "scheduling.lookahead",
            "scheduling.openblists",
            "scheduling.podrounds",
            "scheduling.rolegangs",
        ),
        (*SIMULATION, *ROOMS),
    ),
    "backfill": Benchmark(("scheduling.backfill",), REPLAY),
    "explanations": Benchmark(
        (
            "scheduling.explanations",
            "scheduling.eta",
            "scheduling.everychange",
            "scheduling.fullcluster",
            "scheduling.smallworlds",
        ),
        REPLAY,
    ),
}
