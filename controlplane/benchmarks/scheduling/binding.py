"""`kubernetes-bind`: how fast waiting gangs are bound to 1,200 nodes, beside the unthrottled kube-scheduler.

Each run has a fresh cluster with the same pods and Services on this same machine. KWOK plays the kubelets; no pod
starts within the run, for the kubelets' writes are not what is measured. One repetition is: kube-scheduler, ours,
kube-scheduler. Ours are the production loops on a durable Postgres with quotas on; the clock starts when they may
decide, so it counts decisions, commits and binds. Ours have the account, rights and fences of production (rights.py);
kube-scheduler has its own account, and no fences. Its clock starts with its first bind, so its start is not held
against it.

Settings are production's, its number of prepared workloads too: the pods of those behind are made while the clock runs,
where kube-scheduler finds all of them made. Two things differ in the runs beside kube-scheduler. The loops that decide
start once the others have prepared what they will, as kube-scheduler is started with all pods there; and the loops run
without Celery's consumer, as they are in one process and need no hints. The single jobs have the compose file's
worker and its broker.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from django.conf import settings

from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.scheduling import bindload
from controlplane.cluster.kubernetes import names, pods, services
from controlplane.cluster.port import PodSpec
from controlplane.testbed import binaries, compose, postgres
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.processes import running, wait_for
from controlplane.testbed.redis import redis_server
from controlplane.testbed.stages import NEVER

NODES, GANGS, REPEAT, SUBMISSIONS = 1200, 2000, 5, 200
GIVE_UP_SECONDS = 300.0
PREPARED = settings.PREPARED_WORKLOADS  # production's own default
UNBOUND = "/api/v1/pods?limit=1&fieldSelector=spec.nodeName="
POLL_SECONDS = 0.5  # the server looks through all pods for the answer: more often, and it is part of the load
DECISIONS = "SELECT sum(took_ms), count(*) FROM controlplane_cycle WHERE loop = 'schedule'"


@dataclass(frozen=True, slots=True)
class Ours:
    """One run of ours."""

    rate: float
    mib: float
    cpu_seconds: float
    decision_seconds: float
    rounds: int


def run(options: Options, progress: Progress) -> Result:
    """Kube-scheduler, ours, kube-scheduler, so many times; then single jobs on an idle cluster."""
    gangs = GANGS if options.jobs is None else max(1, options.jobs // bindload.GANG)
    nodes = max(10, round(NODES * gangs / GANGS))
    repeat = options.repeat or REPEAT
    theirs: list[float] = []
    ours: list[Ours] = []
    binaries.find(lambda text: progress(0.0, text))
    for number in range(repeat):
        tell = partial(progress, number / (repeat + 1))
        theirs.append(_baseline(nodes, gangs, tell))
        ours.append(_ours(nodes, gangs, tell))
        theirs.append(_baseline(nodes, gangs, tell))
    progress(repeat / (repeat + 1), "single jobs")
    waits = _singles(nodes, SUBMISSIONS if options.jobs is None else 20)
    return _result(gangs * bindload.GANG, nodes, theirs, ours, waits)


def _result(total: int, nodes: int, theirs: list[float], ours: list[Ours], waits: list[float]) -> Result:
    rate, base = statistics.median(run.rate for run in ours), statistics.median(theirs)
    decision = statistics.median(run.decision_seconds for run in ours) / total * 1000
    waits = sorted(waits)
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    peak = max(run.mib for run in ours)
    return Result(
        (
            Figure("kubernetes-bind.ratio_to_kube_scheduler", round(rate / base, 2), "x", 2.5, higher_is_better=True),
            Figure("kubernetes-bind.pods_per_second", round(rate, 1), "1/s", 500.0, higher_is_better=True),
            Figure("kubernetes-bind.submit_to_bound_p99_seconds", round(p99, 3), "s", 1.0),
            Figure("kubernetes-bind.loop_peak_mib", round(peak, 1), "MiB", 1024.0),
            Figure("kubernetes-bind.decision_seconds_per_1000", round(decision, 3), "s"),
        ),
        (
            f"{total} pods in gangs of {bindload.GANG} on {nodes} nodes of 8 GPUs; all on this machine",
            f"kube-scheduler, pods/s: {_listed(theirs)} (before and after each of ours)",
            f"ours, pods/s: {_listed([run.rate for run in ours])}, from the first decision to the last bind",
            f"decisions alone: {total / statistics.median(r.decision_seconds for r in ours):.0f} pods/s in "
            f"{ours[-1].rounds} rounds; CPU of the loop process {ours[-1].cpu_seconds:.1f} s",
            f"submit to bound: median {statistics.median(waits):.3f} s over {len(waits)} jobs",
        ),
    )


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


# --- kube-scheduler -----------------------------------------------------------------------------


def _baseline(nodes: int, gangs: int, tell: Callable[[str], None]) -> float:
    with _cluster(nodes, "baseline") as cluster:
        _plain_namespaces(cluster)
        cluster.kill("scheduler")
        tell("kube-scheduler: making pods")
        total = gangs * bindload.GANG
        cluster.each(partial(_make, cluster), [(n, rank) for n in range(gangs) for rank in range(bindload.GANG)])
        tell("kube-scheduler: binding")
        cluster.start("scheduler")
        cluster.wait_for(lambda: _bound(cluster) > 0, "the first bind")
        first, began = _bound(cluster), time.monotonic()
        return (total - first) / (_all_bound(cluster, total) - began)


def _plain_namespaces(cluster: TestCluster) -> None:
    spaces = [names.namespace(team) for team in bindload.TEAM_NAMES]
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces])
    accounts = [f"/api/v1/namespaces/{name}/serviceaccounts/default" for name in spaces]
    cluster.wait_for(lambda: all(cluster.exists(path) for path in accounts), "the service accounts")


def _make(cluster: TestCluster, which: tuple[int, int]) -> None:
    number, rank = which
    spec = bindload.job(number)
    pod = PodSpec(f"gang-{number}", 1, rank, bindload.GANG, "", (), 1000, 0, 4000, 16_384, spec.team, spec.document())
    body = pods.build(pod, namespace=names.namespace(spec.team))
    body["spec"]["schedulerName"] = "default-scheduler"
    base = f"/api/v1/namespaces/{names.namespace(spec.team)}"
    if rank == 0 and (service := services.build(pod, namespace=names.namespace(spec.team))):
        cluster.request("POST", f"{base}/services", service)
    cluster.request("POST", f"{base}/pods", body)


def _bound(cluster: TestCluster) -> int:
    return len(cluster.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName!=")["items"])


def _all_bound(cluster: TestCluster, total: int) -> float:
    """When all pods are there and none waits any more, by the monotonic clock."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while _count(cluster) < total or cluster.request("GET", UNBOUND)["items"]:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"Not all pods were bound after {GIVE_UP_SECONDS:g} s.")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


# --- ours ---------------------------------------------------------------------------------------


def _ours(nodes: int, gangs: int, tell: Callable[[str], None]) -> Ours:
    total = gangs * bindload.GANG
    with _cluster(nodes, "sim") as cluster, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-binding-")))
        env = _servers(stack, folder, cluster)
        tell("ours: making pods")
        processes.run(env, "binding_process", "prepare", "--nodes", str(nodes), "--count", str(gangs))
        with _talking(env, folder, "worker") as worker:
            prepared = min(gangs, PREPARED) * bindload.GANG
            cluster.wait_for(lambda: _count(cluster) >= prepared, "the prepared pods", GIVE_UP_SECONDS)
            _check(worker, folder)
            tell("ours: binding")
            time.sleep(2.0)  # what the pods' making left to do is not counted
            began = time.monotonic()
            _say(worker)
            seconds = _all_bound(cluster, total) - began
            _say(worker)
            _check(worker, folder, is_over=True)
            found = json.loads(worker.stdout.readlines()[-1]) if worker.stdout else {}
        with psycopg.connect(env["DATABASE_URL"]) as database:
            took, rounds = database.execute(DECISIONS).fetchone() or (0, 0)
        return Ours(total / seconds, found["mib"], found["cpu_seconds"], float(took) / 1000, rounds)


def _singles(nodes: int, count: int) -> list[float]:
    """Seconds from the submission of one job to its bind, one after the other, with the worker as in production."""
    with _cluster(nodes, "sim") as cluster, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-binding-")))
        env = _servers(stack, folder, cluster) | {"REDIS_URL": stack.enter_context(redis_server())}
        processes.run(env, "binding_process", "prepare", "--nodes", str(nodes), "--count", "0")
        worker = [processes.manage()[0], "-m", *compose.services()["worker"]["command"].split()]
        stack.enter_context(running(worker, log=folder / "worker.log", env=env))
        submitter = stack.enter_context(_talking(env, folder, "submit"))
        with psycopg.connect(env["DATABASE_URL"], autocommit=True) as database:
            observed = "SELECT count(*) FROM controlplane_node"
            cluster.wait_for(lambda: database.execute(observed).fetchone() == (nodes,), "the loops")
        return [_single(cluster, submitter) for _ in range(count)]


def _single(cluster: TestCluster, submitter: "subprocess.Popen[str]") -> float:
    _say(submitter)
    assert submitter.stdout is not None  # noqa: S101  for the type checker
    made = json.loads(submitter.stdout.readline())
    path = f"/api/v1/pods?labelSelector={names.WORKLOAD}={made['uid']}&fieldSelector=spec.nodeName!="
    deadline = time.time() + 60.0
    while not cluster.request("GET", path)["items"]:
        if time.time() > deadline:
            raise BenchmarkError("A single job was not bound within 60 s.")
        time.sleep(0.01)
    return time.time() - float(made["at"])


def _servers(stack: ExitStack, folder: Path, cluster: TestCluster) -> dict[str, str]:
    """Postgres as it comes, durable; the environment of our processes on it and on this cluster."""
    server = stack.enter_context(postgres.prepared({}))
    process = stack.enter_context(running(server.command, log=server.log, user=server.user))
    wait_for(process, server.answers, "Postgres", server.log)
    url = postgres.create_database(server.url, "weft")
    env = processes.production(folder, DATABASE_URL=url, CLUSTER="kubernetes")
    kubeconfig = rights.scheduler(cluster, bindload.TEAM_NAMES)
    return env | {"WEFT_KUBECONFIG": str(kubeconfig)}


def _talking(env: dict[str, str], folder: Path, name: str) -> "subprocess.Popen[str]":
    with (folder / f"{name}-process.log").open("wb") as log:
        return subprocess.Popen(
            processes.manage("binding_process", name),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _say(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None  # noqa: S101  for the type checker
    process.stdin.write("\n")
    process.stdin.flush()


def _check(process: "subprocess.Popen[str]", folder: Path, *, is_over: bool = False) -> None:
    code = process.wait(30) if is_over else process.poll()
    if code:
        logs = "\n".join(log.read_text()[-2000:] for log in folder.glob("*.log"))
        raise BenchmarkError(f"The worker ended with {code}:\n{logs}")


def _count(cluster: TestCluster) -> int:
    found = cluster.request("GET", "/api/v1/pods?limit=1")  # the server counts the rest only without a selector
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0)


@contextmanager
def _cluster(nodes: int, tier: str) -> Iterator[TestCluster]:
    """A fresh cluster in a folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="weft-benchmark-") as folder,
        test_cluster(Path(folder), nodes=nodes, tier=tier, start_after=NEVER) as cluster,
    ):
        yield cluster
