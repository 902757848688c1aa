"""Which activator a service's traffic goes through, and when it goes direct."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controlplane.activator.routing import CALM, FULL, REST_SECONDS, Left, Routes, Said, decide

READY = {"chat": 2, "embed": 1}
BOTH = Routes({"chat": "a", "embed": "a"})


def test_services_are_spread_over_what_answers_and_each_has_one() -> None:
    routes = decide(Routes(), 0.0, [Said("b", 0.1), Said("a", 0.1)], READY)
    assert Counter(routes.through.values()) == {"a": 1, "b": 1} and routes.through.keys() == READY.keys()


def test_a_service_stays_with_its_activator_as_long_as_that_answers() -> None:
    said = [Said("a", 0.5, {"chat": 9.0}), Said("b", 0.0)]
    assert decide(BOTH, 0.0, said, READY) == BOTH
    assert decide(BOTH, 0.5, said[1:], READY).through == {"chat": "b", "embed": "b"}


def test_with_no_activator_that_answers_everything_is_direct() -> None:
    assert decide(BOTH, 0.0, [], READY).through == {}


def test_beyond_the_limit_the_busiest_service_goes_direct() -> None:
    routes = decide(BOTH, 0.0, [Said("a", 0.9, {"chat": 90.0, "embed": 10.0})], READY)
    assert routes.through == {"embed": "a"} and routes.left["chat"] == Left(0.0, 0.9 * 0.9)


def test_at_the_limit_nothing_changes() -> None:
    assert decide(BOTH, 0.0, [Said("a", FULL, {"chat": 90.0})], READY) == BOTH


def test_what_left_a_moment_ago_sends_no_other_after_it() -> None:
    said = [Said("a", 0.9, {"chat": 90.0, "embed": 10.0})]
    before = decide(BOTH, 0.0, said, READY)
    assert decide(before, 0.5, said, READY) == before


def test_a_service_comes_back_when_it_fits_with_what_it_had_used() -> None:
    before = Routes({}, {"chat": Left(0.0, 0.5)})
    chat = {"chat": 2}
    assert decide(before, REST_SECONDS - 1, [Said("a", 0.05)], chat).through == {}
    assert decide(before, REST_SECONDS, [Said("a", 0.2)], chat).through == {}
    assert decide(before, REST_SECONDS, [Said("a", 0.05)], chat).through == {"chat": "a"}


def test_a_service_without_a_replica_is_held_by_an_activator() -> None:
    before = Routes({}, {"chat": Left(0.0, 0.9)})
    assert decide(before, 1.0, [Said("a", 0.99, {"chat": 500.0})], {"chat": 0}).through == {"chat": "a"}


NAMES = ["chat", "embed", "rank"]
rates = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1000), max_size=3)
activators = st.lists(
    st.builds(Said, st.sampled_from("abc"), st.floats(0, 1.5), rates), max_size=3, unique_by=lambda one: one.address
)
befores = st.builds(
    Routes,
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from("abc")),
    st.dictionaries(st.sampled_from(NAMES), st.builds(Left, st.floats(0, 100), st.floats(0, 1))),
)


@given(befores, activators, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)))
def test_a_service_is_somewhere_and_an_activator_within_its_limit_as_far_as_services_can_leave(
    before: Routes, said: list[Said], ready: dict[str, int]
) -> None:
    routes = decide(before, 100.0, said, ready)
    every = {one.address: one for one in said}
    assert set(routes.through.values()) <= every.keys()
    assert not routes.through.keys() & routes.left.keys()
    if said:
        assert routes.through.keys() | routes.left.keys() == ready.keys()
    assert all(ready[workload] > 0 for workload in routes.left)
    for one in said:
        kept = [w for w, to in routes.through.items() if to == one.address and before.through.get(w) == to]
        can_leave = [w for w in kept if ready[w] > 0 and one.part(w) > 0 and w not in before.left]
        assert not can_leave or sum(map(one.part, kept)) <= max(FULL, CALM) + 1e-6
    for workload, left in before.left.items():
        if workload in routes.through and ready[workload] > 0:
            assert 100.0 - left.at >= REST_SECONDS
