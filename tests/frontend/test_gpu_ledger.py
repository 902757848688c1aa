"""The ledger of GPUs, on its page and by REST: who holds what, what is measured, what is hidden, and how it pages."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Gpu, Node, Placement, Workload
from controlplane.queries.scheduling import ledger
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document

ON = "a100-00"


def put(w: Workload, index: int, milli: int, **columns: Any) -> None:
    """One worker of it on a GPU of the first node."""
    columns = {"rank": 0, "state": "Bound", "pod_phase": "Running", **columns}
    Placement.objects.create(
        workload=w, attempt=1, node=ON, pool="a100", gpus=[index], milli=milli, bound_at=NOW - 60, **columns
    )


@pytest.fixture
def held(bare: World) -> World:
    """GPU 0: two teams' shares and a training that harvests; 1: a replica on standby, lent; 2: a whole one's."""
    mine = bare.add(document("notebook", "mine", "nlp"), Phase.RUNNING)
    theirs = bare.add(document("notebook", "theirs", "speech"), Phase.RUNNING)
    service = bare.add(document("inference", "chat", "nlp"), Phase.RUNNING)
    gang = bare.add(document("training", "fit", "nlp", workers={"count": 3}), Phase.RUNNING)
    Workload.objects.filter(pk=gang.pk).update(gpu_memory=4096)
    put(mine, 0, 250)
    put(theirs, 0, 250, state="Leaving")
    put(gang, 0, 0, lender=str(mine.pk))
    put(service, 1, 1000, asleep_at=NOW)
    put(gang, 1, 0, rank=1, lender=str(service.pk))
    put(gang, 2, 1000, rank=2)
    node = Node.objects.get(name=ON)
    Gpu.objects.bulk_create(
        Gpu(node=node, index=index, duty=duty, memory_used=1000 * index) for index, duty in enumerate((0.9, 0.5, 0.7))
    )
    Node.objects.filter(name=ON).update(enforcer="weft", enforces_limits=True)
    return bare


def test_each_worker_stands_in_the_ledger_with_what_it_has_and_by_what(held: World) -> None:
    shared, lent, whole = ledger.devices([(ON, 0), (ON, 1), (ON, 2)], None)
    told = [(one.name, one.hold.value, one.guarantee, one.limit, one.memory) for one in shared.entries]
    assert told == [
        ("mine", "share", 250, 1000, 8192),
        ("theirs", "share", 250, 1000, 8192),
        ("fit", "harvest", 0, 1000, 4096),
    ]
    assert [one.is_leaving for one in shared.entries] == [False, True, False]
    assert (shared.neighbours, shared.held, shared.node.enforced_by) == (2, 500, "weft")
    assert [(one.hold.value, one.guarantee, one.memory) for one in lent.entries] == [
        ("standby", 1000, 81_920),
        ("lent", 0, 4096),
    ]
    assert [(one.hold.value, one.limit) for one in whole.entries] == [("whole", 1000)]


def test_what_is_measured_of_a_gpu_is_a_worker_s_own_only_where_it_is_alone(held: World) -> None:
    shared, whole = ledger.devices([(ON, 0), (ON, 2)], None)
    assert (shared.gpu.duty, [one.duty for one in shared.entries]) == (0.9, [None, None, None])
    assert [(one.duty, one.memory_used) for one in whole.entries] == [(0.7, 2000)]
    Placement.objects.filter(gpus=[2]).update(pod_phase="Pending")
    assert ledger.devices([(ON, 2)], None)[0].entries[0].duty is None


def test_only_shared_and_lent_gpus_are_asked_for_by_a_switch(held: World) -> None:
    assert ledger.keys(is_shared=True) == [(ON, 0), (ON, 1)]
    assert ledger.keys("l40s", is_shared=True) == ledger.keys(node="a100-01", is_shared=True) == []
    assert len(ledger.keys()) == 120
    assert ledger.keys(node="l40s-0") == []
    assert len(ledger.keys(part="L40S-0")) == 40
    Placement.objects.all().update(node="gone")
    assert ledger.keys(is_shared=True) == []


def test_the_page_names_workloads_of_the_viewer_s_teams_and_counts_the_others(held: World, visit: Visit) -> None:
    text = visit("mel").get("/gpus/?shared=1").content.decode()
    for said in ("mine", "team speech", "notebook, share, leaving", "training, harvest", "inference, on standby",
                 "training, on a lent GPU", "up to 1", "not verified"):  # fmt: skip
        assert said in text, said
    assert "theirs" not in text
    assert "theirs" in visit("admin").get("/gpus/?shared=1").content.decode()


def test_a_page_reads_what_lies_on_its_own_gpus_alone(held: World, visit: Visit) -> None:
    client = visit("admin")
    first = client.get("/gpus/").context
    assert (len(first["rows"]), first["total"], first["newer"]) == (50, 120, "")
    seen, url = [], "/gpus/"
    while url:
        context = client.get(url).context
        seen += [(row.node.name, row.gpu.index) for row in context["rows"]]
        url = context["older"]
    assert seen == ledger.keys()
    with CaptureQueriesContext(connection) as asked:
        ledger.devices(ledger.keys()[100:], None)
    assert len(asked) <= 4
    assert not any(ON in query["sql"] for query in asked)


def test_an_empty_ledger_says_which_filter_left_nothing(bare: World, visit: Visit) -> None:
    client = visit("mel")
    assert "No GPU that matches is shared or lent" in client.get("/gpus/?shared=1").content.decode()
    assert "No GPU matches these filters." in client.get("/gpus/?q=nothing").content.decode()
    assert "There are no more GPUs here." in client.get("/gpus/?from=5000").content.decode()
    Node.objects.all().delete()
    assert "No GPU has been seen yet." in client.get("/gpus/").content.decode()
