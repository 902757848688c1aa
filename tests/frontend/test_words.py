import pytest

from frontend import words
from scheduler.model.workload import Phase


@pytest.mark.parametrize(
    ("milli", "text"),
    [(None, "–"), (0, "0"), (1000, "1"), (250, "0.25"), (34_500, "34.5"), (120_500, "120.5"), (6_212_000, "6,212")],
)
def test_gpus_are_told_without_idle_decimals(milli: int | None, text: str) -> None:
    assert words.gpus(milli) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.2, "200 ms"),
        (59, "59 s"),
        (61, "1 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_times_are_told_in_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_a_part_is_never_rounded_up_to_all_of_it() -> None:
    assert words.percent(0.99999, 2) == "99.99 %"
    assert words.percent(1.0, 2) == "100.00 %"
    assert words.percent(0.29, 0) == "29 %"


def test_asks_read_as_one_would_say_them() -> None:
    plain = {
        "workers": 1,
        "gpu_models": [],
        "share_guarantee": 0,
        "gpus": 2,
        "cpu_milli": 4000,
        "topology_require": None,
    }
    assert words.asks(plain) == "2 GPUs"
    gang = {**plain, "workers": 4, "gpu_models": ["A100", "H100"], "topology_require": 2}
    assert words.asks(gang) == "4 × 2 A100 or H100, one rack"
    assert words.asks({**plain, "gpus": 0, "share_guarantee": 300}) == "0.3 of a GPU"
    assert words.asks({**plain, "gpus": 0}) == "4 cores"


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_a_colour_a_sentence_and_only_possible_actions(phase: Phase) -> None:
    assert words.tone(phase.value) in ("ok", "warn", "bad", "accent", "dim")
    assert words.standing(phase.value, "", "", 4, 2, None)
    assert set(words.actions(phase.value)) <= set(words.LABELS)


def test_a_running_workload_is_told_in_figures() -> None:
    assert words.standing("Running", "", "", 1, 1, None, 0.948) == "1/1 running, 94 % GPU"
    assert words.standing("Running", "", "", 4, 2, None) == "2/4 running"


def test_a_burn_rate_is_a_multiple_of_what_is_on_target() -> None:
    rates = (66.88, 1.0, 1.26, 0.25, 0.0, None)
    assert [words.burn(rate) for rate in rates] == ["67x", "1x", "1.3x", "0.25x", "0x", "–"]


def test_an_action_says_what_is_lost() -> None:
    assert "4 workers lose at most 7 min" in words.effect("stop", is_active=True, workers=4, unsaved=420)
    assert "no checkpoint" in words.effect("stop", is_active=True, workers=1, unsaved=None)
    assert "leaves the queue" in words.effect("stop", is_active=False, workers=1, unsaved=None)


def test_a_long_list_is_cut_with_its_length() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed(list("abcdefgh")) == "a, b, c and 5 more"
