"""Which baselines and which parts of ours `manage.py reproduce nearchus` plays on the 25 workloads, by name.

The figures' own settings are in `training/nearchuscluster.py`; these stand beside them and change none.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from controlplane.benchmarks.baselines import ablations
from controlplane.benchmarks.baselines.dragon import PASS, Dragon, Fulfilment
from controlplane.benchmarks.baselines.native import Native
from controlplane.benchmarks.baselines.sialike import SiaLike
from controlplane.benchmarks.training.cluster16 import Policy, Rules
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.nearchuscluster import FIFO, FIXED, FORGETFUL, HALF, Setting

NATIVE, DRAGON, FULFILMENT = "native-k8s", "dragon", "fulfilment"
SIA, SIA_IDEAL, SIA_FIXED = "Sia-like, free batch", "Sia-like ideal, free batch", "Sia-like, batch fixed"

# Those without an expected speed see nothing that the seed changes.
BASELINES: Mapping[str, Setting] = {
    NATIVE: Setting(Native, Rules(), seeds=1),
    DRAGON: Setting(lambda: Dragon(1), Rules(tick=PASS), seeds=1),
    f"{DRAGON}, up to twice": Setting(lambda: Dragon(2), Rules(tick=PASS), seeds=1),
    FULFILMENT: Setting(lambda: Fulfilment(1), Rules(), seeds=1),
    f"{FULFILMENT}, up to twice": Setting(lambda: Fulfilment(2), Rules(), seeds=1),
    SIA: Setting(SiaLike, Rules(), 1.0),
    SIA_IDEAL: Setting(SiaLike, Rules(is_ideal=True), 1.0),
    SIA_FIXED: Setting(SiaLike, Rules()),
}
# What decides as another one does here: shown by its runs.
LIKE: Mapping[str, str] = {"k8s+gang": FIFO, "edragon": DRAGON}

FULL = Setting(Elastic, Rules(is_lent=True), 1.0)


def _without(policy: Callable[[], Policy]) -> Setting:
    return replace(FULL, policy=policy)


ABLATIONS: Mapping[str, Setting] = {
    "no growth beyond the request": _without(lambda: ablations.Retold(ablations.within_request)),
    "batch fixed and no growth": replace(_without(lambda: ablations.Retold(ablations.within_request)), free=0.0),
    "no locality: kube-scheduler places": _without(ablations.Scattered),
    "restarts count as free": _without(lambda: ablations.Retold(ablations.without_restarts)),
    "no weight by remaining work": _without(lambda: ablations.Reworked(ablations.unweighted)),
    "not a GPU for all first": _without(lambda: ablations.Reworked(ablations.greedy)),
    "no starts between plans": _without(ablations.TicksOnly),
    "step times not lent": replace(FULL, rules=Rules()),
    "noise of 20 %": replace(FULL, rules=Rules(is_lent=True, noise=0.2)),
}
# Ours with something left out that the figures play anyway.
ALSO = (FORGETFUL, HALF, FIXED)
PLAYED: Mapping[str, Setting] = {**BASELINES, **ABLATIONS}
PARTS = (*ALSO, *ABLATIONS)
