"""Before and now are the same but for the committed table; and each kind of difference would be seen."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.references import missing_tests
from tests.sameness import answers, rounds, store, words
from tests.sameness.decided import DECIDED
from tests.sameness.word import Word


@cache
def recorded() -> tuple[rounds.Stored, ...]:
    return tuple(rounds.stored(store.read("rounds")))


def differing(one: rounds.Stored, now: list[Any]) -> list[str]:
    before, after = (words.without_prices(decided) for decided in (words.translate(one.decisions), now))
    return list(store.difference(before, after))


def first_of(source: str, loop: str) -> Iterator[tuple[rounds.Stored, list[Any]]]:
    return rounds.again([one for one in recorded() if (one.source, one.loop) == (source, loop)])


def test_there_are_rounds_of_each_world_and_loop() -> None:
    sources = {(one.source.split()[0], one.loop) for one in recorded()}
    assert sources == {
        *((name, "schedule") for name in ("demo", "philly-model", "openb-model", "chaos")),
        ("demo", "scale"),
        ("openb-model", "scale"),  # nothing scales in the others: rounds.py
    }
    assert sum(one.loop == "schedule" for one in recorded()) >= rounds.MIN_SCHEDULING
    assert sum(one.loop == "scale" for one in recorded()) >= rounds.MIN_SCALING


def test_the_fixture_stays_small() -> None:
    assert sum(path.stat().st_size for path in store.FIXTURE.iterdir()) <= store.MAX_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "loop"), sorted({(one.source, one.loop) for one in rounds.stored(store.read("rounds"))})
)
def test_stored_rounds_decide_the_same_again(source: str, loop: str) -> None:
    for one, now in first_of(source, loop):
        assert differing(one, now) == []


def test_a_decision_that_is_another_is_seen() -> None:
    one, now = next(first_of("demo", "schedule"))
    assert differing(one, now) == []
    other = [{**now[0], "version": now[0]["version"] + 1}, *now[1:]]
    assert differing(one, other) != []


def test_a_message_that_is_another_is_seen_unless_the_table_says_so() -> None:
    before = [["GET /api/v1/workloads", 200, {}, {"message": "3 claimants go first."}]]
    now = [["GET /api/v1/workloads", 200, {}, {"message": "3 ahead of it in the queue."}]]
    table = (Word(r"(\d+) claimants go first\.", r"\1 ahead of it in the queue."),)
    assert store.difference(words.translate(before), now) != []
    assert store.difference(words.translate(before, table), now) == []
    assert store.difference(words.translate(before, table), [[*now[0][:3], {"message": "4 ahead of it in the queue."}]])


def test_an_answer_that_is_another_is_seen() -> None:
    before: Any = {"a test": [["GET /api/v1/queue", 200, {"Allow": "GET"}, {"results": []}]]}
    assert answers.difference(before["a test"], before["a test"]) == []
    for place, other in enumerate(("POST /api/v1/queue", 204, {"Allow": "POST"}, {"results": [1]})):
        now = [[*before["a test"][0][:place], other, *before["a test"][0][place + 1 :]]]
        assert answers.difference(before["a test"], now) != []


def test_one_other_answer_of_those_recorded_is_seen() -> None:
    """The first answer of each kind of request with a document, with another value under each of its keys."""
    planted = 0
    for found in answers.recorded().values():
        now = [words.of_answer(one) for one in found]
        body = now[-1][3]
        if planted >= 200 or not isinstance(body, dict):
            continue
        assert answers.difference(found, now) == []
        for key in body:
            planted += 1
            other = [*now[:-1], [*now[-1][:3], {**body, key: ["planted"]}]]
            assert answers.difference(found, other) != [], (now[-1][0], key)
    assert planted >= 200


def test_one_other_message_of_those_recorded_is_seen() -> None:
    one, now = next((one, now) for one, now in first_of("demo", "schedule") if any(d.get("message") for d in now))
    at = next(number for number, decision in enumerate(now) if decision.get("message"))
    other = [*now[:at], {**now[at], "message": f"{now[at]['message']} Planted."}, *now[at + 1 :]]
    assert differing(one, now) == []
    assert differing(one, other) != []


def test_what_a_run_makes_anew_is_no_difference_and_which_of_them_is() -> None:
    recorder = answers.Recorder()
    recorder.begin("a test")
    first, second = "7f1b7c1e-0000-4000-8000-000000000001", "7f1b7c1e-0000-4000-8000-000000000002"
    assert (
        recorder.plain(f"{first} {second} {first} at 2026-11-24T08:15:12Z") == "<uuid 0> <uuid 1> <uuid 0> at <time 2>"
    )


def test_a_row_that_is_another_is_seen() -> None:
    before = {"Workload": [{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Queued"}]}
    assert store.difference(words.translate(before), before) == []
    now = {"Workload": [before["Workload"][0], {**before["Workload"][1], "phase": "Held"}]}
    assert store.difference(words.translate(before), now) != []
    assert store.difference(words.translate(before), {"Workload": before["Workload"][:1]}) != []


def test_a_round_is_read_from_its_stored_form() -> None:
    one = recorded()[0]
    assert one.is_base
    cut = replace(one, is_base=False, input=one.input[:-10])
    with pytest.raises(ValueError, match="Expecting|Unterminated|Extra"):
        list(rounds.again([cut]))


def test_each_rule_that_was_decided_has_a_test_that_is_there() -> None:
    assert DECIDED
    assert missing_tests(" ".join(f"`{rule.test}`" for rule in DECIDED)) == []
