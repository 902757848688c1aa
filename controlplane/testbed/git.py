"""Git, which tells the tree's own files from others."""

import shutil
from pathlib import Path

from controlplane.testbed.processes import HOW, MissingError


def find() -> Path:
    """Return the `git` to use. Raises MissingError."""
    found = shutil.which("git")
    if found is None:
        raise MissingError("git", HOW)
    return Path(found)
