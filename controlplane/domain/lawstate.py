"""What the autoscaler remembers of a service, as plain values: for its row, and for the input of a stored round."""

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from autoscaler.crowding import Crowding
from autoscaler.law import State
from autoscaler.limits import Tried
from autoscaler.observed import NONE, FirstToken, Learned, Scrape
from autoscaler.profile import Profile


def plain(state: State) -> dict[str, Any]:
    """As JSON. Of a histogram only the buckets that hold something: [place, count]."""
    learned = state.learned
    return {
        "counts": _some(learned.counts),
        "seconds": learned.seconds,
        "slots": learned.slots,
        **({"crowding": list(astuple(learned.crowding))} if learned.crowding.looks else {}),
        **({"first": _plain_first(learned.first)} if any(learned.first.counts) else {}),
        **({} if learned.profile is None else {"profile": list(astuple(learned.profile))}),
        "points": [list(point) for point in state.points],
        "wanted": [list(wanted) for wanted in state.wanted],
        "began": state.began,
        "calm": state.calm,
        "fell_at": state.fell_at,
        **({} if state.idle_since is None else {"idle_since": state.idle_since}),
        **({"advised": [list(advised) for advised in state.advised]} if state.advised else {}),
        **({} if state.tried is None else {"tried": list(astuple(state.tried))}),
    }


def state_of(values: Mapping[str, Any]) -> State:
    """The state that `plain` told."""
    return State(
        learned=Learned(
            _all(values["counts"]),
            values["seconds"],
            values["slots"],
            Crowding(*values.get("crowding", ())),
            _first_of(*values["first"]) if values.get("first") else FirstToken(),
            Profile(*values["profile"]) if values.get("profile") else None,
        ),
        points=tuple((at, came) for at, came in values["points"]),
        wanted=tuple((at, replicas) for at, replicas in values["wanted"]),
        began=values["began"],
        calm=values["calm"],
        fell_at=values["fell_at"],
        idle_since=values.get("idle_since"),
        advised=tuple((at, replicas) for at, replicas in values.get("advised", ())),
        tried=_tried(*values["tried"]) if values.get("tried") else None,
    )


def _plain_first(first: FirstToken) -> list[Any]:
    return [_some(first.counts), list(astuple(first.crowding))]


def _first_of(counts: list[list[float]], crowding: list[float]) -> FirstToken:
    return FirstToken(_all(counts), Crowding(*crowding))


def _tried(limit: int, asked: list[list[Any]], before: list[Any] | None, effect: float, is_known: bool) -> Tried:
    looks = tuple((at, exact, then) for at, exact, then in asked)
    return Tried(limit, looks, (before[0], before[1]) if before else None, effect, is_known)


def plain_scrape(scrape: Scrape) -> list[Any]:
    """As JSON, its fields in order."""
    return [
        scrape.at, scrape.seconds, scrape.arrived, scrape.answered_seconds, _some(scrape.counts), scrape.waiting,
        scrape.running, scrape.widest, *_told_since(scrape),
    ]  # fmt: skip


def _told_since(scrape: Scrape) -> list[Any]:
    """What is told since there are objectives of the first token; nothing where it is as it always was."""
    if scrape.first is None and not scrape.is_partial:
        return []
    return [None if scrape.first is None else _some(scrape.first), scrape.is_partial]


def scrape_of(values: list[Any]) -> Scrape:
    """The scrape that `plain_scrape` told."""
    at, seconds, arrived, answered_seconds, counts, waiting, running, widest, *more = values
    first, is_partial = more or (None, False)
    tokens = None if first is None else _all(first)
    return Scrape(at, seconds, arrived, answered_seconds, _all(counts), waiting, running, widest, tokens, is_partial)


def _some(counts: tuple[float, ...]) -> list[list[float]]:
    return [[place, count] for place, count in enumerate(counts) if count]


def _all(some: list[list[float]]) -> tuple[float, ...]:
    counts = list(NONE)
    for place, count in some:
        counts[int(place)] = count
    return tuple(counts)
