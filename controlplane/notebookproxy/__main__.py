"""`python -m controlplane.notebookproxy`: the way of browsers to notebooks (docs/notebooks.md#the-proxy).

Serve until a signal ends it; several may serve side by side, as they keep nothing.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import django
from aiohttp import web
from django.conf import settings

DRAIN_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Serve; the exit code."""
    parser = ArgumentParser(prog="python -m controlplane.notebookproxy")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", action="store_true", help="notebooks of the Kubernetes of KUBECONFIG, or ours")
    where.add_argument(
        "--services", action="store_true", help="by their Services' names; it runs as a pod, without rights"
    )
    where.add_argument("--notebooks", type=Path, help="file with an object of host:port by notebook")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8010, help="port to listen on")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    for name, value in (("WEFT_NOTEBOOK_URL", settings.NOTEBOOK_URL), ("WEFT_URL", settings.PUBLIC_URL)):
        if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc:
            parser.error(f"{name} is {value or 'not set'}. Say where browsers reach it: https://HOST.")
    try:
        made = _application(options)
    except LookupError as error:
        parser.error(str(error))
    web.run_app(made, host=options.host, port=options.port, print=None, access_log=None, shutdown_timeout=DRAIN_SECONDS)
    return 0


def _application(options: Namespace) -> web.Application:
    """The proxy over this file, by Services' names, or over Kubernetes. Raises LookupError without a cluster."""
    # They load models, which need Django to be set up.
    from controlplane.cluster.kubernetes.connection import NoClusterError, find
    from controlplane.notebookproxy.app import Proxy, Site
    from controlplane.notebookproxy.doors import Doors, FileDoors, ServiceDoors
    from controlplane.notebookproxy.gate import Gate
    from controlplane.notebookproxy.kubernetes import KubernetesDoors

    try:
        prefix = settings.NAMESPACE_PREFIX
        doors: Doors = KubernetesDoors(find(), prefix=prefix) if options.cluster else ServiceDoors(prefix)
        if options.notebooks:
            doors = FileDoors(options.notebooks)
    except NoClusterError as error:
        raise LookupError(str(error)) from error
    return Proxy(Gate(doors), Site(settings.NOTEBOOK_URL, settings.PUBLIC_URL)).application()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
