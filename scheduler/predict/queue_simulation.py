"""The queue simulated by expected ends, in several scenarios.

A scenario draws a running time for each workload from its distribution, given how long it runs already; the draws are
a fixed low-discrepancy sequence, so equal input gives equal output. The queue is started as capacity comes free, by
GPUs on nodes, by the teams' limits and in the order of rounds: the team that holds least of what it deserves now goes
first, and within it the one that is first now. What elastic gangs hold beyond their count is free for what waits, as
in a round. Cores, memory, racks and work that is not submitted yet are left out.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.cycle.ordering import Claim
from scheduler.model.history import History
from scheduler.model.settings import Settings
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, Ints
from scheduler.model.workload import Assignment, Kind, Level, Workload, least, lent
from scheduler.predict.run_times import RunTime, age, planned_total, run_time
from scheduler.quota.headroom import Headroom, Held
from scheduler.state.plan import Plan
from scheduler.state.session import Session

SCENARIOS = 30
MIN_SCENARIOS = 5  # for a queue of thousands
MAX_EVENTS = 8_000  # ends in all scenarios together: the answer is given within a second or two
_STEP = (0.7548776662466927, 0.5698402909980532)  # R2 sequence (Roberts 2018): the next scenario, the next workload


Nodes = list[tuple[int, int]]  # numbers of nodes, milli-GPU there
# Flavors, milli of a worker, workers, whether on one node, team, and how long it is planned to run (class_of).
Key = tuple[tuple[int, ...], int, int, bool, str, int]
Lines = dict[str, dict[Key, deque[int]]]  # places in the queue by team and what is asked
Kept = dict[int, tuple[frozenset[int], float]]  # by place in the queue: the nodes of its reservation, and from when on
Turn = tuple[bool, Claim, int, str]  # whether its next would borrow, how much it holds, that one's place, the team


@dataclass(frozen=True, slots=True)
class _Claim:
    """One in the queue, as the play sees it."""

    workload: Workload
    key: Key
    run: RunTime
    ran: float
    planned: float  # s it still runs, as rounds plan with it


End = tuple[float, int, _Claim, Nodes]  # when, its number, what ends and where


class Play:
    """The queue on nodes that only know free milli-GPUs."""

    def __init__(self, session: Session, queue: list[Workload], history: History) -> None:
        plan, settings = session.plan, session.settings
        self.session, self.plan, self.at, self.settings = session, plan, plan.snapshot.at, settings
        inventory = plan.inventory
        self.node_flavor = np.full(len(inventory.nodes), -1, dtype=np.int64)
        for number, flavor in enumerate(inventory.flavors):
            self.node_flavor[flavor.nodes & inventory.usable] = number
        devices = np.maximum(inventory.gpu_capacity[COMPUTE] - plan.columns.gpu[FUTURE_IDLE, COMPUTE], 0)
        self.free: Ints = np.bincount(inventory.node_of, devices, len(inventory.nodes)).astype(np.int64)
        self.headroom = Headroom(session)
        self.queue = [self._claim(w, history, settings) for w in queue]
        holders = [w for w in sorted(_holders(plan), key=lambda w: (w.seq, w.id)) if w.kind is not Kind.INFERENCE]
        self.running = [(self._claim(w, history, settings), self._held(w)) for w in holders]
        for gang in holders:
            self._take_lent(gang)

    def waits(self, until: str | None) -> list[list[float]]:
        """Seconds until each of the queue starts, one for each scenario; inf where it does not in that scenario.

        until: a scenario ends with this one's start.
        """
        last = next((n for n, claim in enumerate(self.queue) if claim.workload.id == until), None)
        out: list[list[float]] = [[] for _ in self.queue]
        budget = MAX_EVENTS
        for scenario in range(SCENARIOS):
            waits, events = self._scenario(scenario, last)
            for known, wait in zip(out, waits, strict=True):
                known.append(wait)
            budget -= events
            if budget < 0 and scenario + 1 >= MIN_SCENARIOS:
                break
        return out

    def _scenario(self, scenario: int, last: int | None) -> tuple[list[float], int]:
        """(seconds until each of the queue starts, ends looked at) if everything lasts as drawn."""
        free, held = self.free.copy(), dict(self.headroom.held)
        ends: list[End] = [
            (self._end(claim, scenario, number, self.at - claim.ran), number, claim, nodes)
            for number, (claim, nodes) in enumerate(self.running)
        ]
        heapq.heapify(ends)
        waits = [math.inf] * len(self.queue)
        lines: Lines = {}
        for place, claim in enumerate(self.queue):
            lines.setdefault(claim.workload.team, {}).setdefault(claim.key, deque()).append(place)
        number, now, events = len(ends), self.at, 0
        kept: Kept = {}
        while lines:
            for place, nodes in self._started(lines, free, held, kept, ends, now):
                waits[place] = now - self.at
                claim, number = self.queue[place], number + 1
                heapq.heappush(ends, (self._end(claim, scenario, number, now - claim.ran), number, claim, nodes))
            if not ends or math.isinf(ends[0][0]) or (last is not None and not math.isinf(waits[last])):
                break
            now = max(now, ends[0][0])
            while ends and ends[0][0] <= now:
                _, _, claim, nodes = heapq.heappop(ends)
                self._give_back(claim, nodes, free, held)
                events += 1
        return waits, events

    def _started(
        self, lines: Lines, free: Ints, held: Held, kept: Kept, ends: list[End], now: float
    ) -> Iterator[tuple[int, Nodes]]:
        """Start what fits now, one team after the other as rounds go through them.

        A workload with the same request as one that does not fit is not tried. For one with a reservation,
        the nodes that it will get first are kept from others that would not end before.
        """
        tried = self._may_fit(lines, free, kept, now)
        turns = [self._turn(team, lines, held) for team in lines] if tried else []
        heapq.heapify(turns)
        while turns and tried:
            *_, team = heapq.heappop(turns)
            for place, key in sorted((queue[0], key) for key, queue in lines[team].items()):
                withheld = self._keeping(kept, place, now) if key in tried else []
                if key in tried and (nodes := self._start(key, free, withheld, held)) is not None:
                    kept.pop(place, None)
                    tried &= self._may_fit(lines, free, kept, now)
                    _take(lines, team, key)
                    if team in lines:
                        heapq.heappush(turns, self._turn(team, lines, held))
                    yield place, nodes
                    break
                tried.discard(key)
                if self._may_reserve(place, kept, now):
                    kept[place] = self._first_free(key, free, ends)
                    tried &= self._may_fit(lines, free, kept, now)

    def _may_reserve(self, place: int, kept: Kept, now: float) -> bool:
        """Whether it is this one's turn to have a reservation: it waited too long, and its pools have room for one."""
        claim, settings = self.queue[place], self.settings
        if place in kept or now - claim.workload.queued_at <= settings.reservation_after_max_seconds:
            return False
        pools = {self._pool(option) for option in claim.key[0]}
        made = sum(not pools.isdisjoint(self._pool(option) for option in self.queue[p].key[0]) for p in kept)
        return made < settings.reservations_per_pool

    def _may_fit(self, lines: Lines, free: Ints, kept: Kept, now: float) -> set[Key]:
        """The workloads worth trying: those for which enough is free in total."""
        rooms: dict[tuple[int, ...], tuple[int, int]] = {}
        out = set()
        for line in lines.values():
            for key, queue in line.items():
                withheld = tuple(self._keeping(kept, queue[0], now))
                if withheld not in rooms:
                    room = free.copy()
                    room[list(withheld)] = 0
                    rooms[withheld] = int(room.sum()), int(room.max(initial=0))
                most, largest = rooms[withheld]
                if key[1] * key[2] <= most and key[1] * (key[2] if key[3] else 1) <= largest:
                    out.add(key)
        return out

    def _keeping(self, kept: Kept, place: int, now: float) -> list[int]:
        """The nodes that are kept from this one: those of others that begin before it ends."""
        if not kept:
            return []
        ends = now + self.queue[place].planned
        return [node for other, (nodes, at) in kept.items() if other != place and ends > at for node in nodes]

    def _first_free(self, key: Key, free: Ints, ends: list[End]) -> tuple[frozenset[int], float]:
        """The nodes on which such workers fit first as what runs ends, and when; none if they never do."""
        options, milli, workers, is_together, *_ = key
        leaving: dict[int, list[tuple[float, int]]] = {}
        for at, _, _, nodes in ends:
            for node, amount in nodes:
                leaving.setdefault(node, []).append((at, amount))
        places: list[tuple[float, int]] = []  # when a further worker fits, and where
        for node in np.flatnonzero(np.isin(self.node_flavor, options)).tolist() if milli else ():
            fits = _fitting(int(free[node]), milli, sorted(leaving.get(node, ())))
            places += [(at, node) for at in fits[workers - 1 : workers]] if is_together else [(at, node) for at in fits]
        places.sort()
        needed = 1 if is_together else workers
        if not milli or len(places) < needed:
            return frozenset(), math.inf
        return frozenset(node for _, node in places[:needed]), places[needed - 1][0]

    def _turn(self, team: str, lines: Lines, held: Held) -> Turn:
        """When a team's turn is: by the rule of our policy, and then by the order of the next round."""
        place = min(queue[0] for queue in lines[team].values())
        _, milli, workers, *_ = self.queue[place].key
        if self.settings.policy != "weft":
            return False, (), place, team
        return (*self.headroom.claim(team, milli * workers, held), place, team)

    def _end(self, claim: _Claim, scenario: int, number: int, began: float) -> float:
        level = (0.5 + _STEP[0] * scenario + _STEP[1] * number) % 1.0
        return began + claim.run.given(claim.ran, level)

    def _start(self, key: Key, free: Ints, kept: list[int], held: Held) -> Nodes | None:
        """Take a place on one of the options, without the nodes withheld, by node and milli-GPU, or None."""
        options, milli, workers, is_together, team, _ = key
        if not milli:
            return []  # cores are not played
        for option in options:
            if not self.headroom.allow(team, self._pool(option), milli * workers, held):
                continue
            can = (self.node_flavor == option) & (free >= milli)
            can[kept] = False
            there = np.flatnonzero(can)
            room = free[there] // milli
            if int(room.sum()) < workers or (is_together and int(room.max(initial=0)) < workers):
                continue
            nodes = _fill(there, room, workers, is_together, milli)
            for node, amount in nodes:
                free[node] -= amount
            self.headroom.charge(team, self._pool(option), milli * workers, held)
            return nodes
        return None

    def _give_back(self, claim: _Claim, nodes: Nodes, free: Ints, held: Held) -> None:
        for node, amount in nodes:
            free[node] += amount
        if nodes:
            total = sum(amount for _, amount in nodes)
            self.headroom.charge(claim.workload.team, self._pool(int(self.node_flavor[nodes[0][0]])), -total, held)

    def _pool(self, option: int) -> str:
        return self.plan.inventory.flavors[option].pool if option >= 0 else ""

    def _claim(self, w: Workload, history: History, settings: Settings) -> _Claim:
        known = self.plan.inventory.flavors
        options = tuple(known.index(f) for f in self.session.flavors.of(w) if f is not None)
        # Whole GPUs of a worker have to be on one node; a gang's workers only if it says so.
        is_together = w.topology.require is not None and w.topology.require <= Level.NODE
        run, ran = run_time(w, history, settings), age(w, self.at)
        planned = planned_total(run, ran) - ran
        key = options, *_size(w), is_together, w.team, _class_of(planned)
        return _Claim(w, key, run, ran, planned)

    def _held(self, w: Workload) -> Nodes:
        """What it holds until it ends: without what it only has until another needs it."""
        ranks = lent(w)
        return self._on_nodes(w, [a for a in w.placement if a.rank not in ranks])

    def _take_lent(self, gang: Workload) -> None:
        """Count as free, and as nobody's, what a gang holds beyond its count: any that waits gets it."""
        ranks = lent(gang)
        for node, milli in self._on_nodes(gang, [a for a in gang.placement if a.rank in ranks]):
            self.free[node] += milli
            pool = self._pool(int(self.node_flavor[node]))
            self.headroom.charge(gang.team, pool, -milli, self.headroom.held)

    def _on_nodes(self, w: Workload, workers: Iterable[Assignment]) -> Nodes:
        index = self.plan.inventory.index
        return [(index[a.node], w.milli_of(a)) for a in workers if a.node in index and not a.leaving]


def _size(w: Workload) -> tuple[int, int]:
    """Milli-GPU of a worker, and how many; a gang with roles counts as so many of its largest members."""
    if not w.roles:
        return w.ask.milli, least(w)
    milli = max(w.ask.milli, *(role.ask.milli for role in w.roles))
    return milli, -(-w.need_milli(least(w)) // milli) if milli else least(w)


def _class_of(seconds: float) -> int:
    """How long something is planned to run, by powers of four minutes: the first of each class is tried."""
    return -1 if math.isinf(seconds) else (int(seconds) // 60).bit_length() // 2


def _fitting(free: int, milli: int, leaving: list[tuple[float, int]]) -> list[float]:
    """When a node takes one such worker, a second one, ...; 0 for those that fit now. leaving: when and how much."""
    out = [0.0] * (free // milli)
    for at, amount in leaving:
        free += amount
        out += [at] * (free // milli - len(out))
    return out


def _fill(there: Ints, room: Ints, workers: int, is_together: bool, milli: int) -> Nodes:
    """Nodes and milli-GPU: one worker or a gang on one node where it fits tightest, others on the roomiest nodes."""
    if workers == 1 or is_together:
        fits = np.flatnonzero(room >= workers)
        return [(int(there[fits[np.argmin(room[fits])]]), milli * workers)]
    out = []
    for at in np.argsort(-room, kind="stable").tolist():
        take = min(workers, int(room[at]))
        out.append((int(there[at]), take * milli))
        workers -= take
        if not workers:
            break
    return out


def _holders(plan: Plan) -> list[Workload]:
    """The workloads that hold GPUs or will: as the snapshot has it, and as the next round changes it."""
    now = {w.id: w for w in plan.holding} | {uid: plan.workload(uid) for uid in plan.changed()}
    return [w for w in now.values() if any(not a.leaving for a in w.placement)]


def _take(lines: Lines, team: str, key: Key) -> None:
    """The first of this line has left it."""
    lines[team][key].popleft()
    if not lines[team][key]:
        del lines[team][key]
    if not lines[team]:
        del lines[team]
