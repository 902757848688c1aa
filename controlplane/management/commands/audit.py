"""`manage.py audit`: check the invariants of the database; `manage.py audit log`: the chain of the audit log."""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.loops import wiring
from controlplane.loops.audit import look
from controlplane.queries.audit import audit, auditlog

ROUNDS = 20


class Command(BaseCommand):
    """Look at one moment of the database; it may be in use."""

    help = (
        "Check the invariants S1 to S18 of docs/promises.md on the database, or, with `log`, that no row of the audit "
        "log that is kept was changed, removed, inserted or reordered; exit 1 and name what is broken."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("what", nargs="?", choices=("invariants", "log"), default="invariants")
        parser.add_argument(
            "--head",
            action="append",
            default=[],
            type=_head,
            metavar="NUMBER:DIGEST",
            help="log: a head or an anchor kept elsewhere, as in the server's logs; shows if the end was cut off or "
            "all rewritten",
        )
        parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"newest rounds to decide again ({ROUNDS})")

    def handle(self, *args: Any, **options: Any) -> None:
        """Check."""
        if options["what"] == "log":
            self._check_log(options["head"])
        else:
            self._check_invariants(options)

    def _check_log(self, heads: list[tuple[int, str]]) -> None:
        """Go through the chain."""
        found = auditlog.check(heads)
        if found.fault:
            self.stdout.write(f"{found.fault}.")
            sys.exit(1)
        kept = f", {len(heads)} of them as kept elsewhere" if heads else ""
        pruned = f" They follow row {found.pruned}, up to which the log was pruned." if found.pruned else ""
        rows = f"{found.rows} rows, each after the one before{kept}.{pruned}"
        self.stdout.write(f"{rows} Head: {found.number}:{found.digest}")

    def _check_invariants(self, options: dict[str, Any]) -> None:
        broken, is_compared = look(wiring.get().cluster, last_rounds=options["rounds"])
        others = audit.rounds_of_other_versions(options["rounds"])
        found = [f"{one.name} {one.subject}: {one.message}" for one in broken]
        for line in found:
            self.stdout.write(line)
        compared = "the cluster's pods included" if is_compared else "without the pods: the cluster does not answer"
        if others:
            self.stdout.write(f"Rounds of another version of Weft, whose inputs cannot be compared: {others}.")
        self.stdout.write(f"{len(found)} broken ({compared}).")
        sys.exit(1 if found else 0)


def _head(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", text)
    if match is None:
        raise ArgumentTypeError(f"{text} is no head. Write it as in the log: NUMBER:DIGEST, the digest of 64 digits.")
    return int(match[1]), match[2]
