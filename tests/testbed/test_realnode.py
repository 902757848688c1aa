"""What a real node leaves behind on the machine: nothing, however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.testbed.realnode import keeper, programs
from controlplane.testbed.realnode.settings import Place
from tests.servers import ROOT, end, wait_until

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

# A node with a pod, until a signal.
NODE = """
import signal, sys
from pathlib import Path
from controlplane.testbed.kubernetes import test_cluster
from controlplane.testbed.realnode.node import real_node

container = {"name": "main", "image": "registry.example/shell:1", "command": ["/bin/sleep", "600"]}
pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "real", "containers": [container]}}
cluster_folder, folder = map(Path, sys.argv[1:])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background was started with it ignored
with test_cluster(cluster_folder, tier="api") as cluster, real_node(cluster, folder) as node:
    cluster.request("POST", "/api/v1/namespaces/default/pods", pod)
    cluster.wait_for(lambda: "/bin/sleep 600" in node.commands.values(), "the pod")
    print(node.place.number, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("ends_by", [signal.SIGINT, signal.SIGKILL])
def test_a_node_is_gone_with_the_process_that_asked_for_it(tmp_path: Path, ends_by: signal.Signals) -> None:
    programs.find_root()
    programs.find_kubelet()
    folders = [tmp_path / "cluster", tmp_path / "node"]
    for folder in folders:
        folder.mkdir()
    sysctls = [Path("/proc/sys", name).read_text() for name in keeper.SYSCTLS]
    process = subprocess.Popen([sys.executable, "-c", NODE, *folders], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        place = Place(folders[1], int(process.stdout.readline()))
        assert {"bridge", "cgroup", "process"} <= set(left(place))

        process.send_signal(ends_by)

        process.wait(60)
        wait_until(lambda: not left(place), "the end of the node")
        assert [Path("/proc/sys", name).read_text() for name in keeper.SYSCTLS] == sysctls
    finally:
        end(process, signal.SIGINT)


def left(place: Place) -> list[str]:
    """What there is of a node on this machine."""
    found = ["mount" for line in Path("/proc/mounts").read_text().splitlines() if str(place.folder) in line]
    found += ["bridge" for _ in Path("/sys/class/net").glob(place.bridge)]
    found += [
        "network" for path in Path("/sys/class/net").glob("veth*") if (path / "master").resolve().name == place.bridge
    ]
    found += ["cgroup" for _ in keeper.CGROUPS.glob(f"*/{place.cgroup}")]
    return found + ["process" for path in Path("/proc").glob("[0-9]*") if is_of(path, place)]


def is_of(process: Path, place: Place) -> bool:
    """Whether a process was started for the node: all have its folder in their environment, or in their command."""
    try:
        return any(str(place.folder).encode() in (process / file).read_bytes() for file in ("environ", "cmdline"))
    except OSError:  # it has just ended
        return False
