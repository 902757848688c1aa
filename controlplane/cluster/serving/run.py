"""One service, request by request: a queue first come first served at one gateway, and replicas that take from it.

A request goes to the slot that has been idle longest, or, when all are in use, to the one that is idle first. A client
that waits longer than its patience leaves. A replica that is taken away ends what it has begun; one that is lost fails
it. Where no replica is there, requests are refused, unless the gateway holds them (as an activator does). Requests
that are split by weight between two revisions (split.py) wait in two queues, each for the replicas of its revision.

Nothing depends on how often or by how much time is moved on: `to(a); to(b)` is `to(b)`. `State` is all that is needed
to go on from a moment; the requests that wait are known by the number of the first of them.
"""

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoscaler.latency import Within
from controlplane.cluster.serving.outcomes import GAVE_UP, KEEP_SECONDS, Outcomes, Recent, Window, percentile
from controlplane.cluster.serving.split import Split, count_in, leading, lots
from controlplane.cluster.serving.state import Flights, Replica, State
from controlplane.cluster.serving.traffic import BLOCK_SECONDS, Block, Floats, Ints, Traffic
from scheduler.placement.compiled import HAS_NUMBA

__all__ = ["Flights", "Replica", "Run", "Setup", "State"]

PATIENCE = 30.0  # seconds until a client gives up
REFUSED, LOST = -2, -3  # instead of a replica, beside GAVE_UP
POOL = "*"  # all replicas together, where groups of requests are counted


@dataclass(frozen=True, slots=True)
class Setup:
    """What holds for a service for good.

    batch: requests that one slot takes together, at most; growth: part by which each of them but the first makes the
    step longer. patience: seconds, None is for ever. objective: within what a request is on time. holds: whether
    requests wait where no replica is there. room: how many may wait there, more are refused; None: any number.
    """

    batch: int = 1
    growth: float = 0.0
    patience: float | None = PATIENCE
    objective: Within | None = None
    holds: bool = False
    room: int | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch: {self.batch} requests at once. Use 1 or more.")
        if self.growth < 0:
            raise ValueError(f"growth: {self.growth} would make large batches faster. Use 0 or more.")

    @property
    def has_first(self) -> bool:
        """Whether it is asked when the first token of a request is there."""
        return self.objective is not None and self.objective.is_first_token


class Run:
    """A service that goes on from a state."""

    def __init__(self, traffic: Traffic, setup: Setup, state: State) -> None:
        self.traffic, self.setup, self.state = traffic, setup, state.copy()
        self._recent = Recent()
        self._blocks: dict[int, Block] = {}
        self._slots: deque[tuple[float, int]] = deque([(state.at, len(state.free))])  # from when on how many
        self._busy: deque[tuple[Floats, Floats]] = deque()  # began, ended of what was served lately
        if len(self.state.flights.ends):
            self._busy.append((self.state.flights.began, self.state.flights.ends))

    # --- time --------------------------------------------------------------------------------

    def to(self, until: float) -> None:
        """Let happen all that comes before `until`."""
        state = self.state
        while state.at < until:
            edge = (math.floor(state.at / BLOCK_SECONDS) + 1) * BLOCK_SECONDS
            self._step(min(edge, until))

    def change(
        self, at: float, replicas: Sequence[Replica], lost: Collection[str] = (), split: Split | None = None
    ) -> None:
        """From `at` on these replicas serve. Those of `lost` fail what they have begun; the others end it."""
        self.to(at)
        state = self.state
        replicas = tuple(replicas)
        if self.traffic.group > 1:
            newer = [r for r in replicas if split is not None and r.revision == split.revision]
            others = [r for r in replicas if split is None or r.revision != split.revision]
            replicas, lost = (*self._pooled(others, POOL), *self._pooled(newer, f"{POOL}{POOL}")), ()
        known = {replica.name: number for number, replica in enumerate(state.replicas)}
        number_of = {known[r.name]: number for number, r in enumerate(replicas) if r.name in known}
        failed = np.isin(state.flights.by, [known[name] for name in lost if name in known])
        self._emit(state.flights.pick(failed), ended=at, by=LOST)
        kept = state.flights.pick(~failed)
        kept.by = np.array([number_of.get(int(by), -1) for by in kept.by], dtype=np.int64)
        state.flights = kept
        slots: list[tuple[float, int]] = []
        for number, replica in enumerate(replicas):
            before = known.get(replica.name, -1)
            free = sorted(state.free[state.owner == before].tolist()) if before >= 0 else []
            free += [at] * (replica.slots - len(free))
            slots += [(when, number) for when in free[: replica.slots]]
        slots.sort()
        if split is not None and (state.split is None or state.split.revision != split.revision):
            state.tallies = {}
        state.replicas, state.split = replicas, split
        state.free = np.array([when for when, _ in slots], float)
        state.owner = np.array([number for _, number in slots], dtype=np.int64)
        if self._slots[-1][0] == at:
            self._slots.pop()
        self._slots.append((at, len(slots)))

    def skip(self, to: float) -> None:
        """Nothing comes until then; what waits is forgotten. For times in which the service has no replica."""
        state = self.state
        state.at, state.block = to, self._number(to)
        state.index = int(np.searchsorted(self._block(state.block).at, to))
        state.ahead = np.empty(0, dtype=np.int64)
        self._forget()

    # --- what is seen ------------------------------------------------------------------------

    def window(self, seconds: float) -> Window:
        """The last seconds, at most KEEP_SECONDS; what was before this run began is not known."""
        now, since = self.state.at, self.state.at - seconds
        ended = self._recent.between(since, now)
        good = ended.is_answered
        requests = int(ended.count.sum())
        promise = self.setup.objective
        in_time = good if promise is None else good & (ended.promised <= promise.seconds)
        return Window(
            requests=requests,
            over=requests - int(ended.count[in_time].sum()),
            failed=requests - int(ended.count[good].sum()),
            p95_seconds=percentile(ended.promised[good], ended.count[good], 0.95),
            arrived=self.arrived(since, now),
            queue=self.waiting,
            duty=self._duty(since, now),
        )

    @property
    def waiting(self) -> int:
        """Requests that have come and have not been begun."""
        state = self.state
        total = 0
        for number in range(state.block, self._number(state.at) + 1):
            block = self._block(number)
            last = int(np.searchsorted(block.at, state.at))
            total += int(block.count[state.index if number == state.block else 0 : last].sum())
        if len(state.ahead):
            total -= int(self._waiting_and_coming(state.at).count[state.ahead].sum())
        return total

    def arrived(self, since: float, until: float) -> int:
        """Requests that came in this time, at most KEEP_SECONDS ago."""
        total = 0
        for number in range(self._number(since), self._number(until) + 1):
            block = self._block(number)
            first, last = np.searchsorted(block.at, [since, until])
            total += int(block.count[first:last].sum())
        return total

    def next_arrival(self, within: float) -> float | None:
        """When the next request comes from now on; None: not within so many seconds."""
        until = self.state.at + within
        for number in range(self._number(self.state.at), self._number(until) + 1):
            at = self._block(number).at
            first = int(np.searchsorted(at, self.state.at))
            if first < len(at):
                return float(at[first]) if at[first] <= until else None
        return None

    @property
    def outcomes(self) -> Outcomes:
        """What ended lately, one by one."""
        return self._recent.between(self.state.at - KEEP_SECONDS, self.state.at)

    # --- inside ------------------------------------------------------------------------------

    def _step(self, until: float) -> None:
        """To a time in the same block."""
        state = self.state
        coming = self._waiting_and_coming(until)
        serves = len(state.free) > 0
        if state.split is None and not len(state.ahead):
            begun = self._serve(coming, until) if serves else self._hold(coming.at, coming.count, until)
        else:
            begun = self._serve_both(coming, until)
        self._pass(begun, until)
        done = state.flights.ends < until
        self._emit(state.flights.pick(done))
        state.flights = state.flights.pick(~done)
        state.at = until
        if not serves and self.setup.holds and self.setup.room is not None:
            self._refuse_beyond(self.setup.room)
        self._forget()

    def _serve_both(self, coming: Block, until: float) -> int:
        """Serve the requests of each revision by its own replicas; how many from the first on have begun."""
        state, done = self.state, np.zeros(len(coming.at), dtype=bool)
        done[state.ahead] = True
        of = np.array([replica.revision for replica in state.replicas], dtype=np.int64)[state.owner]
        queues: list[tuple[Any, Any]] = [(~done, np.ones(len(of), dtype=bool))]
        if state.split is not None and state.split.is_in_force(of):
            drawn, is_new = state.split.rows(self._lots(len(coming.at))), of == state.split.revision
            queues = [(~done & ~drawn, ~is_new), (~done & drawn, is_new)]
        free, owner = state.free, state.owner
        for rows, slots in queues:
            mine, order = np.flatnonzero(rows), np.argsort(free[slots], kind="stable")
            state.free, state.owner = free[slots][order], owner[slots][order]  # in order: a heap
            rest = _pick(coming, mine)
            begun = self._serve(rest, until) if len(state.free) else self._hold(rest.at, rest.count, until)
            done[mine[:begun]] = True
            free[slots], owner[slots] = state.free, state.owner
        order = np.argsort(free, kind="stable")
        state.free, state.owner = free[order], owner[order]
        first = leading(done)
        state.ahead = np.flatnonzero(done[first:])
        return first

    def _lots(self, count: int) -> Floats:
        """The draws of so many requests from the first that waits on."""
        state, found, number = self.state, np.empty(0), self.state.block
        while len(found) < state.index + count:
            found = np.concatenate([found, lots(number, len(self._block(number).at))])
            number += 1
        return found[state.index : state.index + count]

    def _serve(self, coming: Block, until: float) -> int:
        state, setup, at, size, hold = self.state, self.setup, coming.at, coming.size, coming.hold
        seconds = np.array([replica.seconds for replica in state.replicas])
        patience = math.inf if setup.patience is None else setup.patience
        began, ended, by = np.empty(len(at)), np.empty(len(at)), np.empty(len(at), dtype=np.int64)
        if HAS_NUMBA:
            from controlplane.cluster.serving.loops import serve

            begun = serve(
                at, size, hold, 0, until, state.free, state.owner, seconds, setup.batch, setup.growth, patience, began,
                ended, by,
            )  # fmt: skip
        else:
            begun = self._interpreted(at, size, hold, until, seconds, patience, began, ended, by)
        gave_up = by[:begun] == GAVE_UP
        first = coming.first[:begun] if setup.has_first else np.ones(begun)
        taken = Flights(at[:begun], began[:begun], ended[:begun], by[:begun], coming.count[:begun], first)
        self._emit(taken.pick(gave_up), by=GAVE_UP)
        served = taken.pick(~gave_up)
        if len(served.ends):
            self._busy.append((served.began, served.ends))
        state.flights = state.flights.and_(served)
        return begun

    def _interpreted(
        self, at: Floats, size: Floats, hold: Floats, until: float, seconds: Floats, patience: float, began: Floats,
        ended: Floats, by: Ints,
    ) -> int:  # fmt: skip
        """The same without numba: lists are faster there than arrays."""
        from controlplane.cluster.serving.loops import serve

        state, setup = self.state, self.setup
        lists: list[Any] = [array.tolist() for array in (at, size, hold, state.free, state.owner, seconds)]
        told: list[Any] = [array.tolist() for array in (began, ended, by)]
        begun = serve(
            lists[0], lists[1], lists[2], 0, until, lists[3], lists[4], lists[5], setup.batch, setup.growth, patience,
            told[0], told[1], told[2],
        )  # fmt: skip
        state.free[:], state.owner[:] = lists[3], lists[4]
        began[:], ended[:], by[:] = told
        return begun

    def _hold(self, at: Floats, count: Ints, until: float) -> int:
        """No replica is there: requests are refused at once, or wait until their clients give up."""
        patience = math.inf if self.setup.patience is None else self.setup.patience
        ends = at + patience if self.setup.holds else np.maximum(at, self.state.at)
        begun = int(np.searchsorted(ends, until))
        none = np.full(begun, -1, dtype=np.int64)
        self._emit(Flights(at[:begun], ends[:begun], ends[:begun], none, count[:begun], np.ones(begun)), by=REFUSED)
        return begun

    def _refuse_beyond(self, room: int) -> None:
        """Of what waits for the first replica, refuse what came while as many waited as may."""
        state = self.state
        coming = self._waiting_and_coming(state.at)
        at, count = coming.at, coming.count
        waits = np.ones(len(at), dtype=bool)
        waits[state.ahead] = False
        refused = waits & (np.cumsum(count * waits) > room)
        if refused.any():
            none = np.full(int(refused.sum()), -1, dtype=np.int64)
            ends = at[refused]
            self._emit(Flights(ends, ends, ends, none, count[refused], np.ones(len(ends))), by=REFUSED)
            state.ahead = np.flatnonzero(~waits | refused)

    def _emit(self, flights: Flights, ended: float | None = None, by: int | None = None) -> None:
        """Count these requests as ended."""
        if not len(flights.ends):
            return
        ends = flights.ends if ended is None else np.full(len(flights.ends), ended)
        answered = np.full(len(ends), by is None)
        taken = np.full(len(ends), by != REFUSED)
        latency, service = ends - flights.arrived, ends - flights.began
        first, promised = service, latency
        if self.setup.has_first:
            first = flights.first * service
            promised = latency - service + first
        outcomes = Outcomes(ends, latency, service, flights.count, answered, taken, promised, first)
        self.state.totals.add(outcomes, has_first=self.setup.has_first)
        self._recent.add(outcomes, self.state.at)
        if self.state.split is not None:
            late = promised > (math.inf if self.setup.objective is None else self.setup.objective.seconds)
            revisions = [replica.revision for replica in self.state.replicas]
            count_in(self.state.tallies, revisions, flights.by, flights.count, late | ~answered)

    def _pooled(self, replicas: Sequence[Replica], name: str) -> tuple[Replica, ...]:
        """These replicas as one, whose slots serve groups; capacity stays what it was."""
        slots = sum(replica.slots for replica in replicas)
        if not slots:
            return ()
        per_second = sum(replica.slots / replica.seconds for replica in replicas)
        together = max(1, round(slots / self.traffic.group))
        return (Replica(name, together, together * self.traffic.group / per_second, replicas[0].revision),)

    # --- requests by number ------------------------------------------------------------------

    def _number(self, at: float) -> int:
        return math.floor(at / BLOCK_SECONDS)

    def _block(self, number: int) -> Block:
        if number not in self._blocks:
            self._blocks[number] = self.traffic.block(number)
        return self._blocks[number]

    def _waiting_and_coming(self, until: float) -> Block:
        """The requests from the first that waits on that come before `until`, in order."""
        state = self.state
        numbers = range(state.block, self._number(state.at) + 1)
        blocks = [self._block(number) for number in numbers]
        if state.index == 0 and len(blocks) == 1 and state.at == state.block * BLOCK_SECONDS:
            first, rest = blocks[0], []
        else:
            first, rest = _pick(blocks[0], slice(state.index, None)), blocks[1:]
        last = int(np.searchsorted((rest[-1] if rest else first).at, until))
        parts = [first, *rest]
        parts[-1] = _pick(parts[-1], slice(last))
        if len(parts) == 1:
            return parts[0]
        return Block(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.size for part in parts]),
            np.concatenate([part.hold for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.first for part in parts]),
        )

    def _pass(self, begun: int, until: float) -> None:
        """So many requests do not wait any more."""
        state = self.state
        state.index += begun
        newest = self._number(until)
        while state.block < newest and state.index >= len(self._block(state.block).at):
            state.index -= len(self._block(state.block).at)
            state.block += 1

    # --- memory ------------------------------------------------------------------------------

    def _forget(self) -> None:
        old = self.state.at - KEEP_SECONDS
        first = min(self.state.block, self._number(old))
        for number in [n for n in self._blocks if n < first]:
            del self._blocks[number]
        while self._busy and self._busy[0][1].max() < old:
            self._busy.popleft()
        while len(self._slots) > 1 and self._slots[1][0] <= old:
            self._slots.popleft()

    def _duty(self, since: float, until: float) -> float:
        there = 0.0
        ends = [at for at, _ in list(self._slots)[1:]] + [until]
        for (at, slots), end in zip(self._slots, ends, strict=True):
            there += slots * max(0.0, min(end, until) - max(at, since))
        worked = sum(
            float(np.maximum(0.0, np.minimum(ended, until) - np.maximum(began, since)).sum())
            for began, ended in self._busy
        )
        return min(1.0, worked / there) if there else 0.0


def _pick(block: Block, those: Ints | slice) -> Block:
    """Some of a block's requests, in their order."""
    return Block(block.at[those], block.size[those], block.hold[those], block.count[those], block.first[those])
