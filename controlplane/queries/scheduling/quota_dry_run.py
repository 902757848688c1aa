"""A quota tried before it is saved: what it promises, and which teams would be entitled to more or less."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.queries.rounds import decider
from controlplane.queries.scheduling.policies import scheduling
from controlplane.queries.tenancy import teams
from controlplane.queries.tenancy.shares import Share, of_teams
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Quota, owned_together

TRIED_ROUNDS = 200  # stored rounds that a simulation from the quota's page replays


@dataclass(frozen=True, slots=True)
class Affected:
    """A team whose entitlement in the pool the quota would change, milli-GPU."""

    team: str
    colour: int
    before: int
    after: int
    held: int

    @property
    def reclaimable(self) -> int:
        """What it would hold beyond its entitlement, and more than it does now: others may take it back."""
        return max(0, self.held - self.after) - max(0, self.held - self.before)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a quota would mean. warnings are sentences; over is the milli-GPU promised beyond the pool."""

    capacity: int
    nominal: int
    warnings: tuple[str, ...]
    affected: tuple[Affected, ...]

    @property
    def over(self) -> int:
        """Nominal quotas beyond the pool; 0 when they fit."""
        return max(0, self.nominal - self.capacity)


def dry_run(*, team: str, pool: str, values: Mapping[str, int | None]) -> DryRun:
    """Try nominal, borrowing_limit, lending_limit (milli-GPU) and weight of a team in a pool; nothing is written."""
    now = decider.world()
    asked = Quota(
        team, pool, values["nominal"] or 0, values["borrowing_limit"], values["lending_limit"], values["weight"] or 1
    )
    rest = tuple(q for q in now.quotas if (q.team, q.pool) != (team, pool))
    before = _of_pool(now, pool)
    after = _of_pool(replace(now, quotas=(*rest, asked)), pool)
    colours = teams.colours()
    affected = []
    for name in sorted(before.keys() | after.keys()):
        was, will = before.get(name), after.get(name)
        entitled = (was.entitled if was else 0, will.entitled if will else 0)
        if entitled[0] != entitled[1]:
            held = will.held if will else was.held if was else 0
            affected.append(Affected(name, colours.get(name, 0), *entitled, held))
    capacity = _capacity(pool)
    parents = {one.name: one.parent for one in now.teams}
    nominal = owned_together(parents, {q.team: q.nominal for q in (*rest, asked) if q.pool == pool})
    held = next((one.held for name, one in after.items() if name == team), 0)
    return DryRun(capacity, nominal, _warnings(pool, asked, capacity, nominal, held), tuple(affected))


def request(*, team: str, pool: str, values: Mapping[str, int | None]) -> dict[str, Any]:
    """The same as a what-if of the lab: the newest rounds replayed with this quota."""
    quota = {
        "team": team,
        "pool": pool,
        "nominal_milli": values["nominal"],
        "borrowing_limit_milli": values["borrowing_limit"],
        "lending_limit_milli": values["lending_limit"],
        "weight": values["weight"],
    }
    return {"source": "history", "cycles": TRIED_ROUNDS, "quotas": [quota], "comment": f"{team} in {pool}"}


def _of_pool(world: Snapshot, pool: str) -> dict[str, Share]:
    return {one.team: one for one in of_teams(world, scheduling()) if one.pool == pool}


def _capacity(pool: str) -> int:
    return next((row.capacity for row in teams.pools() if row.name == pool), 0)


def _warnings(pool: str, asked: Quota, capacity: int, nominal: int, held: int) -> tuple[str, ...]:
    told = []
    if nominal > capacity:
        over = (nominal - capacity) / WHOLE
        told.append(
            f"Nominal quotas exceed the pool by {over:g} GPUs: they would add up to {nominal / WHOLE:g} of {pool}, "
            f"which has {capacity / WHOLE:g}. Not all of them can be used at once."
        )
    if held > asked.nominal:
        text = f"{asked.team} has {held / WHOLE:g} GPUs allocated, and its quota would be {asked.nominal / WHOLE:g}: "
        told.append(f"{text}the {(held - asked.nominal) / WHOLE:g} above it are borrowed, and may be reclaimed.")
    limit = asked.borrowing
    if limit is not None and held > asked.nominal + limit:
        beyond = (held - asked.nominal - limit) / WHOLE
        told.append(
            f"It has {beyond:g} GPUs more allocated than it may borrow: they stay until their work ends, "
            "and nothing new of the team starts until then."
        )
    return tuple(told)
