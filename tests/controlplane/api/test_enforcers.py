"""What holds shares in a pool, and what a team demands of it: REST, rounds, and what is refused at the submission."""

import pytest

from controlplane.models import Event, Node, NodePool, Team
from controlplane.queries.scheduling import snapshot
from tests.controlplane.api.conftest import People, body_of, fields_of

MIG = {"takes": "shares", "enforcer": "mig"}
NOTEBOOK = {"type": "notebook", "name": "n", "team": "red", "image": "registry.example/n:1"}


def share(guarantee: float, memory: str) -> dict[str, object]:
    return NOTEBOOK | {"resources": {"gpu_share": {"guarantee": guarantee, "memory": memory}}}


def test_a_pool_s_back_end_is_chosen_and_told_with_what_it_guarantees(api: People) -> None:
    before = body_of(api.viewer.get("/node-pools/main"))
    assert (before["enforcer"], before["enforced_by"], before["guarantees"]) == ("", "back-end", [])
    changed = body_of(api.platform.send("PATCH", "/node-pools/main", MIG))
    assert (changed["takes"], changed["enforcer"], changed["enforced_by"]) == ("shares", "mig", "mig")
    assert (changed["guarantees"], changed["follows_limit"]) == (["faults", "memory", "time"], False)
    assert changed["verified"] is False
    assert "instance" in changed["enforcement"]
    node = body_of(api.viewer.get("/nodes/a"))
    assert (node["enforced_by"], node["guarantees"]) == ("mig", ["faults", "memory", "time"])
    (event,) = Event.objects.filter(kind="NodePoolChanged")
    assert event.data == {"takes": ["both", "shares"], "enforcer": ["", "mig"]}
    back = body_of(api.platform.send("PATCH", "/node-pools/main", {"enforcer": "nodes"}))
    assert (back["enforcer"], back["enforced_by"]) == ("", "back-end")


def test_a_node_s_own_word_goes_before_its_pool_s_and_a_mixed_pool_says_the_least(api: People) -> None:
    body_of(api.platform.send("PATCH", "/node-pools/main", MIG))
    Node.objects.filter(name="b").update(enforcer="hami")
    assert body_of(api.viewer.get("/nodes/b"))["enforced_by"] == "hami"
    assert body_of(api.viewer.get("/nodes/a"))["enforced_by"] == "mig"
    assert body_of(api.viewer.get("/node-pools/main"))["enforced_by"] == "hami"
    seen = {node.name: (node.enforcer, node.enforces_limits) for node in snapshot.full().inventory.nodes}
    assert seen == {"a": ("mig", False), "b": ("hami", False)}


def test_what_divides_all_gpus_is_for_pools_that_take_shares_only(api: People) -> None:
    for name in ("mig", "mps", "hami", "dra"):
        answer = api.platform.send("PATCH", "/node-pools/main", {"enforcer": name})
        assert fields_of(answer, 422) == ["enforcer"]
    assert NodePool.objects.get(name="main").enforcer == ""
    body_of(api.platform.send("PATCH", "/node-pools/main", MIG))
    assert fields_of(api.platform.send("PATCH", "/node-pools/main", {"takes": "both"}), 422) == ["takes"]
    assert body_of(api.platform.send("PATCH", "/node-pools/main", {"takes": "both", "enforcer": "time-slicing"}))
    for wrong in ("gpu", "", 1, None, "advisory"):
        assert fields_of(api.platform.send("PATCH", "/node-pools/main", {"enforcer": wrong}))


def test_a_team_s_demand_reaches_rounds_and_is_an_event(api: People) -> None:
    told = body_of(api.admin.send("PATCH", "/teams/red", {"share_demands": ["faults", "memory"]}))
    assert told["share_demands"] == ["memory", "faults"]
    (event,) = Event.objects.filter(kind="ShareDemandsChanged")
    assert (event.team, event.data) == ("red", {"demands": ["memory", "faults"]})
    fields_of(api.member.send("PATCH", "/teams/red", {"share_demands": []}), 403)
    for wrong in ("memory", ["speed"], ["memory", "memory"], [1]):
        assert fields_of(api.admin.send("PATCH", "/teams/red", {"share_demands": wrong}))[0].startswith("share_demands")
    assert body_of(api.admin.send("PATCH", "/teams/red", {"share_demands": []}))["share_demands"] == []
    assert Team.objects.get(name="red").share_demands == ""


def test_work_that_demands_what_no_pool_gives_is_refused_at_the_submission(api: People) -> None:
    body_of(api.admin.send("PATCH", "/teams/red", {"share_demands": ["faults"]}))
    answer = api.member.post("/notebooks", share(0.25, "4Gi"))
    assert fields_of(answer, 422) == ["resources.gpu_share"]
    assert b"main: back-end" in answer.content
    assert body_of(api.member.post("/notebooks", NOTEBOOK | {"resources": {"gpus": 1}}), 201), (
        "whole GPUs demand nothing"
    )
    body_of(api.admin.send("PATCH", "/teams/red", {"share_demands": []}))
    made = body_of(api.member.post("/notebooks", share(0.25, "4Gi") | {"name": "waits"}), 201)
    body_of(api.admin.send("PATCH", "/teams/red", {"share_demands": ["faults"]}))
    (ask,) = (w.ask for w in snapshot.full().workloads.values() if w.id == made["uid"])
    assert ask.demands == ("faults",)


@pytest.mark.parametrize(
    ("enforcer", "guarantee", "memory", "field"),
    [
        ("mig", 0.1, "4Gi", "resources.gpu_share.guarantee"),
        ("mps", 0.142, "4Gi", "resources.gpu_share.guarantee"),
        ("hami", 0.001, "4Gi", "resources.gpu_share.guarantee"),
        ("mig", 0.9, "40Gi", "resources.gpu_share.memory"),
    ],
)
def test_a_share_that_no_pool_s_back_end_can_give_is_refused_with_the_fix(
    api: People, enforcer: str, guarantee: float, memory: str, field: str
) -> None:
    Node.objects.update(gpu_model="NVIDIA-A100-SXM4-40GB", gpu_memory=40960)
    body_of(api.platform.send("PATCH", "/node-pools/main", {"takes": "shares", "enforcer": enforcer}))
    answer = api.member.post("/notebooks", share(guarantee, memory))
    assert fields_of(answer, 422) == [field]
    assert b"Ask for" in answer.content


def test_a_mig_instance_is_accepted_as_it_is_asked(api: People) -> None:
    Node.objects.update(gpu_model="NVIDIA-A100-SXM4-40GB", gpu_memory=40960)
    body_of(api.platform.send("PATCH", "/node-pools/main", MIG))
    made = body_of(api.member.post("/notebooks", share(0.142, "4864Mi")), 201)
    assert made["phase"] == "Queued"
