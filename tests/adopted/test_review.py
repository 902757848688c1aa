"""Reviews as values: what is stamped, filled in and refused. No cluster, no database."""

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from controlplane.adopted.kinds import DEPLOYMENT, JOB
from controlplane.webhook import review as reviews
from controlplane.webhook.review import Asked, Json, Top
from controlplane.webhook.server import LARGEST, Application, answer
from tests.adopted.rig import bare_pod, cron_job, deployment, job

UID = "0a1b2c3d-0000-4000-8000-00000000000a"
AUTHORS = {"nightly": "ana", "anothers": "vic"}  # of CronJobs
TOP = Top(JOB, "Job/train", UID, True)


class World:
    """A lookup with one member and one top."""

    def __init__(self, top: Top | None = None, fails: bool = False) -> None:
        self._top = top
        self._fails = fails

    async def top(self, namespace: str, references: list[Json]) -> Top | None:
        return self._top

    async def author(self, namespace: str, reference: Json) -> str:
        return AUTHORS.get(reference["name"], "")

    async def refusal(self, username: str, team: str) -> str:
        if self._fails:
            raise OSError("the database does not answer")
        return "" if username == "ana" else f"{username} may not."

    async def objection(self, operation: str, thing: Json, old: Json | None, username: str) -> str:
        return "" if username == "ana" else f"{username} may not."

    def is_controller(self, username: str) -> bool:
        return username == "job-controller"

    def team(self, namespace: str) -> str:
        return namespace.removeprefix("weft-")


def asked(body: Json, old: Json | None = None, by: str = "ana", operation: str = "") -> Asked:
    group = body["apiVersion"].partition("/")[0] if "/" in body["apiVersion"] else ""
    operation = operation or ("UPDATE" if old else "CREATE")
    return Asked("7", by, (), operation, group, body["kind"], "weft-nlp", body, old or {})


def told(one: Asked, world: World | None = None) -> tuple[bool, str, Json]:
    """Whether it is let in, what is said, and the object as it becomes."""
    response = asyncio.run(answer(one, world or World()))["response"]
    assert response["uid"] == "7"
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return response["allowed"], response.get("status", {}).get("message", ""), applied(one.object, patch)


def applied(body: Json, patch: list[Json]) -> Json:
    """RFC 6902, as far as the server uses it."""
    made: Json = json.loads(json.dumps(body))
    for step in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        at = made
        for part in path:
            at = at[part]
        if step["op"] == "remove":
            del at[last]
        else:
            at[last] = step["value"]
    return made


def test_a_new_job_is_suspended_and_its_author_noted() -> None:
    allowed, _, made = told(asked(job("train")))
    assert allowed
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["annotations"] == {"internal.weft.dev/user": "ana"}
    rest = {name: value for name, value in made["spec"].items() if name != "suspend"}
    assert rest == job("train")["spec"]  # nothing else of it is changed


def test_a_new_deployment_is_not_suspended_as_it_cannot_be() -> None:
    _, _, made = told(asked(deployment("chat")))
    assert made["spec"] == deployment("chat")["spec"]


def test_an_update_that_leaves_the_stamp_out_keeps_it() -> None:
    old = told(asked(job("train")))[2]
    new = {**old, "metadata": {**old["metadata"], "annotations": {"note": "mine"}}}
    allowed, _, made = told(asked(new, old, by="controller"))
    assert allowed
    assert made["metadata"]["annotations"] == {"note": "mine", "internal.weft.dev/user": "ana"}


def test_a_job_of_another_object_is_that_objects() -> None:
    inside = job("part")
    inside["metadata"] |= {"ownerReferences": [{"controller": True, "uid": UID}], "labels": {}}
    assert told(asked(inside, by="system:serviceaccount:jobset:controller"), World(TOP))[2] == inside


def pod(top: Top | None = TOP, **changes: Any) -> tuple[bool, str, Json]:
    return told(asked({**bare_pod(), **changes}, by="job-controller"), World(top))


def test_a_pod_of_a_queued_object_is_gated_and_bound_to_it() -> None:
    allowed, _, made = pod()
    assert allowed
    assert made["spec"]["schedulingGates"] == [{"name": "weft.dev/queue"}]
    assert made["spec"]["schedulerName"] == "weft"
    assert made["metadata"]["labels"]["weft.dev/workload"] == UID
    assert made["metadata"]["annotations"]["internal.weft.dev/owner"] == "Job/train"
    container = made["spec"]["containers"][0]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_pod_without_a_gpu_is_shown_none() -> None:
    body = bare_pod()
    del body["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    env = pod(spec=body["spec"])[2]["spec"]["containers"][0]["env"]
    assert env == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_a_pod_with_the_words_of_sharepods_is_a_share() -> None:
    body = bare_pod()
    del body["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    words = {"kubeshare/gpu_request": "0.3", "kubeshare/gpu_limit": "0.8", "kubeshare/gpu_mem": "1073741824"}
    allowed, _, made = pod(spec=body["spec"], metadata={"annotations": words, "labels": {"sharedgpu/group_name": "g"}})
    assert allowed
    noted = made["metadata"]["annotations"]
    assert {key: noted[f"internal.weft.dev/{key}"] for key in ("milli", "limit", "gpu-memory")} == {
        "milli": "300", "limit": "800", "gpu-memory": "1024",
    }  # fmt: skip
    assert not [key for key in noted if key.startswith("kubeshare/")]
    assert made["metadata"]["labels"]["sharedgpu/group_name"] == "g"
    env = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in made["spec"]["containers"][0]["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"] == "metadata.annotations['internal.weft.dev/device']"
    assert env["WEFT_GPU_MEMORY_MIB"] == "metadata.annotations['internal.weft.dev/gpu-memory']"
    assert made["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"
    allowed, message, _ = pod(metadata={"annotations": {"kubeshare/gpu_request": "x"}})
    assert not allowed
    assert "kubeshare/gpu_request is x. Give a number." in message


@pytest.mark.parametrize(
    ("top", "said"),
    [
        (None, "Submit one with `weft submit`, or create a Job with the label weft.dev/queue: nlp"),
        (replace(TOP, is_queued=False), "Job/train is not queued. Create it anew with the label weft.dev/queue: nlp"),
        (Top(None, "StatefulSet/db", UID, False), "StatefulSet/db: Weft does not queue this kind"),
    ],
)
def test_a_pod_of_nothing_queued_is_refused(top: Top | None, said: str) -> None:
    allowed, message, _ = pod(top)
    assert not allowed
    assert said in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metadata": {"labels": {"weft.dev/workload": UID}}}, "weft.dev/workload is Weft's"),
        ({"metadata": {"annotations": {"internal.weft.dev/gpus": "0"}}}, "internal.weft.dev/gpus is Weft's"),
        ({"spec": {**bare_pod()["spec"], "schedulingGates": [{"name": "mine"}]}}, "spec.schedulingGates"),
        ({"spec": {**bare_pod()["spec"], "nodeName": "a"}}, "spec.nodeName"),
    ],
)
def test_a_pod_that_says_what_is_wefts_to_say_is_refused(changes: dict[str, Any], said: str) -> None:
    allowed, message, _ = pod(**changes)
    assert not allowed
    assert said in message


def test_a_replica_of_a_deployment_may_change_its_image_but_not_its_size() -> None:
    old = told(asked(deployment("chat")))[2]
    new = json.loads(json.dumps(old))
    new["spec"] |= {"replicas": 7}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/train:2"
    assert told(asked(new, old))[0]
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 2
    assert "resources cannot change while it is queued" in told(asked(new, old))[1]
    assert DEPLOYMENT.suspend == ()


def test_a_custom_resource_is_stamped_with_its_author() -> None:
    workload = {"apiVersion": "weft.dev/v1beta1", "kind": "Workload", "metadata": {"name": "a"}, "spec": {}}
    assert told(asked(workload))[2]["metadata"]["annotations"] == {"internal.weft.dev/user": "ana"}
    assert told(asked(workload, by="vic"))[:2] == (False, "Weft: vic may not.")
    assert told(asked(workload, operation="DELETE"))[2] == workload


# --- CronJobs -------------------------------------------------------------------------------------


def test_a_new_cron_job_is_noted_with_its_author_and_nothing_else_of_it_is_changed() -> None:
    allowed, _, made = told(asked(cron_job("nightly")))
    assert allowed
    assert made["metadata"].pop("annotations") == {"internal.weft.dev/user": "ana"}
    assert made == cron_job("nightly")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: t.pop("metadata"),
            "spec.jobTemplate.metadata.labels has no weft.dev/queue. Write weft.dev/queue: nlp",
        ),
        (lambda t: t["metadata"]["labels"].update({"weft.dev/queue": "vision"}), 'is "vision". Here it is "nlp"'),
        (lambda t: t["metadata"].update(annotations={"internal.weft.dev/user": "root"}), "is Weft's. Leave it out"),
        (lambda t: t["spec"].update(parallelism=1, completions=3), "in spec.jobTemplate: spec.completions is 3"),
        (lambda t: t["metadata"]["labels"].update({"weft.dev/priority-class": "Ü"}), "priority_class"),
    ],
)
def test_a_cron_job_whose_jobs_could_not_be_queued_is_refused_with_the_fix(change: Any, said: str) -> None:
    body = cron_job("nightly")
    change(body["spec"]["jobTemplate"])
    allowed, message, _ = told(asked(body))
    assert not allowed
    assert said in message


def test_whoever_changes_a_cron_job_is_its_author_and_a_status_changes_nothing() -> None:
    old = told(asked(cron_job("nightly")))[2]
    old["metadata"]["annotations"]["internal.weft.dev/user"] = "ben"
    assert told(asked({**old, "status": {}}, old, by="vic"))[2]["metadata"] == old["metadata"]
    new = {**old, "spec": {**old["spec"], "schedule": "5 * * * *"}}
    assert told(asked(new, old, by="vic"))[:2] == (False, "Weft: vic may not.")
    assert told(asked(new, old))[2]["metadata"]["annotations"] == {"internal.weft.dev/user": "ana"}


def made_by(name: str, by: str = "job-controller", labels: dict[str, str] | None = None) -> tuple[bool, str, Json]:
    body = job(f"{name}-1", labels=labels)
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": UID, "controller": True}
    body["metadata"]["ownerReferences"] = [reference]
    return told(asked(body, by=by), World(Top(None, f"CronJob/{name}", UID, False)))


def test_a_job_of_a_cron_job_is_its_authors_or_of_the_person_that_makes_it_by_hand() -> None:
    allowed, _, made = made_by("nightly")
    assert allowed
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["annotations"] == {"internal.weft.dev/user": "ana"}
    assert made_by("anothers", by="ana")[2]["metadata"]["annotations"] == {"internal.weft.dev/user": "ana"}
    assert made_by("anothers")[1] == "Weft: CronJob/anothers is vic's: vic may not."
    assert "CronJob/old: nothing says which user made it" in made_by("old")[1]


# --- the server -----------------------------------------------------------------------------------


def posted(content: bytes, path: str = "/review", world: World | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=cast(Any, Application(world or World())))
        async with httpx.AsyncClient(transport=transport, base_url="https://weft") as client:
            return await client.post(path, content=content)

    return asyncio.run(send())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"{}", b'{"request": 7}', b'{"request": {"uid": "1"}}'])
def test_what_is_no_review_is_told_so(content: bytes) -> None:
    assert posted(content).status_code == 400


def test_what_is_too_large_is_not_read() -> None:
    assert posted(b" " * (LARGEST + 1)).status_code == 413


def test_another_address_is_not_there() -> None:
    assert posted(b"{}", "/other").status_code == 404


def test_what_cannot_be_looked_up_is_not_let_in() -> None:
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    request = {"uid": "1", "kind": kind, "userInfo": {"username": "ana"}, "operation": "CREATE",
               "namespace": "weft-nlp", "object": job("a")}  # fmt: skip
    body = json.dumps({"request": request}).encode()
    assert posted(body, world=World(fails=True)).status_code == 500
    assert posted(body).json()["response"]["allowed"] is True


def test_a_patch_names_only_what_differs() -> None:
    before = {"metadata": {"name": "a"}, "spec": {"x": 1, "y": {"z": 1}}}
    after = {"metadata": {"name": "a", "labels": {"a/b": "c"}}, "spec": {"x": 1, "y": {"z": 2}}}
    assert sorted(step["path"] for step in reviews.difference(before, after)) == ["/metadata/labels", "/spec/y"]


def test_a_pod_of_a_queued_object_is_made_by_a_controller() -> None:
    allowed, message, _ = told(asked(bare_pod(), by="ana"), World(TOP))
    assert not allowed
    assert "only its controller makes pods of Job/train, and ana is none" in message
