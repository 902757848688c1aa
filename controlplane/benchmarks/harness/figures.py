"""`make figures`: print the stored figures; measure those that are missing or older than their code.

Printing loads neither Django nor a benchmark: of its time nearly all is Python, rich and two calls of git.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from controlplane.benchmarks.harness import store, tree
from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.printing import Shown, table
from controlplane.benchmarks.harness.record import Record, lines
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.harness.tree import Tree

NOT_STORED, NOT_MEASURED = 1, 2  # exit codes; 2 is argparse's for wrong usage, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="measure these, whatever is stored of them")
    parser.add_argument("--measure", action="store_true", help="measure all that are missing or older than their code")
    parser.add_argument("--json", action="store_true", help="one object a line for each figure")


def run(
    names: Sequence[str], *, is_all: bool = False, as_json: bool = False, out: TextIO, root: Path = tree.ROOT
) -> int:
    """Measure what is asked for, then print everything; return the exit code.

    1: something was measured but could not be stored. 2: something could not be measured.
    """
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"There is no benchmark {', '.join(unknown)}. Name one of {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return NOT_MEASURED
    now = tree.read_tree(root)
    due = [name for name in BENCHMARKS if name in names]
    if is_all:
        due += [name for name, one in shown(now, root).items() if name not in due and not one.is_current]
    fresh, code = _measure(due, now, root=root, quiet=as_json) if due else ({}, 0)
    found = shown(tree.read_tree(root), root) | fresh
    if as_json:
        _print_objects(found, out)
    else:
        table(found, out)
    return code


def shown(now: Tree, root: Path = tree.ROOT) -> dict[str, Shown]:
    """What is stored of each benchmark, and whether its code has changed since."""
    kept = store.stored(root / "docs")
    return {name: _shown(kept.get(name), name, now) for name in BENCHMARKS}


def _shown(record: Record | None, name: str, now: Tree) -> Shown:
    if record is None or not now.commit:
        return Shown(record, remark="not measured" if record is None else "no git checkout: its age is not known")
    changed = now.differs(BENCHMARKS[name], record.code)
    return Shown(record, remark=f"older: {', '.join(changed)} changed" if changed else "")


def _measure(names: Sequence[str], now: Tree, *, root: Path, quiet: bool) -> tuple[dict[str, Shown], int]:
    """Measure one after the other; return what is not in the store, and the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django
    from django.conf import settings

    from controlplane.benchmarks.harness import measure

    django.setup()
    if reason := measure.changes_in(now):
        print(f"What is measured now will be printed and not stored: {reason}.", file=sys.stderr, flush=True)
    fresh, code = {}, 0
    for name in names:
        try:
            done = measure.measure(name, Options(Path(settings.WEFT_DATA)), quiet=quiet, root=root)
        except BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            code = NOT_MEASURED
            continue
        if done.not_stored:
            print(f"{name}: measured, not stored: {done.not_stored}.", file=sys.stderr, flush=True)
            fresh[name] = Shown(done.record, remark="not stored")
            code = code or NOT_STORED
    return fresh, code


def _print_objects(found: dict[str, Shown], out: TextIO) -> None:
    for name, one in found.items():
        objects = lines(one.record) if one.record else [{"benchmark": name}]
        for each in objects:
            out.write(json.dumps({**each, "remark": one.remark}) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make figures", description="Print the stored figures, or measure them.")
    add_arguments(parser)
    chosen = parser.parse_args(arguments)
    return run(chosen.names, is_all=chosen.measure, as_json=chosen.json, out=sys.stdout)
