"""What `after` waits for, and when that can never be."""

import pytest

from scheduler.model.dependency import HOW, When, never, verdict
from scheduler.model.workload import ENDED, Kind, Phase

OTHER_ENDS = ENDED - {Phase.SUCCEEDED, Phase.STOPPED, Phase.FAILED}


@pytest.mark.parametrize(
    ("when", "kind", "met"),
    [
        ("", Kind.TRAINING, {Phase.SUCCEEDED}),
        ("", Kind.NOTEBOOK, {Phase.SUCCEEDED, Phase.STOPPED}),
        ("", Kind.INFERENCE, {Phase.RUNNING}),
        (When.SUCCEEDED, Kind.NOTEBOOK, {Phase.SUCCEEDED}),
        (When.FAILED, Kind.TRAINING, {Phase.FAILED, *OTHER_ENDS}),
        (When.ENDED, Kind.INFERENCE, ENDED),
        (When.HEALTHY, Kind.TRAINING, {Phase.RUNNING, Phase.SUCCEEDED}),
    ],
)
def test_each_rule_is_met_by_its_phases_and_never_by_another_end(when, kind, met):
    found = {phase: verdict(when, kind, phase) for phase in Phase}
    assert {phase for phase, is_met in found.items() if is_met} == met
    assert {phase for phase, is_met in found.items() if is_met is False} == ENDED - met


def test_why_a_step_never_starts_is_said_with_what_helps():
    said = never("prepare", "", Kind.TRAINING, Phase.FAILED)
    assert said == (
        "It starts after prepare has succeeded, but prepare failed. Once prepare is submitted again, so is this."
    )
    assert set(HOW) == ENDED
