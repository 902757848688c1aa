"""The queue in front of a service: whose turn it is, what is late, and what is refused."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.lanes import REST_SECONDS, Bounds, Lanes, Taken

BOUNDS = Bounds(slots=2, late_after=1.0, waiting=3, patience=10.0)


def lanes(*replicas: str, bounds: Bounds = BOUNDS) -> Lanes[str]:
    found: Lanes[str] = Lanes(bounds)
    found.use(replicas)
    return found


def keys(found: Lanes[str], at: float) -> list[str]:
    served = []
    while (taken := found.take(at)) is not None:
        served.append(taken.key)
    return served


def test_requests_are_served_in_the_order_of_their_arrival() -> None:
    queue = lanes("a", bounds=Bounds(2, 1.0, 10, 60.0))
    for number in range(4):
        assert queue.arrive(f"r{number}", at=0.1 * number)
    assert keys(queue, 0.5) == ["r0", "r1"]
    queue.done("a")
    assert keys(queue, 0.6) == ["r2"]


def test_a_late_request_is_served_only_while_nothing_on_time_waits() -> None:
    queue = lanes(bounds=Bounds(1, 1.0, 10, 60.0))
    queue.arrive("late", at=0.0)
    queue.arrive("late too", at=0.5)
    queue.arrive("on time", at=2.0)
    queue.use(["a"])
    first = queue.take(2.1)
    assert first is not None and (first.key, first.is_late) == ("on time", False)
    queue.done("a")
    second = queue.take(2.2)
    assert second is not None and (second.key, second.is_late) == ("late", True)


def test_a_service_without_replicas_holds_what_comes_until_it_wakes() -> None:
    queue = lanes()
    assert queue.arrive("r", at=0.0)
    assert queue.take(0.5) is None
    queue.use(["a"])
    assert keys(queue, 0.6) == ["r"]


def test_beyond_its_bound_a_request_is_refused_and_a_place_that_is_left_is_given_again() -> None:
    queue = lanes()
    assert all(queue.arrive(f"r{number}", at=0.0) for number in range(3))
    assert not queue.arrive("one too many", at=0.1)
    assert queue.leave("r1")
    assert not queue.leave("r1")
    assert queue.arrive("now", at=0.2)
    assert queue.waiting == 3


def test_with_no_places_to_wait_a_free_slot_still_serves() -> None:
    queue = lanes("a", bounds=Bounds(1, 1.0, 0, 10.0))
    assert queue.arrive("r", at=0.0)
    assert keys(queue, 0.0) == ["r"]
    assert not queue.arrive("s", at=0.1)


def test_what_has_waited_as_long_as_it_may_is_given_up() -> None:
    queue = lanes()
    queue.arrive("old", at=0.0)
    queue.arrive("young", at=5.0)
    assert queue.give_up(10.0) == ()
    assert queue.give_up(10.1) == ("old",)
    assert queue.waiting == 1


def test_a_replica_that_takes_no_connection_rests_and_the_request_keeps_its_turn() -> None:
    queue = lanes("a", "b", bounds=Bounds(1, 60.0, 10, 60.0))
    queue.arrive("r", at=0.0)
    queue.arrive("s", at=0.0)
    taken = queue.take(0.0)
    assert taken is not None and taken.replica == "a"
    queue.put_back(taken, 0.0)
    again = queue.take(0.1)
    assert again is not None and (again.key, again.replica) == ("r", "b")
    assert queue.take(0.2) is None  # a rests, b is full
    rested = queue.take(REST_SECONDS + 0.1)
    assert rested is not None and (rested.key, rested.replica) == ("s", "a")


def test_a_replica_that_leaves_gets_no_more_and_ends_what_it_has() -> None:
    queue = lanes("a")
    queue.arrive("r", at=0.0)
    assert queue.take(0.0) is not None
    queue.use(["b"])
    queue.arrive("s", at=0.1)
    taken = queue.take(0.1)
    assert taken is not None and taken.replica == "b"
    assert (queue.running, queue.widest) == (2, 1)
    queue.done("a")
    assert queue.running == 1


@dataclass
class Seen:
    """What a run of random calls has made of the queue, counted beside it."""

    queue: Lanes[int]
    arrived: dict[int, float] = field(default_factory=dict)  # of those that wait
    running: list[Taken[int]] = field(default_factory=list)
    at: float = 0.0
    number: int = 0

    def arrive(self) -> None:
        had_room = len(self.arrived) < self.queue.bounds.waiting
        free = not self.arrived and self.can_serve()
        accepted = self.queue.arrive(self.number, self.at)
        assert accepted == (had_room or free)
        if accepted:
            self.arrived[self.number] = self.at
        self.number += 1

    def can_serve(self) -> bool:
        return any(self.of(replica) < self.queue.bounds.slots for replica in self.queue.ready)

    def of(self, replica: str) -> int:
        return sum(taken.replica == replica for taken in self.running)

    def take(self) -> None:
        taken = self.queue.take(self.at)
        if taken is None:
            assert not self.arrived or not self.can_serve()
            return
        late_after = self.queue.bounds.late_after
        on_time = [key for key, came in self.arrived.items() if self.at - came <= late_after]
        assert taken.key == min(on_time or self.arrived)  # keys count up: the lowest is the oldest
        assert taken.is_late == (not on_time)
        assert taken.arrived == self.arrived.pop(taken.key)
        assert taken.replica in self.queue.ready
        self.running.append(taken)
        assert self.of(taken.replica) <= self.queue.bounds.slots

    def done(self) -> None:
        if self.running:
            self.queue.done(self.running.pop(0).replica)

    def leave(self) -> None:
        if self.arrived:
            assert self.queue.leave(self.arrived.popitem()[0])

    def give_up(self) -> None:
        gone = [key for key, came in self.arrived.items() if self.at - came > self.queue.bounds.patience]
        assert sorted(self.queue.give_up(self.at)) == gone
        for key in gone:
            del self.arrived[key]

    def check(self) -> None:
        assert self.queue.waiting == len(self.arrived)
        assert self.queue.running == len(self.running)
        assert self.queue.widest == max((self.of(taken.replica) for taken in self.running), default=0)


STEPS = st.one_of(
    st.sampled_from(["arrive", "arrive", "take", "take", "done", "leave", "give_up"]),
    st.floats(0, 2).map(lambda seconds: ("wait", seconds)),
    st.sets(st.sampled_from("abc")).map(lambda names: ("use", sorted(names))),
)


@given(
    st.builds(Bounds, st.integers(1, 3), st.floats(0, 2), st.integers(0, 5), st.floats(0, 5)),
    st.lists(STEPS, max_size=60),
)
def test_the_queue_is_bounded_fair_and_loses_nothing(bounds: Bounds, steps: list[object]) -> None:
    seen = Seen(lanes("a", bounds=bounds))
    for step in steps:
        if isinstance(step, str):
            getattr(seen, step)()
        elif isinstance(step, tuple) and step[0] == "wait":
            seen.at += step[1]
        elif isinstance(step, tuple):
            seen.queue.use(step[1])
        seen.check()
    assert seen.queue.waiting + seen.queue.running == len(seen.arrived) + len(seen.running)
