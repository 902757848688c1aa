"""Which GPU a notebook gets when a cell of it begins, which notebooks make room, and which are parked.

In this order: its own GPU, if no other cell runs there; an idle GPU of its node; if it was idle for long, an idle GPU
of another node, by its volume; a GPU of its node on which only old cells run; the one with the fewest young cells.
Cells that share a GPU each get what they were promised, and the young ones what is left. Most cells are short, so few
wait for long, and a cell that runs for hours loses little by each of them. Nothing here knows how long a cell will
take, or when the next one comes. Source: docs/algorithms.md#notebooks-on-demand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpushare.gpu import WHOLE
from gpushare.residency import Gpu, Node, Notebook


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds. can_move: the driver can move what is on a GPU; without that a notebook stays on the GPU it has."""

    young: int = 300  # a cell is young for so long
    volume_after: int = 1200  # idle for so long, a notebook may go to another node by its volume
    park_after: int = 14_400  # idle for so long, it is parked: it leaves its node, and is on its volume only
    can_move: bool = True


RULES = Rules()


class Way(StrEnum):
    """How a notebook gets to the GPU of its cell."""

    STAY = "stay"  # it is there
    SWITCH = "switch"  # from another GPU of its node, or from host memory
    VOLUME = "volume"  # from its volume: it was parked, or on another node


@dataclass(frozen=True, slots=True)
class Start:
    """A cell begins on that GPU of that node, both by index. evicted: they leave it for host memory first."""

    node: int
    gpu: int
    way: Way
    evicted: tuple[str, ...] = ()


def choose(nodes: Sequence[Node], notebook: Notebook, node: int | None, at: int, rules: Rules = RULES) -> Start | None:
    """Where its cell is to run; None: no GPU has memory for it besides what computes, so it waits.

    node: where it is, None if it is parked; `notebook.since`: it is idle since then. Raises ValueError if it computes.
    """
    if notebook.computes:
        raise ValueError(f"{notebook.name} computes already")
    if node is not None:
        own, _ = nodes[node].find(notebook.name)
        is_bound = notebook.is_fixed or not rules.can_move
        if own is not None and (is_bound or not nodes[node].gpus[own].computing):
            return Start(node, own, Way.STAY)
        if (found := _idle(nodes, node, notebook, rules)) is not None:
            return found
        if (
            at - notebook.since >= rules.volume_after
            and (found := _elsewhere(nodes, notebook, node, rules)) is not None
        ):
            return found
        return _shared(nodes, (node,), notebook, at, rules)
    if (found := _elsewhere(nodes, notebook, None, rules)) is not None:
        return found
    able = [index for index, one in enumerate(nodes) if one.unbooked >= notebook.memory]
    return _shared(nodes, able, notebook, at, rules)


def to_park(node: Node, at: int, rules: Rules = RULES) -> tuple[str, ...]:
    """Those of the node that were idle for so long that they are parked."""
    return tuple([one.name for one in node.notebooks if not one.computes and at - one.since >= rules.park_after])


def parts(gpu: Gpu, promised: Mapping[str, int], at: int, rules: Rules = RULES) -> dict[str, int]:
    """The milli-GPU for each cell on a GPU: what it was promised, and if it is young an even part of what is left.

    Where all are old, or all young, what is left is divided among all. Together at most 1000, if as much was promised.
    """
    found = {one.name: promised[one.name] for one in gpu.computing}
    young = [one.name for one in gpu.computing if at - one.since < rules.young]
    first = young or list(found)
    left = max(0, WHOLE - sum(found.values()))
    return found | {name: found[name] + left // len(first) for name in first}


def _idle(nodes: Sequence[Node], node: int, notebook: Notebook, rules: Rules) -> Start | None:
    """The idle GPU of a node with the least memory in use that can take it."""
    best: tuple[int, int, tuple[str, ...]] | None = None
    for index, gpu in enumerate(nodes[node].gpus):
        if any([one.computes for one in gpu.residents]):
            continue
        evicted = _evicted(gpu, notebook, rules)
        if evicted is not None and (best is None or (gpu.used, index) < best[:2]):
            best = gpu.used, index, evicted
    return None if best is None else Start(node, best[1], Way.SWITCH, best[2])


def _elsewhere(nodes: Sequence[Node], notebook: Notebook, but: int | None, rules: Rules) -> Start | None:
    """An idle GPU of the node that has most of them, of those whose host memory can hold it as well."""
    ranked = []
    for index, node in enumerate(nodes):
        idle = sum([gpu.memory > 0 and not gpu.computing for gpu in node.gpus])
        if idle and index != but:
            ranked.append((-idle, -node.unbooked, index))
    for _, unbooked, index in sorted(ranked):
        if notebook.memory <= -unbooked and (found := _idle(nodes, index, notebook, rules)) is not None:
            return Start(index, found.gpu, Way.VOLUME, found.evicted)
    return None


def _shared(nodes: Sequence[Node], able: Sequence[int], notebook: Notebook, at: int, rules: Rules) -> Start | None:
    """A GPU with the fewest young cells, then the fewest cells, then the one whose youngest cell is the oldest."""
    best: tuple[tuple[int, int, int, int], int, int, tuple[str, ...]] | None = None
    for node in able:
        for index, gpu in enumerate(nodes[node].gpus):
            evicted = _evicted(gpu, notebook, rules)
            if evicted is None:
                continue
            computing = gpu.computing
            young = sum([at - one.since < rules.young for one in computing])
            rank = (young, len(computing), max([one.since for one in computing], default=0), gpu.used)
            if best is None or rank < best[0]:
                best = rank, node, index, evicted
    if best is None:
        return None
    _, node, index, evicted = best
    if not any(one.name == notebook.name for one in nodes[node].notebooks):
        return Start(node, index, Way.VOLUME, evicted)
    stays = nodes[node].find(notebook.name)[0] == index
    return Start(node, index, Way.STAY if stays else Way.SWITCH, evicted)


def _evicted(gpu: Gpu, notebook: Notebook, rules: Rules) -> tuple[str, ...] | None:
    """The idle ones that leave the GPU for this one, the longest idle first; None: it does not fit even then."""
    lacks = gpu.used + notebook.memory - gpu.memory
    if lacks <= 0 or any([one.name == notebook.name for one in gpu.residents]):
        return ()
    if not rules.can_move:
        return None
    leaving = []
    idle = [one for one in gpu.residents if not one.computes and not one.is_fixed]
    for one in sorted(idle, key=lambda one: (one.since, one.name)):
        leaving.append(one.name)
        lacks -= one.memory
        if lacks <= 0:
            return tuple(leaving)
    return None
