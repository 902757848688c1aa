"""`manage.py externalmetrics`: what Weft measures of services, for HorizontalPodAutoscalers (docs/adopting.md)."""

import ssl
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from controlplane.externalmetrics.server import Application, Value
from controlplane.queries.workloads import external


def read(namespace: str, uid: str) -> Value | None:
    """The value of one workload, by a connection that is known to work."""
    close_old_connections()
    found = external.requests_per_second(namespace, uid)
    return None if found is None else Value(*found)


class Command(BaseCommand):
    """Serve until a signal ends it; several may serve side by side, as they keep nothing."""

    help = "Serve the external metrics API to the API server's aggregator (docs/adopting.md#kubernetes-own-scaling)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - in its own pod
        parser.add_argument("--port", type=int, default=8443, help="port to listen on")
        parser.add_argument("--certificate", type=Path, required=True, help="file with the certificate and its chain")
        parser.add_argument("--key", type=Path, required=True, help="file with its key")
        parser.add_argument(
            "--client-ca", type=Path, required=True, help="file with what signs the aggregator's certificate, no other"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        for name in ("certificate", "key", "client_ca"):
            if not options[name].is_file():
                option = name.replace("_", "-")
                raise CommandError(f"--{option} names {options[name]}, and there is no such file. Name the right file.")
        uvicorn.Server(configuration(options)).run()


def configuration(options: dict[str, Any]) -> uvicorn.Config:
    """How it is served: a client without a certificate of the aggregator's authority gets no connection."""
    return uvicorn.Config(
        Application(read), host=options["host"], port=options["port"], ssl_certfile=str(options["certificate"]),
        ssl_keyfile=str(options["key"]), ssl_ca_certs=str(options["client_ca"]), ssl_cert_reqs=ssl.CERT_REQUIRED,
        lifespan="off", access_log=False, log_config=None, timeout_graceful_shutdown=10,
    )  # fmt: skip
