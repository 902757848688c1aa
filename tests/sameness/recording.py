"""Record what is compared later: `python -m tests.sameness.recording rounds|rows`.

`world NAME FILE` and `tables SECONDS FILE` are parts of it, each in a process and a database of its own (WEFT_HOME).

Once, before the first move of a rebuild. REST answers are recorded by the tests themselves: see `answers`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import django

# Scheduling rounds of each world; the rest is of runs at random. One of openb takes a second to decide from nothing.
ROUNDS = {"demo": 80, "philly-model": 45, "openb-model": 15}
SCALING = {"demo": 50, "openb-model": 10}  # Philly's model has no services
CHAOS = {101: 20, 102: 20}
STEP_SECONDS = 600.0  # of the cluster's clock, between two looks whether there are enough rounds


def main(arguments: Sequence[str]) -> int:
    """Record one document; or write the rounds of one world, or the tables after so many seconds, to a file."""
    if arguments[0] == "world":
        Path(arguments[2]).write_text(json.dumps(_world(arguments[1])))
        return 0
    if arguments[0] == "tables":
        Path(arguments[2]).write_text(json.dumps(_rows(Path(os.environ["WEFT_HOME"]), float(arguments[1]))))
        return 0
    from tests.sameness import store

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        document = _rounds(Path(folder)) if arguments[0] == "rounds" else _rows(Path(folder))
        path = store.write(arguments[0], document)
    print(f"{path}: {path.stat().st_size:,} bytes in {time.monotonic() - began:.0f} s")
    return 0


def _prepare(home: Path) -> None:
    os.environ.update(DJANGO_SETTINGS_MODULE="controlplane.settings", WEFT_HOME=str(home), WEFT_EMBEDDED="true")
    django.setup()
    from tests.sameness import rows

    rows.migrate()


def _rows(home: Path, seconds: float = 86_400.0) -> object:
    _prepare(home)
    from controlplane.simulator.worlds.presets import START
    from tests.sameness import rows

    rows.simulate(START + seconds)
    return rows.tables()


def _rounds(folder: Path) -> object:
    """Each world has a process and a database of its own: nothing that is written can be taken away again."""
    found: list[dict[str, object]] = []
    for name in ROUNDS:
        home, out = folder / name, folder / f"{name}.json"
        command = [sys.executable, "-m", "tests.sameness.recording", "world", name, str(out)]
        subprocess.run(command, check=True, env={**os.environ, "WEFT_HOME": str(home)})
        found += json.loads(out.read_text())
        print(f"{name}: {len(found)} rounds so far", flush=True)
    _prepare(folder / "chaos")
    from tests.sameness import rounds

    for seed, many in CHAOS.items():
        found += rounds.documents(rounds.chaos(seed, many))
    missing = rounds.MIN_SCHEDULING - sum(one["loop"] == "schedule" for one in found)
    return found + rounds.documents(rounds.chaos(max(CHAOS) + 1, max(0, missing)))


def _world(name: str) -> list[dict[str, object]]:
    """Rounds of one preset that follow each other, the first with its whole input."""
    _prepare(Path(os.environ["WEFT_HOME"]))
    from controlplane.loops.embedded import Driver
    from controlplane.loops.wiring import simulated
    from controlplane.models import Cycle
    from controlplane.services.workloads import presets
    from controlplane.simulator.worlds import catalogue
    from tests.sameness import rounds
    from tests.sameness.store import plain

    preset = catalogue.load("" if name == "demo" else name, seed=0, data=Path("no data"))
    presets.load(preset=preset, password="", speed=preset.pace.speed)
    driver = Driver(simulated(preset, in_memory=True), preset, contain=False)
    wanted = {"schedule": ROUNDS[name], **({"scale": SCALING[name]} if name in SCALING else {})}
    while any(Cycle.objects.filter(loop=loop).count() < many + 10 for loop, many in wanted.items()):
        driver.run_to(driver.now + STEP_SECONDS)
    found = []
    for loop, many in wanted.items():
        cycles = list(Cycle.objects.filter(loop=loop, input__isnull=False).order_by("pk"))
        last = max(i for i, one in enumerate(cycles) if one.is_base and i + many <= len(cycles))
        for one in cycles[last : last + many]:
            text = rounds.unpacked(bytes(one.input or b""))
            found.append(rounds.Stored(name, loop, one.is_base, text, plain(one.decisions)))
    return rounds.documents(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
