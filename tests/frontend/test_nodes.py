"""The machines' pages: what each shows, and cordon, uncordon and drain with their effect and their way back."""

import pytest

from controlplane.models import Node, Placement, SlowNode, Workload
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document


def names(visit: Visit, query: str = "") -> list[str]:
    return [row.node.name for row in visit("mel").get(f"/nodes/{query}").context["rows"]]


def test_the_list_is_narrowed_down_by_pool_rack_state_and_name(world: World, visit: Visit) -> None:
    assert len(names(visit)) == 20
    assert names(visit, "?state=not-ready") == ["l40s-03"]
    assert names(visit, "?state=cordoned") == ["a100-06"]
    assert names(visit, "?state=unhealthy-gpu") == ["a100-02"]
    assert names(visit, "?pool=l40s&rack=rack-1") == ["l40s-03", "l40s-07"]
    assert names(visit, "?q=s-04") == ["l40s-04"]
    assert "No node matches" in visit("mel").get("/nodes/?q=nothing").content.decode()


def test_held_is_not_computing(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "job", "nlp", resources={"gpus": 2, "cpu": 1, "memory": "1Gi"}), Phase.RUNNING)
    bare.place(w, "Bound")
    bare._measure(__import__("numpy").random.default_rng(1))
    (row,) = [row for row in visit("mel").get("/nodes/").context["rows"] if row.node.held]
    assert (row.node.held, row.pods) == (2000, 1)
    assert 1000 < row.node.computing < 2000


@pytest.mark.parametrize("who", ["ada", "mel", "vic"])
@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
def test_only_platform_admins_may_act_and_only_they_are_shown_how(
    world: World, visit: Visit, who: str, verb: str
) -> None:
    client = visit(who)
    assert client.post(f"/nodes/a100-00/{verb}").status_code == 403
    assert f"/nodes/a100-00/{verb}" not in client.get("/nodes/a100-00/").content.decode()
    assert Node.objects.get(name="a100-00").schedulable


def test_draining_says_whose_work_moves_and_how_far_its_checkpoint_lies_back(bare: World, visit: Visit) -> None:
    for name, priority in (("moves", "normal"), ("stays", "serving")):
        doc = document("training", name, "nlp", priority_class=priority, checkpoint={"interval": "10m"})
        w = bare.add(doc, Phase.RUNNING)
        Workload.objects.filter(pk=w.pk).update(preemptible=priority == "normal")
        bare.place(w, "Bound")
    client = visit("admin")
    text = client.get("/nodes/a100-00/drain").content.decode()
    assert "leaves within its grace period and is queued again, and loses at most 7 min" in text
    assert "stays until it ends: it is not preemptible" in text
    assert Node.objects.get(name="a100-00").schedulable  # asking does nothing
    page = client.post("/nodes/a100-00/drain", follow=True).content.decode()
    assert "Draining a100-00: 1 workload is evicted, 1 stays until the end." in page
    assert 'action="/nodes/a100-00/uncordon"' in page  # the way back
    assert not Node.objects.get(name="a100-00").schedulable
    assert dict(Placement.objects.values_list("workload__name", "state")) == {"moves": "Leaving", "stays": "Bound"}
    client.post("/nodes/a100-00/uncordon")
    assert Node.objects.get(name="a100-00").schedulable


def test_other_teams_work_is_counted_and_not_named(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "undercover", "speech"), Phase.RUNNING)
    bare.place(w, "Bound")
    text = visit("mel").get("/nodes/a100-00/").content.decode()
    assert "undercover" not in text
    assert "team speech" in text
    assert "undercover" in visit("admin").get("/nodes/a100-00/").content.decode()


def test_what_is_no_node_is_not_found(world: World, visit: Visit) -> None:
    client = visit("admin")
    for path in ("/nodes/none/", "/nodes/none/drain", "/nodes/a100-00/explode"):
        assert client.get(path).status_code == 404, path


def test_a_node_says_in_which_trainings_a_worker_there_was_slow(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "fit", "nlp"), Phase.RUNNING)
    assert "Slow workers" not in visit("mel").get("/nodes/a100-00/").content.decode()
    SlowNode.objects.create(workload=w, attempt=1, node="a100-00", rank=3, at=w.submitted_at, part=0.25)
    told = {"trainings": ["one", "two"]}
    events.write([Entry(w.submitted_at, "loop:account", "NodeNamedSlow", name="a100-00", data=told)])
    page = visit("mel").get("/nodes/a100-00/").content.decode()
    for said in ("Slow workers", "25", f"/workloads/{w.pk}/", "named as slow", "in 2 trainings within a day"):
        assert said in page
