"""Stored figures: what is kept of which run, when it is older than its code, and how it is printed."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import pytest

from controlplane.benchmarks.harness import figures, record, store, tree
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.harness.measure import Measured, measure
from controlplane.benchmarks.harness.record import Record
from controlplane.benchmarks.harness.registry import BENCHMARKS, HERE, Benchmark
from tests.servers import ROOT

FIGURES = (Figure("x.rate", 5.0, "1/s", 4.0, higher_is_better=True), Figure("x.wall_seconds", 12.5, "s", 10.0))
RUN = Record(
    "x", FIGURES, ("a note",), "c0ffee", {"scheduler": "1"}, "2026-01-02T03:04:05+00:00", "a machine", 0.5, (0,)
)
REMAKE = "make it again: python -c 'from controlplane.benchmarks.harness import store; store.remake()'"
WHOLE = Options(Path("nowhere"))


@dataclass(frozen=True)
class Canned(Benchmark):
    """Gives FIGURES after doing something."""

    first: Callable[[], object] = int

    def __call__(self, options: Options, progress: Progress) -> Result:
        self.first()
        return Result(FIGURES, ("a note",))


CANNED = Canned(("scheduling.openb",), ("gpushare", "scheduler", "controlplane"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a file in each place."""
    for path in (
        "scheduler/place.py",
        "gpushare/gpu.py",
        "controlplane/jobspec/spec.py",
        f"{HERE}/scheduling/openb.py",
        f"{HERE}/serving/start.py",
        "README.md",
        "docs/rest.md",
    ):
        write(tmp_path, path, "first")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example", "commit", "--quiet", "--message", "change")


def run(root: Path, options: Options = WHOLE, first: Callable[[], object] = int) -> Measured:
    return measure("openb", options, quiet=True, root=root, benchmark=replace(CANNED, first=first))


def kept(root: Path) -> Record | None:
    return store.stored(root / "docs").get("openb")


# What is stored


def test_figures_of_a_commit_come_back_as_they_were_measured(root: Path) -> None:
    done = run(root)

    assert done.not_stored == ""
    assert kept(root) == done.record
    assert done.record.figures == FIGURES
    assert done.record.commit == tree.read_tree(root).commit != ""


def test_measuring_one_does_not_keep_the_next_from_being_stored(root: Path) -> None:
    run(root)

    assert run(root).not_stored == ""


def test_figures_of_a_changed_tree_are_given_and_not_stored(root: Path) -> None:
    write(root, "README.md", "second")
    write(root, "docs/new.txt", "first")

    done = run(root)

    assert done.record.figures == FIGURES
    assert done.not_stored == "the tree has changes that are not committed: README.md, docs/new.txt"
    assert kept(root) is None


def test_figures_of_a_tree_that_changes_meanwhile_are_not_stored(root: Path) -> None:
    done = run(root, first=lambda: write(root, "scheduler/place.py", "second"))

    assert done.not_stored == "the tree changed while they were measured"
    assert kept(root) is None


def test_figures_of_a_folder_without_git_are_not_stored(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()

    assert "no git checkout" in run(tmp_path).not_stored
    assert kept(tmp_path) is None


@pytest.mark.parametrize(
    "part", [{"jobs": 5}, {"seeds": (1, 2)}, {"repeat": 1}, {"pods": Path("a")}, {"nodes": Path("a")}, {"gpus": 40}]
)
def test_a_part_of_a_benchmark_is_not_stored(root: Path, part: dict[str, object]) -> None:
    done = run(root, replace(WHOLE, **part))

    assert done.not_stored == "it was run with other options than its own"
    assert kept(root) is None


def test_what_several_processes_store_at_once_is_all_kept(tmp_path: Path) -> None:
    names = [f"b{number}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.keep(replace(RUN, benchmark=name), tmp_path), names))

    assert sorted(store.stored(tmp_path)) == sorted(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.json", "figures.md"]


def test_each_figure_is_a_line_and_a_new_run_replaces_those_of_its_benchmark(tmp_path: Path) -> None:
    store.keep(RUN, tmp_path)
    store.keep(replace(RUN, benchmark="a"), tmp_path)
    store.keep(replace(RUN, figures=FIGURES[:1]), tmp_path)

    text = (tmp_path / "figures.json").read_text()
    found = [json.loads(line.removesuffix(",")) for line in text.splitlines()[1:-1]]
    assert [(one["benchmark"], one["name"]) for one in found] == [
        ("a", "x.rate"), ("a", "x.wall_seconds"), ("x", "x.rate"),
    ]  # fmt: skip
    assert {one["commit"] for one in found} == {"c0ffee"}
    assert [one["notes"] for one in found] == [["a note"], [], ["a note"]]


def test_the_table_has_a_line_for_each_figure_with_commit_date_machine_and_load() -> None:
    text = store.table({"x": RUN})

    assert "| `x.rate` | 5 1/s | >= 4 1/s | yes | `c0ffee` | 2026-01-02 03:04 | a machine | 0.50 |\n" in text
    assert "| `x.wall_seconds` | 12.5 s | <= 10 s | NO | `c0ffee` |" in text
    assert "- a note\n" in text


def test_the_table_in_the_repository_is_made_from_its_figures() -> None:
    found = store.stored()

    assert (store.FOLDER / store.TABLE).read_text() == store.table(found), REMAKE
    assert (store.FOLDER / store.JSON).read_text() == store.written(found)
    assert set(found) <= set(BENCHMARKS)
    assert record.records(line for one in found.values() for line in record.lines(one)) == found


# When it is older than its code


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("scheduler/place.py", ("scheduler",)),
        ("scheduler/new.py", ("scheduler",)),
        ("controlplane/jobspec/spec.py", ("controlplane",)),
        (f"{HERE}/scheduling/openb.py", (HERE,)),
        (f"{HERE}/serving/start.py", ()),
        ("README.md", ()),
    ],
)
def test_a_run_is_older_once_a_folder_that_it_names_has_changed(
    root: Path, path: str, changed: tuple[str, ...]
) -> None:
    code = run(root).record.code
    commit(root)
    assert tree.read_tree(root).differs(CANNED, code) == ()

    write(root, path, "second")
    assert tree.read_tree(root).differs(CANNED, code) == changed
    commit(root)
    assert tree.read_tree(root).differs(CANNED, code) == changed


def test_a_run_is_older_once_its_benchmark_names_another_folder(root: Path) -> None:
    code = run(root).record.code

    assert tree.read_tree(root).differs(replace(CANNED, folders=("gpushare", "scheduler")), code) == ("controlplane",)


def test_a_folder_with_a_star_has_the_files_directly_in_it() -> None:
    assert tree.is_in("controlplane/urls.py", "controlplane/*")
    assert not tree.is_in("controlplane/cluster/port.py", "controlplane/*")
    assert not tree.is_in("schedulers/a.py", "scheduler")


# How it is printed


def printed(root: Path, *names: str, as_json: bool = False) -> tuple[int, str]:
    out = StringIO()
    return figures.run(names, as_json=as_json, out=out, root=root), out.getvalue()


def test_what_is_missing_and_what_is_older_is_told(root: Path) -> None:
    now = tree.read_tree(root)
    current = replace(RUN, benchmark="openb", code=now.code(BENCHMARKS["openb"]))
    store.keep(current, root / "docs")
    store.keep(replace(current, benchmark="fairness", code={**current.code, "gpushare": "0"}), root / "docs")

    code, text = printed(root, as_json=True)

    found = [json.loads(line) for line in text.splitlines()]
    remarks = {one["benchmark"]: one["remark"] for one in found}
    assert code == 0
    assert list(remarks) == list(BENCHMARKS)
    assert remarks["openb"] == ""
    assert remarks["fairness"].startswith("older: ") and "gpushare" in remarks["fairness"]
    assert remarks["start"] == "not measured"
    assert [one["value"] for one in found if one["benchmark"] == "openb"] == [5.0, 12.5]


def test_the_printed_table_has_each_benchmark_and_its_machine(root: Path) -> None:
    store.keep(replace(RUN, benchmark="openb", code=tree.read_tree(root).code(BENCHMARKS["openb"])), root / "docs")

    _, text = printed(root)

    assert text.count("not measured") == len(BENCHMARKS) - 1
    assert "openb: a machine; load average 0.50 before; seeds 0" in text
    assert "older" not in text


def test_a_name_that_there_is_not_is_told_with_those_there_are(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = printed(root, "opnb")

    assert code == 2
    assert "There is no benchmark opnb. Name one of admission," in capsys.readouterr().err


def test_a_benchmark_that_cannot_run_ends_with_2_and_the_rest_is_printed(
    root: Path, settings: object, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings.WEFT_DATA = tmp_path / "nowhere"  # type: ignore[attr-defined]

    code, text = printed(root, "openb")

    assert code == 2
    assert "openb: There" in capsys.readouterr().err
    assert "not measured" in text


def test_printing_loads_no_framework_and_no_benchmark() -> None:
    program = (
        "import sys; from controlplane.benchmarks.harness.figures import main; code = main([]);"
        "print(sorted({'django', 'numpy', 'celery', 'kubernetes', 'httpx'} & sys.modules.keys()), file=sys.stderr);"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert all(name in done.stdout for name in BENCHMARKS)
