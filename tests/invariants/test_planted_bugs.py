"""Every invariant is an alarm, and every alarm is tested: a bug planted in a run trips exactly its own."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from controlplane.cluster.port import PodSpec
from controlplane.invariants.capacity import s20_one_borrower
from controlplane.invariants.check import check
from controlplane.invariants.eviction import s8_legality
from controlplane.invariants.rounds import s17_idempotence
from controlplane.invariants.state import Round, Schedule
from controlplane.invariants.state import State as Seen
from controlplane.lifecycle.state import Seat, State
from controlplane.simulator.chaos import fenced
from controlplane.simulator.chaos.run import WEIGHTS, Parts, Runner, World, pod_of
from controlplane.simulator.chaos.store import Record, Store
from controlplane.simulator.worlds.mix import nodes
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Evict, EvictReason, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Assignment, Phase, Workload
from tests.invariants.runs import SMALL, broken_by
from tests.worlds import parse


def test_nothing_trips_without_a_bug():
    runner = Runner(1, World(**SMALL))
    runner.run(1500)
    assert runner.events == 1500


def test_s1_trips_when_a_share_is_given_twice():
    def generous(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        taken = {(a.node, a.gpus): w for w in snapshot.workloads.values() for a in w.placement if w.ask.share}
        decisions = list(schedule(snapshot, settings))
        for i, d in enumerate(decisions):
            if (
                isinstance(d, Place)
                and not d.after
                and snapshot.workloads[d.workload].ask.share
                and len(d.workers) == 1
            ):
                one = snapshot.workloads[d.workload]
                share = one.ask.share
                for (node, gpus), tenant in taken.items():
                    there = tenant.ask.share
                    if tenant.team != one.team or one.ask.models:
                        continue  # where it may not lie at all, for its team or its model
                    if share and there and share.guarantee + there.guarantee > 1000:
                        decisions[i] = replace(d, workers=(replace(d.workers[0], node=node, gpus=gpus),))
                        return tuple(decisions[: i + 1])
        return tuple(decisions)

    assert broken_by(Parts(schedule=generous), ask_again_every=10_000, events=6000) == {"S1"}


def test_s2_trips_when_the_running_total_forgets_what_ended():
    class Forgetful(Store):
        def flush(self, at: float | None = None) -> None:
            before = self.snapshot
            super().flush(at)
            gone = [w for uid, w in before.workloads.items() if uid not in self.snapshot.workloads and w.placement]
            for workload in gone:
                self.snapshot.columns.add(self.snapshot.inventory, workload)

    assert broken_by(Parts(store=Forgetful)) == {"S2"}


def test_s3_trips_when_quotas_are_not_asked():
    def boundless(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        free = [replace(q, borrowing=None, lending=None) for q in snapshot.quotas]
        s = snapshot
        return schedule(Snapshot.build(s.at, s.inventory.nodes, s.teams, free, s.workloads.values()), settings)

    assert broken_by(Parts(schedule=boundless), ask_again_every=10_000) == {"S3"}


def test_s4_trips_when_a_gang_starts_without_its_last_worker():
    def impatient(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        return tuple(
            replace(d, workers=d.workers[:-1]) if isinstance(d, Place) and len(d.workers) > 1 and not d.after else d
            for d in schedule(snapshot, settings)
        )

    assert broken_by(Parts(schedule=impatient), ask_again_every=10_000) == {"S4"}


def test_s5_trips_when_a_repeated_start_has_another_name():
    calls = Counter[tuple[str, int]]()

    def renamed(workload: Workload, worker: Assignment, record: Record) -> PodSpec:
        calls[workload.id, worker.rank] += 1
        spec = pod_of(workload, worker, record)
        return replace(spec, attempt=workload.attempt + (calls[workload.id, worker.rank] > workload.attempt))

    assert broken_by(Parts(pod=renamed), ask_again_every=10_000) == {"S5"}


def test_s6_trips_when_cordons_are_not_seen():
    def blind(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        well = [replace(n, ready=True, schedulable=True, lost=()) for n in snapshot.inventory.nodes]
        s = snapshot
        return schedule(Snapshot.build(s.at, well, s.teams, s.quotas, s.workloads.values()), settings)

    weights = WEIGHTS | {"node_is_cordoned": 3.0}
    assert broken_by(Parts(schedule=blind), ask_again_every=10_000, weights=weights) == {"S6"}


def test_s6_trips_when_a_share_goes_beside_another_teams_that_does_not_allow_it():
    def sociable(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        s, teams = snapshot, [replace(team, shares_with_others=True) for team in snapshot.teams]
        return schedule(Snapshot.build(s.at, s.inventory.nodes, teams, s.quotas, s.workloads.values()), settings)

    assert broken_by(Parts(schedule=sociable), ask_again_every=10_000) == {"S6"}


def test_s6_trips_when_a_share_goes_where_none_are_taken():
    def anywhere(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        s, machines = snapshot, [replace(node, takes_shares=True) for node in snapshot.inventory.nodes]
        return schedule(Snapshot.build(s.at, machines, s.teams, s.quotas, s.workloads.values()), settings)

    whole = tuple(replace(node, takes_shares=at % 2 == 0) for at, node in enumerate(SMALL["nodes"]))  # type: ignore[arg-type]
    assert broken_by(Parts(schedule=anywhere), ask_again_every=10_000, nodes=whole) == {"S6"}


def test_s7_trips_when_a_former_leader_may_write():
    def unfenced(store: Store, decisions: Sequence[Any], epoch: int, loop: str = "schedule") -> tuple[int, ...]:
        now, store.epoch = store.epoch, epoch
        stale = fenced.commit(store, decisions, epoch, loop)
        store.epoch = now
        store.writes[-1:] = [replace(store.writes[-1], current=now)]
        return stale

    assert broken_by(Parts(commit=unfenced)) == {"S7"}


def test_s8_trips_when_one_more_has_to_leave_than_needed():
    def greedy(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        decisions = list(schedule(snapshot, settings))
        first = next((d for d in decisions if isinstance(d, Evict) and d.reason == EvictReason.PREEMPTED), None)
        if first is None:
            return tuple(decisions)
        named = {d.workload for d in decisions if not isinstance(d, Evict)} | {
            d.workload for d in decisions if isinstance(d, Evict)
        }
        by = snapshot.workloads[first.by]
        extra = next(
            (
                w
                for w in snapshot.workloads.values()
                if w.team == by.team and w.priority < by.priority and w.preemptible and w.phase == Phase.RUNNING
                and w.id not in named and w.started_at is not None and snapshot.at - w.started_at > 60
                and not w.preempted_at
            ),
            None,
        )  # fmt: skip
        if extra is None:
            return tuple(decisions)
        at = decisions.index(first)
        decisions.insert(at, Evict(extra.id, extra.version, EvictReason.PREEMPTED, by.id))
        return tuple(
            replace(d, after=(*d.after, extra.id)) if isinstance(d, Place) and d.workload == by.id else d
            for d in decisions
        )

    assert broken_by(Parts(schedule=greedy), ask_again_every=10_000, events=10_000) == {"S8"}


def test_s8_trips_when_a_gang_has_to_leave_that_could_give_a_worker_back():
    text = """
        node a 4 gpus memory 40000
        team red nominal 4
        s1 red inference share 1 smem 20000 x 1..3..3 standby 2 awake {} running a:0 a:1 a:2
        g1 red training 1 gpumem 16000 saves 600 x 2..3..3 lent s1 1,2 running a:3 a:1 a:2
    """
    for standby, is_broken in (("1 asleep 1,2", True), ("2 asleep 2", True), ("3", False)):
        world = parse(text.format(standby))
        leaves = Evict("g1", world.workloads["g1"].version, EvictReason.TAKEN_BACK, "")
        made = Round(world, (leaves,), Settings(), schedule)
        assert [found.subject for found in s8_legality(Seen(world, round=made))] == ["g1"] * is_broken


def test_s8_trips_when_one_is_moved_that_asked_for_something_else():
    text = """
        node a,b,c 2 gpus   team red nominal 6
        fit red training 1 x 2 running a b {}
    """
    known = {
        "saves 60 goes 2 off a": False,
        "saves 60 goes 1,1": True,
        "saves 60 goes 2 off c": True,
        "goes 2 off a": True,
        "saves 60 firm goes 2 off a": True,
    }
    for words, is_broken in known.items():
        world = parse(text.format(words))
        keeps = (Assignment(0, "c", (0,)), Assignment(1, "c", (1,)))
        leaves = Evict("fit", world.workloads["fit"].version, EvictReason.REALLOCATED, "", keeps=keeps)
        made = Round(world, (leaves,), Settings(), schedule)
        assert [found.subject for found in s8_legality(Seen(world, round=made))] == ["fit"] * is_broken, words


def test_s9_trips_when_a_reservation_is_never_honoured():
    class Stubborn(Store):
        """Says of whatever is awaited that it has not left yet."""

        @property
        def leaving(self) -> frozenset[str]:
            return frozenset(self.records)

    assert broken_by(Parts(store=Stubborn), events=10_000) == {"S9"}


def test_s10_trips_when_nobody_remembers_who_left_for_whom():
    def forgetful(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        blank = [replace(w, preempted_at=(), preempted_by=()) for w in snapshot.workloads.values()]
        return schedule(snapshot.replace(changed=blank), settings)

    patient = Settings(min_runtime_seconds=5.0, max_preemptions=1)
    assert broken_by(Parts(schedule=forgetful), events=20_000, settings=patient, ask_again_every=10_000) == {"S10"}


def test_s12_trips_when_a_step_leaves_no_record():
    class Silent(Store):
        def step(self, row: State, before: Phase, actor: str) -> None:
            super().step(row, before, actor)
            if row.phase == Phase.SUSPENDING:
                self.transitions.pop()

    assert broken_by(Parts(store=Silent)) == {"S12"}


def test_s13_trips_when_a_hold_is_billed_twice():
    class Greedy(Store):
        def release(self, seat: Seat) -> None:
            record = self.records[seat.workload]
            billed = record.billed
            super().release(seat)
            record.billed += record.billed - billed

    assert broken_by(Parts(store=Greedy)) == {"S13"}


def test_s13_trips_when_a_workload_vanishes():
    class Leaky(Store):
        def step(self, row: State, before: Phase, actor: str) -> None:
            super().step(row, before, actor)
            if row.phase == Phase.SUCCEEDED:
                del self.ended[row.id]
                self.transitions.pop()

    assert broken_by(Parts(store=Leaky)) == {"S13"}


def test_s14_trips_when_the_last_to_come_is_the_first_served():
    def backwards(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        turned = [replace(w, seq=-w.seq) for w in snapshot.workloads.values()]
        return schedule(snapshot.replace(changed=turned), settings)

    world = parse("""
        node a 2 gpus
        team red nominal 2
        r1 red training 1 pending   r2 red training 1 pending   r3 red training 1 pending
    """)

    def broken(with_: Schedule) -> set[str]:
        made = Round(world, tuple(with_(world, Settings())), Settings(), with_)
        return {v.name for v in check(Seen(world, round=made))}

    assert broken(schedule) == set()
    assert broken(backwards) == {"S14"}


def test_s17_trips_when_a_round_never_settles():
    def restless(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        decisions = schedule(snapshot, settings)
        service = next((w for w in snapshot.workloads.values() if w.phase in ACTIVE and w.placement), None)
        if service is None:
            return decisions
        leaver = Evict(service.id, service.version, EvictReason.PREEMPTED, service.id)
        return decisions if any(isinstance(d, Place | Evict) for d in decisions) else (*decisions, leaver)

    assert "S17" in broken_by(Parts(schedule=restless), ask_again_every=1)


def test_s17_lets_rounds_start_one_after_the_other_what_waits():
    def slow(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        return schedule(snapshot, settings)[:1]

    def stuck(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        return schedule(world, settings)[:1]  # sees none of it carried out

    many = "   ".join(f"r{i} red training 1 pending" for i in range(6))
    world = parse(f"""
        node a 8 gpus
        team red nominal 8
        {many}
    """)
    for with_, found in ((slow, ()), (stuck, ("S17",))):
        made = Round(world, slow(world, Settings()), Settings(), with_)
        assert tuple(one.name for one in s17_idempotence(Seen(world, round=made))) == found


def test_s18_trips_when_a_round_depends_on_how_often_it_was_asked():
    calls: list[int] = []

    def moody(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        calls.append(1)
        decisions = schedule(snapshot, settings)
        return decisions if len(calls) % 2 else decisions[::-1]

    assert broken_by(Parts(schedule=moody), ask_again_every=1) == {"S18"}


def test_s20_trips_when_a_device_is_lent_twice():
    def generous(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        """Gives a gang with a worker on a lent device one more there: both fit into what the model leaves."""
        decisions = schedule(snapshot, settings)
        decided = {decision.workload for decision in decisions}
        for gang in snapshot.workloads.values():
            lent = [a for a in gang.placement if a.lender and not a.leaving]
            if lent and gang.id not in decided and gang.phase is Phase.RUNNING and 2 * gang.ask.gpu_memory <= 40_000:
                again = replace(lent[0], rank=gang.next_rank)
                return (*decisions, Place(gang.id, gang.version, (again,)))
        return decisions

    rules = Settings(lend_after_seconds=0.0, settle_seconds=0.0, surplus_after_seconds=0.0)
    large = {"nodes": nodes(), "largest_gang": 32, "settings": rules}  # small worlds lend next to nothing
    assert broken_by(Parts(schedule=generous), ask_again_every=10_000, events=8000, **large) == {"S20"}


def test_s20_sees_a_borrower_that_still_leaves():
    text = """
        node a 3 gpus memory 40000
        team red nominal 4
        s1 red inference share 1 smem 20000 x 1..2..2 standby 1 awake 1 asleep 1 running a:0 a:1
        g1 red training 1 gpumem 8000 x 1..1..2 lent s1 1 leaves 1 running a:2 a:1
    """
    assert s20_one_borrower(Seen(parse(text))) == ()
    twice = text + "g2 red training 1 gpumem 8000 saves 600 x 1..1..1 lent s1 0 running a:1\n"
    (found,) = s20_one_borrower(Seen(parse(twice)))
    assert (found.name, found.subject) == ("S20", "a/1")
    assert found.message == "The device is lent to g1 rank 1 and g2 rank 0."
