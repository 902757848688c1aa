"""What was played or measured already, beside the report: a command that was broken off goes on from there.

A file with a JSON object a line. What other code played, which the digest tells, is passed over.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness.registry import Benchmark
from controlplane.benchmarks.harness.tree import ROOT, is_in

NAME = "reproduced.jsonl"


class Kept:
    """path: of the file; None: nothing is kept. code: by what values are of, a digest of the code that makes them."""

    def __init__(self, path: Path | None, code: Mapping[str, str]) -> None:
        self.path, self.code = path, code
        self.values: dict[tuple[str, str], Any] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            self._read(line)

    def _read(self, line: str) -> None:
        try:
            one = json.loads(line)
        except ValueError:  # the last one, where the command was ended while it wrote
            return
        if self.code.get(one["of"]) == one["code"]:
            self.values[one["of"], one["key"]] = one["value"]

    def get(self, of: str, key: str = "") -> Any:
        """What is known; None: nothing."""
        return self.values.get((of, key))

    def add(self, of: str, value: Any, key: str = "") -> None:
        """Keep this, at once."""
        self.values[of, key] = value
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"of": of, "key": key, "code": self.code.get(of, ""), "value": value}) + "\n")


def digest(benchmark: Benchmark, more: tuple[str, ...] = (), root: Path = ROOT) -> str:
    """Of the code as it is in the files, committed or not: the benchmark's modules and folders, and more files."""
    tops = sorted({folder.partition("/")[0] for folder in benchmark.folders})
    paths = {str(one.relative_to(root)) for top in tops for one in (root / top).rglob("*.py")}
    own = {*benchmark.files, *more}
    folders = benchmark.folders
    some = own | {
        path
        for path in paths
        if not path.startswith("controlplane/benchmarks/") and any(is_in(path, folder) for folder in folders)
    }
    found = hashlib.sha256()
    for path in sorted(some):
        found.update(path.encode() + b"\0" + (root / path).read_bytes() + b"\0")
    return found.hexdigest()[:12]
