"""What elastic gangs may grow into: where no workload that waits could use the room.

Those that run with fewer workers than their count come first, in order of submission; then all, up to the most that
they can use: those first whose team holds least of what it is entitled to. What a gang holds beyond its count is
lent: any claimant that can use the room gets it back (actions/take_surplus.py). So that gangs do not grow and shrink
in turns, one that started or changed rests, longer before it grows beyond its count; and none grows that is expected
to end before the resize has paid: all its workers stand still while those that come join them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scheduler.backfill.reservation import clock_text, length_text
from scheduler.cycle.ordering import claim_of
from scheduler.fit.capacity import Refusal, allowed_nodes, per_node
from scheduler.fit.claim import fits, quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.fit.shaped import all_but
from scheduler.model.decision import Reason
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Bools, Flavor
from scheduler.model.workload import Assignment, Level, ResourceRequest, Workload, least, most, staying
from scheduler.predict.run_times import expected_end
from scheduler.state.free import Free
from scheduler.state.session import Session
from scheduler.state.tenants import has_share

Key = tuple[object, ...]
Places = tuple[Assignment, ...]
Refused = Sequence[tuple[Workload, Refusal]]

# What is told one of these cannot start whatever room there is.
GATED = frozenset(
    {
        Reason.MISCONFIGURED,
        Reason.ADMISSION_GATED,
        Reason.BACKOFF_AFTER_FAILURE,
        Reason.BUDGET_EXHAUSTED,
        Reason.NO_MATCHING_FLAVOR,
        Reason.GPU_MEMORY_DOES_NOT_FIT,
        Reason.WAITING_FOR_NODES,
        Reason.EXCEEDS_MAX_QUOTA,
    }
)


class Spot(NamedTuple):
    """Where more workers of a gang may go: its flavor, and the nodes that are close enough, with their number."""

    flavor: Flavor | None
    near: Bools
    domain: int


class Growth:
    """What the gangs of a round may grow into, on its plan after the last turn; `refused` are those that wait on."""

    def __init__(self, session: Session, refused: Refused) -> None:
        self._session, self._plan, self._settings = session, session.plan, session.settings
        self._refused = refused
        # What is known to have no room, until the end: room only gets less. And what was looked at.
        self._full: set[Key] = set()
        self._seen: set[Key] = set()
        self._open: dict[Key, Bools] = {}
        # Claimants that could start, each with a flavor for which its team has the quota.
        self._able: list[tuple[Workload, Flavor]] = []

    def in_order(self) -> list[Workload]:
        """The gangs that could use more workers, first one first."""
        plan = self._plan
        found = [gang for uid, gang in plan.ledger.growable.items() if plan.workload(uid) is gang]
        if not found:
            return []
        shares = self._session.entitlement.deserved()
        claims = {team: claim_of(plan, shares, team) for team in {gang.team for gang in found}}
        below = sorted((gang for gang in found if gang.missing), key=lambda w: w.seq)
        others = (gang for gang in found if not gang.missing)
        return [*below, *sorted(others, key=lambda w: (claims[w.team], -w.priority, w.seq))]

    def may_have_room(self, gang: Workload) -> bool:
        """Whether any room of its kind is free at all: a quick no to most gangs of a full cluster."""
        spot = self.spot(gang)
        if spot is None:
            return False
        key = _key(gang, spot)
        if key not in self._seen:
            self._seen.add(key)
            if (
                find_places(self._plan.inventory, gang, Goal(1, 1), self._free_for(gang), spot.flavor, spot.near)
                is None
            ):
                self._full.add(key)
        return key not in self._full

    def places(self, gang: Workload) -> Places | str:
        """Places for more workers: what it lacks of its count, or else of the most it can use; or why it gets none."""
        if resting := self.resting(gang):
            return resting
        spot = self.spot(gang)
        if spot is None:
            return "Where its workers are close enough to each other cannot be told, so it stays as it is."
        wants = gang if gang.missing else replace(gang, gang=replace(gang.gang, count=most(gang)))
        room = self._quota(wants, spot.flavor)
        if room < 1:
            return f"Team {gang.team} may not use more GPUs of its kind now."
        return self._find(wants, spot, room)

    def has_room_off(self, gang: Workload, few: int) -> bool:
        """Whether it could grow by so many workers off the nodes that it asks to leave, once it gave these up."""
        spot = self.spot(gang)
        if spot is None or self.resting(replace(gang, gang=replace(gang.gang, count=len(staying(gang)) + few))):
            return False
        within = spot.near & ~self.usable_by_others & all_but(self._plan.inventory, gang.off)
        free = self._free_for(gang)
        return find_places(self._plan.inventory, gang, Goal(few, few), free, spot.flavor, within) is not None

    def beside(self, gang: Workload, spot: Spot, few: int) -> Places:
        """At most so many places for a gang that waits, if the rest of it is elsewhere: where a gang could grow."""
        wants = replace(gang, gang=replace(gang.gang, count=few))
        room = self._quota(wants, spot.flavor) if few else 0
        places = self._find(wants, spot, room) if room else ()
        return () if isinstance(places, str) else places

    def resting(self, gang: Workload) -> str:
        """Why it is left alone now, whatever is free; or nothing."""
        at, settings = self._plan.snapshot.at, self._settings
        if gang.team in self._session.over_budget:
            return f"The budget of team {gang.team} is used up."
        rest = settings.settle_seconds if gang.missing else max(settings.settle_seconds, settings.surplus_after_seconds)
        until = max(gang.started_at or 0.0, gang.scaled_at or 0.0) + rest
        if until > at:
            return f"It started or changed lately, so it does not grow before {clock_text(until)} cluster time."
        ends = expected_end(gang, at, self._session.snapshot.history, settings).median - at
        pays = settings.rejoin_seconds * len(staying(gang))
        if ends < pays:
            what = f"It is expected to end in {length_text(ends)}"
            return f"{what}; to have more workers join it pays only if it runs for {length_text(pays)}."
        return ""

    def spot(self, gang: Workload) -> Spot | None:
        """Where its further workers may go; None: that cannot be told."""
        plan, level = self._plan, gang.topology.require
        at = plan.inventory.index.get(_first_worker(gang).node)
        if at is None or level == Level.NVLINK:
            return None
        flavor = next((f for f in plan.inventory.flavors if f.nodes[at]), None) if gang.ask.milli else None
        if flavor is None and gang.ask.milli:
            return None
        domains = domain_of_node(plan.inventory, Level.CLUSTER if level is None else level)
        return Spot(flavor, domains == domains[at], int(domains[at]))

    def _quota(self, wants: Workload, flavor: Flavor | None) -> int:
        """How many more workers its team's quota allows, also once those with a planned start have started."""
        room = min(wants.missing, quota_room(self._session, wants, flavor, IDLE))
        if flavor is None or room < 1:
            return room
        kept = self._session.constraints.quota_beside_all(wants.team, flavor.pool)
        return min(room, wants.workers_within(kept))

    def _find(self, wants: Workload, spot: Spot, room: int) -> Places | str:
        key = _key(wants, spot)
        if key not in self._full:
            within = spot.near & ~self.usable_by_others & all_but(self._plan.inventory, wants.off)
            goal, free = Goal(1, room), self._free_for(wants)
            if places := find_places(self._plan.inventory, wants, goal, free, spot.flavor, within):
                kept = self._beside_claimants(wants, places)
                return kept or "The quota for more workers is kept for workloads that wait."
            self._full.add(key)
        what = "that no workload could use which waits" if self._refused else "close enough to its other workers"
        return f"No room of its kind is free {what}."

    def _beside_claimants(self, gang: Workload, places: Places) -> Places:
        """As many of the places as leave each claimant that could start the quota for it, wherever its nodes are."""
        session, plan = self._session, self._plan
        while places and gang.ask.milli and self._able:
            mark = plan.mark()
            plan.place(gang, places)
            is_left = all(quota_room(session, one, flavor, FUTURE_IDLE) >= least(one) for one, flavor in self._able)
            plan.rollback(mark)
            if is_left:
                break
            places = places[:-1]
        return places

    def _free_for(self, gang: Workload) -> Free:
        """What is free beside all planned starts, as far as it is open to the gang."""
        return self._plan.open_to(gang, self._session.constraints.room_beside_all(IDLE), IDLE)

    @cached_property
    def usable_by_others(self) -> Bools:
        """Nodes with room for a worker of a claimant that waits and could start, now or once others left. Shape [N].

        It may wait for its turn, or for nothing but a planned start of another one, which it would delay. What does
        not fit, be it for quota, model, shape or nearness, keeps no gang from growing.
        """
        session, plan = self._session, self._plan
        found = np.zeros(len(plan.inventory.nodes), dtype=np.bool_)
        seen: set[tuple[object, ...]] = set()
        for workload, refusal in self._refused:
            limited = workload.id in session.preemption_limited
            alike = workload.team, workload.ask, workload.gang, workload.topology, workload.roles, workload.preemptible
            key = (*alike, limited, workload.missing)
            if refusal.reason not in GATED and key not in seen:
                seen.add(key)
                found |= self._usable_by(workload)
        return found

    def _usable_by(self, workload: Workload) -> Bools:
        """Nodes where members of it have room once all that leaves has left, none if it could not start then.

        What is free now is a part of that: who takes it may leave too little for a member beside what still leaves.
        """
        session, plan, few = self._session, self._plan, least(workload)
        later, asks = plan.free[FUTURE_IDLE], {workload.ask, *(role.ask for role in workload.roles)}
        found = np.zeros(len(plan.inventory.nodes), dtype=np.bool_)
        known = session.flavors.of(workload)
        if not any(self._open_to(ask, flavor).any() for ask in asks for flavor in known):
            return found
        options = [f for f in known if quota_room(session, workload, f, FUTURE_IDLE) >= few]
        masks = (allowed_nodes(plan.inventory, workload.ask, flavor) for flavor in options)
        if all(int(per_node(plan.inventory, workload.ask, later, mask).sum()) < few for mask in masks):
            return found
        if not any(fits(session, workload, when) for when in (IDLE, FUTURE_IDLE)):
            return found
        self._able += [(workload, flavor) for flavor in options if flavor is not None]
        for ask in asks:
            for flavor in options:
                found |= self._open_to(ask, flavor)
        return found

    def _open_to(self, ask: ResourceRequest, flavor: Flavor | None) -> Bools:
        """Nodes where one member of this size has room then, of the flavor if it needs GPUs. Shape [N]."""
        flavor = flavor if ask.milli else None
        key = ask, flavor and (flavor.pool, flavor.model)
        if key not in self._open:
            inventory = self._plan.inventory
            mask = allowed_nodes(inventory, ask, flavor)
            self._open[key] = per_node(inventory, ask, self._plan.free[FUTURE_IDLE], mask) > 0
        return self._open[key]


def _key(gang: Workload, spot: Spot) -> Key:
    """Equal for gangs whose further workers fit on the same places."""
    whose = gang.team if has_share(gang) else ""  # beside whose shares it may lie
    kind = spot.flavor and (spot.flavor.pool, spot.flavor.model)
    return gang.ask, whose, kind, gang.topology.require, spot.domain, gang.off


def _first_worker(gang: Workload) -> Assignment:
    return next((a for a in gang.placement if a.rank >= gang.role_members), gang.placement[0])
