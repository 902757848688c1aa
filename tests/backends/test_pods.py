"""What each back-end has a share's pod say. Pure: no API server."""

from dataclasses import replace

import pytest

from controlplane.cluster.kubernetes import names, pods
from controlplane.cluster.kubernetes.backends import choice, dra, hami
from controlplane.cluster.kubernetes.nodes import machine_of
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.kubernetes.podstatus import pod_of as read
from controlplane.cluster.port import PodSpec
from gpushare.gpu import Enforcer
from tests.backends import told
from tests.controlplane.kubernetes.jobs import job, pod_of

ACCOUNTED = (Enforcer.MIG, Enforcer.MPS, Enforcer.HAMI, Enforcer.DRA)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def share(enforcer: str = "", **changes: object) -> PodSpec:
    asked = {"gpu_share": {"guarantee": 0.25, "limit": 0.5, "memory": "4Gi"}}
    pod = pod_of(job(type="notebook", name="n", resources=asked))
    return replace(pod, node="a", gpus=(1,), enforcer=enforcer, profile="2g.10gb", **changes)  # type: ignore[arg-type]


def built(pod: PodSpec) -> dict[str, object]:
    return pods.build(pod, namespace="weft-nlp")


def main(pod: PodSpec) -> dict[str, object]:
    return built(pod)["spec"]["containers"][0]  # type: ignore[index,no-any-return]


def variables(pod: PodSpec) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in main(pod)["env"]}  # type: ignore[attr-defined,union-attr]


@pytest.mark.parametrize("enforcer", ["", "advisory", "back-end", "time-slicing"])
def test_where_kubernetes_accounts_nothing_the_pod_is_as_it_was(enforcer: str) -> None:
    assert built(share(enforcer)) == built(share())
    assert not choice.of(share(enforcer)).accounts
    assert set(main(share())["resources"]["limits"]) == {"cpu", "memory"}  # type: ignore[index]
    assert names.ENFORCER not in built(share())["metadata"]["annotations"]  # type: ignore[index]


def test_each_asks_for_its_own_resource() -> None:
    asked = {one: {k: v for k, v in main(share(one))["resources"]["limits"].items() if "/" in k} for one in ACCOUNTED}  # type: ignore[index]
    assert asked == {
        "mig": {"nvidia.com/mig-2g.10gb": "1"},
        "mps": {"nvidia.com/gpu.shared": "1"},
        "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "25"},
        "dra": {},
    }
    for one in ACCOUNTED:
        limits, requests = (main(share(one))["resources"][part] for part in ("limits", "requests"))  # type: ignore[index]
        assert limits == requests


def test_ours_asks_for_a_slot_and_has_the_library_tried_first() -> None:
    body = built(share(Enforcer.WEFT))
    given, plain = main(share(Enforcer.WEFT)), main(share())
    assert {k: v for k, v in given["resources"]["limits"].items() if "/" in k} == {"weft.dev/gpu-share": "1"}  # type: ignore[index]
    assert {k: v for k, v in given.items() if k != "resources"} == {k: v for k, v in plain.items() if k != "resources"}
    assert body["spec"]["initContainers"] == [  # type: ignore[index]
        {
            "name": "gpu-share",
            "command": ["/opt/weft/enforcer/weft-gpu-run"],
            **{key: given[key] for key in ("image", "imagePullPolicy", "resources", "securityContext")},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    ]
    assert not choice.of(share(Enforcer.WEFT)).accounts
    assert names.ENFORCER not in body["metadata"]["annotations"]  # type: ignore[index]


def test_a_worker_in_what_shares_leave_is_held_by_ours_too() -> None:
    lent = replace(share(Enforcer.WEFT), is_lent=True, milli=0)
    assert main(lent)["resources"]["limits"]["weft.dev/gpu-share"] == "1"  # type: ignore[index]
    assert "initContainers" not in built(replace(lent, enforcer=""))["spec"]  # type: ignore[operator]


DEMANDED = {"on_demand": 81_920, "reach": (0, 1, 3)}


def test_on_demand_it_sees_all_gpus_of_its_node_and_begins_on_the_one_of_its_guarantee() -> None:
    pod = share(Enforcer.ON_DEMAND, **DEMANDED)
    body, plain = built(pod), built(share(Enforcer.WEFT))
    assert body["metadata"]["annotations"][names.ON_DEMAND] == "81920"  # type: ignore[index]
    assert body["spec"]["initContainers"] == plain["spec"]["initContainers"]  # type: ignore[index]
    more = [one for one in main(pod)["env"] if one not in main(share(Enforcer.WEFT))["env"]]  # type: ignore[attr-defined,operator]
    shown = {"fieldRef": {"fieldPath": f"metadata.annotations['{names.DEVICE}']"}}
    assert more == [{"name": "CUDA_VISIBLE_DEVICES", "valueFrom": shown}]
    bound = body | {"spec": {**body["spec"], "nodeName": "a"}}  # type: ignore[dict-item]
    bound["metadata"] |= {"uid": "u", "resourceVersion": "1"}  # type: ignore[operator]
    bound["metadata"]["annotations"] |= {names.GPUS: "1,0,3"}  # type: ignore[index]
    worker = read(bound)
    assert isinstance(worker, Worker)
    assert (worker.seen.gpus, worker.devices, worker.has_share) == ((1,), (1, 0, 3), True)


@pytest.mark.parametrize(("code", "reason"), [(125, "NotHeld"), (124, "ShareNotServed"), (0, "Error")])
def test_why_a_share_was_not_started_is_said(code: int, reason: str) -> None:
    made = built(share(Enforcer.WEFT))
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}  # type: ignore[operator]
    ended = {"exitCode": code, "message": "weft: not started:\n no glibc"}
    made["status"] = {
        "phase": "Failed",
        "initContainerStatuses": [{"name": "gpu-share", "state": {"terminated": ended}}],
    }
    worker = read(made)
    assert isinstance(worker, Worker)
    assert worker.seen.reason == reason
    assert worker.seen.exit_code == (code or None)
    assert worker.seen.message == ("weft: not started: no glibc" if code else "")


def test_no_variable_overrides_what_a_device_plugin_shows_the_container() -> None:
    for one in (Enforcer.MIG, Enforcer.MPS, Enforcer.HAMI):
        assert "NVIDIA_VISIBLE_DEVICES" not in variables(share(one))
    assert variables(share(Enforcer.DRA))["NVIDIA_VISIBLE_DEVICES"] == "void"
    for one in ACCOUNTED:
        assert {"WEFT_GPU_GUARANTEE_MILLI", "WEFT_GPU_LIMIT_MILLI", "WEFT_GPU_MEMORY_MIB"} <= set(variables(share(one)))


def test_an_mps_client_is_held_to_its_guarantee_and_memory() -> None:
    said = variables(share(Enforcer.MPS))
    assert said["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert said["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4096M"


def test_hami_s_decision_is_in_its_documented_form_and_reads_back() -> None:
    given = choice.of(share(Enforcer.HAMI)).annotations(share(Enforcer.HAMI), "GPU-1f", 1700000000.7)
    assert told.containers(given[hami.TO_ALLOCATE]) == [[told.Part("GPU-1f", "NVIDIA", 4096, 25)]]
    assert given[hami.ALLOCATED] == given[hami.TO_ALLOCATE]
    assert (given[hami.NODE], given[hami.TIME], given[hami.PHASE]) == ("a", "1700000000", "allocating")
    assert set(given) == set(hami.OF_BINDING)


def test_a_claim_belongs_to_its_pod_which_names_it_and_its_node() -> None:
    pod = share(Enforcer.DRA)
    claim = choice.of(pod).claim(pod, OWNER)
    assert claim is not None
    assert claim["metadata"]["ownerReferences"] == [OWNER]
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": dra.CLASS,
        "capacity": {"requests": {"cores": "25", "memory": "4096Mi"}},
    }
    spec = built(pod)["spec"]
    assert spec["schedulerName"] == "default-scheduler"  # type: ignore[index]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimName": pod.name}]  # type: ignore[index]
    assert main(pod)["resources"]["claims"] == [{"name": "gpu"}]  # type: ignore[index]
    assert "'a'" in str(spec["affinity"])  # type: ignore[index]
    assert built(pod)["metadata"]["annotations"][names.GPUS] == "1"  # type: ignore[index]


def test_a_worker_on_a_lent_device_sees_that_device_whatever_holds_shares_there() -> None:
    lent = replace(share(Enforcer.MIG), is_lent=True)
    assert not choice.of(lent).accounts


def test_a_share_of_mig_without_a_profile_is_not_built() -> None:
    with pytest.raises(ValueError, match="no instance holds it"):
        built(replace(share(Enforcer.MIG), profile=""))


@pytest.mark.parametrize("enforcer", ACCOUNTED)
def test_no_placeholder_is_asked_for_what_kubernetes_accounts_itself(enforcer: str) -> None:
    made = built(share(enforcer))
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}  # type: ignore[operator]
    worker = read(made)
    assert isinstance(worker, Worker)
    assert (worker.has_share, worker.enforcer) == (True, enforcer)


def node(labels: dict[str, str], capacity: dict[str, str], **annotations: str) -> dict[str, object]:
    meta = {"name": "a", "labels": labels, "annotations": annotations}
    return {"metadata": meta, "spec": {}, "status": {"capacity": capacity, "allocatable": capacity}}


PLAIN = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.product": "A100-SXM4-40GB"}


def test_a_node_with_divided_gpus_has_as_many_as_it_is_labelled_with() -> None:
    for parts in ({"nvidia.com/mig-1g.5gb": "14"}, {"nvidia.com/gpu.shared": "8"}):
        seen = machine_of(node(PLAIN, parts))
        assert (seen.node.gpus, seen.unknown_lost, seen.node.gpu_memory) == (2, 0, 40960)
    assert machine_of(node(PLAIN | {"weft.dev/shares-enforced": "dra"}, {})).node.gpus == 2
    assert machine_of(node(PLAIN, {})).node.gpus == 0, "a device plugin that is gone leaves no GPUs to give"


def test_a_node_s_label_names_its_back_end_or_says_only_that_there_is_one() -> None:
    said = {
        text: (seen.enforcer, seen.enforces_limits)
        for text in ("true", "mig", "weft", "no-such", "")
        for seen in [machine_of(node({"weft.dev/shares-enforced": text}, {"nvidia.com/gpu": "1"})).node]
    }
    assert said == {
        "true": ("", True), "mig": ("mig", False), "weft": ("", True), "no-such": ("", False), "": ("", False),
    }  # fmt: skip


def test_a_node_whose_plug_in_offers_slots_has_ours_and_no_other_has_it() -> None:
    offered = {"nvidia.com/gpu": "1", "weft.dev/gpu-share": "256"}
    for text, expected in (("", "weft"), ("true", "weft"), ("weft", "weft"), ("hami", "hami")):
        seen = machine_of(node({"weft.dev/shares-enforced": text} if text else {}, offered)).node
        assert (seen.enforcer, seen.enforces_limits) == (expected, expected == "weft")
    assert machine_of(node({}, offered | {"weft.dev/gpu-share": "0"})).node.enforcer == ""


def test_a_node_is_on_demand_where_it_is_to_be_and_its_plug_in_can_do_it_and_else_takes_no_shares() -> None:
    offered = {"nvidia.com/gpu": "1", "weft.dev/gpu-share": "256", "weft.dev/gpu-on-demand": "256"}
    wanted = {"weft.dev/shares": "true", "weft.dev/shares-enforced": "on-demand"}
    seen = machine_of(node(wanted, offered)).node
    assert (seen.enforcer, seen.enforces_limits, seen.takes_shares) == ("on-demand", True, True)
    for lacks in ("weft.dev/gpu-share", "weft.dev/gpu-on-demand"):
        seen = machine_of(node(wanted, offered | {lacks: "0"})).node
        assert (seen.enforcer, seen.takes_shares) == ("", False), "nothing may come that nothing would hold"
    assert machine_of(node({"weft.dev/shares": "true"}, offered)).node.enforcer == "weft", (
        "its label does not ask for it"
    )


def test_the_gpus_that_hami_has_registered_are_those_of_the_node() -> None:
    text = "GPU-0,10,40960,100,NVIDIA-A100,0,true:GPU-1,10,40960,100,NVIDIA-A100,0,false,1,hami-core:"
    seen = machine_of(node(PLAIN, {"nvidia.com/gpu": "20"}, **{hami.REGISTERED: text}))
    assert (seen.node.gpus, seen.devices, seen.node.lost, seen.unknown_lost) == (2, ("GPU-0", "GPU-1"), (1,), 0)
    assert hami.registered("GPU-0,10") == ()
    assert hami.registered("") == ()
