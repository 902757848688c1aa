"""Keeps one node: starts it in namespaces of its own, and takes all of it away when told to end or left alone.

`python -m controlplane.testbed.realnode.keeper FOLDER NUMBER LABELS GPUS`, by node.py. The node's processes, mounts,
/run, /var/lib and /var/log are in namespaces that end with it; what remains for the keeper is a bridge and cgroups.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from controlplane.testbed import processes
from controlplane.testbed.realnode import devices, programs
from controlplane.testbed.realnode.settings import (
    CONTAINERD,
    ENFORCER,
    ENFORCER_LIBRARY,
    ENFORCER_SHARES,
    ENFORCER_TOOLS,
    LOG,
    NAME,
    Place,
)

CGROUPS = Path("/sys/fs/cgroup")
SHARES = 10 * 1024  # to the kernel all pods together are one process: beside a busy machine's they would starve
POLL_SECONDS = 0.02
GONE_SECONDS = 5.0  # the kernel takes milliseconds to clear a cgroup whose processes were killed
# Set by each kubelet for the whole machine, whatever it is told: it gets copies to write to.
SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
INSIDE = """set -eu
mount -t tmpfs tmpfs /run
mkdir /run/lock
mount --bind "$FOLDER/lib" /var/lib
mount --bind "$FOLDER/log" /var/log
for name in $SYSCTLS; do
    cat "/proc/sys/$name" >"$FOLDER/sysctl/$name"
    mount --bind "$FOLDER/sysctl/$name" "/proc/sys/$name"
done
"$CONTAINERD" --config "$FOLDER/containerd.toml" >"$FOLDER/containerd.log" 2>&1 &
until [ -S "$SOCKET" ]; do sleep 0.02; done
(
    until [ -S /var/lib/kubelet/device-plugins/kubelet.sock ]; do sleep 0.02; done
    exec $DEVICES >"$FOLDER/devices.log" 2>&1
) &
(
    until [ -e "$FOLDER/$TOLD" ]; do sleep 0.2; done
    KUBECONFIG="$FOLDER/$TOLD" exec $ENFORCER >"$FOLDER/enforcer.log" 2>&1
) &
"$KUBELET" --config="$FOLDER/kubelet.json" --kubeconfig="$FOLDER/kubeconfig" --hostname-override="$NAME" \\
    --node-ip="$ADDRESS" --node-labels="$LABELS" --housekeeping-interval=1s
"""


def main(folder: Path, number: int, labels: str, gpus: str) -> int:
    """Run the node until it ends or this process is told to; its exit status."""
    signal.signal(signal.SIGTERM, _leave)
    place = Place(folder, number)
    environment = os.environ | {
        "PATH": f"{os.environ.get('PATH', '')}:{programs.SBIN}",
        "FOLDER": str(folder),
        "SYSCTLS": " ".join(SYSCTLS),
        "CONTAINERD": str(programs.find("containerd")),
        "SOCKET": CONTAINERD,
        "KUBELET": str(programs.find_kubelet()),
        "NAME": NAME,
        "TOLD": ENFORCER,
        "ADDRESS": place.address,
        "LABELS": labels,
        # What holds shares to their parts begins once it is told how to reach the cluster (RealNode.enforces).
        "ENFORCER": f"{sys.executable} -m controlplane.enforcer --node {NAME} --programs {folder / ENFORCER_LIBRARY}"
        f" --folder {folder / ENFORCER_SHARES} --tools {folder / ENFORCER_TOOLS}"
        f" --metrics-port 9465 --metrics-address {place.address}",
        "DEVICES": f"{sys.executable} -m {devices.__name__} {gpus} {NAME} {place.address}",
    }
    for name in SYSCTLS:
        (folder / "sysctl" / name).parent.mkdir(parents=True, exist_ok=True)
    for name in ("lib", "log"):
        (folder / name).mkdir()
    with _network(place), _cgroups(place):
        # The first process of the new namespace ends with unshare, and all of its processes with that.
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        command = [*unshare, "sh", "-c", INSIDE]
        with processes.running(command, log=folder / LOG, env=environment, stop=signal.SIGKILL) as node:
            return node.wait()


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would end the cleaning
    sys.exit(0)


@contextlib.contextmanager
def _network(place: Place) -> Iterator[None]:
    ip = str(programs.find("iproute2"))
    try:
        subprocess.run([ip, "address", "add", f"{place.address}/24", "dev", place.bridge], check=True)
        subprocess.run([ip, "link", "set", place.bridge, "up"], check=True)
        yield
    finally:
        subprocess.run([ip, "link", "delete", place.bridge], check=True)


@contextlib.contextmanager
def _cgroups(place: Place) -> Iterator[None]:
    """A cgroup in each hierarchy (of version 1; the only one of version 2), away with all in it at the end."""
    is_unified = (CGROUPS / "cgroup.controllers").exists()
    roots = [CGROUPS] if is_unified else [path.parent for path in CGROUPS.glob("*/cgroup.procs")]
    made = [root / place.cgroup for root in roots]
    try:
        for path in made:
            path.mkdir(exist_ok=True)  # of a node whose keeper was killed; the number is ours now
            if (path / "cpu.shares").exists():
                (path / "cpu.shares").write_text(str(SHARES))
        yield
    finally:
        for path in made:
            _remove(path)


def _remove(cgroup: Path) -> None:
    """Remove it with all below, which the last processes of the node may still add to."""
    deadline = time.monotonic() + GONE_SECONDS
    while cgroup.exists():
        try:
            for path in sorted(cgroup.glob("**/"), reverse=True):
                path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
