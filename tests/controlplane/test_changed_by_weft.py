"""What Weft changed of a training is told wherever it is said why it is as it is: since when, why, how to undo it."""

from dataclasses import asdict
from typing import Any

import pytest

from autoscaler.throughput.allocation import Allocation
from controlplane.jobspec.quantities import iso
from controlplane.models import Event, Experiment, Workload
from controlplane.queries.workloads import reallocated
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import changing, moving
from scheduler.model.workload import Phase
from tests.controlplane.moved import running, world_of
from tests.controlplane.state import START, NoMetrics, World

pytestmark = pytest.mark.django_db
FOUR, TWO = Allocation((2, 2), 4, 1, 4.0), Allocation((2,), 2, 1, 4.0)


@pytest.fixture
def world() -> World:
    return world_of(NoMetrics())


def elastic(world: World) -> Workload:
    return running(world, "a", "a", "b", "b", workers={"count": 4, "min": 2})


def tried(training: Workload, axis: str, after: Allocation, status: str = "kept", **values: Any) -> Experiment:
    given = {"gain": 0.405, "gain_error": 0.02, "windows": 9, "ended_at": START + 60} | values
    return Experiment.objects.create(
        workload=training, attempt=1, axis=axis, status=status, begun_at=START, expected=0.5, expected_error=0.1,
        before=asdict(FOUR), after=asdict(after), message="2 workers instead of 4: expected +40 %",
        **given,
    )  # fmt: skip


def capped(world: World) -> Workload:
    training = elastic(world)
    tried(training, "workers", TWO)
    moving.cap(workload=training, workers=2, actor="loop:account", event=("ChangeTried", "Fewer"), hand=Hand.LOOP)
    training.refresh_from_db()
    return training


def test_of_one_that_nothing_was_changed_of_nothing_is_told(world: World) -> None:
    training = elastic(world)
    assert reallocated.of(training) == []
    tried(training, "workers", TWO, "rolled_back")
    assert reallocated.of(training) == []


def test_one_with_fewer_workers_than_it_may_have_says_since_when_why_and_the_way_back(world: World) -> None:
    (told,) = reallocated.of(capped(world))
    assert told == {
        "axis": "workers",
        "status": "kept",
        "since": iso(START),
        "message": (
            "It has at most 2 workers of the 4 that it may have: 2 workers instead of 4: expected +40 %; "
            "measured +50 % over 9 windows."
        ),
        "undo": "`weft rollback fit` lets it have more again, and so does a person's change of its workers.",
    }


def test_one_that_waits_says_what_it_will_have_and_may_be_given_more_before_it_starts(world: World) -> None:
    training = capped(world)
    Workload.objects.filter(pk=training.pk).update(phase=Phase.QUEUED)
    training.refresh_from_db()
    (told,) = reallocated.of(training)
    assert told["message"].startswith("Once it starts it has at most 2 workers of the 4 that it may have")
    changing.take_back(workload=training, actor="mia", hand=Hand.PERSON)
    training.refresh_from_db()
    assert training.workers_cap is None
    assert reallocated.of(training) == []


def test_where_a_later_change_would_be_taken_back_first_it_says_what_undoes_this_one(world: World) -> None:
    training = capped(world)
    tried(training, "cpu", TWO)
    (told,) = reallocated.of(training)
    assert told["undo"] == "Another number of workers that a person gives it undoes that."


def test_one_that_is_to_move_says_where_to_why_and_how_to_have_it_stay(world: World) -> None:
    training = running(world)
    tried(training, "place", Allocation((4,), 4, 1, 4.0), "on_trial", gain=None, ended_at=None)
    event = ("ChangeTried", "its 4 GPUs on 1 node instead of 4: expected +80 %")
    moving.ask(workload=training, workers=[4], off=[], actor="loop:account", event=event, hand=Hand.LOOP)
    training.refresh_from_db()
    (told,) = reallocated.of(training)
    assert (told["axis"], told["status"], told["since"]) == (
        "place",
        "on_trial",
        iso(Event.objects.get(kind="ChangeTried").cluster_at),
    )
    assert told["message"] == f"It is to run on 1 node, with 4 workers on it: {event[1]}."
    assert told["undo"] == "`weft rollback fit` has it stay where it is."
    Workload.objects.filter(pk=training.pk).update(moving=True)
    training.refresh_from_db()
    (told,) = reallocated.of(training)
    assert told["message"].startswith("It leaves for 1 node, with 4 workers on it, where a place is kept: ")
    assert told["undo"] == "Once it runs there, `weft rollback fit` has it moved back."
    Workload.objects.filter(pk=training.pk).update(moving=False, goes_to=[])
    training.refresh_from_db()
    (told,) = reallocated.of(training)
    assert told["message"].startswith("It was moved, and is measured there: ")


def test_one_on_its_way_back_says_so(world: World) -> None:
    training = running(world)
    tried(training, "place", Allocation((4,), 4, 1, 4.0), "rolled_back")
    event = ("ChangeRolledBack", "its 4 GPUs on 1 node instead of 4. Measured -1 % over 9 windows.")
    moving.ask(workload=training, workers=[2, 1, 1], off=[], actor="loop:account", event=event, hand=Hand.LOOP)
    training.refresh_from_db()
    (told,) = reallocated.of(training)
    assert told["message"] == f"It is to run on 3 nodes, with 2, 1, 1 workers on them: {event[1]}"
    assert told["undo"].startswith("It goes back to what it had; ")


def test_a_change_on_trial_in_place_is_told_and_one_that_has_ended_tells_nothing(world: World) -> None:
    training = elastic(world)
    tried(training, "cpu", TWO, "on_trial", gain=None, ended_at=None)
    (told,) = reallocated.of(training)
    assert told["message"] == "A change of it is on trial: 2 workers instead of 4: expected +40 %."
    assert told["undo"].startswith("`weft rollback fit` brings back what it had")
    training.phase = Phase.SUCCEEDED.value
    assert reallocated.of(training) == []
