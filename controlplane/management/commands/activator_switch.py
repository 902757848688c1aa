"""`manage.py activator_switch`: sends the traffic of services through the activators, or direct (docs/activator.md)."""

import signal
import threading
from argparse import ArgumentParser
from contextlib import closing
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.activator import switch
from controlplane.activator.kubernetes import KubernetesDirectory
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import NoClusterError, find
from controlplane.management.commands.activator import port_range


class Command(BaseCommand):
    """Switch until a signal ends it. One for a cluster: what it has decided stays while there is none."""

    help = "Send the traffic of services through the activators, or direct: docs/activator.md. Needs no database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--ports", default="20000-20255", help="FIRST-LAST: the activators' ports for services")
        parser.add_argument("--admin-port", type=int, default=8790, help="the activators' port for /signal")
        parser.add_argument("--namespace", default=names.SYSTEM_NAMESPACE, help="the activators' own")

    def handle(self, *args: Any, **options: Any) -> None:
        """Switch."""
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
