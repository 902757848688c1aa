"""An object from kubectl to its end: submitted, shown, changed, suspended, stopped."""

import math
import time
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.loops import intake
from controlplane.models import ServiceWindow, Workload
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads import workloads
from tests.controlplane.intake.conftest import ANA, BEN, STRANGER, WORKLOADS, Kube, loaded, text, workload

pytestmark = pytest.mark.django_db


def phases(kube: Kube) -> dict[str, Any]:
    return {one: kube.condition("hello", one)[:2] for one in ("Accepted", "Admitted", "Running", "Finished")}


def test_conditions_tell_the_whole_life(kube: Kube) -> None:
    made = kube.apply(workload())
    kube.settle()
    row = Workload.objects.select_related("created_by").get()
    assert str(row.pk) == made["metadata"]["uid"]
    assert (row.name, row.team.name, row.managed_by) == ("hello", "red", "workloads.weft.dev")
    assert row.created_by is not None
    assert row.created_by.username == "ana"
    assert phases(kube) == {
        "Accepted": ("True", "Accepted"), "Admitted": ("False", "Queued"),
        "Running": ("False", "Queued"), "Finished": ("False", "Queued"),
    }  # fmt: skip
    kube.world.run(row, "a")
    kube.settle()
    status = kube.get("hello")["status"]
    assert (status["phase"], status["gpus"], status["workers"], status["attempt"]) == ("Running", "1", "1/1", 1)
    assert "startedAt" in status
    assert phases(kube)["Admitted"] == ("True", "Running")
    assert phases(kube)["Running"] == ("True", "Running")
    since = {one["type"]: one["lastTransitionTime"] for one in status["conditions"]}
    kube.world.pods(row, PodPhase.SUCCEEDED, exit_code=0)
    kube.settle()
    status = kube.get("hello")["status"]
    assert (status["phase"], status["exitCode"]) == ("Succeeded", 0)
    assert phases(kube)["Finished"] == ("True", "Succeeded")
    assert phases(kube)["Running"] == ("False", "Succeeded")
    after = {one["type"]: one["lastTransitionTime"] for one in status["conditions"]}
    assert after["Accepted"] == since["Accepted"]
    assert status["observedGeneration"] == made["metadata"]["generation"]


def test_kubectl_get_shows_columns_and_wait_knows_the_conditions(kube: Kube) -> None:
    done = kube.kubectl("apply", "-f", "-", given=text(stamped(workload())))
    assert done.returncode == 0, done.stderr
    kube.settle()
    table = kube.cluster.request("GET", WORKLOADS, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    names = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert names == [
        ("Name", 0), ("Type", 0), ("Phase", 0), ("Standing", 0), ("Reason", 0), ("GPUs", 0), ("Workers", 0), ("Age", 0),
        ("Priority", 1), ("Accepted", 1), ("Message", 1),
    ]  # fmt: skip
    (row,) = table["rows"]
    assert row["cells"][:7] == ["hello", "training", "Queued", None, "", "1", "0/1"]
    assert row["cells"][9] == "True"
    shown = kube.kubectl("get", "workloads.weft.dev", "-n", "weft-red", "--no-headers").stdout.split()
    assert shown[:3] == ["hello", "training", "Queued"]
    waited = kube.kubectl(
        "wait", "--for=condition=Accepted", "workload.weft.dev/hello", "-n", "weft-red", "--timeout=5s"
    )
    assert waited.returncode == 0, waited.stderr
    (one,) = loaded(kube.kubectl("get", "weft", "-n", "weft-red", "-o", "json"))["items"]
    assert one["status"]["phase"] == "Queued"


def test_how_a_service_stands_follows_without_an_event(kube: Kube) -> None:
    def later() -> tuple[str, str]:
        """What is told of it half a minute on, in which nothing has happened."""
        kept = kube.wiring.kept[intake.LOOP]
        assert kept.again_at <= time.monotonic() + intake.STANDING_SECONDS
        kept.again_at = 0.0
        kube.settle()
        return kube.condition("hello", "ObjectiveMet")[:2]

    objective = {"p95Latency": "200ms", "availability": 99, "window": "1d"}
    kube.apply(workload(type="inference", port=8000, objective=objective))
    kube.settle()
    row = Workload.objects.get()
    kube.world.run(row, "a")
    kube.settle()
    assert kube.condition("hello", "ObjectiveMet")[:2] == ("Unknown", "NotKnown")
    start = kube.world.cluster.at - 120
    window = ServiceWindow.objects.create(workload=row.pk, start=start, requests=2000, over=0, p95_seconds=0.1)
    assert later() == ("True", "Met")
    for over, told in ((19, ("True", "AtRisk")), (30, ("False", "Violated"))):
        window.over = over  # of 20 that may be
        window.save()
        assert later() == told
    shown = kube.kubectl("get", "workloads.weft.dev", "-n", "weft-red", "--no-headers").stdout.split()
    assert shown[:4] == ["hello", "inference", "Running", "Violated"]
    workloads.stop(workload=row, actor="root", hand=Hand.ADMIN)
    kube.world.pods(row, PodPhase.GONE)
    kube.settle()
    assert kube.get("hello")["status"]["phase"] == "Stopped"
    assert kube.condition("hello", "ObjectiveMet") == ("", "", "")
    assert kube.wiring.kept[intake.LOOP].again_at == math.inf


def stamped(thing: dict[str, Any], user: str = ANA) -> dict[str, Any]:
    thing["metadata"]["annotations"] = {"internal.weft.dev/user": user}
    return thing


def test_a_change_of_the_object_is_one_of_the_workload(kube: Kube) -> None:
    kube.apply(workload())
    kube.settle()
    kube.apply(workload(maxDuration="2h", workers={"count": 2}))
    kube.settle()
    row = Workload.objects.get()
    assert (row.max_seconds, row.workers) == (7200, 2)
    assert kube.condition("hello") == ("True", "Accepted", "")
    kube.apply(workload())  # what is left out is taken away, or as it is by default
    kube.settle()
    row = Workload.objects.get()
    assert (row.max_seconds, row.workers) == (None, 1)


def test_what_cannot_change_now_is_said_and_done_once_it_can(kube: Kube) -> None:
    kube.apply(workload())
    kube.settle()
    row = Workload.objects.get()
    kube.world.run(row, "a")
    kube.apply(workload(workers={"count": 2}))
    kube.settle()
    assert kube.condition("hello")[:2] == ("False", "NotWaiting")
    assert "its workers can be changed only while it waits" in kube.condition("hello")[2]
    kube.apply(workload(workers={"count": 2}, suspend=True))
    kube.settle()
    kube.world.actuate()
    kube.world.pods(row, PodPhase.GONE)
    kube.restart()  # in place of the seconds until a refusal is tried again
    kube.settle()
    row.refresh_from_db()
    assert (row.phase, row.reason, row.workers) == ("Held", "Suspended", 2)
    assert kube.condition("hello")[:2] == ("True", "Accepted")
    kube.apply(workload(workers={"count": 2}))
    kube.settle()
    row.refresh_from_db()
    assert row.phase == "Queued"


def test_suspend_takes_it_out_of_the_queue_also_at_its_beginning(kube: Kube) -> None:
    kube.apply(workload(suspend=True))
    kube.settle()
    assert Workload.objects.get().phase == "Held"
    assert kube.condition("hello", "Admitted")[:2] == ("False", "Suspended")
    kube.apply(workload(suspend=False))
    kube.settle()
    assert Workload.objects.get().phase == "Queued"


def test_a_parked_notebook_is_not_resumed_by_its_object(kube: Kube) -> None:
    kube.apply(workload(type="notebook", image=None))
    kube.settle()
    Workload.objects.update(phase="Suspended", reason="Culled")
    kube.apply(workload(type="notebook", image=None, maxDuration="9h"))
    kube.settle()
    row = Workload.objects.select_related("team").get()
    assert (row.phase, row.max_seconds) == ("Suspended", 9 * 3600)
    workloads.resume(workload=row, actor="ana")
    kube.settle()
    assert kube.get("hello")["status"]["phase"] == "Queued"


def test_deleting_the_object_stops_the_workload(kube: Kube) -> None:
    kube.apply(workload())
    kube.settle()
    kube.delete("hello")
    kube.settle()
    assert Workload.objects.get().phase == "Stopped"


def test_an_object_that_is_made_again_is_another_workload(kube: Kube) -> None:
    kube.apply(workload())
    kube.settle()
    kube.delete("hello")
    kube.apply(workload(maxDuration="1h"))
    kube.settle()
    assert list(Workload.objects.order_by("seq").values_list("phase", "max_seconds")) == [
        ("Stopped", None),
        ("Queued", 3600),
    ]


def test_what_an_admin_has_stopped_stays_so_and_says_what_to_do(kube: Kube) -> None:
    kube.apply(workload())
    kube.settle()
    row = Workload.objects.select_related("team").get()
    workloads.stop(workload=row, actor="root", hand=Hand.ADMIN)
    kube.settle()
    assert kube.condition("hello", "Finished") == ("True", "Stopped", "Stopped by root.")
    kube.apply(workload(maxDuration="1h"))
    kube.settle()
    assert kube.condition("hello") == (
        "False", "Ended", "hello has ended. Delete this object and apply it again to run it as it is now.",
    )  # fmt: skip
    assert Workload.objects.count() == 1


def test_a_file_in_any_order_is_taken_whole(kube: Kube) -> None:
    names = ["c", "b", "a"]
    for name, before in zip(names, ([{"name": "b"}], ["a"], None), strict=True):
        kube.apply(workload(name, after=before))
    kube.settle()
    assert sorted(Workload.objects.values_list("name", flat=True)) == ["a", "b", "c"]
    assert dict(Workload.objects.values_list("name", "unmet")) == {"a": [], "b": ["a"], "c": ["b"]}


def test_one_that_is_refused_keeps_no_other_from_it(kube: Kube) -> None:
    kube.apply(workload("good"))
    kube.apply(workload("early", after=["absent"]))
    kube.apply(workload("bad", resources={"gpus": 1, "memory": "lots"}))
    kube.settle()
    assert list(Workload.objects.values_list("name", flat=True)) == ["good"]
    assert kube.condition("bad") == (
        "False", "Invalid", "resources.memory: 'lots' is not a quantity. Write for example 64Gi.",
    )  # fmt: skip
    assert kube.condition("early")[1] == "UnknownDependency"
    kube.apply(workload("absent"))
    kube.restart()
    kube.settle()
    assert kube.condition("early")[:2] == ("True", "Accepted")


# --- who ------------------------------------------------------------------------------------------


def test_one_without_an_author_is_refused_with_the_fix(kube: Kube) -> None:
    kube.apply(workload(), is_stamped=False)
    kube.settle()
    status, reason, message = kube.condition("hello")
    assert (status, reason) == ("False", "NoAuthor")
    assert "as Weft's admission server has not seen it. Ask a platform admin to run it" in message
    assert not Workload.objects.exists()


def test_strangers_and_other_teams_are_refused_with_the_fix(kube: Kube) -> None:
    kube.apply(workload("one"), STRANGER)
    kube.apply(workload("two"), BEN)
    kube.settle()
    assert kube.condition("one")[1] == "UnknownUser"
    assert "is stranger in Weft, and there is no such active user. Sign in to Weft once" in kube.condition("one")[2]
    assert kube.condition("two") == (
        "False", "Forbidden", "There is no team red, or you are not in it. Name one of your teams.",
    )  # fmt: skip
    assert not Workload.objects.exists()


def test_nobody_signs_with_another_name_not_even_the_administrator(kube: Kube) -> None:
    kube.apply(workload())
    forged = stamped(workload("forged"), ANA)
    done = kube.kubectl("apply", "-f", "-", user=BEN, given=text(forged))
    assert done.returncode == 1
    assert (
        "Weft: the annotation internal.weft.dev/user names the user that sends the spec, and no other." in done.stderr
    )
    changed = kube.kubectl(
        "patch",
        "workload.weft.dev",
        "hello",
        "-n",
        "weft-red",
        "--type=merge",
        "-p",
        '{"spec":{"retries":5}}',
        user=BEN,
    )
    assert "names the user that sends the spec" in changed.stderr  # it still says ana
    labelled = kube.kubectl("label", "workload.weft.dev", "hello", "-n", "weft-red", "a=b", user=BEN)
    assert labelled.returncode == 0, labelled.stderr


def test_authors_are_not_believed_where_the_policy_is_missing(kube: Kube) -> None:
    root = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    kube.cluster.delete(f"{root}/weft-objects")
    kube.apply(workload())
    kube.settle()
    assert kube.condition("hello")[:2] == ("False", "NotFenced")
    assert not Workload.objects.exists()


def test_an_object_elsewhere_is_of_no_team(kube: Kube) -> None:
    thing = workload()
    thing["metadata"]["namespace"] = "default"
    collection = WORKLOADS.replace("weft-red", "default")
    kube.apply(thing)
    kube.settle()
    assert kube.condition("hello", collection=collection)[1:] == (
        "NoTeam", "Namespace default is no team's. Apply it in the namespace of its team: -n weft-TEAM.",
    )  # fmt: skip


def test_a_name_that_is_taken_in_weft_is_refused_until_it_is_free(kube: Kube) -> None:
    theirs = kube.world.submit("hello")
    kube.apply(workload())
    kube.settle()
    assert kube.condition("hello")[:2] == ("False", "NameTaken")
    workloads.stop(workload=theirs, actor="ana")
    kube.restart()
    kube.settle()
    assert kube.condition("hello")[:2] == ("True", "Accepted")
