"""`manage.py install`: what has to be there before the processes start. Doing it again changes nothing."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from controlplane.loops import wiring
from controlplane.services.accounts import people
from controlplane.services.audit import grants
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import catalogue

RIGHTS = {"web": grants.WEB, "worker": grants.WORKER}


class Command(BaseCommand):
    """Bring tables and static files up to date; give an empty database its first people."""

    help = "Prepare the database and static files for web, worker and beat; for each start and upgrade."

    def handle(self, *args: Any, **options: Any) -> None:
        """Install."""
        call_command("migrate", verbosity=1, interactive=False)
        self._give_rights()
        call_command("collectstatic", verbosity=0, interactive=False)
        if not settings.ADMIN_PASSWORD:
            return
        if settings.CLUSTER == "simulated" and presets.loaded() is None:
            preset = catalogue.load("", load=catalogue.DEFAULT_LOAD, seed=0, data=settings.WEFT_DATA)
            presets.load(preset=preset, password=settings.ADMIN_PASSWORD, speed=preset.pace.speed)
            wiring.simulated(preset)
            self.stdout.write(f"A simulated cluster of {len(preset.nodes)} nodes; users admin, ada, mel, vic.")
        elif people.add_first_admin(name=presets.ADMIN, password=settings.ADMIN_PASSWORD):
            self.stdout.write("The first administrator: admin.")

    def _give_rights(self) -> None:
        """Let web and worker have database users of their own, if there are to be any."""
        for part, url in settings.DATABASE_ROLES.items():
            if not url:
                continue
            if connection.vendor != "postgresql":
                raise CommandError(f"{part.upper()}_DATABASE_URL needs Postgres. Set DATABASE_URL to one, or unset it.")
            try:
                name = grants.give(url, RIGHTS[part])
            except grants.RoleError as error:
                raise CommandError(f"{part.upper()}_DATABASE_URL: {error}") from None
            self.stdout.write(f"The database user {name} has the rights of {part}.")
