"""`manage.py policy`: the settings in force, their history, a new version from a file, and the way back."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.policy import Change
from controlplane.management.documents import read_document
from controlplane.queries.scheduling import policies
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy


class Command(BaseCommand):
    """Show the policy, or put a new version in force."""

    help = "The scheduling policy: shows it, its versions, and saves a new version. A file is JSON or YAML."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One of four things to do."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--versions", action="store_true", help="list the versions with what each changed")
        what.add_argument("--show", type=int, metavar="VERSION", help="print one version; 0 is the defaults")
        what.add_argument("--set", type=Path, metavar="FILE", help="save a version with the settings of this file")
        what.add_argument("--restore", type=int, metavar="VERSION", help="save a version equal to an old one")
        parser.add_argument("--comment", default="", help="why, in one line")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it."""
        if options["versions"]:
            self._list()
        elif options["set"] is not None or options["restore"] is not None:
            self._save(options)
        else:
            number = policies.in_force() if options["show"] is None else options["show"]
            found = policies.row(number)
            if found is None:
                raise CommandError(f"There is no version {number}. `manage.py policy --versions` lists them.")
            self.stdout.write(json.dumps(found["settings"], indent=2))

    def _list(self) -> None:
        found = policies.rows(list(policies.versions().order_by("-pk")))
        for row in found:
            mark = " (current)" if row["in_force"] else ""
            self.stdout.write(f"version {row['version']}{mark}  {row['at'][:19]}  {row['author']}  {row['comment']}")
            self._changes(row)
        if not found:
            self.stdout.write("No version was saved: the defaults apply.")

    def _save(self, options: dict[str, Any]) -> None:
        said = {"author": "manage.py policy", "comment": options["comment"]}
        try:
            if options["set"] is not None:
                number = policy.change(changes=read_document(options["set"]), **said)
            else:
                number = policy.restore(number=options["restore"], **said)
        except Refused as refused:
            raise CommandError(refused.message) from None
        self.stdout.write(f"Version {number} applies from the next round on.")
        saved = policies.row(number)
        if saved is not None:
            self._changes(saved)

    def _changes(self, row: dict[str, Any]) -> None:
        for change in row["changes"]:
            self.stdout.write(f"  {Change(**change)}")
