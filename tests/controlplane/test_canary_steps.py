"""A canary gets more of the requests step by step while it keeps its objective; what it waits for is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cluster.port import PodPhase
from controlplane.jobspec.spec import SpecError
from controlplane.lifecycle import canarysteps
from controlplane.lifecycle.canaries import LEAST
from controlplane.models import Revision, Workload
from controlplane.queries.workloads import revisions
from tests.controlplane.state import World, story
from tests.controlplane.test_canaries import away, later, measured, of, split
from tests.controlplane.test_rollouts import NEW, OLD, change, service, surge

pytestmark = pytest.mark.django_db
STEPS = {"steps": [10, 50], "step_minutes": 5}
KEEPS = {"r2": (2000, 1), "r1": (18_000, 9)}
STEP = 300.0  # s


@pytest.fixture
def world() -> World:
    return World()


def stepped(world: World, replicas: int = 1, **asked: Any) -> Workload:
    """A service whose new revision has come to its first step: a replica of it answers."""
    chat = service(world, replicas, **asked)
    change(chat, image=NEW, rollout=STEPS)
    up(world, chat)
    return chat


def up(world: World, chat: Workload) -> None:
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    chat.refresh_from_db()


def shown(chat: Workload) -> dict[str, Any]:
    chat.refresh_from_db()
    found = revisions.revisions(chat)["rollout"]
    assert found is not None
    return found


def test_it_takes_each_step_by_itself_once_its_time_is_over_and_is_promoted_after_the_last(world):
    chat = stepped(world)
    measured(world, **KEEPS)
    assert split(world) == (2, 10)
    later(world, STEP - 30)
    assert split(world) == (2, 10)
    later(world, 30.0)
    assert split(world) == (2, 50)
    assert Revision.objects.get(workload=chat, number=2).weight == 50
    later(world, STEP)
    away(world, chat)
    chat.refresh_from_db()
    assert (of(chat), chat.rollout) == ([2], None)
    kinds = [kind for kind in story(chat) if kind in ("RollingOut", "Split", "Promoted", "RolledOut")]
    assert kinds == ["RollingOut", "Split", "Split", "Promoted", "RolledOut"]


def test_it_is_taken_back_when_it_burns_in_a_later_step(world):
    chat = stepped(world)
    measured(world, **KEEPS)
    later(world, STEP)
    measured(world, r2=(200, 150), r1=(200, 1))
    later(world, 30.0)
    assert split(world) == (2, 0) or of(chat) == [1]
    chat.refresh_from_db()
    assert chat.spec["image"] == OLD


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({}, "Its own requests are not measured."),
        ({"r2": (LEAST - 1, 0)}, f"It has answered {LEAST - 1} requests in this step"),
        ({"r2": (100, 2), "r1": (100, 2)}, "2 % of its requests in this step were late or failed; 1 % may."),
    ],
)
def test_a_step_that_is_not_taken_says_why_and_the_part_stays(world, counts, why):
    chat = stepped(world, objective={"p95_latency": "200ms", "availability": 99})
    measured(world, **counts)
    later(world, 10 * STEP)
    assert split(world) == (2, 10)
    assert shown(chat)["held"].startswith(why)


def test_what_it_says_while_it_waits_for_its_time_and_when_that_is_over(world):
    chat = stepped(world)
    measured(world, **KEEPS)
    later(world, 30.0)
    found = shown(chat)
    assert (found["steps"], found["next_weight"], found["held"]) == ([10, 50], 50, "Each step lasts 5 minutes.")
    assert found["next_at"] is not None


def test_a_step_waits_for_the_replicas_that_it_needs(world):
    chat = stepped(world, 4)
    measured(world, **KEEPS)
    later(world, STEP)
    assert split(world) == (2, 50)
    later(world, 2 * STEP)
    assert split(world) == (2, 50)
    assert shown(chat)["held"] == "1 of the 2 replicas that this step needs answer."
    away(world, chat)
    up(world, chat)
    later(world, 30.0)
    assert story(chat).count("Promoted") == 1


def test_what_is_judged_begins_with_each_step_anew(world):
    chat = stepped(world)
    asked: list[float] = []
    measured(world, **KEEPS)
    feed = world.metrics.revisions
    world.metrics.revisions = lambda promises: asked.append(next(iter(promises.values()))[0]) or feed(promises)
    later(world, STEP)
    later(world, 30.0)
    assert chat.rollout is not None
    assert asked[0] == chat.rollout["split_at"]
    assert asked[-1] - asked[0] == pytest.approx(STEP, abs=30.0)


def test_a_weight_by_hand_takes_the_place_of_the_steps(world):
    chat = stepped(world)
    measured(world, **KEEPS)
    change(chat, rollout={"weight": 30})
    assert split(world) == (2, 30)
    later(world, 10 * STEP)
    assert split(world) == (2, 30)
    assert (shown(chat)["next_weight"], shown(chat)["steps"]) == (None, [])


def test_steps_may_be_given_to_a_canary_that_waits_for_a_person(world):
    chat = service(world, 1)
    change(chat, image=NEW, rollout={"weight": 5})
    up(world, chat)
    change(chat, rollout=STEPS)
    measured(world, **KEEPS)
    assert split(world) == (2, 10)
    later(world, STEP)
    assert split(world) == (2, 50)


@pytest.mark.parametrize(
    ("rollout", "objective", "field", "text"),
    [
        ({"steps": [50, 10]}, True, "rollout.steps", "does not rise. Write 10, 50."),
        ({"steps": [10], "weight": 5}, True, "rollout.weight", "Keep one."),
        ({"steps": [10]}, False, "rollout.steps", "Add objective."),
        ({"step_minutes": 5}, True, "rollout.step_minutes", "Add steps"),
        ({"steps": [0]}, True, "rollout.steps.0", "at least 1"),
        ({"steps": [10, 10]}, True, "rollout.steps", "twice"),
        ({"steps": 10}, True, "rollout.steps", "Give a list."),
    ],
)
def test_steps_that_make_no_sense_are_refused_with_the_field_and_the_fix(world, rollout, objective, field, text):
    chat = service(world, 1)
    with pytest.raises(SpecError) as refused:
        change(chat, image=NEW, rollout=rollout, objective={"p95_latency": "200ms"} if objective else None)
    assert [(one.field, text in one.message) for one in refused.value.errors] == [(field, True)]


@given(
    st.lists(st.integers(1, 99), min_size=1, max_size=20, unique=True).map(sorted),
)
def test_the_steps_rise_and_end_with_all_requests(steps):
    rollout = {"is_back": False, "weight": steps[0], "steps": steps}
    taken = [steps[0]]
    while (weight := canarysteps.next_weight(rollout)) is not None:
        taken.append(weight)
        rollout["weight"] = weight
    assert taken == [*steps, 100]
