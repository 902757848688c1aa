"""Whatever happens meanwhile: a rollout takes no serving replica away that is wanted, and comes to its end."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.lifecycle import canaries, canarysteps, rollouts
from controlplane.lifecycle.canaries import Judged, Tally
from controlplane.lifecycle.canarysteps import Plan
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.pods import see, settle
from controlplane.lifecycle.state import BOUND, LEAVING, RELEASED, Seat, State
from scheduler.model.workload import Kind, Phase

RUNNING = PodPhase.RUNNING.value
KINDS = ("place", "ready", "fail", "gone", "wait", "refuse", "change", "canary", "stepped", "look", "weigh", "back")
KEPT = Judged(Tally(100, 0), Tally(100, 0), 0.99)  # what it answers keeps the objective
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 9)), max_size=60)


def service(workers: int) -> State:
    values: dict[str, Any] = {name: None for name in State.__dataclass_fields__ if name not in ("seen", "changed")}
    values |= {
        "id": "chat", "name": "chat", "kind": Kind.INFERENCE, "phase": Phase.RUNNING, "version": 1, "attempt": 1,
        "next_rank": workers, "gpus": 1, "share_guarantee": 0, "share_limit": 0, "workers": workers, "roles": (),
        "retries": 0, "failures": 0, "queued_at": 0.0, "attained": 0, "grace_seconds": 30.0,
        "preempted_at": [], "preempted_by": [],
        "finishing": False, "moving": False, "reserved_after": [], "unmet": [], "intent": "", "reason": "",
        "message": "", "reason_at": 0.0, "cpu_milli": 1, "memory": 1, "managed_by": "", "revision": 1, "surge": 0,
    }  # fmt: skip
    return State(**values)


class Cluster:
    """One service, a scheduler that places what is wanted when it is told to, and pods that do what a step says."""

    def __init__(self, workers: int) -> None:
        self.at, self.row = 0.0, service(workers)
        self.seats = [Seat(0, "chat", 1, rank, "a", 1000, BOUND, RUNNING, 0.0) for rank in range(workers)]

    def changes(self) -> Changes:
        made = Changes(self.at, "test")
        made.rows, made.seats = {"chat": self.row}, {"chat": self.seats}
        return made

    def live(self, *, leaving: bool) -> list[Seat]:
        return [s for s in self.seats if s.state != RELEASED and (s.state == LEAVING) is leaving]

    def ready(self) -> int:
        return sum(seat.pod_phase == RUNNING for seat in self.live(leaving=False))

    def step(self, what: str, number: int) -> None:
        self.at += 1.0
        seats = self.live(leaving=what == "gone")
        if what == "place":
            self._place()
        elif what == "wait":
            self.at += 20.0 * number
            self._see()
        elif what == "refuse":
            self.row.reason, self.row.reason_at = "WaitingForQuota", self.at
        elif what in ("change", "canary", "stepped", "weigh", "back"):
            self._ask(what, number)
        elif what == "look":
            self._look()
        elif what in ("ready", "fail", "gone") and seats:
            self._see((seats[number % len(seats)], {"ready": "RUNNING", "fail": "FAILED", "gone": "GONE"}[what]))

    def _ask(self, what: str, number: int) -> None:
        """As a person would."""
        if what == "change":
            rollouts.begin(self.changes(), self.row, 1 + number % 4)
        elif what == "canary":
            rollouts.begin(self.changes(), self.row, 1 + number % 4, Plan(10 + 9 * number))
        elif what == "stepped":
            rollouts.begin(self.changes(), self.row, 1 + number % 4, Plan(5, (5, 8, 10 * number + 9), 30.0 * number))
        elif what == "weigh":
            rollouts.weigh(self.changes(), self.row, Plan(1 + 11 * number))
        elif self.row.rollout is not None and not self.row.rollout["is_back"]:
            rollouts.roll_back(self.changes(), self.row, "Undone", "It was undone.")

    def _look(self) -> None:
        """A canary takes at most its next step, once the present one is in force and has lasted."""
        before = dict(self.row.rollout or {})
        taken = rollouts.step(self.changes(), self.row, KEPT)
        if taken is None:
            assert self.row.rollout is None or self.row.rollout["weight"] == before["weight"]
            return
        assert taken == canarysteps.next_weight(before)
        assert before["split"][2] == before["weight"]
        assert self.at >= before["split_at"] + before["step_seconds"]

    def _place(self) -> None:
        if len(self.live(leaving=False)) < self.row.workers + self.row.surge:
            self.row.reason = ""
            rank, self.row.next_rank = self.row.next_rank, self.row.next_rank + 1
            (revision,) = canaries.next_revisions(self.row, self.live(leaving=False), 1)
            self.seats.append(Seat(0, "chat", 1, rank, "a", 1000, BOUND, "", self.at, revision))

    def _see(self, *news: tuple[Seat, str]) -> None:
        pods = [PodSeen("chat", 1, seat.rank, "a", (), PodPhase[phase]) for seat, phase in news]
        made = self.changes()
        settle(made, self.row, see(made, self.row, pods), pods)


@given(workers=st.integers(1, 4), steps=STEPS)
def test_no_serving_replica_that_is_wanted_is_taken_away(workers: int, steps: list[tuple[str, int]]) -> None:
    cluster = Cluster(workers)
    for what, number in [("change", 1), *steps]:
        before = cluster.ready()
        cluster.step(what, number)
        lost, row = before - cluster.ready(), cluster.row
        if what != "fail" and lost > 0:
            has_no_room = row.rollout is not None and row.rollout["has_no_room"]
            least = workers - 1 if has_no_room and workers > 1 else workers
            assert cluster.ready() >= least, (what, row.rollout)
        assert len(cluster.live(leaving=False)) + len(cluster.live(leaving=True)) <= 2 * workers + 1
        assert row.surge <= 1
        assert row.surge == 0 or row.rollout is not None
        told = row.rollout and row.rollout["split"]
        serving = {seat.revision for seat in cluster.live(leaving=False) if seat.pod_phase == RUNNING}
        assert told is None or what not in ("fail", "ready") or serving - {told[1]}, "a part of nothing"


@given(workers=st.integers(1, 4), steps=STEPS, has_room=st.booleans())
def test_it_comes_to_its_end_once_replicas_answer(
    workers: int,
    steps: list[tuple[str, int]],
    has_room: bool,  # noqa: FBT001 - drawn
) -> None:
    cluster = Cluster(workers)
    for what, number in [("change", 1), *steps]:
        cluster.step(what, number)
    if is_canary := canaries.is_one(cluster.row.rollout):
        settle_canary(cluster, has_room=has_room)
        rollouts.weigh(cluster.changes(), cluster.row, Plan(canaries.WHOLE))
    for _ in range(20 * workers):
        turn(cluster, has_room=has_room)
        if cluster.row.rollout is None and len(cluster.live(leaving=False)) == workers:
            break
    assert cluster.row.rollout is None, is_canary
    assert {seat.revision for seat in cluster.live(leaving=False)} == {cluster.row.revision}


def turn(cluster: Cluster, *, has_room: bool) -> None:
    """What leaves is gone, what is wanted is placed where there is room, and what is placed answers."""
    workers = cluster.row.workers
    for seat in cluster.live(leaving=True):
        cluster.step("gone", cluster.live(leaving=True).index(seat))
    if has_room or workers == 1 or len(cluster.live(leaving=False)) < workers:
        cluster.step("place", 0)
    else:
        cluster.step("refuse", 0)
        cluster.step("wait", 3)
    for number, seat in enumerate(cluster.live(leaving=False)):
        if seat.pod_phase != RUNNING:
            cluster.step("ready", number)
    cluster.step("wait", 0)


def settle_canary(cluster: Cluster, *, has_room: bool) -> None:
    """It comes to have as many replicas of both revisions as their parts need, and its requests are split."""
    row = cluster.row
    for _ in range(20 * row.workers):
        turn(cluster, has_room=has_room)
        have = Counter(seat.revision for seat in cluster.live(leaving=False))
        if have == canaries.shares(row) and not cluster.live(leaving=True):
            break
    assert row.rollout is not None
    assert have == canaries.shares(row)
    assert row.rollout["split"] == [1, row.revision, row.rollout["weight"]]
