"""What each cell has of the quotas, as stored: divided again each minute by what is held and asked for.

A part is lowered at once, which its decider reads with its next round; what was lowered is given to others only once
no decider has that to read any more. So what all of them go by is never more than the quota.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from controlplane.models import Change, QuotaPart, bulk, statements
from controlplane.services.cells import standing
from controlplane.services.cells.standing import Amount, Ground, Waiting
from controlplane.services.scheduling import changes
from scheduler.cells.apportion import apportion
from scheduler.cells.divide import Needed, Part, divide

_TURNS = 7_360_283  # any constant: a transaction that writes parts waits for another one that does
_LIMITS = ("nominal", "borrowing", "lending")


def alone() -> None:
    """Wait for a transaction that writes parts, and keep others from it until this one ends."""
    statements.take_turns(_TURNS)


def wanted(on: Ground, held: Mapping[Amount, int], waiting: Sequence[Waiting]) -> dict[Amount, Part]:
    """How the quotas of all pools are to be divided."""
    asks: dict[str, list[Needed]] = defaultdict(list)
    for one in waiting:
        if (pool := on.home(one.cell, one.wanted.team, one.wanted.ask)) is not None:
            asks[pool].append(Needed(one.wanted.team, one.cell, one.wanted.asked))
    found: dict[Amount, Part] = {}
    for pool, capacity in on.capacity.items():
        quotas = [quota for (_, of), quota in on.quotas.items() if of == pool]
        here = {(team, cell): milli for (team, of, cell), milli in held.items() if of == pool}
        for (team, cell), part in divide(on.parents, quotas, capacity, here, asks[pool]).items():
            found[team, pool, cell] = part
    return found


def nearer(
    on: Ground, goal: Mapping[Amount, Part], now: Mapping[Amount, Part], *, may_raise: bool
) -> dict[Amount, Part]:
    """The parts one step nearer to the goal, with which they never add up to more than the quotas.

    may_raise: what was lowered before is known to all deciders, so that others may have it.
    """
    out: dict[Amount, Part] = {}
    by_quota: dict[tuple[str, str], set[str]] = defaultdict(set)
    for team, pool, cell in (*goal, *now):
        by_quota[team, pool].add(cell)
    for (team, pool), cells in by_quota.items():
        quota = on.quotas.get((team, pool))
        if quota is None:
            continue
        columns = []
        for whole, name in zip((quota.nominal, quota.borrowing, quota.lending), _LIMITS, strict=True):
            is_, to = ({c: _limit(some.get((team, pool, c)), name) for c in cells} for some in (now, goal))
            columns.append(_step(whole, is_, to, may_raise))
        for cell in cells:
            nominal, borrowing, lending = (column[cell] for column in columns)
            out[team, pool, cell] = Part(nominal or 0, borrowing, lending)
    return out


def _limit(part: Part | None, name: str) -> int:
    return 0 if part is None else getattr(part, name) or 0


def _step(
    whole: int | None, now: Mapping[str, int], goal: Mapping[str, int], may_raise: bool
) -> Mapping[str, int | None]:
    if whole is None:
        return dict.fromkeys(now, None)
    spare = whole - sum(now.values())
    if spare < 0:  # the quota itself was lowered
        return apportion(whole, now)
    lack = {cell: max(0, goal[cell] - milli) for cell, milli in now.items()}
    given = apportion(min(spare, sum(lack.values())), lack) if may_raise else dict.fromkeys(now, 0)
    return {cell: min(milli, goal[cell]) + given[cell] for cell, milli in now.items()}


def all_have_read() -> bool:
    """Whether no decider has news of quotas to read; the parts must be read before this is asked."""
    return not bulk.select(Change, ("id",), {"workload__isnull": True}, limit=1)


def store(on: Ground, rows: Mapping[Amount, Part], before: Mapping[Amount, Part]) -> set[str]:
    """Write the parts, and hint at those that changed; tell in which cells any has."""
    new = [key for key in rows if key not in before]
    changed = [key for key in rows if key in before and rows[key] != before[key]]
    number, columns = on.numbers, ("nominal", "borrowing_limit", "lending_limit")
    inserted = [(number[team, pool], cell, *_limits(rows[team, pool, cell])) for team, pool, cell in new]
    bulk.insert(QuotaPart, ("quota_id", "cell", *columns), inserted)
    updated = [(*_limits(rows[team, pool, cell]), number[team, pool], cell) for team, pool, cell in changed]
    bulk.update(QuotaPart, columns, ("quota_id", "cell"), updated, in_order=True)
    told = {key[2] for key in changed} | {key[2] for key in new if any(_limits(rows[key]))}
    changes.touch_frames(sorted(told))
    return told


def _limits(part: Part) -> tuple[int | None, ...]:
    return tuple(getattr(part, name) for name in _LIMITS)


def asked_of(on: Ground, waiting: Iterable[Waiting]) -> dict[Amount, int]:
    """What these ask for, by team, pool and cell."""
    found: dict[Amount, int] = {}
    standing.add_asked(on, found, waiting)
    return found


def trim() -> None:
    """Lower the parts of quotas that were lowered, in the transaction that did."""
    alone()
    before = standing.stored()
    if not before:
        return
    on = standing.ground(())
    store(on, nearer(on, before, before, may_raise=False), before)
