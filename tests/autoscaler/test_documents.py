"""docs/objectives.md and docs/algorithms.md repeat numbers of the law and of the standings: those of the code."""

import re

import pytest

from autoscaler import law, sla, trend
from autoscaler.law import ALONE, STANDBY
from autoscaler.settings import Settings
from tests.references import ROOT


def word(number: float) -> str:
    """A small number as sentences have it."""
    return {2: "two", 3: "three", 4: "four"}.get(number, f"{number:g}")


def words(document: str) -> str:
    """The document in one line, as sentences break anywhere."""
    return re.sub(r"\s+", " ", (ROOT / "docs" / document).read_text())


def alerts() -> str:
    """The burn rates as the table has them."""
    fast, slow = sla.ALERTS
    return (
        f"the burn rate is above {fast.burn_rate:g} over the last hour and the last {fast.short_seconds / 60:g} "
        f"minutes, or above {slow.burn_rate:g} over the last {slow.long_seconds / 3600:g} hours and the last "
        f"{slow.short_seconds / 60:g} minutes, or less than {sla.LITTLE:.0%}".replace("%", " %")
    )


SAID = {
    "constants alone": f"K = {ALONE.part:g}, tail {ALONE.tail}, and the rate is predicted for a replica's start + "
    f"{ALONE.horizon:g} s ahead",
    "constants on standby": f"K = {STANDBY.part:g}, tail {STANDBY.tail} and {STANDBY.horizon:g} s ahead",
    "rate": f"the shortest of {law.SHORTEST:g} to {law.LONGEST:g} s with {law.MANY} of them; "
    f"with a clear trend ({trend.CLEAR:g} standard errors)",
    "fall": f"a window of {word(round(law._window(law.Terms(1.0, 1.0, ALONE))))} starts of a replica "
    f"(with standby {STANDBY.fall:g} s)",
    "young": f"first {ALONE.young:g} s, nor for {STANDBY.young:g} s after a minute without a look",
    "patience": f"within {word(law.SOON)} windows, the window gets {word(law.PATIENCE)} times as long",
    "start": f"`start_seconds` ({Settings().start_seconds:g}) before that",
    "alerts": alerts(),
    "silence": f"none was measured in the last {sla.SILENT_SECONDS / 60:g} minutes",
    "shares of the budget": f"a burn rate of {sla.ALERTS[0].burn_rate:g} uses 2 % of the budget in an hour, and one of "
    f"{sla.ALERTS[1].burn_rate:g} uses 5 % in six hours",
}


@pytest.mark.parametrize("what", SAID)
def test_the_objectives_name_the_numbers_of_the_code(what: str) -> None:
    assert SAID[what] in words("objectives.md")


def test_the_minute_and_the_hour_of_the_sentences_are_those_of_the_code() -> None:
    assert (ALONE.gap, STANDBY.gap, law.HOUR, sla.ALERTS[0].long_seconds) == (60.0, 60.0, 3600.0, 3600.0)
    window = 28 * 86_400.0
    used = [alert.burn_rate * alert.long_seconds / window for alert in sla.ALERTS]
    assert used == [pytest.approx(0.02, abs=0.002), pytest.approx(0.05, abs=0.005)]


def test_the_settings_without_standby_are_the_constants_that_the_document_names() -> None:
    assert Settings().constants() == ALONE


def test_the_algorithms_name_the_numbers_of_the_code() -> None:
    text = words("algorithms.md")
    starts = word(round(law._window(law.Terms(1.0, 1.0, ALONE))))
    assert f"down after {starts} starts of a replica" in text
    assert f"burn rates over {word(len(sla.ALERTS))} pairs of spans" in text
