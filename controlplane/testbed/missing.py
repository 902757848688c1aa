"""Which outside programs the tests look for in vain: `python -m controlplane.testbed.missing` prints one a line.

How each is got stands in `scripts/get`, by these names.
"""

from collections.abc import Callable, Mapping
from functools import partial

from controlplane.testbed import binaries, chromium, controllers, istio, postgres, programs, prometheus, redis
from controlplane.testbed.fakecuda import device, wheels
from controlplane.testbed.processes import MissingError
from controlplane.testbed.realnode import jupyter
from controlplane.testbed.realnode import programs as node

FINDERS: Mapping[str, Callable[[], object]] = {
    "Chromium": chromium.find,
    "Istio": partial(istio.find, fetch=False),
    "JobSet": lambda: controllers.find(controllers.JOB_SET, build=False),
    "Kubernetes": lambda: binaries.find(build=False),
    "CUDA-clients": partial(wheels.find, fetch=False),
    "Postgres": postgres.find_postgres,
    "Prometheus": lambda: (prometheus.find_prometheus(), prometheus.find_promtool()),
    "Redis": redis.find_redis,
    "training-operator": lambda: controllers.find(controllers.KUBEFLOW, build=False),
    **{name: partial(programs.find, name) for name in programs.PROGRAMS},
    "gcc": device.compiler,
}
# Of no use to those that may not run a node; what they lack is called "root".
OF_A_NODE: Mapping[str, Callable[[], object]] = {
    "CNI": node.find_cni,
    "JupyterLab": partial(jupyter.find, fetch=False),
    "kubelet": node.find_kubelet,
    "python3": node.find_python,
    **{name: partial(node.find, name) for name in node.DEBIANS},
}


def missing() -> list[str]:
    """The names of those that are not there."""
    wanted = {**FINDERS, **(OF_A_NODE if node.may_run() else {})}
    return [name for name, find in wanted.items() if not _is_there(find)]


def _is_there(find: Callable[[], object]) -> bool:
    try:
        find()
    except MissingError:
        return False
    return True


if __name__ == "__main__":
    print("\n".join(missing()))
