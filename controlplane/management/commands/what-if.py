# ruff: noqa: N999 - the file is named as the command is
"""`manage.py what-if`: the same work under another policy, other quotas or other nodes, beside what is in force."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.management.documents import read_document
from controlplane.management.table import lines
from controlplane.queries.scheduling import lab
from controlplane.simulator.replay.overrides import Overrides
from controlplane.simulator.worlds.catalogue import DEFAULT_LOAD
from scheduler.policies import POLICIES


class Command(BaseCommand):
    """Replay twice, compare, print. Writes nothing."""

    help = (
        "Replay stored rounds of the scheduler, or a trace, with the current and with proposed settings, and print "
        "the difference per team. Files are JSON or YAML. Nothing is written."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What is replayed, and what is other."""
        names = ", ".join(POLICIES)
        parser.add_argument("--policy", metavar="FILE", help=f"settings that differ, or the name of a policy: {names}")
        parser.add_argument("--quotas", type=Path, metavar="FILE", help="a list of quotas, with the fields of REST's")
        parser.add_argument(
            "--nodes", type=Path, metavar="FILE", help="{add: [{like: NODE, count: 4}], remove: [NODE]}"
        )
        work = parser.add_mutually_exclusive_group()
        work.add_argument("--cycles", type=int, default=lab.DEFAULT_CYCLES, metavar="N", help="newest stored rounds")
        work.add_argument("--trace", metavar="NAME|FILE", help="demo, philly, openb or a CSV file instead of rounds")
        parser.add_argument("--hours", type=float, default=lab.DEFAULT_HOURS, help="of a trace (24)")
        parser.add_argument("--jobs", type=int, default=lab.DEFAULT_JOBS, help="of a trace, at most (2000)")
        parser.add_argument("--load", type=float, default=DEFAULT_LOAD, help="of a trace, against the cluster (1.2)")
        parser.add_argument("--seed", type=int, default=0, help="of a trace: where it begins")
        parser.add_argument("--json", action="store_true", help="everything as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Compare and print."""
        if not 2 <= options["cycles"] <= lab.MAX_CYCLES:
            raise CommandError(f"--cycles is {options['cycles']}. Give a number from 2 to {lab.MAX_CYCLES}.")
        for name, most in (("hours", 10_000), ("jobs", 1_000_000)):
            if not 0 < options[name] <= most:
                raise CommandError(f"--{name} is {options[name]:g}. Give a number above 0, at most {most}.")
        asked = lab.Asked(
            cycles=options["cycles"],
            trace=options["trace"],
            hours=options["hours"],
            jobs=options["jobs"],
            load=options["load"],
            seed=options["seed"],
            overrides=_overrides(options),
        )
        try:
            found = lab.answer(asked, self._progress if self.stderr.isatty() else lambda part, text: None)
        except lab.CannotBeAnsweredError as wrong:
            raise CommandError("\n".join(error.message for error in wrong.errors)) from None
        self.stdout.write(json.dumps(found, indent=2) if options["json"] else "\n".join(lines(found)))

    def _progress(self, part: float, text: str) -> None:
        self.stderr.write(f"\r{part:6.1%}  {text}   ", ending="")


def _overrides(options: dict[str, Any]) -> Overrides:
    policy: Any = {}
    if options["policy"] is not None:
        is_name = options["policy"] in POLICIES and not Path(options["policy"]).is_file()
        policy = {"scheduling": {"policy": options["policy"]}} if is_name else read_document(Path(options["policy"]))
    quotas = read_document(options["quotas"]) if options["quotas"] else ()
    return Overrides(policy, quotas, read_document(options["nodes"]) if options["nodes"] else {})
