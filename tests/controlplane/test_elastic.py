"""Elastic gangs and moves from the decision to the pods: what the rows say at each step."""

import uuid
from dataclasses import dataclass

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.loops import actuate, observe
from controlplane.loops import schedule as rounds
from controlplane.loops.wiring import Wiring
from controlplane.models import Event, Placement, PriorityClass, Team, User, Workload
from controlplane.queries.scheduling import snapshot
from controlplane.queries.workloads import workloads as queries
from controlplane.services.workloads.submission import Submission, submit_all
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.workload import Assignment
from tests.controlplane.simulation import PROFILES, node
from tests.controlplane.state import World, job, open_actions, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db

RUNNING, GONE, SUCCEEDED = PodPhase.RUNNING, PodPhase.GONE, PodPhase.SUCCEEDED
ELASTIC = {"count": 3, "min": 1}


@pytest.fixture
def world() -> World:
    return World()


def test_a_gang_that_shrinks_stops_these_workers_and_runs_on_with_the_rest(world):
    gang, other = world.submit("gang", workers=ELASTIC), world.submit("other")
    world.run(gang, "a", "a", "b")
    world.later(100)
    seen = seen_by_scheduler(gang)
    world.decide(Shrink(str(gang.pk), seen.version, (2,), "Gives a worker.", str(other.pk)))
    assert (phase(gang), open_actions(gang)) == ("Running", ["stop"])
    assert [a.leaving for a in seen_by_scheduler(gang).placement] == [False, False, True]
    world.actuate()
    world.pods(gang, GONE, 2)
    after = seen_by_scheduler(gang)
    assert (phase(gang), [a.rank for a in after.placement]) == ("Running", [0, 1])
    assert after.scaled_at is not None
    told = Event.objects.get(kind="Shrunk")
    assert (told.message, told.data) == ("Gives a worker.", {"ranks": [2], "by": str(other.pk)})


def test_a_shrink_falls_with_its_claimants_place(world):
    gang, other = world.submit("gang", workers=ELASTIC), world.submit("other")
    world.run(gang, "a", "a", "b")
    seen, claimant = seen_by_scheduler(gang), seen_by_scheduler(other)
    late = Place(str(other.pk), claimant.version + 5, (Assignment(0, "b", (0,)),), (str(gang.pk),))
    made = world.decide(Shrink(str(gang.pk), seen.version, (2,), "", str(other.pk)), late)
    assert len(made.stale) == 2
    assert open_actions(gang) == []


def test_it_grows_by_workers_with_new_ranks_and_is_running_when_they_run(world):
    gang = world.submit("gang", workers=ELASTIC)
    world.run(gang, "a")
    world.place(gang, "b", "b")
    world.actuate()
    assert phase(gang) == "Scaling"
    world.pods(gang, RUNNING)
    assert (phase(gang), [a.rank for a in seen_by_scheduler(gang).placement]) == ("Running", [0, 1, 2])
    assert seen_by_scheduler(gang).started_at < seen_by_scheduler(gang).scaled_at + 10


def test_workers_by_which_it_should_grow_and_that_never_start_are_given_up(world):
    gang = world.submit("gang", workers=ELASTIC)
    world.run(gang, "a")
    world.place(gang, "b")
    world.actuate()
    world.observe()
    world.later(400)
    world.observe_all()
    assert (phase(gang), story(gang)[-1]) == ("Scaling", "Shrunk")
    world.actuate()
    world.pods(gang, GONE, 1)
    assert (phase(gang), [a.rank for a in seen_by_scheduler(gang).placement]) == ("Running", [0])


def test_a_gang_of_which_a_worker_is_done_grows_no_more(world):
    gang = world.submit("gang", workers=ELASTIC)
    world.run(gang, "a", "a")
    world.later(600)
    assert [d.workload for d in decided(world)] == [str(gang.pk)]
    world.pods(gang, SUCCEEDED, 1)
    assert seen_by_scheduler(gang).finishing
    assert decided(world) == []
    world.pods(gang, SUCCEEDED, 0)
    assert phase(gang) == "Succeeded"


def test_a_moved_job_says_so_and_forgets_it_when_it_starts_again(world):
    job, other = world.submit("job"), world.submit("other")
    world.run(job, "a")
    world.later(600)
    seen = seen_by_scheduler(job)
    world.decide(Evict(str(job.pk), seen.version, EvictReason.CONSOLIDATED, str(other.pk), "Moves."))
    assert phase(job) == "Checkpointing"
    world.actuate()
    world.pods(job, GONE)
    assert (phase(job), seen_by_scheduler(job).moving) == ("Queued", True)
    world.run(job, "b")
    assert not seen_by_scheduler(job).moving
    assert Event.objects.get(kind="Evicted").reason == "Consolidated"


def decided(world: World) -> list:
    """What the next round would decide, apart from explanations."""
    return [d for d in schedule(snapshot.full(world.cluster.at), Settings()) if not isinstance(d, Wait)]


@dataclass
class Demo:
    """A simulated cluster of one node with 4 GPUs, and the loops over it."""

    wiring: Wiring

    @staticmethod
    def begin() -> "Demo":
        """All that a submission needs."""
        Team.objects.create(name="red")
        for name, value in (("normal", 100), ("high", 200)):
            PriorityClass.objects.create(name=name, value=value, is_default=name == "normal")
        cluster = SimulatedCluster((node("a", gpus=4),), Conditions(), PROFILES)
        demo = Demo(Wiring(cluster, cluster, "test"))
        demo.let(10)
        return demo

    def let(self, seconds: int) -> None:
        """Time passes, with a round of each loop every ten seconds."""
        cluster = self.wiring.cluster
        for _ in range(seconds // 10):
            cluster.advance(cluster.now() + 10)
            for loop in (observe, rounds, actuate):
                loop.run_once(self.wiring)

    def submit(self, name: str, seconds: int, **asked: object) -> Workload:
        """A training that runs so long on the workers it asks for."""
        spec = job(name, simulated={"duration": seconds, "profile": "t"}, **asked)
        uid = uuid.uuid5(uuid.NAMESPACE_OID, name)
        (made,) = submit_all([Submission(spec, actor="ann", at=self.wiring.cluster.now(), uid=uid)])
        return made


def standing(*workloads: Workload) -> list[tuple[str, int]]:
    return [(phase(w), Placement.objects.filter(workload=w, state="Bound").count()) for w in workloads]


def ranks(workload: Workload) -> list[int]:
    held = Placement.objects.filter(workload=workload, state="Bound")
    return sorted(held.values_list("rank", flat=True))


def test_from_submission_to_success_a_gang_makes_room_gets_it_back_and_ends():
    demo = Demo.begin()
    gang = demo.submit("gang", 2000, workers={"count": 4, "min": 1})
    demo.let(100)
    assert standing(gang) == [("Running", 4)]
    urgent = demo.submit("urgent", 300, gpus=2, priority_class="high")
    demo.let(150)
    assert standing(gang, urgent) == [("Running", 2), ("Running", 1)]
    demo.let(600)
    assert standing(gang, urgent) == [("Running", 4), ("Succeeded", 0)]
    demo.let(4000)
    assert standing(gang) == [("Succeeded", 0)]
    gang.refresh_from_db()
    assert (gang.attempt, gang.preempted_at) == (1, [])
    assert [kind for kind in story(gang) if kind in ("Shrunk", "Scaling", "Evicted")] == ["Shrunk", "Scaling"]


def test_a_gang_is_lent_idle_gpus_beyond_its_count_gives_them_back_first_and_gets_them_again():
    demo = Demo.begin()
    gang = demo.submit("gang", 4000, workers={"count": 2, "max": 4})
    demo.let(100)
    assert (standing(gang), ranks(gang)) == ([("Running", 2)], [0, 1])
    demo.let(350)
    assert (standing(gang), ranks(gang)) == ([("Running", 4)], [0, 1, 2, 3])
    assert message(gang) == "It runs with 4 of at most 4 workers; it asked for 2, and its minimum is 2. " + ALL
    other = demo.submit("other", 300, gpus=1)
    demo.let(100)
    assert (standing(gang, other), ranks(gang)) == ([("Running", 3), ("Running", 1)], [0, 1, 2])
    told = Event.objects.get(kind="Shrunk")
    assert told.message == f"Gives 1 worker to [[w:{other.pk}]] and goes on with 3; it asked for 2."
    assert "does not grow before" in message(gang)
    demo.let(600)
    assert (standing(gang, other), ranks(gang)) == ([("Running", 4), ("Succeeded", 0)], [0, 1, 2, 4])
    demo.let(2000)  # 4000 seconds of work with 2 workers, most of it done by 4
    assert standing(gang) == [("Succeeded", 0)]
    gang.refresh_from_db()
    assert (gang.attempt, gang.workers, gang.preempted_at) == (1, 2, [])


def message(workload: Workload) -> str:
    """What `weft why` says of it."""
    workload.refresh_from_db()
    person = User.objects.get_or_create(username="root", is_superuser=True)[0]
    return str(queries.explanation(person, workload)["message"])


ALL = "It has all that it can use."
