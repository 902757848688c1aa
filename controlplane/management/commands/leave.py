"""`manage.py leave`: a team's namespace without Weft again; its pods run on."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.management import site as shared
from controlplane.manifests import apply
from controlplane.manifests.leave import leave
from controlplane.queries.tenancy import tenants


class Command(BaseCommand):
    """Show what would change; with --apply, change it. Run it with a cluster admin's kubeconfig."""

    help = "Take Weft out of a team's namespace (docs/adopting.md#leaving-again); --apply does it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--team", required=True, help="the team whose namespace it is")
        parser.add_argument("--apply", action="store_true", help="do it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Show or do."""
        site = shared.site(
            {"egress": (), "no_egress": (), "fence_gpus": False, "service_monitors": False, "database": ()}
        )
        team = options["team"]
        if live := tenants.made_here(team):
            more = f" and {len(live) - 3} more" if len(live) > 3 else ""
            raise CommandError(
                f"Team {team} has workloads that were submitted to Weft: {', '.join(live[:3])}{more}. Their pods "
                "have no controller but Weft: let them end, or stop them, before its namespace leaves."
            )
        try:
            for change in leave(apply.connect(), site, team, is_dry_run=not options["apply"]):
                where = f"{change.namespace}/" if change.namespace else ""
                self.stdout.write(f"{change.what} {change.kind} {where}{change.name}")
        except apply.ApplyError as error:
            raise CommandError(str(error)) from error
        if not options["apply"]:
            self.stdout.write("Nothing is changed yet: add --apply.")
