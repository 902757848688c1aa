"""The recorded files: JSON documents, compressed, in `fixture/`; together at most 5 MB."""

import json
import lzma
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).with_name("fixture")
MAX_BYTES = 5_000_000
SHOWN_LINES = 60  # of a difference


def write(name: str, document: Any, folder: Path = FIXTURE) -> Path:
    """Write a document; its file."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json.xz"
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path


def read(name: str, folder: Path = FIXTURE) -> Any:
    """A recorded document."""
    return json.loads(lzma.decompress((folder / f"{name}.json.xz").read_bytes()))


def plain(value: Any) -> Any:
    """A value as JSON keeps it: tuples are lists, keys are texts."""
    return json.loads(json.dumps(value, sort_keys=True))


def lines(value: Any) -> list[str]:
    """A value as lines of JSON, for a difference that can be read."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).splitlines()


def difference(before: Any, now: Any) -> Sequence[str]:
    """The first lines in which two values differ; empty if they are equal."""
    return [] if before == now else list(_difference(lines(before), lines(now)))


def _difference(before: list[str], now: list[str]) -> Iterator[str]:
    found = unified_diff(before, now, "before", "now", lineterm="", n=2)
    for number, line in enumerate(found):
        if number >= SHOWN_LINES:
            yield "..."
            return
        yield line
