"""`manage.py admission`: the HTTPS server that the API server asks about what is made in the namespaces of teams."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.cluster.kubernetes.connection import NoClusterError
from controlplane.runtime import tuning
from controlplane.webhook import server
from controlplane.webhook.lookup import WorldLookup


class Command(BaseCommand):
    """Serve until a signal ends it; several may serve side by side, as they keep nothing."""

    help = "Serve the admission webhook (docs/adopting.md). The certificate is read again when its file changes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - in its own pod
        parser.add_argument("--port", type=int, default=8443, help="port to listen on")
        parser.add_argument("--certificate", type=Path, required=True, help="file with the certificate and its chain")
        parser.add_argument("--key", type=Path, required=True, help="file with its key")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        for name in ("certificate", "key"):
            if not options[name].is_file():
                raise CommandError(
                    f"--{name} names {options[name]}, and there is no such file. Name the {name}'s file."
                )
        try:
            lookup = WorldLookup()
        except NoClusterError as error:
            raise CommandError(str(error)) from error
        tuning.collect_less_often()
        server.serve(
            lookup,
            host=options["host"],
            port=options["port"],
            certificate=options["certificate"],
            key=options["key"],
        )
