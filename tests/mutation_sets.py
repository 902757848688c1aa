"""The two sets of mutants that `tests/mutation.py` tries, and the tests that look at each.

They only choose: what was seen of a test or of a mutant stays true when they change (tests/mutation_memory.py).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import ROOT, Mutant, mutants

DRAWN, SEED = 200, 0


@dataclass(frozen=True, slots=True)
class Set:
    """Files whose mutants are tried, and the tests that look at them."""

    groups: Mapping[str, Sequence[str]]  # what has a score of its own -> files, as globs
    tests: tuple[str, ...]
    drawn: int | None = None  # mutants in all, the same number of each group; None: every one


LEDGER_FILES = (
    "gpushare/packing.py",
    "scheduler/fit/gang.py",
    "scheduler/quota/tree.py",
    "scheduler/preemption/victims.py",
)
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
        "services": ("controlplane/services/**/*.py", "controlplane/lifecycle/*.py"),
        "authorization": (
            "controlplane/security/authorization.py",
            "controlplane/queries/accounts/access.py",
            "controlplane/api/auth*.py",
        ),
        "parsers": (
            "controlplane/api/parsers.py",
            "controlplane/jobspec/jobfile.py",
            "controlplane/jobspec/jobrules.py",
        ),
        "pods": (
            "controlplane/cluster/kubernetes/pods.py",
            "controlplane/cluster/kubernetes/podstatus.py",
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
            every = random.Random(SEED).sample(every, of_each)
        found[group] = every
    return found


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
