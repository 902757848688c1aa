"""docs/lifecycle.md says what the code does: its table of phases, whose fault an end is, and the times."""

import re

from controlplane.lifecycle import attempts, ends, timeouts
from scheduler.model.workload import TRANSITIONS, Phase
from tests.references import ROOT

PAGE = (ROOT / "docs" / "lifecycle.md").read_text()


def test_the_table_of_phases_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.M)
    told = {Phase(phase): frozenset(map(Phase, re.findall(r"`(\w+)`", after))) for phase, after in rows}
    assert told == TRANSITIONS


def test_the_ends_that_use_up_no_retry_are_those_of_the_code() -> None:
    (listed,) = re.findall(r"do not use up a retry: (.+)\.$", PAGE, re.M)
    (refused,) = re.findall(r"^Neither do those .*?: (.+?)\.$", PAGE, re.M | re.S)
    assert frozenset(re.findall(r"`(\w+)`", refused)) == ends.REFUSED_BY_NODE
    assert frozenset(re.findall(r"`(\w+)`", listed)) == ends.NOT_THE_JOBS_FAULT - ends.REFUSED_BY_NODE


def test_the_times_are_those_of_the_code() -> None:
    text = PAGE.replace("\n", " ")
    assert f"a job waits {ends.BACKOFF_SECONDS:.0f} s, then twice as long each time" in text
    assert f"at most {ends.BACKOFF_MAX_SECONDS:.0f} s" in text
    assert f"is tried again after {ends.REFUSED_SECONDS:.0f} s" in text
    assert f"did not come up in time waits {timeouts.STALE_GANG_BACKOFF_SECONDS:.0f} s" in text
    assert f"older than {attempts.PREEMPTION_MEMORY_SECONDS / 3600:.0f} hours are forgotten" in text


def test_the_page_names_each_module_of_the_life_cycle_that_has_rules() -> None:
    modules = {path.name for path in (ROOT / "controlplane" / "lifecycle").glob("*.py")}
    named = set(re.findall(r"`(?:\w+/)*(\w+\.py)`", PAGE))
    assert modules - {"__init__.py", "state.py", "changes.py"} <= named
