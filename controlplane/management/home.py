"""The folder of the embedded mode: which process owns it, and what lies in it."""

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

# What `reset` deletes. The secret key stays, and so do the figures: they belong to the checkout, not to a world.
FILES = ("weft.sqlite3", "cluster.sqlite3", "password")
SIDE_FILES = ("", "-wal", "-shm", "-journal")


class HomeError(Exception):
    """The folder cannot be used; the message is one sentence with the fix."""


@dataclass(frozen=True)
class Claim:
    """A hold on the folder that ends with the process, however it ends."""

    file: IO[str]


def claim() -> Claim:
    """Make this process the owner of the folder. Raises HomeError if another one is, or the folder is unusable."""
    folder: Path = settings.DATA_DIR
    os.umask(0o077)  # the database has the keys of sessions: what this process makes is for its owner only
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _close(folder)
        file = (folder / "up.lock").open("a+")
    except OSError as error:
        raise HomeError(
            f"Weft keeps its data in {folder}, which cannot be written ({error.strerror}). Mend its permissions, or "
            "name another folder: WEFT_HOME=FOLDER make up."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise HomeError(
            f"Weft already runs on {folder} (process {owner}). Stop it with Ctrl-C first, or name another folder: "
            "WEFT_HOME=FOLDER make up."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return Claim(file)


def _close(folder: Path) -> None:
    """Take what earlier versions made from the eyes of others on the machine. Raises OSError."""
    if folder.name == ".weft":  # one that was named may be somebody's for other things, too
        folder.chmod(0o700)
    for path in (*_world(), folder / "secret_key"):
        if path.exists():
            path.chmod(0o600)


def _world() -> list[Path]:
    """The files of the world, whether they are there or not."""
    return [settings.DATA_DIR / (name + side) for name in FILES for side in SIDE_FILES]


def clear() -> list[Path]:
    """Delete the world in the folder; return what was deleted."""
    found = [path for path in _world() if path.exists()]
    for path in found:
        path.unlink()
    return found


def password() -> str:
    """The demo users' password: made once, kept beside the database for its owner only."""
    path: Path = settings.DATA_DIR / "password"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(9))
    return path.read_text()
