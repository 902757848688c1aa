"""`manage.py test_cluster`: a real Kubernetes on this machine, with nodes that only pretend to have GPUs."""

import fcntl
import shlex
import shutil
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.simulator.worlds.presets import PresetError
from controlplane.testbed import binaries
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import fleet, of_openb
from controlplane.testbed.processes import MissingError
from scheduler.model.snapshot import Node

CHECK_SECONDS = 1.0
MAX_NODES = 5000  # as many as Kubernetes itself is tested with


class TakenError(Exception):
    """Another test cluster runs here."""


class Command(BaseCommand):
    """Start one, say how to use it, serve until Ctrl-C."""

    help = "Run a real Kubernetes control plane with nodes played by KWOK, for trying Weft on it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--nodes", default="3", help="how many machines of 8 GPUs, or openb for its 1,213 (3)")
        parser.add_argument(
            "--scheduler", action="store_true", help="with kube-scheduler, for pods that are not Weft's"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start, wait, end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        try:
            machines, source = _machines(options["nodes"])
            tier = "baseline" if options["scheduler"] else "sim"
            with _folder() as folder:
                programs = binaries.find(self._say)
                self._say(f"starting Kubernetes {binaries.kubernetes_version()} with {len(machines)} nodes{source} ...")
                with test_cluster(folder, nodes=machines, tier=tier) as cluster:
                    self._say(_greeting(cluster, machines, source, programs["kwok"].parent))
                    while True:
                        cluster.check()
                        time.sleep(CHECK_SECONDS)
        except (MissingError, PresetError, RuntimeError, TakenError, TimeoutError) as error:
            self.stderr.write(str(error))
            sys.exit(2)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()  # also into a pipe


def _machines(asked: str) -> tuple[Sequence[Node], str]:
    """The nodes that NODES names, and what to say of where they are from. Raises PresetError."""
    if asked == "openb":
        machines, source = of_openb(settings.WEFT_DATA)
        return machines, f" ({source})"
    if not asked.isdigit() or int(asked) > MAX_NODES:
        raise PresetError(f"NODES is {asked}. Set it to a number up to {MAX_NODES}, or to openb.")
    return fleet(int(asked)), ""


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, always at the same place, of which one cluster at a time has the use. Raises TakenError."""
    folder = Path(settings.DATA_DIR) / "test-cluster"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(f"A test cluster runs already, with its files in {folder}. Stop it first.") from None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _greeting(cluster: TestCluster, machines: Sequence[Node], source: str, programs: Path) -> str:
    gpus = sum(machine.gpus for machine in machines)
    use = f"KUBECONFIG={shlex.quote(str(cluster.kubeconfig()))}"
    # What was built has a kubectl, and the machine may have none; its own, if any, stays the first.
    path = f"PATH=$PATH:{shlex.quote(str(programs))}"
    return f"""
Kubernetes runs at   {cluster.url}   (Ctrl-C ends it with all that is in it)

  nodes        {len(machines)} nodes, {gpus} GPUs{source}; they are played by KWOK, and no container really runs
  shell        export {use} {path}
               before the commands below
  kubectl      kubectl get nodes
  Weft         set CLUSTER=kubernetes {use}
               for each of its processes (web, worker, beat, or `manage.py loops`)
  database     .venv/bin/python manage.py install   (not needed where `make up` ran)
  permissions  .venv/bin/python manage.py manifests | kubectl apply --server-side -f -
  end a pod    kubectl annotate pod NAME kwok.weft.dev/run-for=0   (or fail-after=0, exit-code=137)
  lose a node  kubectl annotate node NAME kwok.weft.dev/not-ready=true   (and not-ready- to bring it back)
  logs         {cluster.log("apiserver").parent}
"""


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(0)
