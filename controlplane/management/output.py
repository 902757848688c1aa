"""Files that commands write, and what of a whole installation they need."""

from importlib.util import find_spec
from pathlib import Path

from django.core.management.base import CommandError


def require_scipy() -> None:
    """What fits and interpolates step times is no part of the server's installation. Raises CommandError."""
    if find_spec("scipy") is None:
        raise CommandError("scipy is missing, which interpolates step times. Run make setup.")


def require_place(out: Path, example: str) -> None:
    """A file can be written there, as far as is known before. Raises CommandError. example: a name for it."""
    if out.is_dir():
        raise CommandError(f"--out: {out} is a folder. Name a file, such as {out / example}.")
    if not out.absolute().parent.is_dir():
        raise CommandError(f"--out: there is no folder {out.parent}. Make it first.")


def write(out: Path, text: str) -> None:
    """All or nothing. Raises CommandError."""
    part = out.with_name(out.name + ".part")
    try:
        part.write_text(text)
        part.replace(out)
    except OSError as error:
        raise CommandError(f"--out: {out} cannot be written: {error.strerror}.") from error
