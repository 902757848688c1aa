"""Vertical first: the limit of replicas on shared GPUs goes up before another one starts, and what never happens."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.bounds import Bounds
from autoscaler.decision import Scale
from autoscaler.law import ALONE, State, Terms, Wanted
from autoscaler.limits import Limits, Tried
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.scale import scale
from autoscaler.settings import Settings
from autoscaler.vertical import ENOUGH, NONE, fitted, relearned
from gpushare.gpu import WHOLE, Share
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang, ResourceRequest
from tests.autoscaler.services import AT, SERVICE, look

SLOTS, START = 4, 30.0
OBJECTIVE = Objective(p95_seconds=1.0)
TERMS = Terms(OBJECTIVE.p95_seconds, START, ALONE)
LEAST, MOST = 300, 900


class Replicas:
    """A service on shares whose requests take `seconds` at the least limit, limit ** -effect times that at another."""

    def __init__(self, limits: Limits, seconds: float = 0.05, effect: float = 1.0, count: int = 1) -> None:
        self.limits, self.seconds, self.effect = limits, seconds, effect
        self.count, self.limit, self.state, self.at = count, limits.least, None, AT
        self.changes: list[tuple[float, int, int]] = []

    def run(self, seconds: float, rate: float) -> list[Scale]:
        """Looks of 15 s each; what was decided."""
        found = []
        end = self.at + seconds
        while self.at < end:
            self.at += 15.0
            takes = self.seconds * (self.limits.least / self.limit) ** self.effect
            ask = ResourceRequest(share=Share(LEAST, self.limit, 1000))
            service = replace(SERVICE, ask=ask, gang=Gang(self.count, 1, 8))
            scrape = replace(look(self.at, rate, seconds=takes), widest=SLOTS)
            known = ServiceMetrics("s", OBJECTIVE, scrape, self.state, self.count, START, limits=self.limits)
            done = scale(Snapshot.build(self.at, (), (), (), (service,)), Metrics({"s": known}), Settings())
            self.state = done.states.get("s", self.state)
            for one in done.decisions:
                assert isinstance(one, Scale)
                found.append(one)
                self.count, self.limit = one.workers, self.limit if one.limit is None else one.limit
                self.changes.append((self.at, self.count, self.limit))
        return found


def test_a_rise_goes_into_the_limit_before_another_replica_is_asked_for() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE))
    service.run(600, 40.0)
    assert (service.count, service.limit) == (1, LEAST)
    (first, *more) = service.run(600, 110.0)
    assert first.workers == 1
    assert first.limit is not None
    assert LEAST < first.limit <= MOST
    assert first.message.startswith(f"The replicas may use {first.limit / WHOLE:g} of their GPU in place of 0.3: ")
    assert service.count == 1, more


def test_beyond_what_the_limit_can_give_replicas_are_asked_for_too() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE))
    service.run(600, 40.0)
    (first, *_) = service.run(900, 600.0)
    assert first.limit == MOST  # until the new ones serve
    assert first.workers > 1
    assert first.message.startswith(f"1 to {first.workers} replicas, which may use 0.9 of their GPU in place of 0.3: ")
    assert LEAST < service.limit <= MOST
    alone = Replicas(Limits(LEAST, MOST, room=LEAST))
    alone.run(600, 40.0)
    alone.run(900, 600.0)
    assert alone.limit == LEAST
    assert alone.count >= 2 * service.count


def test_a_fall_lets_replicas_go_first_and_then_lowers_the_limit() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE))
    service.run(600, 40.0)
    service.run(900, 600.0)
    up = len(service.changes)
    service.run(3600, 20.0)
    assert (service.count, service.limit) == (1, LEAST)
    counts = [count for _, count, _ in service.changes[up:]]
    assert counts == sorted(counts, reverse=True)


def test_where_nothing_enforces_the_limit_stays_and_the_reason_is_told() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE, advisory="gpu-7"))
    service.run(600, 40.0)
    found = service.run(600, 110.0)
    assert service.limit == LEAST
    assert service.count > 1
    assert all(one.limit is None for one in found)
    assert "their limit stays 0.3, as nothing on gpu-7 holds a share to it (advisory)." in found[0].message


def test_a_limit_falls_at_once_to_what_is_left_of_a_device_that_others_were_given() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE))
    service.run(600, 40.0)
    service.run(300, 150.0)
    assert (service.count, service.limit > 550) == (1, True)
    service.limits = Limits(LEAST, MOST, room=500)
    service.run(15, 150.0)
    assert (service.count, service.limit) == (2, 500)
    service.limits = Limits(LEAST, MOST, room=WHOLE, advisory="gpu-7")
    service.run(15, 110.0)
    assert service.limit == LEAST
    assert service.count > 1


def test_what_a_limit_does_is_learned_and_a_service_that_gains_nothing_gets_replicas() -> None:
    """Its time is not the GPU's: the first raise is in vain, and soon replicas come all the same."""
    service = Replicas(Limits(LEAST, MOST, room=WHOLE), effect=0.0)
    service.run(600, 40.0)
    service.run(900, 110.0)
    assert service.count >= 2
    assert service.state is not None
    assert service.state.tried is not None
    assert service.state.tried.is_known
    assert service.state.tried.effect <= 0.5
    before = len(service.changes)
    service.run(6 * 3600, 110.0)
    assert service.count >= 2
    assert len(service.changes) - before <= 6, service.changes


def test_a_steady_service_is_left_alone_at_any_load() -> None:
    for rate in (20.0, 60.0, 75.0, 90.0, 130.0, 170.0, 200.0, 240.0, 300.0, 500.0):
        service = Replicas(Limits(LEAST, MOST, room=WHOLE))
        service.run(3600, rate)
        settled = len(service.changes)
        service.run(4 * 3600, rate)
        assert len(service.changes) == settled, (rate, service.changes)


exacts = st.floats(0.01, 200.0)
efforts = st.floats(0.0, 1.0)


@st.composite
def situations(draw):  # type: ignore[no-untyped-def]
    """Limits, the limit of now, what was asked at looks before, and how many replicas there are."""
    least = draw(st.integers(1, WHOLE))
    most = draw(st.integers(least, WHOLE))
    room = draw(st.integers(-WHOLE, 2 * WHOLE))
    limits = Limits(least, most, room, draw(st.sampled_from(("", "", "gpu-7"))))
    now = draw(st.integers(least, WHOLE))
    ages = sorted(draw(st.lists(st.floats(1, 400), max_size=6)), reverse=True)
    asked = tuple((AT - age, draw(exacts), draw(st.integers(1, WHOLE))) for age in ages)
    tried = Tried(now, asked, None, draw(efforts), draw(st.booleans()))
    least_replicas = draw(st.integers(1, 8))
    bounds = Bounds(least_replicas, draw(st.integers(least_replicas, 64)))
    current = draw(st.integers(1, 64))
    state = State(tried=tried, began=AT - draw(st.sampled_from((0.0, 299.0, 5000.0))))
    return state, limits, current, bounds


@given(situations(), st.one_of(st.none(), exacts))
def test_a_limit_is_never_below_the_job_files_nor_above_what_the_device_has_and_enforces(situation, exact):  # type: ignore[no-untyped-def]
    state, limits, current, bounds = situation
    wanted = Wanted(current, "", exact=exact)
    _, found = fitted(state, wanted, limits, current, bounds, TERMS, AT)
    limit = state.tried.limit if found.limit is None else found.limit
    assert limits.least <= limit <= limits.cap
    assert limits.cap <= max(limits.least, limits.room)
    assert limits.cap <= max(limits.least, limits.most)
    if limits.advisory:
        assert limit == limits.least
    if found.limit is not None:
        assert found.limit != state.tried.limit
    if exact is None or limits.cap == limits.least == state.tried.limit:
        assert found.wanted == wanted


@given(situations(), exacts)
def test_what_is_given_is_enough_as_far_as_the_bounds_allow(situation, exact):  # type: ignore[no-untyped-def]
    state, limits, current, bounds = situation
    tried = state.tried
    _, found = fitted(state, Wanted(current, "", exact=exact), limits, current, bounds, TERMS, AT)
    if limits.cap == limits.least == tried.limit:
        return  # the law's own
    limit = tried.limit if found.limit is None else found.limit
    count = bounds.clamp(found.wanted.replicas)
    power = count * (limit / tried.limit) ** tried.effect
    assert power >= exact - 1e-6 or count == bounds.most
    if count > current and count > bounds.least:
        assert limit == limits.cap or tried.effect < NONE  # the limit goes before another replica


def test_a_limit_rises_in_the_same_look_in_which_a_smaller_most_lets_a_replica_go() -> None:
    state, limits = State(tried=Tried(100)), Limits(100, 900, room=WHOLE)
    _, found = fitted(state, Wanted(2, "", exact=1.0), limits, 2, Bounds(1, 1), TERMS, AT)
    assert (found.wanted.replicas, found.limit) == (1, 200)


@given(situations(), exacts)
def test_an_even_need_never_goes_to_and_fro(situation, exact):  # type: ignore[no-untyped-def]
    """After the first look replicas only leave, and the limit rises only as one leaves."""
    state, limits, count, bounds = situation
    limit, need = state.tried.limit, exact
    if limits.cap == limits.least:
        return  # the law's own, once the limit is the least
    for number in range(40):
        before, had = count, limit
        at = AT + 15.0 * number
        state, found = fitted(state, Wanted(count, "", exact=need), limits, count, bounds, TERMS, at)
        count, limit = bounds.clamp(found.wanted.replicas), limit if found.limit is None else found.limit
        assert number == 0 or count <= before
        assert number == 0 or limit <= had or count < before
        need *= (had / limit) ** state.tried.effect
        state = replace(state, tried=replace(state.tried, limit=limit))


def test_service_times_of_another_limit_are_a_guess_until_enough_requests_were_answered() -> None:
    service = Replicas(Limits(LEAST, MOST, room=WHOLE))
    service.run(600, 40.0)
    assert service.state is not None
    before = service.state.learned
    changed = relearned(service.state, 600)
    assert before.mean is not None
    assert changed.learned.mean is not None
    assert 0.4 * before.mean < changed.learned.mean < 0.7 * before.mean
    assert changed.learned.requests < ENOUGH / 5
    assert changed.learned.slots == before.slots
    assert relearned(changed, 600) == changed
