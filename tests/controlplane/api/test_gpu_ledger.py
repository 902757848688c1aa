"""The ledger of GPUs by REST: what each worker on a GPU has, page by page."""

from controlplane.models import Gpu, Node, Workload
from tests.controlplane.api.conftest import People, body_of, fields_of

SHARE = {"resources": {"gpu_share": {"guarantee": 0.25, "limit": 0.5, "memory": "8Gi"}}}


def test_a_share_is_told_with_its_guarantee_limit_memory_use_neighbours_and_enforcer(api: People) -> None:
    for name in ("one", "two"):
        made = body_of(api.member.post("/notebooks", {"name": name, "team": "red", **SHARE}), 201)
        api.world.run(Workload.objects.get(pk=made["uid"]), "a")
    Gpu.objects.update_or_create(node=Node.objects.get(name="a"), index=0, defaults={"duty": 0.5, "memory_used": 4000})
    shared = body_of(api.viewer.get("/gpus?shared=true"))["results"]
    assert [(one["node"], one["index"]) for one in shared] == [("a", 0)]
    (gpu,) = shared
    assert (gpu["neighbours"], gpu["enforced_by"], gpu["allocated_milli"]) == (1, "back-end", 500)
    assert (gpu["duty"], gpu["memory_used_mib"]) == (0.5, 4000)
    first = gpu["tenants"][0]
    assert first == {
        "team": "red", "workload": first["workload"], "name": "one", "milli": 250, "hold": "share",
        "may_use_milli": 500, "may_use_memory_mib": 8192, "measured_duty": None, "measured_memory_mib": None,
        "is_leaving": False, "on_gpu": None, "in_host_memory": False,
    }  # fmt: skip
    stranger = body_of(api.blue_member.get("/gpus?shared=true"))["results"][0]["tenants"][0]
    assert (stranger["team"], stranger["workload"], stranger["name"]) == ("red", None, None)


def test_all_gpus_come_page_by_page_each_once(api: People) -> None:
    seen, query = [], "?page_size=5"
    while query:
        page = body_of(api.viewer.get(f"/gpus{query}"))
        seen += [(one["node"], one["index"]) for one in page["results"]]
        query = "?" + page["next"].partition("?")[2] if page["next"] else ""
    assert seen == [(node, index) for node in "ab" for index in range(8)]
    assert body_of(api.viewer.get("/gpus?shared=true"))["results"] == []
    assert fields_of(api.viewer.get("/gpus?shared=perhaps")) == ["shared"]
