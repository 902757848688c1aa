from itertools import islice

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.notebooks.sessions import Population, Session, deleted, load
from tests.notebooks.made import SECOND, cells, written


def test_a_session_is_what_it_did_in_one_half_of_the_month(tmp_path):
    rows = [("a", SECOND - 10, 2), ("a", SECOND + 5, 3), ("a", SECOND + 20, 1), ("b", 7, 1)]
    data = written(tmp_path, rows)
    assert load(data, "all", 1) == (Session(((0.0, 120.0),)), Session(((0.0, 60.0),)))
    assert load(data, "all", 2) == (Session(((0.0, 180.0), (720.0, 60.0))),)


def test_a_person_has_no_cell_of_more_than_two_hours(tmp_path):
    data = written(tmp_path, [("a", SECOND, 120), ("b", SECOND, 121)])
    assert load(data, "human", 2) == (Session(((0.0, 7200.0),)),)
    assert len(load(data, "all", 2)) == 2
    with pytest.raises(ValueError, match="'some' is neither human nor all"):
        load(data, "some", 2)


def test_without_the_sessions_it_says_what_to_set(tmp_path):
    with pytest.raises(BenchmarkError, match="interactive_training_events.csv.gz is missing. Set WEFT_DATA"):
        load(tmp_path, "human", 2)


def test_a_place_begins_in_the_midst_of_a_session_and_goes_on_with_others():
    people = Population([Session(((0.0, 10.0), (90.0, 10.0), (90.0, 10.0)))])
    seen = [list(islice(people.replayed(seed, 0), 7)) for seed in range(40)]
    for one in seen:
        assert one[0].is_first
        later = [cell for cell in one if cell.notebook != one[0].notebook]
        assert [(cell.gap, cell.is_first) for cell in later[:3]] == [(0.0, True), (90.0, False), (90.0, False)]
    assert len({one[0].gap for one in seen}) > 30, "each at another moment"
    assert seen[3] == list(islice(people.replayed(3, 0), 7)), "a seed draws the same each time"


def test_what_lasts_longer_is_met_more_often_at_the_beginning():
    people = Population([Session(((0.0, 1.0), (98.0, 1.0))), Session(((0.0, 1.0), (899.0, 1.0)))])
    long = sum(next(people.replayed(seed, 0)).gap > 98.0 for seed in range(400))
    assert 0.7 < long / 400 < 0.9, "a thousand of 1100 seconds, less those in which it would be met with a short gap"


def test_who_deletes_before_a_long_gap_has_another_notebook_after_it():
    told = list(islice(deleted(cells("a", (0, 5), (50, 5), (10, 5)), 20.0), 3))
    assert [cell.notebook for cell in told] == ["a", "a:1", "a:1"]
    assert [cell.is_first for cell in told] == [True, False, False], "its start counts, unlike that of a new session"
