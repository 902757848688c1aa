"""docs/objectives.md and docs/algorithms.md repeat numbers of the law and of the standings: those of the code."""

import math
import re

import pytest

from autoscaler import crowding, law, sla, trend
from autoscaler.bottleneck import constants as bottleneck
from autoscaler.experiment import experiment, verdict
from autoscaler.law import ALONE, STANDBY
from autoscaler.reallocate import constants as reallocation
from autoscaler.settings import Settings
from autoscaler.throughput import constants as throughput
from tests.references import ROOT


def words(document: str) -> str:
    """The document in one line, as sentences break anywhere."""
    return re.sub(r"\s+", " ", (ROOT / "docs" / document).read_text())


def word(number: float) -> str:
    """A small number as sentences have it."""
    known: dict[float, str] = {2: "two", 3: "three"}
    return known.get(number, f"{number:g}")


def alerts() -> str:
    """The burn rates as the table has them."""
    fast, slow = sla.ALERTS
    return (
        f"the burn rate is above {fast.burn_rate:g} over the last hour and the last {fast.short_seconds / 60:g} "
        f"minutes, or above {slow.burn_rate:g} over the last {slow.long_seconds / 3600:g} hours and the last "
        f"{slow.short_seconds / 60:g} minutes, or less than {100 * sla.LITTLE:g} %"
    )


STARTS = f"{word(round(law.fall_window(law.Terms(1.0, 1.0, ALONE))))} starts"
MINUTES = f"{law.PATIENT / 60:g} minutes"
SAID = {
    "K": f"| K | `wait_ratio` | {ALONE.part} | {STANDBY.part} |",
    "tail": f"| tail | `tail` | {ALONE.tail} | {STANDBY.tail} |",
    "ahead": f"| `horizon_seconds` | a replica's start + {ALONE.horizon:g} s | {STANDBY.horizon:g} s |",
    "queue": f"| `queue_seconds` | {ALONE.queue_seconds:g} s | {STANDBY.queue_seconds:g} s |",
    "window": f"| `fall_seconds` ({ALONE.fall:g}: {STARTS}) | {STARTS} of a replica | {STANDBY.fall:g} s |",
    "headroom": f"| `headroom` | {ALONE.headroom:g} | none: those on standby are |",
    "rate": f"the shortest of {law.SHORTEST:g} to {STANDBY.longest:g} s ({ALONE.longest:g} s without standby) with "
    f"{law.MANY} of them; with a clear trend ({trend.CLEAR:g} standard errors)",
    "young": f"first {ALONE.young:g} s, nor in the {STANDBY.young:g} s after a gap of more than {ALONE.gap:g} s",
    "patience": f"within {law.SOON:g} windows, or within {MINUTES} by one replica or a tenth of them, the window is "
    f"{law.PATIENCE:g} times as long from then on, at most {MINUTES}, "
    f"or {law.PATIENT_LARGE / 60:g} where the rise is larger than that; a fall that holds for {MINUTES}",
    "crowding": f"{crowding.CLEAR:g} standard errors, {crowding.CLEAR_LATE:g} where requests are late",
    "start": f"`start_seconds` ({Settings().start_seconds:g}) before that",
    "alerts": alerts(),
    "silence": f"none was measured in the last {sla.SILENT_SECONDS / 60:g} minutes",
    "shares of the budget": f"a burn rate of {sla.ALERTS[0].burn_rate:g} uses 2 % of the budget in an hour, and one of "
    f"{sla.ALERTS[1].burn_rate:g} uses 5 % in six hours",
}


@pytest.mark.parametrize("what", SAID)
def test_the_objectives_name_the_numbers_of_the_code(what: str) -> None:
    assert SAID[what] in words("objectives.md")


def test_the_hours_and_parts_of_the_budget_in_the_sentences_are_those_of_the_code() -> None:
    assert sla.ALERTS[0].long_seconds == 3600.0
    window = 28 * 86_400.0
    used = [alert.burn_rate * alert.long_seconds / window for alert in sla.ALERTS]
    assert used == [pytest.approx(0.02, abs=0.002), pytest.approx(0.05, abs=0.005)]


def test_the_settings_of_a_policy_begin_as_the_constants_that_the_document_names() -> None:
    assert Settings().constants() == ALONE


def test_the_algorithms_name_the_numbers_of_the_code() -> None:
    text = words("algorithms.md")
    assert f"down when fewer were wanted for {STARTS} of a replica" in text
    assert f"burn rates over {word(len(sla.ALERTS))} pairs of spans" in text


def test_the_diagnosis_names_the_numbers_of_the_code() -> None:
    c, terms = bottleneck.DEFAULT, verdict.DEFAULT
    text = words("diagnosis.md")
    for said in (
        f"window by window of {c.window:g} s",
        f"more than {100 * c.disk:g} % of the time ({100 * c.disk_full:g} % where CPUs are throttled as well)",
        f"above {100 * c.cpu:g} % of its limit and throttled in more than {100 * c.throttled:g} % of its periods",
        f"above {100 * c.server_cpu:g} % of its CPU, else to the network if a line is above {100 * c.nic:g} %",
        f"at most {c.step:g} a window either way, and not below {c.floor:g}",
        f"= {c.alarm:.2f}, and not before {c.windows} windows",
        f"less {c.straggler_errors:g} standard errors, is above {100 * c.straggler_high:g} % of its time, "
        f"and until it falls below {100 * c.straggler_low:g} %",
        f"None where the GPUs are busier than {100 * c.sm_full:g} %",
        f"with {terms.fewest} to {terms.most} after",
        f"only if its gain is {terms.sure:g} standard errors above zero",
    ):
        assert said in text, said
    assert (c.effect, c.deviation, c.least_wait, c.least_sync, c.least_idle) == (0.10, 0.07, 0.09, 0.18, 0.10)
    assert (terms.before, round(math.exp(terms.gain), 2), terms.alpha, terms.beta) == (12, 1.05, 0.01, 0.05)


def test_the_reallocation_names_the_numbers_of_the_code() -> None:
    c, terms, limits, steps = reallocation.DEFAULT, verdict.DEFAULT, experiment.LIMITS, throughput.DEFAULT
    text = words("reallocation.md")
    cpu, servers, workers = c.cpu, c.servers, c.workers
    for said in (
        f"one window of {c.window:g} s",
        f"{terms.before} windows of what it has",
        f"Then {terms.fewest} to {terms.most} windows are judged",
        f"does not run after {limits.start} windows",
        f"lasts {limits.longest} windows at most",
        "at most {}, {} or {} GPUs on a node".format(*c.together),
        f"{cpu[0]:g}, {cpu[1]:g} and {cpu[2]:g} times",
        "{}, {} or {} more or fewer |".format(*servers),
        "{}, {} or {} more or fewer, where".format(*workers),
        f"less than {100 * c.least_gain:g} % faster",
        f"of several within {100 * c.alike:g} % the one that takes least",
        f"- {c.moves} changes were tried",
        f"twice the restart, and {c.slow_windows:g} windows for as likely as it is slower, "
        f"have to be within {100 * c.payback:g} %",
        f"| {part(steps.compute)} of a step each | {steps.compute_wide:g} |",
        f"| {part(steps.within)} of a step, and {part(steps.growth)} of that for each GPU beyond two | ",
        f"| {part(steps.between)} of a step, the same again | {steps.wide:g} |",
        f"| {part(steps.crowd)} | {part(steps.crowd_wide)}, not of a logarithm |",
        f"| {part(steps.overlap)} | {steps.overlap_wide:g} |",
        f"| {part(steps.input)}, {part(steps.floor)} of a step | {steps.wide:g} |",
        f"| {part(steps.servers)}, {part(steps.each)}, {part(steps.each)} of a step | {steps.wide:g} |",
        f"| the mean step | {part(steps.scale_wide)} |",
        f"their own error and {100 * steps.model:g} % of the equations'",
        f"of the template with {100 * steps.lent:g} % more",
    ):
        assert said in text, said
    assert (limits.settle, limits.lost, c.batch) == (1, 2.0, (0.5, 2.0))


def part(number: float) -> str:
    """Below 1 without the 0, as the table has it."""
    return f"{number:g}".removeprefix("0")
