"""Allocations and nodes in words: `2+2 b8 c4 s1` is two GPUs on each of two nodes, and so on."""

import re

from hypothesis import strategies as st

from autoscaler.reallocate.candidates import Room
from autoscaler.throughput.allocation import Allocation


def allocation(text: str) -> Allocation:
    """`gpus wWORKERS bBATCH cCORES sSERVERS`; a worker for each GPU, batch 8 and no servers unless said."""
    places, *rest = text.split()
    gpus = tuple(int(one) for one in places.split("+"))
    said = {one[0]: float(one[1:]) for one in rest}
    workers, servers = int(said.get("w", sum(gpus))), int(said.get("s", 0))
    return Allocation(gpus, workers, int(said.get("b", 8)), said.get("c", 0.0), servers, 4.0 if servers else 0.0)


def words(one: Allocation) -> str:
    """As `allocation` reads it, with what is not as usual."""
    parts = ["+".join(map(str, one.gpus))]
    parts += [f"w{one.workers}"] if one.workers != one.total else []
    parts += [f"b{one.batch}"] if one.batch != 8 else []
    parts += [f"c{one.cpu:g}"] if one.cpu else []
    parts += [f"s{one.servers}"] if one.servers else []
    return " ".join(parts)


def rooms(text: str) -> tuple[Room, ...]:
    """`4 4/16`: a node with 4 GPUs whose cores are not counted, and one with 4 GPUs and 16 cores."""
    found = [re.fullmatch(r"(\d+)(?:/(\d+))?", one) for one in text.split()]
    return tuple(Room(int(one[1]), float(one[2]) if one[2] else None) for one in found if one)


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    """Up to four nodes with up to eight GPUs each."""
    each = draw(st.integers(1, 2))
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    gpus = tuple(sorted((count * each for count in counts), reverse=True))
    servers = draw(st.integers(0, 3))
    return Allocation(
        gpus, sum(counts), draw(st.integers(1, 256)), draw(st.sampled_from((0.0, 1.0, 3.0, 8.0))),
        servers, 2.0 if servers else 0.0, draw(st.sampled_from((0.0, 16.0))), 8.0 if servers else 0.0,
    )  # fmt: skip
