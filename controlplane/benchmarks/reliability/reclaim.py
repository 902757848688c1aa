"""`reclaim`: how soon a replica on standby has its GPU back from a training that borrows it, on a real node.

A service's sleeping replica lends its GPU to the third worker of an elastic gang that sums over the pod network and
whose workers each hold 1 GiB. Then the law wants one replica more. Each time, from the commit of that decision:

- Free: the borrower's process has ended, and what it had of the GPU went with it. Nothing else waits for that GPU: in
  Kubernetes' accounting it is the replica's all along. A training that shrinks by a worker ends it at SIGTERM; one that
  saves first writes 1 GiB to the node's disk, and has it there (fsync).
- Gone: the borrower's pod is, which the kubelet sees to with its looks once a second.
- Awake: the GPU is free, and the woken replica has answered a request as an endpoint of its Service. The node has no
  kube-proxy: the request goes to the endpoint's address.
- Loss: from the gang's last step with the borrower until the next one of those that remain.

The scheduler's rests before lending and growth are 0 here, as they would make a turn take minutes; they lie before the
decision. The borrower has computed for 2 s before: one that began within the last second is ended up to a second later,
as its kubelet looks at its containers once a second. Weft's loops run in one process (reclaiming.py) on Postgres.

With --write-table what was measured is also written to controlplane/cluster/reclaims.json.
"""

import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result, quantile
from controlplane.benchmarks.harness.record import machine
from controlplane.cluster import reclaims
from controlplane.testbed import postgres
from controlplane.testbed.processes import running, wait_for
from controlplane.testbed.realnode import programs

TIMES = 100
GPUS = 3  # of the gang, with the one that it borrows (reclaiming.py)
KINDS = {"leave": "", "save": "_checkpoint"}  # what a worker does at SIGTERM: how its figures' names end
GOALS = {"leave": 1.0, "save": 10.0}


def run(options: Options, progress: Progress) -> Result:
    """Wake replicas, one after the other. Raises BenchmarkError or MissingError."""
    programs.find_all()
    times = options.repeat or TIMES
    turns: list[dict[str, Any]] = []
    date, load = datetime.now(UTC).isoformat(timespec="seconds"), round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory(prefix="weft-reclaim-") as name, postgres.prepared({}) as server:
        progress(0.0, "starting a cluster with a real node")
        with running(server.command, log=server.log, user=server.user) as process:
            wait_for(process, server.answers, "Postgres", server.log)
            url = postgres.create_database(server.url, "weft")
            env = processes.production(Path(name), DATABASE_URL=url, CLUSTER="kubernetes")
            for line in processes.lines(Path(name), "benchmark_process", "reclaim", "--count", str(times), env=env):
                if "how" in line:
                    turns.append(line)
                    progress(0.05 + 0.95 * len(turns) / (2 * times), f"replica {len(turns)} of {2 * times} woken")
    if options.write_table:
        reclaims.write(reclaims.table_of(turns, GPUS, date, machine(), load))
    found = {how: [turn for turn in turns if turn["how"] == how] for how in KINDS}
    figures = [figure for how in KINDS for figure in _figures(how, found[how])]
    return Result(tuple(figures), tuple(_note(how, found[how]) for how in KINDS))


def _figures(how: str, turns: Sequence[dict[str, Any]]) -> list[Figure]:
    end = KINDS[how]
    awake = [max(turn["ended"], turn["answered"]) for turn in turns]
    return [
        Figure(f"reclaim.p95_seconds{end}", _rank(95, [turn["ended"] for turn in turns]), "s", GOALS[how]),
        Figure(f"reclaim.gone_p95_seconds{end}", _rank(95, [turn["gone"] for turn in turns]), "s"),
        Figure(f"reclaim.awake_p95_seconds{end}", _rank(95, awake), "s"),
        Figure(f"reclaim.loss_p95_seconds{end}", _rank(95, [turn["loss"] for turn in turns]), "s"),
        Figure(f"reclaim.steps_redone{end}", sum(turn["redone"] for turn in turns), ""),
    ]


def _note(how: str, turns: Sequence[dict[str, Any]]) -> str:
    said = {"leave": "ends at SIGTERM", "save": "first saves 1 GiB to disk"}[how]
    parts = {
        "its process ended": "ended",
        "its pod gone": "gone",
        "first request answered": "answered",
        "the gang's loss": "loss",
    }
    each = (
        f"{what} {_rank(50, values):.2f}, {_rank(95, values):.2f} s"
        for what, key in parts.items()
        if (values := [turn[key] for turn in turns])
    )
    return f"{len(turns)} times a borrower that {said}; p50, p95: {'; '.join(each)}"


def _rank(part: int, values: Sequence[float]) -> float:
    """With three digits."""
    return round(quantile(values, part / 100), 3)
