"""`manage.py manifests`: print what Weft needs in a cluster, for `kubectl apply --server-side -f -`."""

from argparse import ArgumentParser
from typing import Any

import yaml
from django.core.management.base import BaseCommand

from controlplane.management import site as shared
from controlplane.manifests import externalmetrics, policy, system, teams, webhook
from controlplane.manifests.site import Json

PARTS = ("system", "policy", "teams")


class Command(BaseCommand):
    """Print accounts and rights, the admission policy, and the teams' namespaces."""

    help = "Print the manifests of a cluster: accounts and rights (system), fences (policy), namespaces (teams)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"of {', '.join(PARTS)}; all if absent")
        shared.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Print."""
        site = shared.site(options)
        parts = options["parts"] or PARTS
        objects: list[Json] = []
        if "system" in parts:
            objects += [*system.system(site), *externalmetrics.external_metrics(site)]
        if "policy" in parts:
            objects += [*policy.policies(site), *webhook.webhook(site)]
        if "teams" in parts:
            objects += [one for space in shared.spaces(options) for one in teams.team(site, space)]
        self.stdout.write(yaml.safe_dump_all(objects, sort_keys=False, width=120, allow_unicode=True), ending="")
