"""`turnaround`: how long a free GPU stays free while work waits for it, and how long work waits while GPUs are free.

The compose file's web, both workers, one beat, Postgres and Redis, as a user starts them: no setting but the defaults,
Postgres durable. Machines are 12 nodes of 8 GPUs on a real API server; KWOK plays their kubelets. Trainings of one GPU
that run for 5 to 15 s are submitted over REST. All times are those at which a watch of the benchmark's own receives
the changes (`podwatch.py`).

- First the cluster is full and 200 more wait. A hand-over counts from the end of a pod to Running of the one that gets
  its GPU.
- Then, once 30 GPUs are free, 300 are submitted at two a second, each at its time whether or not earlier ones were
  answered: from the start of the request to Running.
"""

import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx

from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result, quantile
from controlplane.benchmarks.scheduling.podwatch import Course, PodWatch
from controlplane.simulator.worlds.presets import Pool, Preset
from controlplane.testbed import compose
from controlplane.testbed.compose import Installation
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.processes import wait_until
from controlplane.testbed.stages import RUN_FOR_LABEL
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota, Team

NODES, GPUS = 12, 96
WAITING, FREE = 200, 30
SUBMISSIONS, PER_SECOND = 300, 2.0
# Of the label; KWOK counts it from the whole second in which a pod starts, so up to a second less is run.
RUN_SECONDS = (6.0, 15.0)
REQUESTS_AT_ONCE, POLL_SECONDS = 16, 0.05
GIVE_UP_SECONDS = 180.0
HANDOVER_GOAL, SUBMIT_GOAL = 2.0, 1.0
POOL, TEAM = Pool("a100", "A100"), "research"
LEFT_OUT = ("beat-2", "prometheus")


def preset() -> Preset:
    """One team that owns all machines."""
    quotas = (Quota(TEAM, POOL.name, GPUS * WHOLE, borrowing=0, lending=0),)
    return Preset("turnaround", 1.0, 0, (), (POOL,), (Team(TEAM),), quotas, ())


@dataclass(frozen=True, slots=True)
class Step:
    """One hand-over, or one submission: seconds until a pod was bound, which is ours, and until it ran."""

    to_bound: float
    to_running: float


def run(options: Options, progress: Progress) -> Result:
    """Fill, hand over, submit. Raises BenchmarkError."""
    part = 1.0 if options.jobs is None else min(1.0, options.jobs / SUBMISSIONS)
    waiting, submissions = max(1, round(WAITING * part)), max(1, round(SUBMISSIONS * part))
    with tempfile.TemporaryDirectory(prefix="weft-turnaround-") as name, _installation(Path(name), progress) as bench:
        progress(0.1, f"filling {GPUS} GPUs, and {waiting} more")
        handovers = bench.hand_over(waiting, lambda text: progress(0.2, text))
        progress(0.3, f"{submissions} submissions at {PER_SECOND:g}/s")
        submitted = bench.submit_openly(submissions, lambda done: progress(0.3 + 0.7 * done, "submitting"))
        return _result(handovers, submitted, bench.processor_seconds())


def _result(handovers: Sequence[Step], submitted: Sequence[Step], used: dict[str, float]) -> Result:
    handed, started = [one.to_running for one in handovers], [one.to_running for one in submitted]
    return Result(
        (
            Figure("turnaround.end_to_next_running_p50_seconds", round(quantile(handed, 0.5), 3), "s"),
            Figure("turnaround.end_to_next_running_p99_seconds", round(quantile(handed, 0.99), 3), "s", HANDOVER_GOAL),
            Figure("turnaround.submit_to_running_p50_seconds", round(quantile(started, 0.5), 3), "s", SUBMIT_GOAL),
            Figure("turnaround.submit_to_running_p99_seconds", round(quantile(started, 0.99), 3), "s"),
        ),
        (
            f"{len(handovers)} hand-overs, {len(submitted)} submissions at {PER_SECOND:g}/s",
            f"ours, until the pod is bound: {_spread([one.to_bound for one in handovers])} of a hand-over, "
            f"{_spread([one.to_bound for one in submitted])} of a submission; then KWOK's: "
            f"{_spread([one.to_running - one.to_bound for one in (*handovers, *submitted)])}",
            "processor time: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(used.items())),
            "on this machine: web, two workers, beat, Postgres, Redis; etcd, kube-apiserver, kube-controller-manager, "
            "KWOK; the benchmark",
        ),
    )


def _spread(values: Sequence[float]) -> str:
    return f"p50 {median(values):.2f} s, p99 {quantile(values, 0.99):.2f} s"


@contextmanager
def _installation(folder: Path, progress: Progress) -> Iterator["Bench"]:
    for part in ("cluster", "site"):
        (folder / part).mkdir()
    progress(0.0, "starting the cluster")
    with (
        test_cluster(folder / "cluster", nodes=NODES) as cluster,
        compose.prepared(
            folder / "site",
            {"CLUSTER": "kubernetes"},
            {"WEFT_KUBECONFIG": str(rights.scheduler(cluster, [TEAM]))},
        ) as made,
    ):
        progress(0.05, "starting the installation")
        prepare = dict(made.parts["install"].env)
        compose.up(made, prepare=lambda: _prepared(prepare), without=LEFT_OUT)
        with PodWatch(cluster) as watch, httpx.Client(base_url=made.url, timeout=30, trust_env=False) as http:
            form = {"username": "admin", "password": made.secret("admin_password"), "name": "benchmark"}
            answer = http.post("/api/v1/login", json=form).raise_for_status()
            http.headers["Authorization"] = f"Bearer {answer.json()['token']}"
            yield Bench(made, cluster, watch, http)


def _prepared(env: dict[str, str]) -> None:
    processes.run(env, "benchmark_process", "turnaround-prepare")


class Bench:
    """The installation at work, the submitter, and the watcher."""

    def __init__(self, made: Installation, cluster: TestCluster, watch: PodWatch, http: httpx.Client) -> None:
        self._made, self._cluster, self._watch, self._http = made, cluster, watch, http
        self._random = random.Random(0)  # noqa: S311 - chance, not secrecy
        self._asked: dict[str, float] = {}  # workload -> start of its request, monotonic
        self._lock = threading.Lock()

    # --- the full cluster ---------------------------------------------------------------------

    def hand_over(self, waiting: int, tell: Callable[[str], None]) -> list[Step]:
        """Fill the cluster, have so many wait, and let them run one after the other."""
        full_at = self._fill(waiting)
        tell("handing over")
        wait_until(lambda: self._waiting() == 0 and self._free() >= FREE, f"{FREE} free GPUs", GIVE_UP_SECONDS)
        found = handovers(self._watch.seen(), full_at)
        if len(found) < waiting:
            raise BenchmarkError(f"{len(found)} hand-overs of {waiting} were seen. Run it again on a quieter machine.")
        return found

    def _fill(self, waiting: int) -> float:
        """Submit until each GPU has been taken and so many wait; tell when that was.

        From then on a GPU is free only while it is handed over.
        """
        deadline = time.monotonic() + GIVE_UP_SECONDS
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            while time.monotonic() < deadline:
                ran = [course for course in self._watch.seen() if course.running_at is not None]
                untaken = GPUS - len({course.place for course in ran})
                lacking = waiting + untaken - (len(self._asked) - len(ran))
                if lacking <= 0 and untaken == 0:
                    return time.monotonic()
                list(pool.map(self._submit, [time.monotonic()] * max(0, min(lacking, 2 * REQUESTS_AT_ONCE))))
                time.sleep(POLL_SECONDS)
        raise BenchmarkError(f"The cluster was not full after {GIVE_UP_SECONDS:g} s. Run it on a quieter machine.")

    def _waiting(self) -> int:
        return len(self._asked) - sum(course.running_at is not None for course in self._watch.seen())

    def _free(self) -> int:
        """GPUs on which nothing runs."""
        seen = self._watch.seen()
        return GPUS - sum(course.running_at is not None and course.ended_at is None for course in seen)

    # --- the cluster with room ----------------------------------------------------------------

    def submit_openly(self, count: int, tell: Callable[[float], None]) -> list[Step]:
        """Submit so many, each at its time, and wait until all run."""
        before, began = set(self._asked), time.monotonic()
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            answers = []
            for number in range(count):
                due = began + number / PER_SECOND
                time.sleep(max(0.0, due - time.monotonic()))
                answers.append(pool.submit(self._submit, due))
                tell(number / count)
            for answer in answers:
                answer.result()
        asked = {uid: at for uid, at in self._asked.items() if uid not in before}
        wait_until(lambda: len(submissions(self._watch.seen(), asked)) == count, "all of them running", GIVE_UP_SECONDS)
        return submissions(self._watch.seen(), asked)

    def _submit(self, due: float) -> None:
        with self._lock:
            seconds = self._random.uniform(*RUN_SECONDS)
        job = {
            "type": "training",
            "name": f"job-{due:.6f}-{seconds:.6f}".replace(".", "-"),
            "team": TEAM,
            "image": "registry.example/train:1",
            "resources": {"gpus": 1, "cpu": 4, "memory": "16Gi"},
            "labels": {RUN_FOR_LABEL: f"{seconds:.2f}"},
        }
        answer = self._http.post("/api/v1/workloads", json=job)
        if answer.status_code != 201:
            raise BenchmarkError(f"A submission was answered {answer.status_code}: {answer.text[:500]}")
        self._asked[answer.json()["uid"]] = due

    def processor_seconds(self) -> dict[str, float]:
        """What each process of ours, and the API server and KWOK, has used so far."""
        ours = {name: processes.core_seconds(self._made.process(name).pid) for name in self._made.replicas("worker")}
        return ours | {part: processes.core_seconds(self._cluster.pid(part)) for part in ("apiserver", "kwok")}


def handovers(courses: Iterable[Course], since: float) -> list[Step]:
    """Those to pods that run from then on. Raises BenchmarkError where two pods were on one GPU."""
    by_place: dict[tuple[str, str], list[Course]] = defaultdict(list)
    for course in courses:
        if course.bound_at is not None and course.running_at is not None:
            by_place[course.place].append(course)
    found = []
    for place, there in by_place.items():
        there.sort(key=_bound_at)
        for before, after in zip(there, there[1:], strict=False):
            if before.ended_at is None or before.ended_at > _bound_at(after):
                raise BenchmarkError(f"Two pods were on {' '.join(place)} at a time.")
            if after.running_at is not None and after.running_at >= since:
                found.append(Step(_bound_at(after) - before.ended_at, after.running_at - before.ended_at))
    return found


def submissions(courses: Iterable[Course], asked: dict[str, float]) -> list[Step]:
    """Those of these workloads that run; by the starts of their requests."""
    return [
        Step(_bound_at(course) - asked[course.workload], course.running_at - asked[course.workload])
        for course in courses
        if course.workload in asked and course.running_at is not None
    ]


def _bound_at(course: Course) -> float:
    return course.bound_at if course.bound_at is not None else float("inf")
