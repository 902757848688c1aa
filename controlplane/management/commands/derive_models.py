"""`manage.py derive_models`: the tables of the models after Philly and openb, out of the trace files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.simulator import tables
from controlplane.simulator.worlds import catalogue, deriving, traces
from controlplane.simulator.worlds.presets import PresetError
from controlplane.simulator.worlds.traces import OpenbRow, PhillyRow


class Command(BaseCommand):
    """Write the tables, or compare them."""

    help = "Make the tables of the models after Philly and openb again from the trace files in WEFT_DATA."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--check", action="store_true", help="write nothing; fail if a table would be another")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read the files, make the tables."""
        folder = Path(tables.__path__[0])
        try:
            made = derived(settings.WEFT_DATA)
        except PresetError as error:
            raise CommandError(str(error)) from None
        other = [name for name, text in made.items() if (folder / f"{name}.json").read_text() != text]
        if options["check"]:
            if other:
                raise CommandError(f"Not as the trace files say: {', '.join(other)}. Run manage.py derive_models.")
            self.stdout.write("The tables are as the trace files say.")
            return
        for name in made:
            (folder / f"{name}.json").write_text(made[name])
            self.stdout.write(f"{folder / name}.json: {'changed' if name in other else 'as it was'}")


def derived(data: Path) -> dict[str, str]:
    """The tables by name, as they are to lie in simulator/tables. Raises PresetError."""
    jobs = cast(list[PhillyRow], traces.read_rows(data / catalogue.PHILLY_FILE))
    pods = cast(list[OpenbRow], traces.read_rows(data / catalogue.OPENB_FILE))
    machines = traces.read_nodes(data / catalogue.OPENB_NODES)
    return {
        "philly": deriving.text(deriving.philly(jobs)),
        "openb": deriving.text(deriving.openb(pods, machines)),
    }
