"""Which back-end a share's pod has."""

from controlplane.cluster.kubernetes.backends.dra import Dra
from controlplane.cluster.kubernetes.backends.hami import Hami
from controlplane.cluster.kubernetes.backends.mig import Mig
from controlplane.cluster.kubernetes.backends.mps import Mps
from controlplane.cluster.kubernetes.backends.own import OnDemand, Own
from controlplane.cluster.kubernetes.backends.port import PodBackend
from controlplane.cluster.kubernetes.backends.visible import Visible
from controlplane.cluster.port import PodSpec
from gpushare.gpu import Enforcer

_VISIBLE, _OWN = Visible(), Own()
_OTHERS: dict[str, PodBackend] = {
    Enforcer.MIG: Mig(),
    Enforcer.MPS: Mps(),
    Enforcer.HAMI: Hami(),
    Enforcer.DRA: Dra(),
    Enforcer.WEFT: _OWN,
    Enforcer.ON_DEMAND: OnDemand(),
}


def of(pod: PodSpec) -> PodBackend:
    """By what holds shares on the node that it is placed on. A worker on a device that is lent sees that device, and is
    held by our own alone, which knows of workers without a guarantee."""
    found = _OTHERS.get(pod.enforcer, _VISIBLE)
    return _VISIBLE if pod.is_lent and found is not _OWN else found
