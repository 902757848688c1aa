"""The state of the whole installation in Prometheus' text format, read from the database at each scrape.

Any web process gives the same answer. What only one process knows (how long its rounds take) each worker tells itself.
"""

from collections.abc import Iterator

from django.core.cache import cache
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from autoscaler.sla import Standing
from controlplane.queries.reports import health, metering

KEPT, KEPT_SECONDS = "metrics-of-services", 30.0  # they change once a minute, and are summed over weeks


class Installation:
    """A collector: asked by the registry once a scrape. is_open: to anybody, so it names no team's services."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._is_open = is_open

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from _loops()
        yield from _audit()
        yield from _work()
        yield from _gpus()
        if not self._is_open:
            yield from _services()

    def describe(self) -> Iterator[Metric]:
        """Nothing: describing must not ask the database."""
        yield from ()


def registry(*, is_open: bool = False) -> CollectorRegistry:
    """A registry with the installation and nothing of this process; is_open: no service is named."""
    made = CollectorRegistry(auto_describe=False)
    made.register(Installation(is_open=is_open))
    return made


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"weft_{name}", text, labels=labels)


def _loops() -> Iterator[Metric]:
    age = _gauge("loop_age_seconds", "Since the loop's last complete round; NaN before the first", "loop")
    took = _gauge("loop_last_round_seconds", "How long the loop's last round took", "loop")
    stalled = _gauge("loop_stalled", "1 if the loop makes no progress", "loop")
    leased = _gauge("loop_has_lease", "1 if a worker holds the loop's lease", "loop")
    holders = health.holders()
    for loop in health.loops():
        age.add_metric([loop.name], float("nan") if loop.age_seconds is None else loop.age_seconds)
        took.add_metric([loop.name], loop.took_ms / 1000)
        stalled.add_metric([loop.name], float(loop.is_stalled))
        leased.add_metric([loop.name], float(loop.name in holders))
    observed = _gauge("observation_age_seconds", "Since the cluster was last seen; NaN before the first time")
    seen = health.observation_age_seconds()
    observed.add_metric([], float("nan") if seen is None else seen)
    yield from (age, took, stalled, leased, observed)


def _audit() -> Iterator[Metric]:
    violations = _gauge(
        "invariant_violations", "Violations of an invariant in the newest self-audit; 0 is expected", "name"
    )
    age = _gauge("audit_age_seconds", "Since the newest self-audit; NaN before the first")
    found = health.audit()
    for invariant in found:
        violations.add_metric([invariant.name], invariant.violations)
    age.add_metric([], max((invariant.age_seconds for invariant in found), default=float("nan")))
    yield from (violations, age)


def _work() -> Iterator[Metric]:
    phases = _gauge("workloads", "Workloads by team and phase; ended ones are not counted", "team", "phase")
    for team, phase, count in metering.workloads():
        phases.add_metric([team, phase], count)
    queue = metering.queue()
    length = _gauge("queue_length", "Workloads that wait for a place")
    length.add_metric([], queue.length)
    oldest = _gauge("queue_oldest_seconds", "How long the oldest of them has waited, by the cluster's clock")
    oldest.add_metric([], queue.oldest_seconds)
    undecided = _gauge("queue_undecided_seconds", "How long the oldest new workload has waited for its first decision")
    undecided.add_metric([], queue.undecided_seconds)
    actions = _gauge("actions_open", "Commands for the cluster that are not performed yet")
    actions.add_metric([], queue.actions)
    yield from (phases, length, oldest, undecided, actions)


def _gpus() -> Iterator[Metric]:
    total = _gauge("gpus", "GPUs of nodes that are ready and in use, by pool", "pool")
    held = _gauge("gpus_held", "GPUs allocated to workloads, by pool and team", "pool", "team")
    for pool, count in metering.gpus():
        total.add_metric([pool], count)
    for pool, team, milli in metering.held():
        held.add_metric([pool, team], milli / 1000)
    yield from (total, held)


SPANS = {300.0: "5m", 1800.0: "30m", 3600.0: "1h", 21_600.0: "6h"}  # of sla.SPANS
_WHO = ("team", "service")


def _services() -> Iterator[Metric]:
    """How each live service with an objective stands; a number that is not known has no series."""
    left = _gauge("service_budget_left", "Part of the error budget that is left; below 0: violated", *_WHO)
    burn = _gauge("service_burn_rate", "How many times faster than evenly the budget is used", *_WHO, "span")
    stands = _gauge("service_standing", "1 for the word that says how the service stands", *_WHO, "standing")
    target = _gauge("service_availability_target", "Part of the requests that is promised, 0..1", *_WHO)
    p95 = _gauge("service_p95_seconds", "95th percentile in the newest minute of the latency that is promised", *_WHO)
    p95_target = _gauge("service_p95_target_seconds", "What it was promised to be", *_WHO)
    rate = _gauge("service_requests_per_second", "Requests in the newest minute", *_WHO)
    running = _gauge("service_replicas", "Replicas that ran in the newest minute", *_WHO)
    wanted = _gauge("service_replicas_wanted", "Replicas that the autoscaler wants", *_WHO)
    for row in cache.get_or_set(KEPT, metering.services, KEPT_SECONDS) or ():
        who = [row.team, row.name]
        for gauge, value in (
            (left, row.budget_left), (target, row.target), (p95, row.p95), (p95_target, row.p95_target),
            (rate, row.requests_per_second), (running, row.replicas), (wanted, row.wanted),
        ):  # fmt: skip
            if value is not None:
                gauge.add_metric(who, value)
        for span, value in row.burn_rates.items():
            if value is not None:
                burn.add_metric([*who, SPANS[span]], value)
        for word in Standing:
            stands.add_metric([*who, word.value], float(word is row.standing))
    yield from (left, burn, stands, target, p95, p95_target, rate, running, wanted)
