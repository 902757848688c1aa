"""The real trace files for tests: where they are, and a skip by name where they are not."""

import os
from pathlib import Path

from controlplane.simulator import catalogue
from tests.servers import ROOT, needs

DATA = Path(os.environ.get("WEFT_DATA") or ROOT.parent / "shared" / "data")


def needed(name: str) -> Path:
    """The folder with the trace files; skip the test if it needs `name`'s and they are absent, or fail it in CI."""
    for file in catalogue.FILES.get(name, ()):
        if not (DATA / file).is_file():
            needs(f"the trace file {file}", "Set WEFT_DATA to the folder that holds it; Weft does not ship it.")
    return DATA
