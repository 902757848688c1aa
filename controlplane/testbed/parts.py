"""The servers of the Kubernetes test cluster: which there are, and the command line of each."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from controlplane.testbed import nodes
from controlplane.testbed.processes import free_port

# Each tier is what the ones before it have, and more.
TIERS: Mapping[str, tuple[str, ...]] = {
    "api": ("etcd", "apiserver"),
    "sim": ("etcd", "apiserver", "kcm", "kwok"),
    "baseline": ("etcd", "apiserver", "kcm", "kwok", "scheduler"),
}
PROGRAMS = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "kcm": "kube-controller-manager",
    "kwok": "kwok",
    "scheduler": "kube-scheduler",
}
CONTROLLER = "system:kube-controller-manager"  # its user
SCHEDULER = "system:kube-scheduler"  # likewise
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "validatingadmissionpolicy-status-controller",
)
# Go collects garbage for a fifth of the API server's start; a small cluster's has memory to spare.
EAGER = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
LEASE_SECONDS = 40  # as kubelets have it; KWOK renews at a quarter of it
REAL_NODE = "real"
PROXY = "front-proxy-client"
MANY_NODES = 100  # above it leases would be most of what the API server writes


@dataclass(frozen=True)
class Layout:
    """Where a cluster keeps its files and listens; all on loopback."""

    folder: Path
    tier: str
    node_count: int
    has_audit: bool
    token: str  # of the administrator, which every part of the control plane but the controllers is as well
    gates: tuple[str, ...] = ()  # features that this version of Kubernetes has switched off
    node_token: str = field(default_factory=lambda: secrets.token_hex(16))  # of a real node's kubelet
    controller_token: str = field(default_factory=lambda: secrets.token_hex(16))  # who makes an object is looked at
    scheduler_token: str = field(default_factory=lambda: secrets.token_hex(16))  # and who binds a pod
    etcd: int = field(default_factory=free_port)
    peers: int = field(default_factory=free_port)
    api: int = field(default_factory=free_port)
    kubelet: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://127.0.0.1:{self.api}"

    @property
    def ca(self) -> Path:
        """The certificate that signed the API server's."""
        return self.folder / "ca.crt"

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig-admin"

    @property
    def controllers(self) -> Path:
        """The kubeconfig of the controllers, by the name that they have in any cluster."""
        return self.folder / "kubeconfig-controllers"

    @property
    def scheduler(self) -> Path:
        """The kubeconfig of kube-scheduler."""
        return self.folder / "kubeconfig-scheduler"

    @property
    def audit(self) -> Path:
        """The audit log: one JSON object a line."""
        return self.folder / "audit.log"

    @property
    def pod_log(self) -> Path:
        """What every pod prints, in the format of container runtimes."""
        return self.folder / "pod.log"

    @property
    def unused_plugins(self) -> tuple[str, ...]:
        """Admission that would wait for a controller which is not there, or is the slowest part of a large start."""
        taints = ("TaintNodesByCondition",)  # on new nodes, until a controller has seen that they are ready
        if self.tier == "api":
            return ("ServiceAccount", *taints)
        return taints if self.node_count > MANY_NODES else ()

    @property
    def lease_seconds(self) -> int:
        """How long a node counts as alive after its last sign."""
        return LEASE_SECONDS if self.node_count <= MANY_NODES else 10 * LEASE_SECONDS


def command(part: str, program: Path, layout: Layout) -> list[str]:
    """The command line of a part."""
    options = _OPTIONS[part](layout)
    return [str(program), *(f"--{name}={value}" for name, value in options.items())]


def environment(part: str, layout: Layout) -> Mapping[str, str]:
    """The environment of a part. A large cluster, on which figures are measured, runs as Kubernetes is shipped."""
    if part == "apiserver" and layout.node_count <= MANY_NODES:
        return os.environ | EAGER
    return os.environ


def write_files(layout: Layout) -> None:
    """Write the keys, tokens and settings that the parts read."""
    _certificates(layout.folder)
    node = f"system:node:{REAL_NODE}"
    tokens = [
        f'{layout.token},admin,admin,"system:masters"',
        f'{layout.controller_token},{CONTROLLER},{CONTROLLER},"system:masters"',
        f'{layout.scheduler_token},{SCHEDULER},{SCHEDULER},"system:masters"',
        f'{layout.node_token},{node},{node},"system:nodes"',
    ]
    (layout.folder / "tokens").write_text("".join(f"{line}\n" for line in tokens))
    layout.admin.write_text(kubeconfig(layout, "admin", layout.token))
    layout.controllers.write_text(kubeconfig(layout, CONTROLLER, layout.controller_token))
    layout.scheduler.write_text(kubeconfig(layout, SCHEDULER, layout.scheduler_token))
    for file in (layout.admin, layout.controllers, layout.scheduler):
        file.chmod(0o600)
    rules = [
        # What is written to nodes is noted as well: a cordon is one field of many.
        {"level": "Request", "verbs": ["patch", "update"], "resources": [{"group": "", "resources": ["nodes"]}]},
        {"level": "Metadata"},
    ]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    (layout.folder / "audit-policy").write_text(json.dumps(policy))
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(layout.scheduler), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
    }
    (layout.folder / "scheduler-config").write_text(json.dumps(scheduler))


def kubeconfig(layout: Layout, user: str, token: str) -> str:
    """A kubeconfig file; JSON is YAML."""
    cluster = {"server": layout.url, "certificate-authority": str(layout.ca)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "weft-test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "weft-test", "user": user}}],
            "current-context": user,
        },
        indent=1,
    )


def _certificates(folder: Path) -> None:
    """An authority, the API server's certificates from it, and the key that signs service accounts' tokens."""
    authority, server, client, accounts = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
    name = _named("weft test cluster")
    signs = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    own = _certificate(name, name, authority).add_extension(signs, critical=True)
    own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")])
    theirs = _certificate(_named("127.0.0.1"), name, server).add_extension(here, critical=False)
    theirs = theirs.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    to_kubelets = x509.Name([*_named("apiserver"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    asks = _certificate(to_kubelets, name, client)
    _proxy(folder)
    for file, builder in (("ca.crt", own), ("api.crt", theirs), ("client.crt", asks)):
        (folder / file).write_bytes(builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM))
    for file, key in (("ca.key", authority), ("api.key", server), ("client.key", client), ("accounts.key", accounts)):
        text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (folder / file).write_bytes(text)
        (folder / file).chmod(0o600)


def _proxy(folder: Path) -> None:
    """An authority for nothing but the certificate by which the API server asks others, and that one."""
    authority, client = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = _named("weft test cluster, front proxy")
    own = _certificate(name, name, authority)
    own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    asks = _certificate(_named(PROXY), name, client)
    for file, builder in (("proxy-ca.crt", own), ("proxy.crt", asks)):
        (folder / file).write_bytes(builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM))
    text = client.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "proxy.key").write_bytes(text)
    (folder / "proxy.key").chmod(0o600)


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """A certificate for a few days, to be signed."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3))
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _etcd(layout: Layout) -> dict[str, object]:
    clients, peers = f"http://127.0.0.1:{layout.etcd}", f"http://127.0.0.1:{layout.peers}"
    return {
        "data-dir": layout.folder / "etcd",
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
        "unsafe-no-fsync": "true",  # nothing here must survive a power cut
        "log-level": "warn",
    }


def _apiserver(layout: Layout) -> dict[str, object]:
    folder = layout.folder
    options: dict[str, object] = {
        "etcd-servers": f"http://127.0.0.1:{layout.etcd}",
        "bind-address": "127.0.0.1",
        "secure-port": layout.api,
        "endpoint-reconciler-type": "none",
        "tls-cert-file": folder / "api.crt",
        "tls-private-key-file": folder / "api.key",
        "token-auth-file": folder / "tokens",
        "authorization-mode": "Node,RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "accounts.key",
        "service-account-signing-key-file": folder / "accounts.key",
        "service-cluster-ip-range": "10.96.0.0/16",
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-client-certificate": folder / "client.crt",
        "kubelet-client-key": folder / "client.key",
        # To servers of API groups that are not its own, it speaks as front-proxy-client for whoever asked.
        "proxy-client-cert-file": folder / "proxy.crt",
        "proxy-client-key-file": folder / "proxy.key",
        "requestheader-client-ca-file": folder / "proxy-ca.crt",
        "requestheader-allowed-names": PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "allow-privileged": "true",
        "profiling": "false",
    }
    options |= _gates(layout)
    if layout.unused_plugins:
        options["disable-admission-plugins"] = ",".join(layout.unused_plugins)
    if layout.has_audit:
        options |= {"audit-policy-file": folder / "audit-policy", "audit-log-path": layout.audit}
    return options


def _kcm(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": layout.controllers,
        "controllers": ",".join(CONTROLLERS),
        "leader-elect": "false",
        "secure-port": 0,
        "service-account-private-key-file": layout.folder / "accounts.key",
        "root-ca-file": layout.ca,
        "kube-api-qps": 500,
        "kube-api-burst": 1000,
        "horizontal-pod-autoscaler-sync-period": "1s",  # 15 s is what it is shipped with
        "node-monitor-period": "1s" if layout.node_count <= MANY_NODES else "5s",  # 5 s is what it is shipped with
        "node-monitor-grace-period": f"{layout.lease_seconds + 10}s",
        **_gates(layout),
    }


def _gates(layout: Layout) -> dict[str, object]:
    return {"feature-gates": ",".join(f"{gate}=true" for gate in layout.gates)} if layout.gates else {}


def _kwok(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": layout.admin,
        "config": layout.folder / "kwok.yaml",
        "manage-all-nodes": "false",
        "manage-nodes-with-annotation-selector": "=".join(nodes.FAKE),
        "node-lease-duration-seconds": layout.lease_seconds,
        "node-ip": "127.0.0.1",
        "node-port": layout.kubelet,
        "server-address": f"127.0.0.1:{layout.kubelet}",
        "tls-cert-file": layout.folder / "api.crt",
        "tls-private-key-file": layout.folder / "api.key",
        "cidr": "10.128.0.0/10",
    }


def _scheduler(layout: Layout) -> dict[str, object]:
    return {"config": layout.folder / "scheduler-config", "secure-port": 0, **_gates(layout)}


_OPTIONS = {"etcd": _etcd, "apiserver": _apiserver, "kcm": _kcm, "kwok": _kwok, "scheduler": _scheduler}
