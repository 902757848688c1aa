"""The price of GPUs that were taken, as an event's terms tell it."""

import pytest

from controlplane.domain.reclaimprice import price_of

LENT = {"team": "cv", "workers": 1, "leaves_milli": 1000, "lost_milli_seconds": 168, "whose": "lent"}


@pytest.mark.parametrize(
    ("kind", "reason", "terms", "sentence"),
    [
        ("Shrunk", "", LENT, "1 worker left 1 GPU that was lent to it; about 0.2 GPU-seconds lost."),
        (
            "Shrunk", "", LENT | {"workers": 3, "leaves_milli": 3000, "whose": "owned", "lost_milli_seconds": 60_000},
            "3 workers left 3 GPUs that the other team owns; about 60 GPU-seconds lost.",
        ),
        (
            "Evicted", "TakenBack", LENT | {"workers": 3, "leaves_milli": 3000, "lost_milli_seconds": 3 * 1_800_056},
            "All workers left 3 GPUs that were lent to it; about 1.5 GPU-hours lost.",
        ),
        (  # of a higher priority: its terms are those of every eviction
            "Evicted", "Preempted", {"held_milli": 500, "priority": 0, "unsaved_seconds": 300},
            "All workers left 0.5 GPUs of the quota of its own team; about 150 GPU-seconds lost.",
        ),
        (
            "Evicted", "Reclaimed", {"held_milli": 2000, "priority": 0, "unsaved_seconds": 0},
            "All workers left 2 GPUs that the other team owns; next to nothing lost.",
        ),
    ],
)  # fmt: skip
def test_it_says_what_left_whose_it_was_and_what_is_lost(
    kind: str, reason: str, terms: dict[str, object], sentence: str
) -> None:
    found = price_of(kind, reason, {"terms": terms, "by": "x"})
    assert found is not None
    assert found.sentence == sentence
    assert found.shown()["sentence"] == sentence


@pytest.mark.parametrize(
    ("kind", "reason", "data"),
    [
        ("Shrunk", "", {"ranks": [1], "by": "x"}),  # of a version without prices
        ("Evicted", "Consolidated", {"terms": {"held_milli": 1000, "priority": 0, "unsaved_seconds": 9}}),  # moved
        ("Evicted", "Preempted", {"by": "x"}),
        ("Placed", "", {"terms": {"level": "node", "nodes": 1, "idle_gpus_left": 0}}),
    ],
)
def test_what_tells_no_price_has_none(kind: str, reason: str, data: dict[str, object]) -> None:
    assert price_of(kind, reason, data) is None
