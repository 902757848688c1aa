"""What a real node's programs are told: containerd, its network plugins and the kubelet."""

import json
from dataclasses import dataclass
from pathlib import Path

from controlplane.testbed import parts
from controlplane.testbed.realnode import dns

NAME = parts.REAL_NODE
MOST_PODS = 30
LOG = "node.log"  # in the node's folder: what the kubelet prints
# In the node's folder: how what holds shares to their parts reaches the cluster, what it brings into containers, and
# what it serves.
ENFORCER, ENFORCER_LIBRARY, ENFORCER_SHARES = "enforcer.kubeconfig", "enforcer-library", "shares"
ENFORCER_TOOLS = "tools"  # and where it looks for the driver's tool
CONTAINERD = "/run/containerd/containerd.sock"  # in the node's own /run


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node keeps its files, and the network and cgroup that are its own."""

    folder: Path
    number: int  # among those on this machine

    @property
    def bridge(self) -> str:
        """The network interface that its pods hang on."""
        return f"weft-node{self.number}"

    @property
    def subnet(self) -> str:
        """Of its pods."""
        return f"10.213.{self.number}.0/24"

    @property
    def address(self) -> str:
        """Of the node in that subnet: a kubelet takes none that is loopback."""
        return f"10.213.{self.number}.1"

    @property
    def cgroup(self) -> str:
        """The parent of all its pods."""
        return self.bridge


def write(place: Place, layout: parts.Layout, registry: str, cni: Path) -> None:
    """Write the settings of all three into the node's folder; images come from `registry`, a URL."""
    folder = place.folder
    (folder / "containerd.toml").write_text(_containerd(folder, cni))
    (folder / "cni").mkdir()
    (folder / "cni" / "weft.conflist").write_text(json.dumps(_network(place)))
    (folder / "registries" / "_default").mkdir(parents=True)
    hosts = f'server = "{registry}"\n[host."{registry}"]\ncapabilities = ["pull", "resolve"]\n'
    (folder / "registries" / "_default" / "hosts.toml").write_text(hosts)
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(place, layout)))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(parts.kubeconfig(layout, f"system:node:{NAME}", layout.node_token))


def _containerd(folder: Path, cni: Path) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "{CONTAINERD}"
[{cri}]
sandbox_image = "registry.example/pause:1"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{cni}"
conf_dir = "{folder / "cni"}"
[{cri}.registry]
config_path = "{folder / "registries"}"
[{cri}.containerd]
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _network(place: Place) -> object:
    addresses = {"type": "host-local", "ranges": [[{"subnet": place.subnet, "gateway": place.address}]]}
    bridge = {"type": "bridge", "bridge": place.bridge, "isDefaultGateway": False, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": place.bridge, "plugins": [bridge]}


def _kubelet(place: Place, layout: parts.Layout) -> object:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "resolvConf": "",
        "clusterDNS": [place.address],
        "clusterDomain": dns.DOMAIN,
        "makeIPTablesUtilChains": False,
        # The machine's disk may be fuller than a node's: that is no matter of the tests.
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "maxPods": MOST_PODS,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
    }
