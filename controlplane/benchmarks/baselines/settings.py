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

# In words, by setting, where a name does not say it.
MEANT: Mapping[str, str] = {
    NATIVE: "kube-scheduler binds worker by worker; a training holds GPUs until all of its workers are there",
    "k8s+gang": "coscheduling: whole or not at all, in order, past those that do not fit, spread: FIFO with backfill",
    DRAGON: "release 0.9; 1 worker to what a training asks for, or to twice that; edragon adds a queue of services",
    FULFILMENT: "DRAGON's release of 2018; 1 worker to what a training asks for, or to twice that",
    SIA: "Sia's objective each 60 s, on fitted models as ours has them; what keeps its size keeps its nodes",
    SIA_IDEAL: "the same where another node alone costs nothing, as in Sia's own simulator",
    SIA_FIXED: "the same as the first, with the batch as submitted",
    FORGETFUL: "nothing from other trainings: neither how much work their model takes nor their step times",
    HALF: "half of the trainings may choose their batch",
    FIXED: "none may",
    "no growth beyond the request": "at most the GPUs that it asks for; it may have fewer",
    "batch fixed and no growth": "both",
    "no locality: kube-scheduler places": "ours says how many GPUs, LeastAllocated says where",
    "restarts count as free": "a start is planned as if it took no time, and takes it",
    "no weight by remaining work": "short work does not go first",
    "not a GPU for all first": "one may grow while another has none",
    "no starts between plans": "what comes waits for the next plan, 60 s at most",
    "step times not lent": "trainings of a model do not tell each other step times; ended ones still tell their work",
    "noise of 20 %": "of step times and gradients seen, instead of 10 %",
}
