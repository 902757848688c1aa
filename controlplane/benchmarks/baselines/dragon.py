"""DRAGON on the cluster of like GPUs, of both releases: elastic by rules about workers, not by expected speed.

A training has at least one worker of a GPU, and at most so many times what it asks for, as far as its batch goes round.

- `Dragon`, release 0.9 (CLOSER'19), one pass each 15 s and at each arrival and end: the first in line, once it waits
  30 s, gets room for its least: running trainings, in the order in which they started, give up workers, those on other
  nodes than the first one's before the others. Then the first training that fits starts, on one node if one holds it,
  else on the emptiest, with what it asks for or as much as there is. 60 s after the last action running trainings grow
  to their most, node by node. Enhanced Dragon does the same where there is no service, as here.
- `Fulfilment`, the release of 2018: (workers - least) / (most - least). Each free GPU goes to the least fulfilled
  training, of equal ones to that with fewer; while some are short of their least, the most fulfilled gives up one.
  Its text names no nodes: here a worker comes to the node where most of its own are, and leaves that with the fewest.

Both were made for parameter servers, where a worker comes or goes without a restart. The trainings here exchange
gradients with each other, so that each change costs what it costs under every policy.
Source: Lin, Yeh, Chou: DRAGON, CLOSER'19, and the released operator's rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.benchmarks.baselines.held import Held
from controlplane.benchmarks.training.classics import packed
from controlplane.benchmarks.training.cluster16 import GPU_TYPE
from controlplane.benchmarks.training.rounds import Plan

LEAST = 1  # worker
PASS = 15.0  # s between two passes
WAIT = 30.0  # s: then others make room for the first in line
SETTLE = 60.0  # s between the last action and growth

Jobs = Sequence[Mapping[str, Any]]


class Dragon:
    """times: what it asks for is its most."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._home: dict[Any, int] = {}  # the node of the first worker, in the order in which they started
        self._acted = 0.0

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        by_id = {job["id"]: job for job in sorted(jobs, key=_submission)}
        self._home = {name: node for name, node in self._home.items() if name in by_id}
        held = Held(current)
        waiting = [job for name, job in by_id.items() if name not in current]
        has_room = True
        if waiting and waiting[0]["age"] >= WAIT:
            has_room = self._make_room(held)
            self._acted = now if has_room else self._acted
        if waiting and has_room and any(held.free):
            self._start(held, waiting[0])
        if now - self._acted >= SETTLE:
            self._grow(held, by_id)
            self._acted = now
        return held.plan()

    event = plan

    def _make_room(self, held: Held) -> bool:
        """For one worker."""
        if any(held.free):
            return True
        for name, home in self._home.items():
            if held.gpus(name) > LEAST:
                held.remove(name, min(held.of[name], key=lambda node: (node == home, -node)))
                return True
        return False

    def _start(self, held: Held, job: Mapping[str, Any]) -> None:
        found = packed(min(job["requested_gpus"], sum(held.free)), held.free)
        for node, gpus in found:
            held.add(job["id"], node, gpus)
        self._home[job["id"]] = found[0][0]

    def _grow(self, held: Held, jobs: Mapping[Any, Mapping[str, Any]]) -> None:
        for node in range(len(held.free)):
            for name in self._home:
                more = min(held.free[node], most(jobs[name], self._times) - held.gpus(name))
                if more > 0:
                    held.add(name, node, more)


class Fulfilment:
    """times: what it asks for is its most."""

    def __init__(self, times: int) -> None:
        self._times = times

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        held = Held(current)
        ordered = sorted(jobs, key=_submission)
        while self._give(held, ordered) if any(held.free) else self._take(held, ordered):
            pass
        return held.plan()

    event = plan

    def _give(self, held: Held, ordered: Jobs) -> bool:
        """A free GPU to the least fulfilled; whether any wants it."""
        wanting = [job for job in ordered if held.gpus(job["id"]) < most(job, self._times)]
        if not wanting:
            return False
        name = min(wanting, key=lambda job: self._rank(held, job))["id"]
        mine = held.of.get(name, {})
        free = [node for node, gpus in enumerate(held.free) if gpus]
        held.add(name, max(free, key=lambda node: (mine.get(node, 0), held.free[node])))
        return True

    def _take(self, held: Held, ordered: Jobs) -> bool:
        """A GPU from the most fulfilled, if one is short of its least; whether that was so."""
        giving = [job for job in ordered if held.gpus(job["id"]) > LEAST]
        if not giving or all(held.gpus(job["id"]) >= LEAST for job in ordered):
            return False
        name = max(giving, key=lambda job: self._rank(held, job))["id"]
        held.remove(name, min(held.of[name], key=lambda node: held.of[name][node]))
        return True

    def _rank(self, held: Held, job: Mapping[str, Any]) -> tuple[float, int]:
        """How far it is fulfilled, and its workers."""
        workers = held.gpus(job["id"])
        return (workers - LEAST) / max(1, most(job, self._times) - LEAST), workers


def most(job: Mapping[str, Any], times: int) -> int:
    """Workers that it may have: so many times what it asks for, where its batch has something for each."""
    asked: int = job["requested_gpus"]
    limit: int = job["max_gpus"][GPU_TYPE]
    return min(times * asked, max(limit, asked))


def _submission(job: Mapping[str, Any]) -> tuple[float, str]:
    return job["submitted"], str(job["id"])
