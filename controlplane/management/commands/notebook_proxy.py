"""`manage.py notebook_proxy`: the server through which browsers reach notebooks (docs/notebooks.md#the-proxy)."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.cluster.kubernetes.connection import NoClusterError, find
from controlplane.notebookproxy.app import Proxy, Site
from controlplane.notebookproxy.doors import Doors, FileDoors
from controlplane.notebookproxy.gate import Gate
from controlplane.notebookproxy.kubernetes import KubernetesDoors
from controlplane.runtime import tuning

DRAIN_SECONDS = 10.0


class Command(BaseCommand):
    """Serve until a signal ends it; several may serve side by side, as they keep nothing."""

    help = "Serve as the proxy of notebooks: docs/notebooks.md. WEFT_NOTEBOOK_URL and WEFT_URL say where."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--cluster", action="store_true", help="notebooks of the Kubernetes of KUBECONFIG, or ours")
        where.add_argument("--notebooks", type=Path, help="file with an object of host:port by notebook")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8010, help="port to listen on")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        for name, value in (("WEFT_NOTEBOOK_URL", settings.NOTEBOOK_URL), ("WEFT_URL", settings.PUBLIC_URL)):
            if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc:
                raise CommandError(f"{name} is {value or 'not set'}. Say where browsers reach it: https://HOST.")
        tuning.collect_less_often()
        proxy = Proxy(Gate(_doors(options["notebooks"])), Site(settings.NOTEBOOK_URL, settings.PUBLIC_URL))
        web.run_app(
            proxy.application(), host=options["host"], port=options["port"], print=None, access_log=None,
            shutdown_timeout=DRAIN_SECONDS,
        )  # fmt: skip


def _doors(path: Path | None) -> Doors:
    if path is not None:
        return FileDoors(path)
    try:
        return KubernetesDoors(find(), prefix=settings.NAMESPACE_PREFIX)
    except NoClusterError as error:
        raise CommandError(str(error)) from error
