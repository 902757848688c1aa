"""The labels of a share through the product: kept in the row, read into rounds, stored with them, told."""

import pytest

from controlplane.domain.cycle import workload_of, workload_text
from controlplane.models import Placement, Workload
from controlplane.services.workloads import workloads as services
from gpushare.gpu import NO_LABELS, Labels
from tests.controlplane.state import World, seen_by_scheduler
from tests.controlplane.test_standby import up

pytestmark = pytest.mark.django_db


def share(**labels: str) -> dict[str, object]:
    return {"gpu_share": {"guarantee": 0.2, "memory": "1Gi", **labels}, "cpu": 1, "memory": "1Gi"}


def gpus(made: Workload) -> list[tuple[str, int]]:
    rows = Placement.objects.filter(workload=made.pk).order_by("rank").values_list("node", "gpus")
    return [(node, on[0]) for node, on in rows]


def test_labels_are_read_into_rounds_and_stored_with_them() -> None:
    world = World()
    made = world.submit("web", resources=share(affinity="web", exclusion="mine"))
    plain = world.submit("plain", resources=share())
    assert made.share_labels == "web,,mine"
    assert seen_by_scheduler(made).ask.labels == Labels("web", "", "mine")
    assert seen_by_scheduler(plain).ask.labels == NO_LABELS
    for one in (seen_by_scheduler(made), seen_by_scheduler(plain)):
        assert workload_of(workload_text(one)) == one


def test_shares_go_together_apart_and_alone_as_their_labels_say() -> None:
    world = World()
    together = [world.submit(f"web-{i}", kind="notebook", resources=share(affinity="web")) for i in range(2)]
    apart = [world.submit(f"ps-{i}", kind="notebook", resources=share(anti_affinity="ps")) for i in range(2)]
    alone = world.submit("alone", kind="notebook", resources=share(exclusion="mine"))
    up(world)
    assert gpus(together[0]) == gpus(together[1])
    assert gpus(apart[0]) != gpus(apart[1])
    assert gpus(alone)[0] not in [gpus(one)[0] for one in (*together, *apart)]


def test_what_waits_is_told_that_labels_keep_it_off_and_starts_once_they_are_changed() -> None:
    world = World()
    first = world.submit("first", kind="notebook", resources=share(affinity="web") | {"gpu_share": {
        "guarantee": 0.9, "memory": "1Gi", "affinity": "web"}})  # fmt: skip
    up(world)
    second = world.submit("second", kind="notebook", resources=share(affinity="web"))
    up(world)
    second.refresh_from_db()
    node, gpu = gpus(first)[0]
    assert second.reason == "WaitingForCapacity"
    assert f"labels of shares keep it off them (affinity web: its shares lie on GPU {gpu} of {node})" in second.message
    services.patch(workload=second, changes={"resources": share()}, version=None, actor="alice")
    assert seen_by_scheduler(second).ask.labels == NO_LABELS
    up(world)
    assert gpus(second)
