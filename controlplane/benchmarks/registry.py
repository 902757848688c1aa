"""The benchmarks by name. A name, once given, stays: results are compared over years."""

from collections.abc import Callable, Mapping

from controlplane.benchmarks import (
    admission,
    api,
    backfill,
    binding,
    explanations,
    fairness,
    fencing,
    manifests,
    openb,
    page,
    recovery,
    replay,
    rounds,
    start,
    testcluster,
    watching,
)
from controlplane.benchmarks.figure import Options, Progress, Result

BENCHMARKS: Mapping[str, Callable[[Options, Progress], Result]] = {
    "admission": admission.run,
    "api": api.run,
    "start": start.run,
    "replay": replay.run,
    "round": rounds.run,
    "page": page.run,
    "kubernetes-bind": binding.run,
    "fencing": fencing.run,
    "recovery": recovery.run,
    "manifests": manifests.run,
    "kubernetes-resync": watching.resync,
    "watch": watching.watch,
    "test-cluster": testcluster.run,
    "fairness": fairness.run,
    "openb": openb.run,
    "backfill": backfill.run,
    "explanations": explanations.run,
}
