"""The one replay engine, and that the scheduler and the life cycle mean the same by a decision."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from controlplane.lifecycle.decisions import apply
from controlplane.simulator.replay.engine import Replay
from controlplane.simulator.replay.memory import Memory, Record
from controlplane.simulator.replay.turn import Turn
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase, Workload
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings()


def remembered(world: Snapshot) -> Memory:
    """The workloads of a world as the life cycle keeps them."""
    memory = Memory(replace(world, workloads={}))
    for workload in world.workloads.values():
        memory.add(workload, Record(), "test")
    memory.flush()
    return memory


def lived(world: Snapshot, decisions: tuple[Decision, ...]) -> dict[str, Workload]:
    """The workloads after what the life cycle makes of decisions, before anything has left."""
    memory = remembered(world)
    turn = Turn(memory, "test")
    for decision in decisions:
        if not isinstance(decision, Wait):
            apply(turn, turn.rows[decision.workload], decision)
    turn.write()
    memory.flush()
    return dict(memory.snapshot.workloads)


@given(worlds())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_life_cycle_and_a_snapshot_mean_the_same_by_every_decision(world: Snapshot) -> None:
    for _ in range(2):
        moves = tuple(d for d in schedule(world, RULES) if not isinstance(d, Wait))
        after = world.after(moves)
        assert lived(world, moves) == after.workloads
        world = after.replace(at=world.at + 60)


class Slow:
    """Workers run 20 s after they are started, and are gone 30 s after they are stopped."""

    def __init__(self, world: Snapshot) -> None:
        self.replay = Replay(world, lambda seen: schedule(seen, RULES), self)

    def start(self, workload: Workload) -> None:
        self.replay.plan(self.replay.at + 20, lambda: self.replay.run(workload.id))

    def stop(self, workload: Workload) -> None:
        self.replay.plan(self.replay.at + 30, lambda: self.replay.leave(workload.id))


def begun(text: str) -> Replay:
    """A replay of a world; what is pending there is submitted."""
    world = parse(text)
    replay = Slow(replace(world, workloads={})).replay
    for workload in world.workloads.values():
        replay.submit(workload)
    replay.round()
    return replay


def known(replay: Replay, uid: str) -> Workload:
    workload = replay.get(uid)
    assert workload is not None
    return workload


def test_what_is_planned_happens_in_its_order_unless_it_is_cancelled() -> None:
    replay, happened = begun("node a 1 gpus   team red"), list[str]()
    for at, key in ((replay.at + 5, "b"), (replay.at + 5, "a"), (replay.at + 1, "c")):
        replay.plan(at, lambda key=key: happened.append(key), key=key)
    replay.cancel(replay.plan(replay.at, lambda: happened.append("d")))
    while replay.next < float("inf"):
        replay.step()
    assert happened == ["c", "a", "b"]


def test_a_claimant_starts_once_its_victim_is_gone_and_the_victim_waits_again() -> None:
    replay = begun("""
        node a 1 gpus
        team red nominal 1
        low red training 1 pending
    """)
    replay.step()
    low = known(replay, "low")
    assert (low.phase, low.started_at) == (Phase.RUNNING, replay.at)
    replay.pass_to(replay.at + 1000)
    replay.submit(replace(low, id="high", name="high", phase=Phase.QUEUED, placement=(), priority=9, seq=7, attempt=0))
    replay.round()
    assert [known(replay, uid).phase for uid in ("low", "high")] == [Phase.CHECKPOINTING, Phase.RESERVED]
    replay.step()
    assert [known(replay, uid).phase for uid in ("low", "high")] == [Phase.QUEUED, Phase.ADMITTED]
    assert known(replay, "low").attained == 1050 * 1000  # from its place to its last second, in whole seconds
    replay.step()
    replay.end("high")
    assert replay.get("high") is None


def test_what_a_shrunk_worker_held_counts_once_it_is_gone() -> None:
    replay = begun("""
        node a 2 gpus
        team red nominal 2
        e1 red training 1 x 1..2 pending
    """)
    replay.step()
    replay.pass_to(replay.at + 1000)
    elastic = known(replay, "e1")
    replay.submit(replace(elastic, id="j1", name="j1", phase=Phase.QUEUED, placement=(), priority=9, seq=7, attempt=0))
    replay.round()
    replay.step()
    assert len(known(replay, "e1").placement) == 1
    assert known(replay, "e1").attained == 1050 * 1000


def test_a_service_has_started_when_all_its_wanted_replicas_run() -> None:
    replay = begun("""
        node a 1 gpus
        team red nominal 2
        web red inference 1 x 2 pending
    """)
    replay.step()
    web = known(replay, "web")
    assert (web.phase, len(web.placement), web.started_at) == (Phase.SCALING, 1, None)
    replay.resize("web", 1)
    replay.run("web")
    web = known(replay, "web")
    assert (web.phase, web.started_at) == (Phase.RUNNING, replay.at)


def test_a_service_that_gets_smaller_loses_its_newest_replicas() -> None:
    replay = begun("""
        node a 4 gpus
        team red nominal 4
        web red inference 1 x 1..3..4 running a:0 a:1 a:2
    """)
    replay.resize("web", 1)
    assert [worker.leaving for worker in known(replay, "web").placement] == [False, True, True]
    replay.step()
    assert [worker.rank for worker in known(replay, "web").placement] == [0]
