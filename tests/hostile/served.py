"""A served Weft with hostile text in every column. `python -m tests.hostile.served` fills it, and prints its pages."""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django.setup()

from controlplane.asgi import application  # noqa: E402
from controlplane.cluster.port import LogLine  # noqa: E402
from controlplane.runtime import logs  # noqa: E402  models need Django
from tests.hostile import strings  # noqa: E402

__all__ = ["application"]
PARTS = ("/parts/", "/charts/", "/accounts/")  # of a page that is opened anyway; not ours
LIST = 4  # slashes in the address of a list of the console

logs.connect(lambda *_: tuple(LogLine(1.0, rank, text) for rank, text in enumerate(strings.ALL)))


def main() -> None:
    """Fill the database that the environment names, which is empty."""
    from django.core.management import call_command

    from tests.hostile import database, pages

    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    database.fill()
    database.poison(0)
    lists = [address for address in pages.console() if address.count("/") == LIST]
    found = [*pages.addresses(kinds=1), *lists]
    sys.stdout.write(json.dumps([one for one in found if not one.startswith(PARTS)]))


if __name__ == "__main__":
    main()
