"""A real Kubernetes on loopback: etcd, kube-apiserver, kube-controller-manager and KWOK, which plays the kubelets.

    with test_cluster(folder, nodes=3) as cluster:
        cluster.request("GET", "/api/v1/nodes")

Nothing of it outlives the `with` block or this process. What pods do is told by annotations; see stages.yaml.
"""

import contextlib
import json
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from controlplane.testbed import binaries, parts, processes
from controlplane.testbed.api import Api, Json
from controlplane.testbed.cleaning import empty
from controlplane.testbed.nodes import fleet, manifest
from controlplane.testbed.stages import STAGES, configuration
from scheduler.model.snapshot import Node

MAX_RESTARTS = 3
READY_SECONDS = 60.0  # 3 to 4 s when the machine is idle
LOG_LINE = "2026-01-01T00:00:{second:02}.000000000Z stdout F step {second} of 60\n"


class TestCluster(Api):
    """A running cluster: its API, its parts (etcd, apiserver, kcm, kwok, scheduler) and its nodes."""

    __test__ = False  # its name makes pytest think otherwise

    def __init__(self, layout: parts.Layout, programs: Mapping[str, Path]) -> None:
        super().__init__(layout)
        self._programs = programs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._machines: tuple[Node, ...] = ()
        self._restarts = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of this cluster's tier, in the order of their start."""
        return parts.TIERS[self.layout.tier]

    def start(self, part: str, *, wait: bool = True) -> None:
        """Start a part that was killed, on its old port with its old data; wait until the API server answers again."""
        line = parts.command(part, self._programs[parts.PROGRAMS[part]], self.layout)
        environment = parts.environment(part, self.layout)
        self._processes[part] = processes.start(line, log=self.log(part), env=environment, stop=signal.SIGKILL)
        if wait and part in ("etcd", "apiserver"):
            self.wait_for(self.is_ready, "the API server")

    def kill(self, part: str) -> None:
        """End a part at once, as a crash does."""
        processes.end(self._processes[part], signal.SIGKILL)

    def pause(self, part: str) -> None:
        """Stop a part without ending it: its connections stay open and nothing answers."""
        self._processes[part].send_signal(signal.SIGSTOP)

    def resume(self, part: str) -> None:
        """Let a paused part go on."""
        self._processes[part].send_signal(signal.SIGCONT)

    def pid(self, part: str) -> int:
        """The process id of a part, for its memory and time."""
        return self._processes[part].pid

    def log(self, part: str) -> Path:
        """The file with what a part has printed."""
        return self.layout.folder / f"{part}.log"

    def wait_for(self, is_so: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Poll until `is_so()`. Raises TimeoutError, or RuntimeError with its log if a part has ended by itself."""

        def is_so_or_dead() -> bool:
            self.check()
            return is_so()

        processes.wait_until(is_so_or_dead, what, seconds)

    def check(self) -> None:
        """Raise RuntimeError with its log if a part has ended by itself.

        The controller manager gives up when the API server, however ready, is too busy to answer it for 10 s. It is
        then started again, as wherever Kubernetes runs, a few times at most.
        """
        for part, process in list(self._processes.items()):
            code = process.poll()
            if code is not None and code != -signal.SIGKILL:  # that is ours
                if part == "kcm" and self._restarts < MAX_RESTARTS:
                    self._restarts += 1
                    self.start(part)
                    continue
                end = self.log(part).read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{part} ended with {code}:\n{end}")

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig file of "admin" or, with a new token, of the service account "namespace/name"."""
        if user == "admin":
            return self.layout.admin
        path = self.layout.folder / f"kubeconfig-{user.replace('/', '-')}"
        path.touch(mode=0o600)
        path.write_text(parts.kubeconfig(self.layout, user, self.token(user)))
        return path

    def audit(self, since: int = 0, until: int = 0) -> list[Json]:
        """The audit log from this many bytes on, to its end or so many; only of a cluster made with audit=True."""
        with self.layout.audit.open("rb") as log:
            log.seek(since)
            lines = log.read(max(0, until - since) if until else -1).decode().splitlines()
        # The server may be at work on the last line.
        return [json.loads(line) for line in lines if line.endswith("}")]

    def add_nodes(self, machines: Sequence[Node]) -> None:
        """Add machines and wait until work may go there."""
        create = partial(self.request, "POST", "/api/v1/nodes")
        self.each(create, [manifest(machine, self.layout.kubelet) for machine in machines])
        if machines and "kcm" in self.parts:  # takes the taint of each new node away, about in their order
            self.wait_for(lambda: self._is_free(machines[-1].name), "the last node")
            names = {machine.name for machine in machines}
            self.wait_for(lambda: not names & set(self._tainted()), "the nodes")

    def empty(self) -> None:
        """Delete what tests make (pods, what goes with them, policies) and make the nodes as they were at the start.

        Namespaces, accounts and roles stay: Kubernetes takes seconds to delete a namespace. Parts that a test killed or
        paused go on.
        """
        for part in self.parts:
            self.resume(part)
            if self._processes[part].poll() is not None:
                self.start(part)
        empty(self, self._machines)

    def begin(self, machines: Sequence[Node]) -> None:
        """Start all parts and add the machines."""
        self._machines = tuple(machines)
        # KWOK waits for seconds before it looks again if it finds no API server; kcm ends after 10 s without one.
        for part in ("etcd", "apiserver"):
            self.start(part, wait=False)
        self.wait_for(self.is_ready, "the API server")
        for part in self.parts[2:]:
            self.start(part)
        self.add_nodes(machines)
        if "kcm" in self.parts:  # no pod can be made before
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self.wait_for(lambda: self.exists(account), "the service accounts")
        if "kwok" in self.parts:
            self.wait_for(lambda: processes.listens(self.layout.kubelet), "KWOK")

    def close(self) -> None:
        """End all parts at once."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            processes.end(process, signal.SIGKILL)
        self._http.close()

    def _is_free(self, name: str) -> bool:
        return not _has_taint(self.request("GET", f"/api/v1/nodes/{name}"))

    def _tainted(self) -> Iterator[str]:
        for node in self.request("GET", "/api/v1/nodes?resourceVersion=0")["items"]:
            if _has_taint(node):
                yield node["metadata"]["name"]


def _has_taint(node: Json) -> bool:
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))


@contextlib.contextmanager
def test_cluster(
    folder: Path,
    *,
    nodes: int | Sequence[Node] = 0,
    tier: str = "sim",
    start_after: float = 0.0,
    stages: Path = STAGES,
    audit: bool = False,
    gates: Sequence[str] = (),
) -> Iterator[TestCluster]:
    """Run a cluster with its files in `folder`, which exists and is empty. Raises MissingError.

    tier: "api" (etcd and API server only: nodes and pods stay as they are written), "sim" or "baseline" (with
    kube-scheduler). Pods start `start_after` seconds after they are bound, unless an annotation says otherwise. gates:
    features to switch on.
    """
    programs = binaries.find()
    machines = fleet(nodes) if isinstance(nodes, int) else tuple(nodes)
    layout = parts.Layout(folder.resolve(), tier, len(machines), audit, secrets.token_hex(16), tuple(gates))
    parts.write_files(layout)
    layout.pod_log.write_text("".join(LOG_LINE.format(second=second) for second in range(60)))
    (folder / "kwok.yaml").write_text(configuration(layout.pod_log, start_after, stages))
    cluster = TestCluster(layout, programs)
    try:
        cluster.begin(machines)
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder / "etcd", ignore_errors=True)


test_cluster.__test__ = False  # type: ignore[attr-defined]
