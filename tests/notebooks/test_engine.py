from collections.abc import Iterator, Mapping
from dataclasses import fields

import pytest

from controlplane.benchmarks.notebooks.engine import Given, Life, Lived, Policy, Seen
from controlplane.benchmarks.notebooks.policies import Costs, OnDemand, Sliced
from controlplane.benchmarks.notebooks.sessions import Cell, Population, Session
from gpushare.ondemand import Rules
from tests.notebooks.made import cells

FREE = Costs(factor=0.0)


def lived(policy: Policy, *places: Iterator[Cell], gpus: int = 1, end: float = 10_000.0) -> Lived:
    return Life(list(places), gpus, policy, 0.0, end).run()


def on_demand(*nodes: int, rules: Rules = Rules(), costs: Costs = FREE) -> OnDemand:  # noqa: B008
    return OnDemand(nodes or (1,), 0, rules, costs)


def test_a_cell_alone_takes_as_long_as_it_takes():
    found = lived(on_demand(), cells("a", (5, 100), (50, 100)))
    assert found.slowed == (1.0, 1.0)
    assert found.busy == pytest.approx(200 / 10_000)


def test_two_that_share_a_gpu_take_twice_as_long_and_lose_a_part():
    found = lived(on_demand(), cells("a", (0, 97)), cells("b", (0, 97)))
    assert found.slowed == pytest.approx((2 / 0.97, 2 / 0.97))
    assert lived(Sliced(1, 0, 2, None), cells("a", (0, 97)), cells("b", (0, 97))).slowed == (2.0, 2.0)


def test_a_young_cell_goes_before_an_old_one():
    found = lived(on_demand(), cells("a", (0, 2000)), cells("b", (1000, 97)))
    young, old = found.slowed
    assert young == pytest.approx(1 / (0.97 * 0.98), rel=1e-3)
    assert old == pytest.approx((2000 + 97 / (0.97 * 0.98) * (1 - 0.97 * 0.02)) / 2000, rel=1e-3)


def test_cells_that_share_are_both_young_until_one_is_old():
    found = lived(on_demand(), cells("a", (0, 1000)), cells("b", (200, 500)))
    # Evenly for 100 s, b first for 200 s, then both are old.
    left = 500 - 48.5 - 200 * 0.97 * 0.98
    assert found.slowed[0] == pytest.approx((300 + left / 0.485) / 500, rel=0.01)


def test_memory_that_moves_and_who_makes_room_cost_time():
    costs, large = Costs(within=(1.0, 1.0)), 42 * 1024
    found = lived(
        on_demand(2, costs=costs),
        cells("a", (0, 60), (3000, 1000), memory=large),
        cells("b", (100, 5000), memory=large),
        cells("c", (300, 1000), memory=large),
        gpus=2,
    )
    a_first, c, a_again, b = found.slowed
    assert (a_first, b) == (1.0, 1.0), "each on a GPU of its own"
    assert c == pytest.approx(1.043), "it is new and moves nothing, but a leaves for it: 1 s and 42 GiB"
    assert a_again == pytest.approx(1.086), "c leaves for it, and it comes back"


def test_a_stock_notebook_that_was_culled_waits_for_a_slot_and_starts_again():
    found = lived(Sliced(1, 0, 1, 600.0), cells("a", (0, 100), (2000, 100)), cells("b", (900, 4000)), gpus=1)
    assert found.waited[:2] == (0.0, 0.0)
    assert found.waited[2] == pytest.approx(900 + 4000 - 2100 + 600, abs=60.0), "until b has been culled as well"
    assert found.slowed[2] > 30.0


def test_without_a_cull_it_holds_its_slot():
    found = lived(Sliced(1, 0, 1, None), cells("a", (0, 100), (2000, 100)), cells("b", (900, 10)), gpus=1)
    assert found.slowed[:2] == (1.0, 1.0)
    assert found.waited == (0.0, 10_000.0 - 900.0), "b waits when all ends"
    assert found.slowed[2] == pytest.approx(910.0), "what is not done counts as well"


def test_a_session_that_ends_leaves_nothing_behind():
    policy = on_demand(2, 2)
    people = Population([Session(((0.0, 30.0), (40.0, 30.0))), Session(((0.0, 600.0),))])
    Life([people.replayed(1, place) for place in range(9)], 4, policy, 0.0, 50_000.0).run()
    held = [one.name for node in policy.nodes for one in node.notebooks]
    assert len(held) == len(set(held)) == 9, "one of each place: those before are gone"


class Witness:
    """Asks a policy, and notes what it was told and what it said."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.loss = policy, policy.loss
        self.told: list[tuple[float, Seen, Given | None]] = []

    def begin(self, seen: Seen, at: float) -> Given | None:
        given = self._policy.begin(seen, at)
        self.told.append((at, seen, given))
        return given

    def end(self, notebook: str, at: float) -> None:
        self._policy.end(notebook, at)

    def delete(self, notebook: str, at: float) -> None:
        self._policy.delete(notebook, at)

    def tick(self, at: float) -> None:
        self._policy.tick(at)

    def parts(self, gpu: int, cells: Mapping[str, float], at: float) -> tuple[dict[str, float], float | None]:
        return self._policy.parts(gpu, cells, at)


@pytest.mark.parametrize("kind", ["on demand", "stock"])
def test_no_policy_knows_what_production_would_not(kind):
    """What comes later is another thing in the second world; until then all is decided alike."""
    told = []
    for later in (1.0, 5.0):
        policy = OnDemand((2, 1), 0, Rules(young=100, volume_after=200), FREE)
        witness = Witness(policy if kind == "on demand" else Sliced(3, 0, 2, 600.0))
        places = [
            cells(
                str(place), (10.0 * place, 300.0), (120.0 + place, 200.0), (40.0, 5000.0 * later), (900.0 * later, 60.0)
            )
            for place in range(7)
        ]
        Life(places, 3, witness, 0.0, 30_000.0).run()
        told.append([one for one in witness.told if one[0] < 5000.0])
    assert told[0] == told[1]
    assert len(told[0]) >= 14
    assert {one.name for one in fields(Seen)} == {"notebook", "memory", "idle_since", "is_first"}
