"""How much each workload should have: one round of scaling."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autoscaler.bounds import Bounds
from autoscaler.decision import Scale
from autoscaler.law import Fleet, State, Terms, Wanted, alarmed, look
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.native import Advice, Load, advise, load
from autoscaler.observed import Learned, Scrape
from autoscaler.settings import Settings
from autoscaler.standby import NONE_LENT, Lent, borrowed, rearranged, taken_back, wakes_slowly
from autoscaler.vertical import Fitted, fitted, relearned
from autoscaler.zero import noted, rested
from scheduler.model.decision import Evict, Shrink
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Kind, Workload, staying

LATE = 0.5  # of the age at which a scrape says nothing any more: from then on it makes no service smaller


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a round decides, and what is to be remembered of each service that was looked at, by workload id.

    loads: what Kubernetes' autoscalers are told; advice: what they want, where their rule is played here.
    """

    decisions: tuple[Scale | Shrink | Evict, ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)
    advice: Mapping[str, Advice] = field(default_factory=dict)


def scale(snapshot: Snapshot, metrics: Metrics, settings: Settings) -> Scaling:
    """Decide the number of workers of every service that runs.

    A service keeps its number unless there is a reason for another one; the least and the most of its gang hold
    always. Where a service wakes replicas, the workers of gangs that have their GPUs leave (autoscaler/standby.py).
    Time is the snapshot's. The order is that of workload ids.
    """
    decisions: list[Scale] = []
    states: dict[str, State] = {}
    native = _Native({}, {})
    lent = borrowed(snapshot.workloads.values())
    for uid, workload in sorted(_serving(snapshot).items()):
        service = metrics.services.get(uid)
        state, change = _scaled(workload, snapshot.at, service, settings, lent.get(uid, NONE_LENT), native)
        if state is not None and (service is None or state is not service.state):
            states[uid] = state
        if change is not None:
            decisions.append(change)
    taken = taken_back(decisions, snapshot.workloads, snapshot.at)
    return Scaling((*decisions, *taken), states, native.loads, native.advice)


def _serving(snapshot: Snapshot) -> dict[str, Workload]:
    """The services that hold capacity, or sleep."""
    return {uid: w for uid, w in snapshot.workloads.items() if w.kind == Kind.INFERENCE and w.phase in ACTIVE}


@dataclass(frozen=True, slots=True)
class _Native:
    """What a round says of services that Kubernetes' own autoscaler scales."""

    loads: dict[str, Load]
    advice: dict[str, Advice]

    @staticmethod
    def is_left_alone(service: ServiceMetrics | None) -> bool:
        """Whether Kubernetes' autoscaler says how many replicas it has, and nothing of ours ever does."""
        return service is not None and service.native is not None and not service.native.is_played

    def followed(
        self,
        workload: Workload,
        service: ServiceMetrics | None,
        judged: tuple[State | None, Wanted],
        at: float,
        settings: Settings,
    ) -> tuple[State | None, Wanted]:
        """What the law has `judged`; of a service that Kubernetes scales what the HPA's rule says, where it is played
        here, else no change. Notes what its autoscaler is told."""
        if service is None or service.native is None:
            return judged
        state, native, current = judged[0], service.native, workload.gang.count
        scrape, objective = service.scrape, service.objective
        is_told = scrape is not None and scrape.is_sound and _is_new(scrape, at, settings)
        if scrape is None or state is None or objective is None or not is_told:
            return state, Wanted(current)
        terms = _terms(service, objective, settings)
        told = self.loads[workload.id] = load(scrape, state.learned, native, workload.gang.min, terms)
        if not native.is_played:
            return state, Wanted(current)
        found = advise(current, told, Bounds(workload.gang.min, workload.gang.max), state.advised)
        self.advice[workload.id] = found
        why = f"{told.in_flight or 0:.1f} requests are in flight, and a replica is to have {told.target:.1f}"
        return replace(state, advised=found.advised), Wanted(found.replicas, why)


def _scaled(
    workload: Workload, at: float, service: ServiceMetrics | None, settings: Settings, lent: Lent, native: "_Native"
) -> tuple[State | None, Scale | None]:
    """What is remembered of one service from now on, and what it is given; None: what it has."""
    if service is not None:
        service = _with_limit(workload, service)
    loaded = () if service is None else service.loaded
    is_slow = workload.standby > 0 and wakes_slowly(workload, loaded, lent)
    state, wanted = judged(workload.serving, at, service, settings, has_standby=workload.standby > 0, is_slow=is_slow)
    state, wanted = native.followed(workload, service, (state, wanted), at, settings)
    if workload.standby or workload.awake is not None:
        return state, rearranged(workload, wanted, loaded, lent, settings)
    if native.is_left_alone(service):
        return state, None
    bounds, current = Bounds(workload.gang.min, workload.gang.max), workload.gang.count
    state, fit = with_limit(state, wanted, service, settings, current, bounds, at)
    wanted = fit.wanted
    if workload.gang.min == 0:
        wanted = rested(current, at, _told_now(service, at, settings), state, wanted)
    count = bounds.clamp(wanted.replicas)
    limit = fit.limit if count else None
    if count == current and limit is None:
        return state, None
    return state, _decision(workload, count, wanted, limit, fit.why)


def with_limit(
    state: State | None,
    wanted: Wanted,
    service: ServiceMetrics | None,
    settings: Settings,
    current: int,
    bounds: Bounds,
    at: float,
) -> tuple[State | None, Fitted]:
    """What the law wants, with a larger limit instead of replicas where the service's may be raised (vertical.py)."""
    if service is None or not service.limits or not service.objective or state is None or not current:
        return state, Fitted(wanted)
    return fitted(state, wanted, service.limits, current, bounds, _terms(service, service.objective, settings), at)


def judged(
    current: int,
    at: float,
    service: ServiceMetrics | None,
    settings: Settings,
    *,
    has_standby: bool = False,
    is_slow: bool = False,
) -> tuple[State | None, Wanted]:
    """What the law says of a service of which `current` replicas serve or are to; without an objective, and with
    nothing told just now: no change. is_slow: the next replica that wakes has its weights in host memory.
    """
    if service is None or service.objective is None:
        return None if service is None else service.state, Wanted(current)
    terms = _terms(service, service.objective, settings, has_standby=has_standby, is_slow=is_slow)
    state, wanted, fleet = service.state, Wanted(current), Fleet(current, service.ready)
    before = state or State(Learned.told(service.profile))
    if service.scrape is not None and _is_new(service.scrape, at, settings):
        scrape = _of_its_age(service.scrape, at, settings)
        after, wanted = look(before, scrape, fleet, terms)
        state = noted(before, after, scrape, service.ready)
    if service.signal is not None:  # the queue may tell before the first look does
        before = state or before
        after, more = alarmed(before, service.signal, at, fleet, terms)
        state = state if after is before else after
        wanted = more if more.replicas > wanted.replicas else wanted
    return state, wanted


def _terms(
    service: ServiceMetrics,
    objective: Objective,
    settings: Settings,
    *,
    has_standby: bool = False,
    is_slow: bool = False,
) -> Terms:
    start = settings.start_seconds if service.start_seconds is None else service.start_seconds
    constants = settings.constants(has_standby=has_standby, is_slow=is_slow)
    return Terms(objective.p95_seconds, start, constants, objective.availability, objective.of)


def _with_limit(workload: Workload, service: ServiceMetrics) -> ServiceMetrics:
    """What is known of a service, with its replicas' limit of now where that may be raised: that of a share."""
    if service.limits is None:
        return service
    if workload.ask.share is None:
        return replace(service, limits=None)
    return replace(service, state=relearned(service.state, workload.ask.share.limit))


def _is_new(scrape: Scrape, at: float, settings: Settings) -> bool:
    return 0 <= at - scrape.at <= settings.stale_seconds


def _of_its_age(scrape: Scrape, at: float, settings: Settings) -> Scrape:
    """A scrape that comes late does not have what came since: it may ask for more, and is no reason for less."""
    is_late = at - scrape.at >= LATE * settings.stale_seconds
    return replace(scrape, is_partial=True) if is_late else scrape


def _told_now(service: ServiceMetrics | None, at: float, settings: Settings) -> ServiceMetrics | None:
    """What is known of a service without a look that is too old to say anything."""
    if service is None or service.scrape is None or _is_new(service.scrape, at, settings):
        return service
    return replace(service, scrape=None)


def _decision(workload: Workload, count: int, wanted: Wanted, limit: int | None, about_limit: str) -> Scale:
    current = workload.gang.count
    why = wanted.why if count == wanted.replicas or wanted.replicas != current else "the bounds changed"
    if limit is None:
        told = f"; {about_limit}" if about_limit and count > current else ""
        return resized(workload, count, f"{current} to {count} replicas: {why}{told}.", wanted.terms)
    who = "The replicas" if count == current else f"{current} to {count} replicas, which"
    decision = resized(workload, count, f"{who} {about_limit}: {why or 'no more is needed, or free'}.", wanted.terms)
    return replace(decision, limit=limit)


def resized(workload: Workload, workers: int, message: str, terms: tuple[tuple[str, float], ...] = ()) -> Scale:
    """The decision that gives a service this many replicas. If it has more, the newest (the highest ranks) leave."""
    leaving = tuple(staying(workload)[workers:])
    return Scale(workload.id, workload.version, workers, message, terms, leaving)
