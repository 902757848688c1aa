"""A share of a quarter of a GPU, and beside it a training that harvests what it leaves."""

from controlplane.cluster.port import Metrics
from controlplane.models import Placement, Usage
from tests.controlplane.state import World

ON, SHARE = "a", {"gpu_share": {"guarantee": 0.25, "limit": 1.0, "memory": "8Gi"}, "cpu": 1, "memory": "1Gi"}


def harvested(metrics: Metrics) -> World:
    """Both run, on one GPU, and nothing was charged yet."""
    made = World(metrics=metrics)
    share = made.submit("share", kind="notebook", image="registry.example/n:1", resources=SHARE)
    gang = made.submit("gang")
    for one in (share, gang):
        made.run(one, ON)
    Placement.objects.filter(workload=gang.pk).update(milli=0, lender=str(share.pk), gpus=[0])
    made.account()
    Usage.objects.all().delete()
    return made
