"""`round`: how long a scheduling round takes on a full cluster, from changed rows in Postgres to the commit.

A cluster without pods (podless.py): what is placed runs at once, and ends when it is told to. 1,250 nodes of 8 GPUs,
200 teams with equal quotas that may borrow, so much work that about 5,000 run and 1,000 wait. Before each full round
1 % of the running work ends and as much arrives. Before each event one workload of one GPU ends and the cluster comes
to rest again; then one of one GPU arrives, which is placed or told why not. The rounds are the production loop's own;
what prepares them is not timed. The core's own time is that of deciding once more on the same input, from scratch.
Settings are production's; the loops take turns in one thread, so that a round's time is its own.

Of the workloads 14 % have half a GPU each. `fractions_percent`: how much more processor time a full round takes than on
a cluster where these ask for a whole one, by the medians, on 5,000 GPUs.

With `--gpus N` it is `round-large` (benchmarks/large/measure.py) at that size instead.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.databases import on_postgres
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.large import measure as large
from controlplane.benchmarks.scheduling.roundload import GPUS, NODES

ROUNDS = 200  # and as many events
HALF = NODES // 2


def run(options: Options, progress: Progress) -> Result:
    """Measure at 1,250, 5,000 and 10,000 GPUs; the figures are those of the last. Raises BenchmarkError."""
    if options.gpus is not None:
        return large.run(options, progress)
    whole = options.jobs or ROUNDS
    seen: dict[int, dict[str, Any]] = {}
    seed, few = ("--seed", str(options.seeds[0])), max(5, whole // 5)
    for number, nodes in enumerate((NODES // 8, HALF, NODES)):
        progress(number / 4, f"rounds on {nodes * GPUS} GPUs")
        count = whole if nodes == NODES else few
        with on_postgres() as env:
            size = ("--nodes", str(nodes), "--count", str(count))
            seen[nodes] = processes.run(env, "benchmark_process", "round", *size, *seed)
    progress(0.9, f"rounds on {HALF * GPUS} GPUs without shares")
    with on_postgres() as env:
        size = ("--nodes", str(HALF), "--count", str(few))
        plain = processes.run(env, "benchmark_process", "round-whole", *size, *seed)
    return _result(seen, plain["cpu"])


def _result(seen: Mapping[int, Mapping[str, Any]], plain: Sequence[float]) -> Result:
    last, more = seen[NODES], statistics.median(seen[HALF]["cpu"]) / statistics.median(plain) - 1
    return Result(
        (
            Figure("round.round_p99_seconds", round(_p99(last["rounds"]), 3), "s", 1.0),
            Figure("round.event_p99_seconds", round(_p99(last["events"]), 4), "s", 0.05),
            Figure("round.core_p99_seconds", round(_p99(last["cores"]), 3), "s"),
            Figure("round.peak_mib", round(last["mib"]), "MiB", 1024),
            Figure("round.fractions_percent", round(100 * more, 1), "%", 20.0),
        ),
        (
            *(_note(nodes, found) for nodes, found in seen.items()),
            f"{HALF * GPUS} GPUs, processor time of a round, median: {statistics.median(seen[HALF]['cpu']) * 1000:.0f} "
            f"ms, without shares {statistics.median(plain) * 1000:.0f} ms",
        ),
    )


def _note(nodes: int, found: Mapping[str, Any]) -> str:
    return (
        f"{nodes * GPUS} GPUs, {found['running']} running, {found['waiting']} wait: {len(found['rounds'])} rounds of "
        f"{statistics.mean(found['placed']):.0f} placements (least {min(found['placed'])}) and "
        f"{statistics.mean(found['changes']):.0f} changes, median "
        f"{statistics.median(found['rounds']) * 1000:.0f} ms, p99 {_p99(found['rounds']) * 1000:.0f} ms, core p99 "
        f"{_p99(found['cores']) * 1000:.0f} ms; {len(found['events'])} events, {found['events_placed']} placed, median "
        f"{statistics.median(found['events']) * 1000:.0f} ms, p99 {_p99(found['events']) * 1000:.0f} ms"
    )


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[max(0, -(-len(values) * 99 // 100) - 1)]
