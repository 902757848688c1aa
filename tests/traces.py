"""The real trace files for tests: where they are, and a skip by name where they are not."""

import os
from pathlib import Path

from controlplane.simulator.worlds import catalogue
from controlplane.testbed.processes import MissingTraceError
from tests.servers import ROOT

DATA = Path(os.environ.get("WEFT_DATA") or ROOT.parent / "shared" / "data")


def needed(name: str) -> Path:
    """The folder with the trace files. Raises MissingTraceError, which skips the test by name."""
    for file in catalogue.FILES.get(name, ()):
        if not (DATA / file).is_file():
            how = "Set WEFT_DATA to the folder that holds it; Weft does not ship it."
            raise MissingTraceError(f"the trace file {file}", how)
    return DATA
