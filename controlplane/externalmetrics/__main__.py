"""`python -m controlplane.externalmetrics`: what Weft measures, for HorizontalPodAutoscalers (docs/adopting.md).

Serve until a signal ends it; several may serve side by side, as they keep nothing.
"""

import os
import ssl
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import django
import uvicorn

from controlplane.externalmetrics.server import Application, Value


def main(arguments: Sequence[str]) -> int:
    """Serve; the exit code."""
    parser = ArgumentParser(prog="python -m controlplane.externalmetrics")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - in its own pod
    parser.add_argument("--port", type=int, default=8443, help="port to listen on")
    parser.add_argument("--certificate", type=Path, required=True, help="file with the certificate and its chain")
    parser.add_argument("--key", type=Path, required=True, help="file with its key")
    parser.add_argument(
        "--client-ca", type=Path, required=True, help="file with what signs the aggregator's certificate, no other"
    )
    options = vars(parser.parse_args(arguments))
    for name in ("certificate", "key", "client_ca"):
        if not options[name].is_file():
            option = name.replace("_", "-")
            parser.error(f"--{option} names {options[name]}, and there is no such file. Name the right file.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    uvicorn.Server(configuration(options)).run()
    return 0


def configuration(options: dict[str, Any]) -> uvicorn.Config:
    """How it is served: a client without a certificate of the aggregator's authority gets no connection."""
    return uvicorn.Config(
        Application(read), host=options["host"], port=options["port"], ssl_certfile=str(options["certificate"]),
        ssl_keyfile=str(options["key"]), ssl_ca_certs=str(options["client_ca"]), ssl_cert_reqs=ssl.CERT_REQUIRED,
        lifespan="off", access_log=False, log_config=None, timeout_graceful_shutdown=10,
    )  # fmt: skip


def read(metric: str, namespace: str, uid: str) -> Value | None:
    """The value of a metric of one workload, by a connection that is known to work."""
    from django.db import close_old_connections  # noqa: PLC0415 - after the set-up

    from controlplane.queries.workloads import external  # noqa: PLC0415 - after the set-up

    close_old_connections()
    found = external.value(metric, namespace, uid)
    return None if found is None else Value(*found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
