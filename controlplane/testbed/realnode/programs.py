"""The programs of a real node: the kubelet, built as the other programs of Kubernetes are, and Debian's for the rest.

`python -m controlplane.testbed.realnode.programs` builds the kubelet into the cache.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.testbed import binaries, golang
from controlplane.testbed.processes import HOW, MissingError

KUBELET = {"kubernetes": {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}}
CNI = Path("/usr/lib/cni")
CNI_PLUGINS = ("bridge", "host-local", "loopback")
# By the part's name in `scripts/get`; some lie outside the PATH of those that are not root.
DEBIANS: Mapping[str, str] = {"busybox": "busybox", "containerd": "containerd", "iproute2": "ip", "runc": "runc"}
SBIN = "/usr/sbin:/sbin"
RIGHTS = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}  # bits of the kernel's capability mask


def may_run() -> bool:
    """Whether this process may make mounts, networks and cgroups: as root, and not as root of a container."""
    status = Path("/proc/self/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    return os.geteuid() == 0 and all(mask >> bit & 1 for bit in RIGHTS.values())


def find_root() -> None:
    """Raise MissingError where a node cannot run for want of rights."""
    if not may_run():
        raise MissingError("root", f"a real node needs root with {' and '.join(RIGHTS)}")


def find_kubelet() -> Path:
    """The kubelet: in KUBEBUILDER_ASSETS or in the cache. Raises MissingError."""
    given = binaries.assets() / "kubelet"
    built = _programs().folder / "kubelet"
    return given if given.exists() else _there(built, "kubelet")


def find(name: str) -> Path:
    """The program of this part. Raises MissingError."""
    program = DEBIANS[name]
    return _there(shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}"), name)


def find_python() -> Path:
    """Debian's own interpreter, for images: one that somebody built may lie anywhere. Raises MissingError."""
    return _there("/usr/bin/python3", "python3").resolve()


def find_cni() -> Path:
    """The folder with the network plugins. Raises MissingError."""
    for plugin in CNI_PLUGINS:
        _there(CNI / plugin, "CNI")
    return CNI


def find_all() -> None:
    """Raise MissingError where a node cannot run for want of rights or of a program."""
    find_root()
    find_python()
    find_cni()
    for name in DEBIANS:
        find(name)
    find_kubelet()


def build(say: golang.Say) -> None:
    """Build the kubelet into the cache. Raises MissingError."""
    golang.built(_programs(), say)


def _programs() -> golang.Programs:
    version = binaries.kubernetes_version()
    return golang.Programs("kubelet", KUBELET, version, binaries.link_flags(), minutes="1 to 4")


def _there(path: str | Path | None, name: str) -> Path:
    if path is None or not Path(path).exists():
        raise MissingError(name, HOW)
    return Path(path)


if __name__ == "__main__":
    try:
        build(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
