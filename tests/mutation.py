"""Mutation testing: `python -m tests.mutation` (part of `make nightly`). Do the tests notice small planted bugs?

There are two sets. Of the scheduler's ledger every mutant (tests/mutants.py) is tried; of the product - services,
authorization, parsers, pods and manifests - 200 drawn by a fixed seed. The tests that run a mutant's line are tried,
the quickest of each file first, until one fails; a mutant that none of them notices survives, and one that runs far
longer than the tests did before is noticed too. Collected once, a mutant is tried in a fork with the code of one
function replaced and a copy of the test database. A test that fails there counts only if it passes in a fork without
the mutant, after the same tests. Deterministic: examples of Hypothesis follow from each test.

What was seen is kept in the cache (tests/mutation_memory.py), so that an interrupted run goes on where it was.

Prints each survivor, and the score of each file or group; ends with 1 if one is under `MIN` percent, or if a survivor
of the product is not explained in `tests/mutants_that_survive.txt`.
`python -m tests.mutation product` measures one set, `... scheduler/fit/gang.py` one file of the ledger.
"""

import functools
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import settings

from tests.mutants import ROOT, Mutant, compiled, live
from tests.mutation_memory import Lines, Memory, Seen, Verdict
from tests.mutation_sets import LEDGER, SETS, Set, chosen

MIN = 85.0  # percent of mutants noticed, in each file of the ledger and in the product as a whole (docs/promises.md)
SLOWER, GRACE = 10.0, 5.0  # a mutant runs too long at so many times its tests' time, and so many seconds
LONGEST = 3.0  # s of CPU: of the product's tests, those that take more are left out, which can only lower the score
SHARE = 40  # tests that are tried on a mutant in one fork
ENOUGH = 60.0  # s of CPU: of the product's tests that run a mutant's line, so many are tried; fewer can only lower it
EXPLAINED = ROOT / "tests" / "mutants_that_survive.txt"


class Runner:
    """A plugin of pytest: looks once at which test runs which line, then tries the mutants."""

    def __init__(self, one: Set, wanted: Mapping[str, Sequence[Mutant]], memory: Memory) -> None:
        self.set = one
        self.wanted = wanted
        self.memory = memory
        self.took: dict[str, Seen] = {}
        self.callers: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
        self.scores: dict[str, tuple[int, int]] = {}
        self.survivors: list[str] = []
        self.unsound: set[str] = set()  # tests that fail in a fork without a mutant: what they say would mean nothing

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once."""
        self._look(session)
        tried, noticed = Counter[str](), Counter[str]()
        # One of each group in turn: what an interrupted run has said so far is of all groups.
        for turn in itertools.zip_longest(*([(group, one) for one in found] for group, found in self.wanted.items())):
            for group, mutant in filter(None, turn):
                is_noticed = self._try(mutant)
                tried[group] += 1
                noticed[group] += is_noticed
                if not is_noticed:
                    self.survivors.append(key_of(mutant))
                    _say(f"survives ({len(self._tests_of(mutant))} tests run it): {mutant.line}: {key_of(mutant)}")
            _say(f"{noticed.total()} of {tried.total()}")
        for group, count in tried.items():
            self.scores[group] = noticed[group], count
            _say(f"{group}: {noticed[group]} of {count} mutants noticed, {100 * noticed[group] / count:.1f} %")
        return True

    def _look(self, session: pytest.Session) -> None:
        """Which tests run which lines, and how long they take; each file of tests is looked at once."""
        _run(_first_with_a_database(session.items), session)  # so that each fork has its database
        seen: dict[str, Seen] = {}
        # pytest-django puts tests with real transactions last, so a file may come more than once.
        times: Counter[Path] = Counter()
        for path, items in itertools.groupby(session.items, key=lambda item: item.path):
            of_file = list(items)
            known = self.memory.looked(path, times[path])
            if known is None or known.keys() != {item.nodeid for item in of_file}:
                known = self._look_at(of_file, session)
                self.memory.keep_look(path, times[path], known)
                _say(f"{path.name}: {len(known)} tests, {sum(one.cpu for one in known.values()):.0f} s of CPU")
            seen |= known
            times[path] += 1
        self.took = seen
        quick = [one for one in session.items if self.set.drawn is None or seen[one.nodeid].cpu <= LONGEST]
        quick = mixed(quick, {nodeid: one.cpu for nodeid, one in seen.items()})
        for item in quick:
            for file, lines in seen[item.nodeid].lines.items():
                for line in lines:
                    self.callers[file, line].append(item)
        _say(f"{len(session.items)} tests, {sum(one.cpu for one in seen.values()):.0f} s of CPU")

    def _look_at(self, items: Sequence[pytest.Item], session: pytest.Session) -> dict[str, Seen]:
        files = {str(ROOT / mutant.file): mutant.file for found in self.wanted.values() for mutant in found}
        watch = coverage.Coverage(data_file=None, include=list(files), branch=False, config_file=False)
        took: dict[str, tuple[float, float]] = {}
        watch.start()
        for item, following in itertools.zip_longest(items, items[1:]):
            watch.switch_context(item.nodeid)
            started, cpu = time.monotonic(), time.process_time()
            _run(item, session, following)
            took[item.nodeid] = time.monotonic() - started, time.process_time() - cpu
            if session.testsfailed:
                raise pytest.UsageError(f"{item.nodeid} fails without a mutant; mend it first")
        watch.stop()
        lines: defaultdict[str, Lines] = defaultdict(dict)
        for path, file in files.items():
            for line, contexts in watch.get_data().contexts_by_lineno(path).items():
                for nodeid in contexts:
                    lines[nodeid].setdefault(file, []).append(line)
        return {nodeid: Seen(*both, lines[nodeid]) for nodeid, both in took.items()}

    def _tests_of(self, mutant: Mutant) -> list[pytest.Item]:
        items = self.callers[mutant.file, mutant.statement]
        if self.set.drawn is None:
            return items
        used = itertools.accumulate(self.took[item.nodeid].cpu for item in items)
        return [item for item, so_far in zip(items, used, strict=True) if so_far <= ENOUGH]

    def _try(self, mutant: Mutant) -> bool:
        """Whether the mutant is noticed. What noticed it before is tried first, where tests have changed since."""
        items = self._tests_of(mutant)
        known = self.memory.verdict(mutant)
        by = [item for item in items if known is not None and item.nodeid in known.by]
        texts = self.memory.texts(item.path for item in by or items)
        if known is not None and known.texts == texts and known.is_noticed == bool(by):
            return known.is_noticed
        for at in range(0, len(items), SHARE):
            if found := (at == 0 and self._noticed_by(by, mutant)) or self._noticed_by(items[at : at + SHARE], mutant):
                self.memory.keep_verdict(mutant, Verdict(True, self.memory.texts([found.path]), (found.nodeid,)))
                return True
        self.memory.keep_verdict(mutant, Verdict(False, self.memory.texts(item.path for item in items), ()))
        return False

    def _noticed_by(self, items: Sequence[pytest.Item], mutant: Mutant) -> pytest.Item | None:
        """The test that fails with the mutant, and does not after the same tests without it."""
        while items := [item for item in items if item.nodeid not in self.unsound]:
            at = self._fails_at(items, live(mutant), compiled(mutant))
            if at is None:
                return None
            without = self._fails_at(items[: at + 1], main, main.__code__)
            if without is None:
                return items[at]
            self.unsound.add(items[without].nodeid)
            _say(f"left out, as it fails in a fork without a mutant: {items[without].nodeid}")
        return None

    def _fails_at(self, items: Sequence[pytest.Item], function: Any, code: Any) -> int | None:
        """Which of the tests fails, or runs too long, in a fork in which the function has this code."""
        limit = GRACE + SLOWER * sum(self.took[item.nodeid].wall for item in items)
        _close_databases()
        with tempfile.TemporaryDirectory(prefix="weft-mutant-") as folder:
            reached = Path(folder) / "reached"
            reached.write_text("0")
            child = os.fork()
            if child == 0:
                signal.alarm(int(limit) + 1)  # ends the process
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(1, 2)
                _copy_database(Path(folder))
                _forget()
                function.__code__ = code
                for at, item in enumerate(items):
                    reached.write_text(str(at))
                    if not self._passes(item):
                        os._exit(1)
                os._exit(0)
            return int(reached.read_text()) if os.waitpid(child, 0)[1] else None

    def _passes(self, item: pytest.Item) -> bool:
        """Whether it passes with not many times the CPU that it took; its process ends if it takes more."""
        signal.setitimer(signal.ITIMER_PROF, GRACE + SLOWER * self.took[item.nodeid].cpu)
        return _run(item, item.session)


def mixed(items: Sequence[pytest.Item], cpu: Mapping[str, float]) -> list[pytest.Item]:
    """The quickest of each file, then the second of each, and so on: tests of one file often notice the same."""
    ranks: Counter[Path] = Counter()
    keys: dict[str, tuple[int, float]] = {}
    for item in sorted(items, key=lambda item: cpu[item.nodeid]):
        keys[item.nodeid] = ranks[item.path], cpu[item.nodeid]
        ranks[item.path] += 1
    return sorted(items, key=lambda item: keys[item.nodeid])


def _first_with_a_database(items: Sequence[pytest.Item]) -> pytest.Item:
    return next((one for one in items if {"db", "transactional_db"} & set(getattr(one, "fixturenames", ()))), items[0])


def _close_databases() -> None:
    from django.db import connections

    connections.close_all()


def _copy_database(folder: Path) -> None:
    """A mutant that is ended within a test would leave its rows to the next one."""
    from django.db import connection

    name = str(connection.settings_dict["NAME"])
    if Path(name).is_file():
        connection.settings_dict["NAME"] = shutil.copy(name, folder)


def _forget() -> None:
    """What the code has remembered of the time before it was changed would hide the change."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()


def _run(item: pytest.Item, session: pytest.Session, following: pytest.Item | None = None) -> bool:
    """Run one test; what is made once a session stays, as the database: making it takes longer than most tests."""
    from _pytest.runner import runtestprotocol

    return all(report.passed for report in runtestprotocol(item, log=False, nextitem=following or _Later(session)))  # type: ignore[arg-type]


class _Later:
    """Stands for a test of another file: what belongs to files and folders is taken down."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        """What it has in common with the test before."""
        return [self._session]


def key_of(mutant: Mutant) -> str:
    """What names a mutant in the list of explained survivors: the text of its line, as numbers of lines change."""
    text = (ROOT / mutant.file).read_text().splitlines()[mutant.line - 1].strip()
    return f"{mutant.file} | {mutant.function} | {text} | {mutant.what}"


def explained(text: str) -> Iterator[tuple[str, str]]:
    """(key, reason) of the survivors that are explained: two lines each, the second one indented."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for key, reason in zip(lines[::2], lines[1::2], strict=True):
        if key.startswith(" ") or not reason.startswith("  "):
            raise ValueError(f"{EXPLAINED.name}: a mutant, then its reason indented by two: {key!r}, {reason!r}")
        yield key, reason.strip()


def _say(text: str) -> None:
    sys.__stdout__.write(f"{text}\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def _measure(one: Set) -> bool:
    runner = Runner(one, chosen(one), Memory())
    # Servers outlive a fork that is ended, with what a mutant has left in them.
    without = ("nightly", "slow", "kubernetes", "browser", "postgres", "redis", "prometheus")
    where = ["-m", " and ".join(f"not {mark}" for mark in without)]
    ended = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-o", "timeout=0", *where, *one.tests], [runner])
    noticed, count = (sum(part) for part in zip(*runner.scores.values(), strict=True)) if runner.scores else (0, 0)
    is_good = count > 0 and ended in (0, 5) and 100 * noticed >= MIN * count
    if one.drawn is None:
        return is_good and all(100 * noticed >= MIN * count for noticed, count in runner.scores.values())
    reasons = dict(explained(EXPLAINED.read_text()))
    unexplained = [key for key in runner.survivors if key not in reasons]
    _say(f"product: {noticed} of {count} mutants noticed; {len(unexplained)} survivors without a reason")
    return is_good and not unexplained


def main(arguments: list[str]) -> int:
    """Measure these sets or files of the ledger, or all; each set in a process of its own."""
    os.chdir(ROOT)
    settings.register_profile("mutation", derandomize=True, database=None, max_examples=60, print_blob=False)
    settings.load_profile("mutation")
    if not arguments:
        return max(os.waitstatus_to_exitcode(os.system(f"{sys.executable} -m tests.mutation {name}")) for name in SETS)  # noqa: S605  (our own words)
    if arguments[0] in SETS:
        return 0 if _measure(SETS[arguments[0]]) else 1
    return 0 if _measure(Set({file: (file,) for file in arguments}, LEDGER.tests)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
