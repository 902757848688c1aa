"""`manage.py reset`: delete the world of `manage.py up`."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.management import home


class Command(BaseCommand):
    """Delete the embedded database and the simulated cluster."""

    help = "Delete the data of `manage.py up`, so that it starts afresh."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Delete, unless Weft runs."""
        if not settings.EMBEDDED:
            self.stderr.write("DATABASE_URL is set, so this is no embedded Weft. Unset it to reset the embedded one.")
            sys.exit(2)
        try:
            claim = home.claim()
        except home.HomeError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        deleted = home.clear()
        claim.file.close()
        self.stdout.write(
            f"Deleted {len(deleted)} files in {settings.DATA_DIR}. `make up` starts afresh."
            if deleted
            else f"There was nothing to delete in {settings.DATA_DIR}."
        )
