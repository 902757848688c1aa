"""The port `Metrics` over Prometheus. What it does not say, or says wrongly, is not known; nothing is made up or held.

One instance may be shared by threads: connections are pooled, and the rest is a moment at which to ask again.
"""

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from autoscaler.latency import Within
from autoscaler.observed import Scrape
from controlplane.cluster.port import (
    GpuUse,
    NodeUse,
    PodUse,
    RevisionUse,
    Saved,
    ServiceUse,
    TrainingUse,
    WorkerUse,
)
from controlplane.cluster.prometheus import histogram, queries, revisions, services
from controlplane.cluster.prometheus.connection import Answer, Connection, Key, Limits, Unanswered
from controlplane.cluster.prometheus.queries import Query

MAX_SPLIT_SECONDS = 86_400.0  # over which requests that are split are counted
MILLI = 1000.0  # Istio's durations are in milliseconds
MAX_INDEX = 1024  # devices of one node
_POD = re.compile(r"(.+)-(\d{1,9})-(\d{1,9})", re.ASCII)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where Prometheus is and how it scrapes. window_seconds: what rates are taken over, four scrapes or more."""

    url: str
    token_file: Path | None = None
    ca: Path | None = None
    window_seconds: float = queries.WINDOW_SECONDS
    limits: Limits = Limits()


class PrometheusMetrics:
    """Asks Prometheus. A call whose queries are not all answered says what the others said, or nothing."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._now = now
        self._connection = Connection(
            settings.url, token_file=settings.token_file, ca=settings.ca, limits=settings.limits
        )
        self._not_before = -math.inf
        self.trouble = ""  # why the newest query was not answered; empty = it was

    # --- Metrics -----------------------------------------------------------------------------

    def gpus(self) -> tuple[GpuUse, ...]:
        """Every device that reports both duty and memory, with the pods that are said to have it."""
        duty = self._values(queries.GPU_DUTY)
        memory = self._values(queries.GPU_MEMORY) if duty else {}
        pods: dict[Key, list[str]] = {}
        for node, text, pod in self._values(queries.GPU_POD) if memory else ():
            pods.setdefault((node, text), []).append(pod)
        out = []
        for (node, text), part in duty.items():
            used = memory.get((node, text))
            if part is not None and used is not None and _is_small(text, MAX_INDEX):
                holders = tuple(sorted(pods.get((node, text), ())))
                out.append(GpuUse(node, int(text), min(1.0, part), round(used), holders))
        return tuple(sorted(out, key=lambda use: (use.node, use.index)))

    def training(self, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
        """Step times of these jobs' newest attempts; a job whose programs report no steps is left out."""
        asked = (
            queries.STEP, queries.STEP_SECONDS, queries.SAMPLES, queries.DATA_WAIT, queries.SYNC,
            queries.GRADIENT_NOISE,
        )  # fmt: skip
        step, seconds, samples, wait, sync, noise = (self._of(query, workloads) for query in asked)
        newest = _newest([*step, *seconds])  # a reporter counts its steps, and numbers none
        out = []
        for uid in workloads:
            if uid in newest:
                key = (uid, newest[uid])
                out.append(
                    TrainingUse(
                        uid,
                        int(newest[uid]),
                        _rounded(step.get(key)),
                        seconds.get(key),
                        samples.get(key),
                        wait.get(key),
                        sync.get(key),
                        noise.get(key),
                    )  # fmt: skip
                )
        return tuple(out)

    def workers(self, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
        """Step times of the workers of these jobs' newest attempts; one that reports no steps is left out."""
        asked = (queries.WORKER_STEP, queries.WORKER_WAIT, queries.WORKER_SYNC)
        step, wait, sync = (self._of(query, workloads) for query in asked)
        waiting = self._of(queries.POD_IO, workloads) if step else {}
        newest = _newest((uid, attempt) for uid, attempt, _ in step)
        return tuple(
            WorkerUse(
                uid,
                int(attempt),
                int(rank),
                step[key],
                wait.get(key),
                sync.get(key),
                _part(waiting.get((f"{uid}-{attempt}-{rank}",))),
            )
            for key in sorted(step)
            for uid, attempt, rank in (key,)
            if newest.get(uid) == attempt and _is_small(rank, 10**9)
        )

    def nodes(self) -> tuple[NodeUse, ...]:
        """Every node whose disks or lines are known."""
        disk, line = self._values(queries.NODE_DISK), self._values(queries.NODE_LINE)
        return tuple(
            NodeUse(key[0], _part(disk.get(key)), _part(line.get(key))) for key in sorted(disk.keys() | line.keys())
        )

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Saved, ...]:
        """Checkpoints of these jobs' newest attempts; one in the future is not known, as a clock is wrong."""
        at = self._of(queries.CHECKPOINT, workloads)
        part = self._of(queries.CHECKPOINT_PART, workloads)
        newest, now = _newest([*at, *part]), self._now()
        out = []
        for uid in workloads:
            if uid in newest:
                key = (uid, newest[uid])
                saved_at = at.get(key)
                is_known = saved_at is not None and saved_at <= now
                out.append(Saved(uid, int(newest[uid]), saved_at if is_known else None, part.get(key)))
        return tuple(out)

    def services(self, objectives: Mapping[str, Within | None]) -> tuple[ServiceUse, ...]:
        """Load and latency of these services; one that no request reached in the window is left out.

        So is one that promises a first token where nobody tells when the first tokens were there.
        """
        firsts = {uid for uid, one in objectives.items() if one is not None and one.is_first_token}
        return (*self._answers(objectives, firsts), *self._first_tokens(objectives, firsts))

    def _answers(self, objectives: Mapping[str, Within | None], but: Collection[str]) -> list[ServiceUse]:
        """By Istio's durations."""
        now, window = self._now(), self._settings.window_seconds
        out: list[ServiceUse] = []
        for chunk in queries.chunks(uid for uid in objectives if uid not in but):
            requests = self._ask(queries.REQUESTS, chunk)
            if requests is None or not requests.values:
                continue
            good = self._ask(queries.GOOD_WITHIN, chunk, requests.at)
            queue = self._ask(queries.QUEUE, chunk, requests.at)
            for uid in chunk:
                count = _Requests.of_values(uid, requests.values)
                if count is not None:
                    buckets = services.buckets(uid, good.values) if good is not None else None
                    waiting = queue.values.get((uid,)) if queue is not None else None
                    within = None if (one := objectives[uid]) is None else MILLI * one.seconds
                    out.append(_service(uid, now, window, count, buckets, within, waiting, MILLI))
        return out

    def _first_tokens(self, objectives: Mapping[str, Within | None], uids: Collection[str]) -> list[ServiceUse]:
        """By the histograms of the time to the first token."""
        now, window = self._now(), self._settings.window_seconds
        out: list[ServiceUse] = []
        for chunk in queries.chunks(uids):
            told = self._ask(queries.FIRST_WITHIN, chunk)
            requests = self._ask(queries.FIRST_REQUESTS, chunk, told.at) if told and told.values else None
            if told is None or requests is None:
                continue
            queue = self._ask(queries.QUEUE, chunk, told.at)
            for uid in chunk:
                buckets, one = services.buckets(uid, told.values), objectives[uid]
                if not buckets or one is None:
                    continue
                has_codes = any(of == uid for of, _ in requests.values)
                count = _Requests.of_values(uid, requests.values) if has_codes else _Requests(buckets[-1][1], 0.0)
                if count is not None:
                    waiting = queue.values.get((uid,)) if queue is not None else None
                    out.append(_service(uid, now, window, count, buckets, one.seconds, waiting))
        return out

    def scrapes(self, workloads: Sequence[str]) -> dict[str, Scrape]:
        """What is told of the requests of these services; a service is left out unless all queries are answered."""
        now, window = self._now(), self._settings.window_seconds
        out: dict[str, Scrape] = {}
        for chunk in queries.chunks(workloads):
            arrivals = self._ask(queries.ARRIVALS, chunk)
            if arrivals is None or not arrivals.values:
                continue
            told = [self._ask(query, chunk, arrivals.at) for query in services.ASKED]
            answers = [answer.values for answer in told if answer is not None]
            if len(answers) == len(services.ASKED):
                for uid in chunk:
                    came = arrivals.values.get((uid,))
                    if came is not None:
                        out[uid] = services.scrape(uid, now, window, came, answers)
        return out

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        """What the pods of these workloads use; a pod of which nothing is known is left out."""
        asked = (queries.POD_CPU, queries.POD_MEMORY, queries.POD_THROTTLED, queries.POD_DUTY, queries.POD_SHARE_DUTY)
        cpu, memory, throttled, duty, own = (self._of(query, workloads) for query in asked)
        places = self._of(queries.POD_ON_GPU, workloads) if own else {}
        out = []
        for (name,) in sorted(cpu.keys() | memory.keys() | duty.keys() | own.keys()):
            found = _POD.fullmatch(name)
            if found is not None:
                key = (name,)
                out.append(
                    PodUse(
                        found[1],
                        int(found[2]),
                        int(found[3]),
                        _part(duty.get(key)),
                        _rounded(cpu.get(key)),
                        _rounded(memory.get(key)),
                        _part(throttled.get(key)),
                        _part(own.get(key)),
                        _rounded(places.get(key)),
                    )  # fmt: skip
                )
        return tuple(out)

    def revisions(self, promises: Mapping[str, tuple[float, Within]]) -> tuple[RevisionUse, ...]:
        """What revisions of these services have answered since then; a day at most is looked back."""
        now, window = self._now(), self._settings.window_seconds
        out: list[RevisionUse] = []
        for uid, (since, p95) in promises.items():
            if not queries.is_id(uid):
                continue
            seconds = min(MAX_SPLIT_SECONDS, max(window, now - since))
            told = self._ask(queries.REVISION_OUTCOMES, [uid], seconds=seconds)
            if told is not None and told.values:
                out += revisions.of_activator(uid, told.values)
                continue
            codes = self._ask(queries.REVISION_REQUESTS, [uid], seconds=seconds)
            within = self._ask(queries.REVISION_WITHIN, [uid], seconds=seconds) if codes and codes.values else None
            if codes is not None and within is not None:
                out += revisions.of_istio(uid, codes.values, within.values, p95)
        return tuple(out)

    # --- asking ------------------------------------------------------------------------------

    def _values(self, query: Query, workloads: Iterable[str] = ()) -> Mapping[Key, float | None]:
        answer = self._ask(query, workloads)
        return {} if answer is None else answer.values

    def _of(self, query: Query, workloads: Sequence[str]) -> Mapping[Key, float | None]:
        """Rows of these workloads, however many they are."""
        out: dict[Key, float | None] = {}
        for chunk in queries.chunks(workloads):
            out.update(self._values(query, chunk))
        return out

    def _ask(
        self, query: Query, workloads: Iterable[str], at: float | None = None, seconds: float | None = None
    ) -> Answer | None:
        """The answer, None for none; after a failure no query is sent for a while."""
        if time.monotonic() < self._not_before:
            return None
        try:
            answer = self._connection.ask(
                query, queries.text(query, workloads, seconds or self._settings.window_seconds), at
            )
        except Unanswered as error:
            self._not_before = time.monotonic() + self._settings.limits.rest
            if not self.trouble:
                log.warning("prometheus does not answer; what it knows is unknown", why=str(error))
            self.trouble = str(error)
            return None
        if self.trouble:
            log.info("prometheus answers again")
        self.trouble = ""
        return answer


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of one service in the window, and those of them that failed."""

    total: float
    failed: float

    @staticmethod
    def of_values(uid: str, values: Mapping[Key, float | None]) -> "_Requests | None":
        """None when there were none, or one of the numbers is not known."""
        mine = {code: value for (of, code), value in values.items() if of == uid}
        known = {code: value for code, value in mine.items() if value is not None}
        if not mine or len(known) < len(mine):
            return None
        failed = sum(value for code, value in known.items() if re.fullmatch(queries.FAILED, code))
        return _Requests(sum(known.values()), failed)


def _service(
    uid: str, at: float, window: float, count: _Requests, buckets: "tuple[histogram.Bucket, ...] | None",
    within: float | None, queue: float | None, unit: float = 1.0,
) -> ServiceUse:  # fmt: skip
    """within: what is promised; unit: of it and of the buckets, in a second."""
    requests = round(count.total)
    p95 = histogram.quantile(buckets, 0.95) if buckets else None
    over: int | None = None
    good = max(0.0, count.total - count.failed)
    in_time = 1.0 if within is None else histogram.ratio_within(buckets, within) if buckets else None
    if in_time is not None:
        over = min(requests, round(count.failed + good * (1 - in_time)))
    elif round(good) == 0:
        over = min(requests, round(count.failed))
    return ServiceUse(
        uid, at, window, count.total / window, None if p95 is None else p95 / unit, over, requests, _rounded(queue)
    )


def _newest(keys: Iterable[Key]) -> dict[str, str]:
    """Each workload's newest attempt among (workload, attempt)."""
    newest: dict[str, str] = {}
    for uid, attempt in keys:
        if _is_small(attempt, 10**9) and int(attempt) > int(newest.get(uid, "0")):
            newest[uid] = attempt
    return newest


def _is_small(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < most


def _part(value: float | None) -> float | None:
    return None if value is None else min(1.0, value)


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
