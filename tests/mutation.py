"""Mutation testing: `python -m tests.mutation` (part of `make nightly`). Do the tests notice small planted bugs?

There are two sets. Of the scheduler's ledger every mutant (tests/mutants.py) is tried; of the product - services,
authorization, parsers, pods and manifests - 200 drawn by a fixed seed. The tests that run a mutant's line are tried,
the quickest first, until one fails; a mutant that none of them notices survives, and one that runs far longer than
the tests did before is noticed too. Collected once, a mutant is tried in a fork with the code of one function replaced
and a copy of the test database. Deterministic: examples of Hypothesis follow from each test.

What was seen is kept in the cache (tests/mutation_memory.py), so that an interrupted run goes on where it was.

Prints each survivor, and the score of each file or group; ends with 1 if one is under `LEAST` percent, or if a survivor
of the product is not explained in `tests/mutants_that_survive.txt`.
`python -m tests.mutation product` measures one set, `... scheduler/gang.py` one file of the ledger.
"""

import functools
import gc
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import settings

from tests.mutants import ROOT, Mutant, compiled, live, mutants
from tests.mutation_memory import Lines, Memory, Seen, Verdict

LEAST = 85.0  # percent of mutants noticed, in each file of the ledger and in the product as a whole (docs/promises.md)
SLOWER, GRACE = 10.0, 5.0  # a mutant runs too long at so many times its tests' time, and so many seconds
LONGEST = 3.0  # s of CPU: of the product's tests, those that take more are left out, which can only lower the score
DRAWN, SEED = 200, 0
SHARE = 40  # tests that are tried on a mutant in one fork
EXPLAINED = ROOT / "tests" / "mutants_that_survive.txt"


@dataclass(frozen=True, slots=True)
class Set:
    """Files whose mutants are tried, and the tests that look at them."""

    groups: Mapping[str, Sequence[str]]  # what has a score of its own -> files, as globs
    tests: tuple[str, ...]
    drawn: int | None = None  # mutants in all, the same number of each group; None: every one


LEDGER_FILES = ("gpushare/packing.py", "scheduler/gang.py", "scheduler/quota.py", "scheduler/victims.py")
LEDGER = Set(
    {file: (file,) for file in LEDGER_FILES},
    # Worlds as text: they take milliseconds, so all of them can look at each mutant.
    ("tests/gpushare", "tests/museum/test_decisions.py")
    + tuple(
        f"tests/scheduler/test_{name}.py"
        for name in ("consolidate", "elastic", "fairshare", "gangs", "placement", "plan", "preempt", "quota", "reasons",
                     "reclaim", "services")
    ),
)  # fmt: skip
# Each of their tests takes seconds: too long for a mutant. Leaving them out can only lower the score.
LONG_FILES = (
    "api/test_imports.py",
    "api/test_schema.py",
    "kubernetes/test_fences.py",
    "kubernetes/test_rights.py",
    "test_bad_pages.py",
    "test_embedded.py",
    "test_machine.py",
    "test_sso.py",
    "test_what_if.py",
)
PRODUCT = Set(
    {
        "services": ("controlplane/services/*.py",),
        "authorization": (
            "controlplane/authorization.py",
            "controlplane/queries/access.py",
            "controlplane/api/auth*.py",
        ),
        "parsers": ("controlplane/api/parsers.py", "controlplane/jobfile.py", "controlplane/jobrules.py"),
        "pods": (
            "controlplane/cluster/kubernetes/pods.py",
            "controlplane/cluster/kubernetes/seen.py",
            "controlplane/cluster/kubernetes/distributed.py",
        ),
        "manifests": ("controlplane/manifests/*.py",),
    },
    ("tests/controlplane", "tests/museum", *(f"--ignore=tests/controlplane/{name}" for name in LONG_FILES)),
    DRAWN,
)
SETS = {"ledger": LEDGER, "product": PRODUCT}


def chosen(one: Set) -> dict[str, list[Mutant]]:
    """The mutants to try, by group; which ones are drawn follows from the seed and the sources."""
    found: dict[str, list[Mutant]] = {}
    for group, globs in one.groups.items():
        every = [mutant for glob in globs for path in sorted(ROOT.glob(glob)) for mutant in mutants(_name(path))]
        if one.drawn is not None:
            of_each = one.drawn // len(one.groups)
            every = [every[i] for i in sorted(random.Random(SEED).sample(range(len(every)), of_each))]
        found[group] = every
    return found


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Runner:
    """A plugin of pytest: looks once at which test runs which line, then tries the mutants."""

    def __init__(self, one: Set, wanted: Mapping[str, Sequence[Mutant]], memory: Memory) -> None:
        self.set = one
        self.wanted = wanted
        self.memory = memory
        self.took: dict[str, float] = {}  # s on the clock
        self.callers: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
        self.scores: dict[str, tuple[int, int]] = {}
        self.survivors: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once."""
        self._look(session)
        for group, found in self.wanted.items():
            survivors = [mutant for mutant in found if not self._try(mutant)]
            self.survivors += [key_of(mutant) for mutant in survivors]
            for mutant in survivors:
                _say(f"survives ({len(self._tests_of(mutant))} tests run it): {mutant.line}: {key_of(mutant)}")
            noticed = len(found) - len(survivors)
            self.scores[group] = noticed, len(found)
            _say(f"{group}: {noticed} of {len(found)} mutants noticed, {100 * noticed / max(1, len(found)):.1f} %")
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
            seen |= known
            times[path] += 1
        self.took = {nodeid: one.wall for nodeid, one in seen.items()}
        quick = [one for one in session.items if self.set.drawn is None or seen[one.nodeid].cpu <= LONGEST]
        quick.sort(key=lambda item: seen[item.nodeid].cpu)
        for item in quick:
            for file, lines in seen[item.nodeid].lines.items():
                for line in lines:
                    self.callers[file, line].append(item)
        _say(f"{len(session.items)} tests, {sum(one.cpu for one in seen.values()):.0f} s of CPU")
        again = session.items if self.set.drawn is None else list(islice(quick, 0, None, 20))
        if self._is_noticed(again, main, main.__code__):
            raise pytest.UsageError("a test fails when it runs again, without a mutant; no score would mean anything")

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
        return self.callers[mutant.file, mutant.statement]

    def _try(self, mutant: Mutant) -> bool:
        """Whether the mutant is noticed. What noticed it before is tried first, where tests have changed since."""
        items = self._tests_of(mutant)
        known = self.memory.verdict(mutant)
        by = [item for item in items if known is not None and item.nodeid in known.by]
        tests = by or items
        texts = self.memory.texts(item.path for item in tests)
        if known is not None and known.texts == texts and known.is_noticed == bool(by):
            return known.is_noticed
        if by and self._is_noticed(by, live(mutant), compiled(mutant)):
            self.memory.keep_verdict(mutant, Verdict(True, texts, known.by if known else ()))
            return True
        verdict = self._judge(mutant, items)
        self.memory.keep_verdict(mutant, verdict)
        return verdict.is_noticed

    def _judge(self, mutant: Mutant, items: list[pytest.Item]) -> Verdict:
        """Try a few tests at once, so that what notices it is known."""
        for at in range(0, len(items), SHARE):
            some = items[at : at + SHARE]
            if self._is_noticed(some, live(mutant), compiled(mutant)):
                texts = self.memory.texts(item.path for item in some)
                return Verdict(True, texts, tuple(item.nodeid for item in some))
        return Verdict(False, self.memory.texts(item.path for item in items), ())

    def _is_noticed(self, items: list[pytest.Item], function: Any, code: Any) -> bool:
        """Whether one of the tests fails, or runs too long, in a fork in which the function has this code."""
        limit = GRACE + SLOWER * sum(self.took[item.nodeid] for item in items)
        _close_databases()
        with tempfile.TemporaryDirectory(prefix="weft-mutant-") as folder:
            child = os.fork()
            if child == 0:
                signal.alarm(int(limit) + 1)  # ends the process
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(1, 2)
                _copy_database(Path(folder))
                _forget()
                function.__code__ = code
                os._exit(0 if all(_run(item, item.session) for item in items) else 1)
            return os.waitpid(child, 0)[1] != 0


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
    where = ["-m", "not nightly and not slow and not kubernetes and not browser"]
    ended = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-o", "timeout=0", *where, *one.tests], [runner])
    noticed, count = (sum(part) for part in zip(*runner.scores.values(), strict=True)) if runner.scores else (0, 0)
    is_good = count > 0 and ended in (0, 5) and 100 * noticed >= LEAST * count
    if one.drawn is None:
        return is_good and all(100 * noticed >= LEAST * count for noticed, count in runner.scores.values())
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
