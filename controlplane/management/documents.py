"""Files that operators give to commands: JSON or YAML objects."""

from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import CommandError

MAX_BYTES = 5_000_000


def read_document(path: Path) -> Any:
    """The document of a JSON or YAML file. Raises CommandError that names the file, the place and the fix."""
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise CommandError(f"{path} has {len(raw)} bytes. Give a file of at most {MAX_BYTES}.")
        return yaml.safe_load(raw.decode())  # JSON is YAML
    except FileNotFoundError:
        raise CommandError(f"There is no file {path}. Name one that exists.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read ({error}). Give a UTF-8 file that may be read.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or "no YAML"
        raise CommandError(f"{path}{place}: {said}. Write JSON or YAML.") from None
