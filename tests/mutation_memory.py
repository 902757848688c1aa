"""What mutation testing has seen before, in the cache, so that it goes on after an interruption.

A look at a file of tests holds as long as that file and all that is no test stay as they are; a verdict on a mutant
as long as, besides, the files of the tests that were decisive do: those that noticed it, or all that run it.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.mutants import ROOT, Mutant

# What only chooses, judges or explains: it changes neither tests nor mutants.
APART = ("mutants_that_survive.txt", "mutation.py", "mutation_sets.py")
FOLDERS = ("autoscaler", "controlplane", "frontend", "gpushare", "scheduler", "tests", "weft")

Lines = dict[str, list[int]]  # file of ours -> its lines that a test runs


class Seen(NamedTuple):
    """One test without a mutant: seconds on the clock and of CPU, and the lines it runs."""

    wall: float
    cpu: float
    lines: Lines


class Verdict(NamedTuple):
    """Whether a mutant is noticed, and the tests that noticed it, with the digest of their files."""

    is_noticed: bool
    texts: str
    by: tuple[str, ...]


class Memory:
    """Looks and verdicts on this state of the sources; each is a small file, written whole or not at all."""

    def __init__(self, folder: Path | None = None) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = (folder or cache / "weft" / "mutation") / self._sources

    @cached_property
    def _sources(self) -> str:
        """Digest of all that is no file of tests."""
        return _digest(
            path
            for folder in FOLDERS
            for path in sorted((ROOT / folder).rglob("*"))
            if path.is_file()
            and "__pycache__" not in path.parts
            and not path.name.startswith("test_")
            and path.name not in APART
        )

    def looked(self, tests: Path, nth: int) -> dict[str, Seen] | None:
        """What was seen of the tests in this file, or of its nth part."""
        kept = self._read(self._look(tests, nth))
        return None if kept is None else {nodeid: Seen(*one) for nodeid, one in kept.items()}

    def keep_look(self, tests: Path, nth: int, seen: dict[str, Seen]) -> None:
        """Keep what was seen of them."""
        self._write(self._look(tests, nth), seen)

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """The last verdict on this mutant; whether it still holds is for the caller to see."""
        kept = self._read(self._mutant(mutant))
        return None if kept is None else Verdict(kept[0], kept[1], tuple(kept[2]))

    def keep_verdict(self, mutant: Mutant, verdict: Verdict) -> None:
        """Keep a verdict."""
        self._write(self._mutant(mutant), verdict)

    @staticmethod
    def texts(paths: Iterable[Path]) -> str:
        """Digest of these files of tests."""
        return _digest(sorted(set(paths)))

    @staticmethod
    def _look(tests: Path, nth: int) -> str:
        return f"look-{_digest([tests])}-{nth}"

    @staticmethod
    def _mutant(mutant: Mutant) -> str:
        return "mutant-" + hashlib.sha256(repr(mutant).encode()).hexdigest()[:32]

    def _read(self, name: str) -> object:
        try:
            return json.loads((self._folder / name).read_text())
        except FileNotFoundError:
            return None

    def _write(self, name: str, what: object) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{name}"
        new.write_text(json.dumps(what))
        new.replace(self._folder / name)


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path.relative_to(ROOT).as_posix()} {path.stat().st_size}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:32]
