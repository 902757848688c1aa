"""Programs that most machines have: git tells the tree's own files from others, the documents speak of the others."""

import shutil
from pathlib import Path

from controlplane.testbed.processes import HOW, MissingError

PROGRAMS = ("bash", "curl", "git", "openssl")


def find(name: str) -> Path:
    """Return the program to use. Raises MissingError."""
    found = shutil.which(name)
    if found is None:
        raise MissingError(name, HOW)
    return Path(found)
