"""What would make a training faster, what was tried for that, and the way back, by REST."""

from dataclasses import asdict
from typing import Any

from autoscaler.reallocate.course import Course
from autoscaler.throughput.allocation import Allocation
from controlplane.domain import coursestate
from controlplane.domain.coursestate import Kept
from controlplane.models import Event, Experiment, SlowNode, Team, TrainingDiagnosis, Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, job
from tests.controlplane.state import START

BEFORE, AFTER = Allocation((1,), 1, 1, 1.0), Allocation((1,), 1, 1, 4.0)


def running(api: People) -> Workload:
    resources = {"gpus": 1, "cpu": 4, "memory": "1Gi"}
    made = body_of(api.member.post("/workloads", job(name="fit", resources=resources)), 201)
    workload = Workload.objects.get(pk=made["uid"])
    api.world.run(workload, "a")
    return workload


def tried(workload: Workload, status: str = "kept", **values: Any) -> Experiment:
    given = {"gain": 0.405, "gain_error": 0.02, "windows": 9, "ended_at": START} | values
    return Experiment.objects.create(
        workload=workload, attempt=1, axis="cpu", status=status, begun_at=START - 600, expected=0.5, expected_error=0.1,
        before=asdict(BEFORE), after=asdict(AFTER), message="4 cores instead of 1",
        **given,
    )  # fmt: skip


def test_a_training_tells_what_would_make_it_faster_and_what_was_tried(api: People) -> None:
    fit = running(api)
    at = f"/trainings/{fit.pk}/experiments"
    nothing = body_of(api.viewer.get(at))
    assert (nothing["reallocation"], nothing["recommended"], nothing["experiments"]) == ("recommend", [], [])
    course = coursestate.plain(Kept(fit.attempt, Course(BEFORE), ("8 cores for each worker instead of 4",)))
    row = {"attempt": fit.attempt, "at": START, "since": START, "bottleneck": "", "state": {}, "course": course}
    TrainingDiagnosis.objects.create(workload=fit.pk, **row)
    tried(fit, "rolled_back")
    tried(fit)
    told = body_of(api.viewer.get(at))
    assert told["recommended"] == ["8 cores for each worker instead of 4"]
    assert [one["status"] for one in told["experiments"]] == ["kept", "rolled_back"]
    newest = told["experiments"][0]
    assert (newest["gain"], newest["windows"], newest["before"]["cpu"], newest["after"]["cpu"]) == (0.4993, 9, 1.0, 4.0)
    assert told["can_take_back"]
    chat = body_of(api.member.post("/workloads", job(name="chat", type="inference")), 201)
    fields_of(api.viewer.get(f"/trainings/{chat['uid']}/experiments"), 404)


def test_the_newest_change_is_taken_back_by_those_who_may_change_it(api: People) -> None:
    fit = running(api)
    at = f"/trainings/{fit.pk}/experiments/take-back"
    assert body_of(api.member.post(at, {}), 409)["code"] == "NothingToTakeBack"
    tried(fit)
    fields_of(api.viewer.post(at, {}), 403)
    assert not body_of(api.member.post(at, {}))["can_take_back"]
    fit.refresh_from_db()
    assert fit.spec["resources"]["cpu"] == 1
    assert fit.resize is not None
    (event,) = Event.objects.filter(kind="ChangeTakenBack")
    assert (event.actor, event.message) == ("mia", "Taken back: 4 cores instead of 1.")
    assert body_of(api.member.post(at, {}), 409)["code"] == "NothingToTakeBack"


def test_the_explanation_says_what_weft_changed_of_it(api: People) -> None:
    fit = running(api)
    at = f"/workloads/{fit.pk}/explanation"
    assert body_of(api.viewer.get(at))["changed_by_weft"] == []
    tried(fit, "on_trial", gain=None, ended_at=None)
    (told,) = body_of(api.viewer.get(at))["changed_by_weft"]
    assert (told["axis"], told["status"]) == ("cpu", "on_trial")
    assert told["message"] == "A change of it is on trial: 4 cores instead of 1."
    assert "weft rollback fit" in told["undo"]
    chat = body_of(api.member.post("/workloads", job(name="chat", type="inference")), 201)
    assert body_of(api.viewer.get(f"/workloads/{chat['uid']}/explanation"))["changed_by_weft"] == []


def test_a_change_that_another_hand_has_undone_is_not_there_to_be_taken_back(api: People) -> None:
    fit = running(api)
    tried(fit)
    resources = fit.spec["resources"] | {"cpu": 2}
    body_of(api.member.send("PATCH", f"/workloads/{fit.pk}", {"resources": resources}))
    assert not body_of(api.viewer.get(f"/trainings/{fit.pk}/experiments"))["can_take_back"]


def test_a_teams_admin_says_what_is_done_for_its_trainings(api: People) -> None:
    answer = body_of(api.admin.send("PATCH", "/teams/red", {"reallocation": "automatic"}))
    assert (answer["reallocation"], answer["shares_with_others"]) == ("automatic", False)
    (event,) = Event.objects.filter(kind="ReallocationChanged")
    assert (event.team, event.data) == ("red", {"mode": "automatic", "before": "recommend"})
    assert fields_of(api.admin.send("PATCH", "/teams/red", {"reallocation": "always"})) == ["reallocation"]
    assert fields_of(api.admin.send("PATCH", "/teams/red", {})) == ["shares_with_others"]
    fields_of(api.member.send("PATCH", "/teams/red", {"reallocation": "off"}), 403)
    both = {"reallocation": "off", "shares_with_others": True}
    answer = body_of(api.admin.send("PATCH", "/teams/red", both))
    assert {name: answer[name] for name in both} == both
    assert Team.objects.get(name="red").reallocation == "off"


def test_a_move_is_told_with_the_node_that_was_left_and_is_taken_back_once_there_is_room(api: People) -> None:
    fit = running(api)
    Workload.objects.filter(pk=fit.pk).update(checkpoint_interval=600)
    before, after = asdict(Allocation((1,), 1, 1, 4.0)), asdict(Allocation((1,), 1, 1, 4.0, off=("b",)))
    row = tried(fit)
    Experiment.objects.filter(pk=row.pk).update(axis="node", node="b", before=before, after=after)
    at = f"/trainings/{fit.pk}/experiments"
    told = body_of(api.viewer.get(at))
    assert [(one["axis"], one["node"]) for one in told["experiments"]] == [("node", "b")]
    assert told["can_take_back"]
    assert not body_of(api.member.post(f"{at}/take-back", {}))["can_take_back"]
    assert Event.objects.filter(kind="ChangeTakenBack").exists()


def test_a_node_tells_in_which_trainings_a_worker_there_was_slow(api: People) -> None:
    fit = running(api)
    at = "/nodes/a/slow-workers"
    assert body_of(api.viewer.get(at)) == {"node": "a", "trainings": []}
    SlowNode.objects.create(workload=fit, attempt=1, node="a", rank=0, at=START, part=0.25)
    (one,) = body_of(api.viewer.get(at))["trainings"]
    assert (one["uid"], one["name"], one["rank"], one["part"]) == (str(fit.pk), "fit", 0, 0.25)
    (hidden,) = body_of(api.outsider.get(at))["trainings"]
    assert (hidden["uid"], hidden["name"], hidden["team"]) == (None, "", "red")
    fields_of(api.viewer.get("/nodes/nowhere/slow-workers"), 404)
