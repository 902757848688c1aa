"""`manage.py namespaces`: bring the teams' namespaces in a cluster to what Weft's teams and settings say."""

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.management import site as shared
from controlplane.manifests import apply, teams


class Command(BaseCommand):
    """Show what would change; with --apply, change it. Run it with the provisioner's account, after teams changed."""

    help = "Show what would change in the teams' namespaces of the cluster of KUBECONFIG; --apply changes it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--apply", action="store_true", help="change it")
        shared.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Compare or apply, team by team."""
        site = shared.site(options)
        counts: Counter[str] = Counter()
        try:
            api = apply.connect()
            for space in shared.spaces(options):
                for change in apply.apply(api, teams.team(site, space), is_dry_run=not options["apply"]):
                    counts[change.what] += 1
                    if change.what != "same":
                        where = f"{change.namespace}/" if change.namespace else ""
                        self.stdout.write(f"{change.what} {change.kind} {where}{change.name}")
        except apply.ApplyError as error:
            raise CommandError(str(error)) from error
        done = "" if options["apply"] else " Nothing is changed yet: add --apply."
        told = ", ".join(f"{counts[what]} {what}" for what in ("created", "changed", "same"))
        self.stdout.write(f"{told}.{done if counts['created'] + counts['changed'] else ''}")
