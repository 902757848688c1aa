"""Draining a node: what leaves, how, what stays, and what comes of each."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle.draining import Fate
from controlplane.models import Event, Node, PriorityClass, Workload
from controlplane.queries.scheduling import nodes as queries
from controlplane.services.errors import Refused
from controlplane.services.scheduling import draining, nodes
from tests.controlplane.state import World, held, open_actions, phase, story

pytestmark = pytest.mark.django_db

GONE = PodPhase.GONE


@pytest.fixture
def world() -> World:
    made = World()
    PriorityClass.objects.create(name="fixed", value=300, preemptible=False)
    return made


def drain(world: World, node: str = "a") -> dict[str, Fate]:
    """Ask what would happen, do it, and make sure that the two are the same."""
    asked = {one.name: one.fate for one in queries.leavers(node, world.cluster.at, None)}
    done = {one.name: one.fate for one in draining.drain(name=node, actor="root")}
    assert done == asked
    return done


def test_a_training_leaves_with_its_grace_and_queues_again_with_its_age(world: World) -> None:
    job = world.submit("job")
    world.run(job, "a")
    queued = job.queued_at
    assert drain(world) == {"job": Fate.MOVES}
    assert (phase(job), open_actions(job)) == ("Checkpointing", ["stop"])
    assert not Node.objects.get(name="a").schedulable
    world.actuate()
    world.pods(job, GONE)
    job.refresh_from_db()
    assert (job.phase, job.queued_at, job.preempted_at) == ("Queued", queued, [])  # it does not wear the job out
    assert "Evicted" in story(job)


def test_what_may_not_be_preempted_stays(world: World) -> None:
    job = world.submit("job", priority_class="fixed")
    world.run(job, "a")
    assert drain(world) == {"job": Fate.STAYS}
    assert (phase(job), open_actions(job)) == ("Running", [])
    assert not Event.objects.filter(kind="Drained").exists()


def test_an_elastic_gang_goes_on_with_its_workers_elsewhere(world: World) -> None:
    gang = world.submit("gang", workers={"count": 3, "min": 1})
    world.run(gang, "a", "a", "b")
    assert drain(world) == {"gang": Fate.SHRINKS}
    world.actuate()
    world.pods(gang, GONE, 0, 1)
    assert (phase(gang), held(gang)) == ("Running", 1)


def test_a_gang_that_would_fall_below_its_least_leaves_as_a_whole(world: World) -> None:
    gang = world.submit("gang", workers={"count": 3, "min": 2})
    world.run(gang, "a", "a", "b")
    assert drain(world) == {"gang": Fate.MOVES}
    assert phase(gang) == "Checkpointing"


def test_a_services_replicas_are_replaced_and_its_last_one_kept_where_it_may_not_be_preempted(world: World) -> None:
    two = world.submit("two", kind="inference", replicas={"min": 2, "max": 4}, priority_class="fixed")
    one = world.submit("one", kind="inference", priority_class="fixed")
    world.run(two, "a", "b")
    world.run(one, "a")
    assert drain(world) == {"two": Fate.REPLACED, "one": Fate.STAYS}
    world.actuate()
    world.pods(two, GONE, 0)
    world.observe()
    assert held(two) == 1
    assert (held(one), phase(one)) == (1, "Running")
    assert Workload.objects.get(pk=two.pk).workers == 2  # the scheduler sees the gap


def test_a_reserved_place_is_given_back(world: World) -> None:
    victim, claimant = world.submit("victim"), world.submit("claimant")
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[victim])
    assert drain(world) == {"victim": Fate.LEAVES, "claimant": Fate.GIVES_BACK}
    assert (phase(claimant), held(claimant)) == ("Queued", 0)


def test_draining_again_does_nothing_more(world: World) -> None:
    job = world.submit("job")
    world.run(job, "a")
    drain(world)
    assert drain(world) == {"job": Fate.LEAVES}
    assert story(job).count("Evicted") == 1
    assert Event.objects.filter(kind="Drained", name="a").count() == 1


def test_other_nodes_are_left_alone(world: World) -> None:
    job = world.submit("job")
    world.run(job, "b")
    assert drain(world) == {}
    assert phase(job) == "Running"
    with pytest.raises(Refused, match="There is no node z"):
        draining.drain(name="z", actor="root")


def test_a_nodes_history_tells_who_did_what(world: World) -> None:
    nodes.cordon(name="a", on=True, actor="root")
    nodes.cordon(name="a", on=False, actor="root")
    told = [(event.kind, event.actor) for event in queries.events("a", 10)]
    assert told == [("Uncordoned", "root"), ("Cordoned", "root")]
