"""Which back-end a share's pod has."""

from controlplane.cluster.kubernetes.backends.dra import Dra
from controlplane.cluster.kubernetes.backends.hami import Hami
from controlplane.cluster.kubernetes.backends.mig import Mig
from controlplane.cluster.kubernetes.backends.mps import Mps
from controlplane.cluster.kubernetes.backends.port import PodBackend
from controlplane.cluster.kubernetes.backends.visible import Visible
from controlplane.cluster.port import PodSpec
from gpushare.gpu import Enforcer

_VISIBLE = Visible()
_OTHERS: dict[str, PodBackend] = {
    Enforcer.MIG: Mig(),
    Enforcer.MPS: Mps(),
    Enforcer.HAMI: Hami(),
    Enforcer.DRA: Dra(),
}


def of(pod: PodSpec) -> PodBackend:
    """By what holds shares on the node that it is placed on; a worker on a device that is lent sees that device."""
    return _VISIBLE if pod.is_lent else _OTHERS.get(pod.enforcer, _VISIBLE)
