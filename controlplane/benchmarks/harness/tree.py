"""The checkout as git knows it: which code a figure was measured on, and whether that has changed since."""

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.benchmarks.harness.registry import HERE, Benchmark

ROOT = Path(__file__).resolve().parents[3]
FIGURES = "docs/figures."  # what measuring itself writes; no figure depends on it
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit, and what the working tree has besides. Outside a checkout `commit` is empty."""

    commit: str
    files: Mapping[str, str]  # path of each committed file, and git's hash of its content
    changed: tuple[str, ...]  # paths whose content is not the commit's, without FIGURES

    def code(self, benchmark: Benchmark) -> dict[str, str]:
        """A hash of each folder that the benchmark names, and one of its own modules, under HERE."""
        return {folder: self._digest(paths) for folder, paths in self._named(benchmark, self.files).items()}

    def differs(self, benchmark: Benchmark, code: Mapping[str, str]) -> tuple[str, ...]:
        """The folders whose content is another than it was, as `code` told then, changes not committed included."""
        now = self.code(benchmark)
        touched = {folder for folder, paths in self._named(benchmark, self.changed).items() if paths}
        return tuple(sorted({f for f in now.keys() | code.keys() if now.get(f) != code.get(f)} | touched))

    def _named(self, benchmark: Benchmark, paths: Mapping[str, str] | tuple[str, ...]) -> dict[str, list[str]]:
        own = set(benchmark.files)
        of_product = [path for path in paths if not path.startswith(f"{HERE}/")]
        found = {folder: [path for path in of_product if is_in(path, folder)] for folder in benchmark.folders}
        return {**found, HERE: [path for path in paths if path in own]}

    def _digest(self, paths: list[str]) -> str:
        content = "\n".join(f"{self.files[path]} {path}" for path in sorted(paths))
        return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]


def is_in(path: str, folder: str) -> bool:
    """Whether a file is in a folder; in a folder that ends with /* if it is directly in it."""
    if folder.endswith("/*"):
        return path.rpartition("/")[0] == folder.removesuffix("/*")
    return path.startswith(f"{folder}/")


def read_tree(root: Path = ROOT) -> Tree:
    """Look at the checkout as it is now: about 20 ms."""
    commit = _git(root, "rev-parse", f"--short={DIGITS}", "HEAD").strip()
    if not commit:
        return Tree("", {}, ())
    listed = (line.partition("\t") for line in _git(root, "ls-tree", "-r", "-z", "HEAD").split("\0") if line)
    files = {path: about.split()[2] for about, _, path in listed}
    status = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all").split("\0")
    changed = tuple(sorted(line[3:] for line in status if line and not line[3:].startswith(FIGURES)))
    return Tree(commit, files, changed)


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607  git is found as the user's shell finds it
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # no git on this machine
        return ""
    return done.stdout if done.returncode == 0 else ""
