"""Moves on the simulated cluster, by its model of trainings: what the loop measures is what a placement gives there."""

import math
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from controlplane.cluster import speed
from controlplane.cluster.physics import TrainingProfile
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.loops import account, actuate, audit, observe, schedule
from controlplane.loops.wiring import Wiring
from controlplane.models import Event, Experiment, NodePool, Placement, PriorityClass, Quota, SlowNode, Team, Workload
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import moving
from controlplane.services.workloads import workloads
from controlplane.services.workloads.submission import Submission, submit_all
from scheduler.model.workload import Kind
from tests.controlplane.simulation import node
from tests.controlplane.state import job

pytestmark = pytest.mark.django_db
CHATTY = TrainingProfile("chatty", step_seconds=0.25, sync_seconds=0.15)
QUIET = TrainingProfile("quiet", step_seconds=0.25, sync_seconds=0.01)
LOOPS = (observe, account, schedule, actuate)


@dataclass
class Demo:
    """Nodes with 4 GPUs in one rack, and the loops over them."""

    wiring: Wiring

    @staticmethod
    def begin(nodes: str, slow: dict[str, float] | None = None) -> "Demo":
        red = Team.objects.create(name="red", reallocation="automatic")
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        machines = tuple(node(name, gpus=4) for name in nodes)
        profiles = {Kind.TRAINING: (CHATTY, QUIET)}
        cluster = SimulatedCluster(machines, Conditions(slow_nodes=slow or {}), profiles)
        demo = Demo(Wiring(cluster, cluster, "test"))
        demo.let(10)
        Quota.objects.create(team=red, pool=NodePool.objects.get(), nominal=4000 * len(nodes))
        return demo

    def let(self, seconds: int, until: Callable[[], bool] = lambda: False) -> None:
        """Time passes, with a round of each loop every ten seconds."""
        cluster = self.wiring.cluster
        for _ in range(seconds // 10):
            cluster.advance(cluster.now() + 10)
            for loop in LOOPS:
                loop.run_once(self.wiring)
            if until():
                return

    def submit(self, name: str, profile: str = "quiet", **asked: object) -> Workload:
        usual = {
            "simulated": {"duration": 400 * 3600, "profile": profile}, "expected_duration": "400h",
            "checkpoint": {"interval": "5m"},
        }  # fmt: skip
        spec = job(name, **(usual | asked))
        uid = uuid.uuid5(uuid.NAMESPACE_OID, name)
        (made,) = submit_all([Submission(spec, actor="ann", at=self.wiring.cluster.now(), uid=uid)])
        self.let(200, until=lambda: Workload.objects.get(pk=made.pk).phase == "Running")
        return Workload.objects.get(pk=made.pk)

    def spread(self, profile: str, *, whole: str = "") -> tuple[Workload, dict[str, Workload]]:
        """A training with a worker on each of four nodes, as others have the rest of all; and these, by their node."""
        others = [self.submit(f"other-{i}", gpus=3) for i in range(4)]
        others += [self.submit(f"whole-{name}", gpus=4) for name in whole]
        fit = self.submit("fit", profile, workers=4)
        assert len(set(on(fit))) == 4
        return fit, {on(one)[0]: one for one in others}

    def stop(self, workload: Workload) -> None:
        workloads.stop(workload=workload, actor="ann")
        self.let(60)

    def speed(self, workload: Workload) -> float:
        """Of the reference placement, by the simulation's own model."""
        attempts = self.wiring.cluster._world.attempts.values()
        (mine,) = [one for one in attempts if one.workload == str(workload.pk) and one.speed > 0]
        assert mine.work is not None
        return speed.ratio_per_second(self.wiring.cluster._world, mine, mine.work)


def on(workload: Workload) -> list[str]:
    held = Placement.objects.filter(workload=workload, state="Bound").order_by("rank")
    return list(held.values_list("node", flat=True))


def newest(workload: Workload) -> Experiment | None:
    return Experiment.objects.filter(workload=workload).order_by("-id").first()


def has(workload: Workload, *statuses: str) -> Callable[[], bool]:
    def is_so() -> bool:
        found = newest(workload)
        return found is not None and found.status in statuses

    return is_so


def test_a_spread_training_is_moved_together_and_is_faster_by_the_simulation_s_own_model() -> None:
    demo = Demo.begin("abcd")
    fit, others = demo.spread("chatty")
    before = demo.speed(fit)
    demo.stop(others["c"])
    demo.let(3600, until=has(fit, "kept"))
    kept = newest(fit)
    assert kept is not None
    assert (kept.axis, kept.status, on(fit)) == ("place", "kept", ["c"] * 4)
    gained = demo.speed(fit) / before
    assert gained > 1.5
    assert math.exp(kept.gain or 0.0) == pytest.approx(gained, rel=0.1)
    fit.refresh_from_db()
    assert (fit.attempt, fit.failures, fit.preempted_at) == (2, 0, [])
    assert fit.checkpointed_at is not None
    assert broken(demo) == ()


def test_a_move_to_a_node_where_it_is_slower_is_rolled_back() -> None:
    """The model of its steps cannot know that e computes slower."""
    demo = Demo.begin("abcde", {"e": 4.0})
    fit, others = demo.spread("chatty", whole="e")
    before = demo.speed(fit)
    demo.stop(others["e"])
    demo.let(3600, until=has(fit, "rolled_back"))
    tried = newest(fit)
    assert tried is not None
    assert (tried.axis, tried.status) == ("place", "rolled_back")
    assert (tried.gain or 0.0) < 0
    demo.let(300, until=lambda: len(set(on(fit))) == 4)
    demo.let(120)
    assert demo.speed(fit) == pytest.approx(before)
    assert broken(demo) == ()


def test_a_worker_on_a_slow_node_leaves_it_and_the_node_is_named() -> None:
    demo = Demo.begin("abc", {"b": 1.6})
    whole = demo.submit("whole", gpus=4)
    fit = demo.submit("fit", workers=2, resources={"gpus": 4, "cpu": 16, "memory": "1Gi"})
    assert "b" in on(fit)
    before = demo.speed(fit)
    demo.stop(whole)
    demo.let(3600, until=has(fit, "kept"))
    kept = newest(fit)
    assert kept is not None
    assert (kept.axis, kept.node) == ("node", "b")
    assert sorted(on(fit)) == ["a", "c"]
    assert demo.speed(fit) / before == pytest.approx(1.6, rel=0.1)
    assert list(SlowNode.objects.values_list("node", flat=True)) == ["b"]
    assert not Event.objects.filter(kind="NodeNamedSlow").exists()
    assert broken(demo) == ()


@pytest.mark.parametrize("servers", [1, 3])
def test_one_that_asks_for_another_number_of_servers_starts_again_with_so_many(servers: int) -> None:
    demo = Demo.begin("ab")
    roles = [{"name": "ps", "count": 2, "resources": {"cpu": 2, "memory": "1Gi"}}]
    fit = demo.submit("fit", workers=2, roles=roles)
    demo.let(600)
    fit.refresh_from_db()
    event = ("ChangeTried", "another number of servers")
    shape = sorted(Counter(on(fit)[2:]).values(), reverse=True)
    moving.ask(workload=fit, workers=shape, off=[], role_counts=[servers], actor="ann", event=event, hand=Hand.PERSON)
    demo.let(600, until=lambda: Workload.objects.get(pk=fit.pk).attempt == 2 and len(on(fit)) == servers + 2)
    demo.let(100)
    fit.refresh_from_db()
    assert (fit.phase, fit.attempt, fit.preempted_at, fit.role_counts) == ("Running", 2, [], [])
    assert sum(count for _, count, _ in fit.roles) == servers
    assert len(on(fit)) == servers + 2
    newest = [one for one in demo.wiring.cluster._world.attempts.values() if one.attempt == 2]
    assert [len(one.pods) for one in newest if one.workload == str(fit.pk)] == [servers + 2]
    assert demo.speed(fit) > 0
    assert broken(demo) == ()


def broken(demo: Demo) -> tuple[object, ...]:
    """What the audit finds, of the newest rounds too."""
    return audit.look(demo.wiring.cluster, last_rounds=50)[0]
