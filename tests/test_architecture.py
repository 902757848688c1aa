"""The rules of CONTRIBUTING.md that a machine can check: imports, sizes, pinned and vendored files."""

import ast
import hashlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from controlplane.testbed import programs

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gpushare", "scheduler", "autoscaler", "controlplane", "frontend", "weft")
MAX_LINES_IN_FILE = 400
MAX_LINES_IN_FUNCTION = 60
MAX_MODULES_IN_FOLDER = 25
VENDOR = ROOT / "frontend" / "static" / "frontend" / "vendor"


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def tracked(*patterns: str) -> list[Path]:
    """Return the files git knows under the patterns; build products and virtual environments are not ours."""
    command = [programs.find("git"), "ls-files", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_replay_moves_a_workload_to_another_phase_itself() -> None:
    """The life cycle does, by the one engine (simulator/replay/engine.py). An episode only says how its work comes."""
    movers = {
        path.name
        for path in (ROOT / "controlplane" / "simulator" / "replay").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("replace", "Workload")
        and any(keyword.arg in ("phase", "placement") for keyword in node.keywords)
    }
    assert movers == {"episode.py", "memory.py"}  # memory.py turns the life cycle's row into the scheduler's workload


def test_imports_keep_the_contracts() -> None:
    command = [Path(sys.executable).parent / "lint-imports", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    sorter = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    sorter.prepare()  # raises CycleError with the circle
    assert "scheduler.cycle.round" in graph.modules


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources()}
    too_long = [f"{path.relative_to(ROOT)}: {n} lines" for path, n in lengths.items() if n > MAX_LINES_IN_FILE]
    assert lengths
    assert not too_long, f"more than {MAX_LINES_IN_FILE} lines:\n" + "\n".join(too_long)


def test_no_folder_has_too_many_modules() -> None:
    counted = Counter(path.parent.relative_to(ROOT) for path in sources())
    too_full = {str(folder): count for folder, count in counted.items() if count > MAX_MODULES_IN_FOLDER}
    assert Path("scheduler/cycle") in counted
    assert not too_full, f"more than {MAX_MODULES_IN_FOLDER} modules: group them by subject: {too_full}"


def test_no_function_is_too_long() -> None:
    too_long = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_LINES_IN_FUNCTION:
                    too_long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert not too_long, f"more than {MAX_LINES_IN_FUNCTION} lines:\n" + "\n".join(too_long)


def test_importing_the_product_starts_nothing() -> None:
    assert not (ROOT / "controlplane" / "__init__.py").read_text().strip()


@pytest.mark.parametrize("name", ["client", "server", "dev", "uv"])
def test_requirements_are_pinned_and_name_no_source(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    pins = re.findall(r"^[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?==[^ ]+", text, re.MULTILINE)
    without_hash = [block for block in re.split(r"\n(?=[A-Za-z0-9])", text)[1:] if "--hash=sha256:" not in block]
    assert pins
    assert not without_hash
    # Where a package came from belongs to the machine that installs it: a mirror must work as well.
    assert not re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host| @ |^/|^-e", text, re.MULTILINE)


def test_server_pins_are_the_dev_pins() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        return {line.split(" ")[0] for line in lines if "==" in line and not line.startswith(" ")}

    assert pins("client") <= pins("server") <= pins("dev")


def test_no_lock_file_that_names_a_registry() -> None:
    assert not tracked("*package-lock.json", "*uv.lock", "*yarn.lock", "*pnpm-lock.yaml", "*poetry.lock")


def test_vendored_files_are_what_their_table_says() -> None:
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \| (\S+) \| .*?\| ([0-9a-f]{64}) \|$", (VENDOR / "README.md").read_text(), re.M
    )
    said = {file: digest for file, _, _, digest in rows}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.suffix not in (".md", ".txt")
    }
    assert found == said
