"""What is computed by columns is what the plain form computes: the same speeds, and the same places."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.elasticity.configurations import configurations
from autoscaler.elasticity.inputs import read_jobs, read_nodes
from autoscaler.elasticity.memory import Past
from autoscaler.elasticity.places import place
from autoscaler.elasticity.rates import rates
from tests.autoscaler import plain_elasticity as plain
from tests.autoscaler.test_planner import job, nodes

sizes = st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 3, 4, 6, 8]))


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Any, ...]:
    """A cluster whose nodes need not be alike, its jobs, what each gets and what each has, some of it gone."""
    there = nodes(slow=draw(sizes), fast=draw(sizes))
    for row in there:
        row["gpus"] = draw(st.sampled_from([row["gpus"], row["gpus"], 1, 5]))
    read = read_nodes(there)
    offered = configurations(read)
    rows = [
        job(f"j{i}", most=draw(st.integers(0, 40)), power=draw(st.sampled_from([None, 0.0, 0.5, 0.9, 1.0])),
            restarting=draw(st.booleans()), ref_rate={"slow": draw(st.sampled_from([0.0, 1.0])), "fast": 3.0})
        for i in range(draw(st.integers(0, 25)))
    ]  # fmt: skip
    for row in rows:
        unknown = draw(st.sampled_from(["slow", "fast", "neither"]))
        row["goodput"] = {t: None if t == unknown else f for t, f in row["goodput"].items()}
    jobs = read_jobs(rows, offered.types)
    index = st.integers(-1, len(offered.gpus) - 1)
    asked = [draw(index) for _ in jobs]
    held = plain.place(offered, read, jobs, [draw(st.sampled_from([-1, one, draw(index)])) for one in asked], {})
    return read, offered, jobs, asked, held


@settings(deadline=None)
@given(rounds())
def test_places_by_columns_are_those_of_the_plain_form(drawn: tuple[Any, ...]) -> None:
    read, offered, jobs, asked, held = drawn
    assert place(offered, read, jobs, asked, held) == plain.place(offered, read, jobs, asked, held)


@settings(deadline=None)
@given(rounds(), st.randoms(use_true_random=False))
def test_speeds_by_columns_are_those_of_the_plain_form(drawn: tuple[Any, ...], random: Any) -> None:
    _, offered, jobs, _, held = drawn
    pasts = [Past("m", 0.0, held=offered.shape_of(held.get(one.id, ()))) for one in jobs]
    for past in pasts:
        past.spread = frozenset(random.sample(range(len(offered.types)), random.randint(0, len(offered.types))))
    found, expected = rates(offered, jobs, pasts), plain.rates(offered, jobs, pasts)
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # powers of arrays may differ in the last bit
