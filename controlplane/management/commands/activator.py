"""`manage.py activator`: the queue in front of services, and its switch (docs/activator.md). It needs no database."""

import ipaddress
import signal
import socket
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.activator import serving, switch
from controlplane.activator.directory import Directory, DirectoryError
from controlplane.activator.filedirectory import FileDirectory
from controlplane.activator.heads import Network
from controlplane.activator.kubernetes import KubernetesDirectory
from controlplane.activator.site import Limits
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import NoClusterError, find
from controlplane.runtime import tuning

MOST_PORTS = 1024


class Command(BaseCommand):
    """Serve until a signal ends it; several may serve side by side."""

    help = "Serve as the queue in front of services: docs/activator.md. Needs no database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--services", type=Path, help="file with the services (docs/activator.md)")
        where.add_argument(
            "--cluster", action="store_true", help="the services of the Kubernetes of KUBECONFIG, or ours"
        )
        where.add_argument("--switch", action="store_true", help="serve nothing: send traffic to activators, or direct")
        parser.add_argument("--namespace", default=names.SYSTEM_NAMESPACE, help="with --switch: the activators' own")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on for requests")
        parser.add_argument("--ports", default="20000-20255", help="FIRST-LAST: one port for each service")
        parser.add_argument("--admin-host", default="127.0.0.1", help="address for /signal, /metrics and health")
        parser.add_argument("--admin-port", type=int, default=8790, help="port for /signal, /metrics and health")
        parser.add_argument("--limit", type=float, default=0.0, help="requests a second, as measured; 0: not known")
        parser.add_argument("--trusted", action="append", default=[], help="network whose X-Forwarded headers are kept")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve, or switch."""
        if options["switch"]:
            _switch(options)
            return
        limits = Limits(requests_per_second=options["limit"], trusted=_networks(options["trusted"]))
        make = _directory(options["services"])
        own = _listen(options["admin_host"], options["admin_port"], "--admin-port")
        ports = {port: _listen(options["host"], port, "--ports") for port in port_range(options["ports"])}
        tuning.collect_less_often()
        sys.exit(serving.Keeper(partial(serving.run, make, limits, ports, own)).run())


def _switch(options: dict[str, Any]) -> None:
    """Switch until a signal ends it. One for a cluster: what it has decided stays while there is none."""
    try:
        access = find()
    except NoClusterError as error:
        raise CommandError(str(error)) from error
    ports, ended = port_range(options["ports"]), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with (
        closing(Api(access, in_flight=16, name="switch")) as api,
        closing(KubernetesDirectory(access, prefix=settings.NAMESPACE_PREFIX)) as directory,
    ):
        made = switch.Switch(
            api, directory, partial(switch.ask_all, port=options["admin_port"]),
            activators=switch.pods_of(api, options["namespace"]), ports=ports,
        )  # fmt: skip
        switch.run(made, ended.wait)


def _directory(path: Path | None) -> Callable[[], Directory]:
    """What makes the directory in the process that serves; what is wrong with it is said at once."""
    try:
        if path is None:
            find()
            return lambda: KubernetesDirectory(find(), prefix=settings.NAMESPACE_PREFIX)
        FileDirectory(path).services()
    except (DirectoryError, NoClusterError) as error:
        raise CommandError(str(error)) from error
    return partial(FileDirectory, path)


def _listen(host: str, port: int, option: str) -> socket.socket:
    try:
        return serving.listen(host, port)
    except OSError as error:
        raise CommandError(f"{option}: {host}:{port} cannot be listened on: {error.strerror}. Name another.") from error


def port_range(text: str) -> range:
    """The ports that this text names. Raises CommandError."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        raise CommandError(f"--ports {text} is no range. Write FIRST-LAST, such as 20000-20255.")
    found = range(int(first), int(last or first) + 1)
    if not 0 < len(found) <= MOST_PORTS or found[0] < 1 or found[-1] > 65_535:
        raise CommandError(f"--ports {text} has to name 1 to {MOST_PORTS} ports of 1 to 65535, the first one first.")
    return found


def _networks(texts: list[str]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise CommandError(f"--trusted is no network: {error}. Write 10.0.0.0/8.") from error
