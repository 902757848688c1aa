"""When traffic goes through the activators, and when direct."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.activator.routing import CALM, FULL, REST_SECONDS, Left, Routes, Said, decide

READY = {"chat": 2, "embed": 1}


def test_traffic_goes_through_what_answers() -> None:
    routes = decide(Routes(), 0.0, [Said("b", 0.1), Said("a", 0.1)], READY)
    assert routes.of("chat") == routes.of("embed") == ("a", "b")


def test_with_no_activator_that_answers_everything_is_direct() -> None:
    assert decide(Routes(("a",)), 0.0, [], READY).of("chat") == ()


def test_beyond_the_limit_the_busiest_service_goes_direct() -> None:
    routes = decide(Routes(), 0.0, [Said("a", 0.9, {"chat": 90.0, "embed": 10.0})], READY)
    assert routes.of("chat") == () and routes.of("embed") == ("a",)
    assert routes.left["chat"] == Left(0.0, 0.9 * 0.9)


def test_at_the_limit_nothing_changes() -> None:
    assert decide(Routes(), 0.0, [Said("a", FULL, {"chat": 90.0})], READY).of("chat") == ("a",)


def test_what_left_a_moment_ago_sends_no_other_after_it() -> None:
    said = [Said("a", 0.9, {"chat": 90.0, "embed": 10.0})]
    before = decide(Routes(), 0.0, said, READY)
    assert decide(before, 0.5, said, READY) == before


def test_a_service_comes_back_when_it_fits_with_what_it_had_used() -> None:
    before = Routes(("a",), {"chat": Left(0.0, 0.5)})
    assert decide(before, REST_SECONDS - 1, [Said("a", 0.05)], READY).of("chat") == ()
    assert decide(before, REST_SECONDS, [Said("a", 0.2)], READY).of("chat") == ()
    assert decide(before, REST_SECONDS, [Said("a", 0.05)], READY).of("chat") == ("a",)


def test_a_service_without_a_replica_is_held_by_an_activator() -> None:
    before = Routes(("a",), {"chat": Left(0.0, 0.9)})
    assert decide(before, 1.0, [Said("a", 0.99, {"chat": 500.0})], {"chat": 0}).of("chat") == ("a",)


rates = st.dictionaries(st.sampled_from(["chat", "embed", "rank"]), st.floats(0, 1000), max_size=3)


@given(
    st.lists(
        st.builds(Said, st.sampled_from("abc"), st.floats(0, 1.5), rates), max_size=3, unique_by=lambda one: one.address
    ),
    st.dictionaries(st.sampled_from(["chat", "embed", "rank"]), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(["chat", "embed"]), st.builds(Left, st.floats(0, 100), st.floats(0, 1))),
)
def test_what_stays_is_within_the_limit_as_far_as_it_can_leave(
    said: list[Said], ready: dict[str, int], left: dict[str, Left]
) -> None:
    routes = decide(Routes((), left), 100.0, said, ready)
    assert all(ready.get(workload, 0) > 0 for workload in routes.left)
    staying = sum(
        one.load * rate / sum(one.rates.values())
        for one in said
        for name, rate in one.rates.items()
        if rate > 0 and name not in routes.left and ready.get(name, 0) > 0
    )
    cannot_leave = sum(one.load for one in said) - sum(
        one.load * rate / sum(one.rates.values())
        for one in said
        for name, rate in one.rates.items()
        if rate > 0 and ready.get(name, 0) > 0
    )
    assert staying + cannot_leave <= FULL * len(said) + 1e-6 or staying <= 1e-6
    came_back = left.keys() - routes.left.keys()
    assert all(ready.get(name, 0) == 0 or 100.0 - left[name].at >= REST_SECONDS for name in came_back)
    assert CALM < FULL
