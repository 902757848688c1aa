"""The law beside what it is compared with: the best setting of all cells, and of each cell, chosen in hindsight."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.benchmarks.slo.cells import HEADROOM, ROOM, STARTS, WAKES, Cell, of
from controlplane.benchmarks.slo.policies import BASELINES

FAMILIES = tuple(dict.fromkeys(label.split()[0] for label in BASELINES))
HPA = ("hpa-cpu", "hpa-rps")
# Traces and starts on which our net hours are held against the cheapest HPA setting of each cell, and the goals.
HINDSIGHT = (
    ("waves", ("ramp", "step", "diurnal"), STARTS[1:], 0.75),
    ("calm", ("azure", "azure8", "mooncake"), STARTS, 1.05),
)


@dataclass(frozen=True, slots=True)
class Beside:
    """A setting on all cells: how many it attains, and its hours over all of them."""

    label: str
    attained: int
    hours: float


def all_cells(cells: Iterable[Cell], families: Sequence[str]) -> list[Beside]:
    """Each setting of these families with the room that is usual, best first: most cells, then fewest hours."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.policy.split()[0] in families and cell.room == ROOM:
            found.setdefault(cell.policy, []).append(cell)
    told = [Beside(label, sum(c.attained for c in some), sum(c.hours for c in some)) for label, some in found.items()]
    return sorted(told, key=lambda one: (-one.attained, one.hours))


def best_of_each(cells: Iterable[Cell], families: Sequence[str]) -> Mapping[tuple[str, int, float], Cell]:
    """By trace, seed and start: the cheapest setting that attains the cell, else the one with fewest bad windows."""
    found: dict[tuple[str, int, float], Cell] = {}
    for cell in cells:
        if cell.policy.split()[0] not in families or cell.room != ROOM:
            continue
        key = (cell.trace, cell.seed, cell.start)
        if key not in found or _badness(cell) < _badness(found[key]):
            found[key] = cell
    return found


def _badness(cell: Cell) -> tuple[bool, int, float]:
    return not cell.attained, 0 if cell.attained else cell.bad_windows, cell.hours


def over_hpa(cells: Sequence[Cell], names: Sequence[str], starts: Sequence[float]) -> Mapping[tuple[str, float], float]:
    """Our net hours with standby over those of HPA's best of each cell, by trace and start: of the worst seed."""
    ours = {(c.trace, c.seed): c.net() * c.oracle for c in of(cells, "standby", WAKES[0])}
    found: dict[tuple[str, float], float] = {}
    for (name, seed, start), best in best_of_each(cells, HPA).items():
        if name in names and start in starts:
            ratio = round(ours[name, seed] / best.hours, 3)
            found[name, start] = max(ratio, found.get((name, start), ratio))
    return found


def alone_to_hpa(cells: Sequence[Cell]) -> float | None:
    """The law's hours over the cells that it attains alone, to those of HPA's best setting on the same cells."""
    settings = all_cells(cells, HPA)
    if not settings:
        return None
    theirs = {(c.trace, c.seed, c.start): c.hours for c in of(cells, settings[0].label)}
    ours = {(c.trace, c.seed, c.start): c.hours for c in of(cells, "alone") if c.attained}
    both = ours.keys() & theirs.keys()
    return round(sum(ours[key] for key in both) / sum(theirs[key] for key in both), 3)


def with_headroom(cells: Sequence[Cell]) -> tuple[Beside, Beside] | None:
    """The law alone with the headroom that attains most cells within the hours of HPA's best setting, and that one."""
    settings = all_cells(cells, HPA)
    if not settings:
        return None
    within = [one for one in all_cells(cells, ("alone", HEADROOM)) if one.hours <= settings[0].hours]
    return (within[0], settings[0]) if within else None
