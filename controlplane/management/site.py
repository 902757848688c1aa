"""Options and settings that the commands about manifests share."""

import base64
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from controlplane.manifests.site import Site, TeamSpace
from controlplane.queries.tenancy import tenants


def add_arguments(parser: ArgumentParser) -> None:
    """What no setting says."""
    parser.add_argument("--team", action="append", help="only this team (repeat for several); all if absent")
    parser.add_argument("--egress", action="append", default=[], metavar="CIDR", help="private network pods may reach")
    parser.add_argument("--no-egress", action="append", default=[], metavar="CIDR", help="public one they may not")
    parser.add_argument(
        "--database",
        action="append",
        default=[],
        metavar="CIDR",
        help="network of the database, for the notebooks' proxy",
    )
    parser.add_argument("--service-monitors", action="store_true", help="services have ServiceMonitors made for them")
    parser.add_argument("--fence-gpus", action="store_true", help="ResourceQuota on GPUs; see docs/kubernetes.md")


def site(options: dict[str, Any]) -> Site:
    """The platform's choices."""
    return Site(
        prefix=settings.NAMESPACE_PREFIX,
        placeholder_image=settings.PLACEHOLDER_IMAGE,
        registries=settings.REGISTRIES,
        extra_resources=settings.EXTRA_RESOURCES,
        egress=tuple(options["egress"]),
        no_egress=tuple(options["no_egress"]),
        fence_gpus=options["fence_gpus"],
        has_monitors=options["service_monitors"],
        has_istio=settings.ISTIO,
        has_dra=settings.DRA,
        has_external_metrics=settings.ADMISSION and settings.EXTERNAL_METRICS,
        has_admission=settings.ADMISSION,
        admission_ca=_authority(),
        activator_image=settings.ACTIVATOR_IMAGE,
        notebook_proxy_image=_notebook_proxy(),
        enforcer_image=settings.ENFORCER_IMAGE,
        url=settings.PUBLIC_URL,
        notebook_url=settings.NOTEBOOK_URL,
        database=tuple(options["database"]),
    )


def _notebook_proxy() -> str:
    """The image of the notebooks' proxy. Raises CommandError where it is not known by which address it is reached."""
    if settings.NOTEBOOK_PROXY_IMAGE:
        for name, value in (("WEFT_NOTEBOOK_URL", settings.NOTEBOOK_URL), ("WEFT_URL", settings.PUBLIC_URL)):
            if not value:
                raise CommandError(f"WEFT_NOTEBOOK_PROXY_IMAGE needs {name}: where browsers reach it, https://HOST.")
    return str(settings.NOTEBOOK_PROXY_IMAGE)


def _authority() -> str:
    """The certificate that signed the admission server's, for the API server. Raises CommandError."""
    if not settings.ADMISSION_CA:
        return ""
    try:
        return base64.b64encode(Path(settings.ADMISSION_CA).read_bytes()).decode()
    except OSError as error:
        raise CommandError(f"WEFT_ADMISSION_CA: {error}. Name a PEM file, or leave it empty.") from error


def spaces(options: dict[str, Any]) -> list[TeamSpace]:
    """The teams asked for. Raises CommandError for one that there is not, or if no database was set up."""
    if not connection.introspection.table_names():
        raise CommandError("The database has no tables yet. Run `.venv/bin/python manage.py install` first.")
    found = {tenant.name: TeamSpace(tenant.name, tenant.pod_security, tenant.gpus) for tenant in tenants.tenants()}
    wanted = options["team"] or sorted(found)
    if unknown := [name for name in wanted if name not in found]:
        raise CommandError(f"There is no team {unknown[0]}. Teams here: {', '.join(sorted(found)) or 'none'}.")
    return [found[name] for name in wanted]
