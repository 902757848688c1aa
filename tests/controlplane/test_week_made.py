"""How the demo's week is made: by the loops that run the demo."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from controlplane.loops import week
from controlplane.models import Workload
from controlplane.queries.audit import audit
from controlplane.simulator.worlds import catalogue, demo, pastfile
from controlplane.simulator.worlds.hours import HOUR
from controlplane.simulator.worlds.pastfile import Past
from controlplane.simulator.worlds.presets import START

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


@pytest.fixture
def past() -> Past:
    """The file in the repository."""
    return pastfile.read_past(pastfile.DEMO.read_bytes())


def test_another_preset_is_not_given_the_demos_past(past: Past) -> None:
    elsewhere = catalogue.demonstration(1.2, seed=0, start=START)
    with pytest.raises(ValueError, match="2026-01-08T11:00:00"):
        week.open_demo(elsewhere, past, password="x", speed=1.0)


def test_a_week_is_made_by_the_same_loops_and_loads(tmp_path: Path, settings: Any) -> None:
    """A quarter of an hour of it; that all of it comes out the same is for the nightly test."""
    with transaction.atomic():
        made = week.simulate(START + HOUR / 4)
        transaction.set_rollback(True)
    settings.SIMULATED_STORE = tmp_path / "cluster.sqlite3"
    preset = catalogue.demonstration(0.9, seed=3, start=START + HOUR / 4)
    week.open_demo(preset, pastfile.read_past(pastfile.write(made)), password="demo-password", speed=60.0)

    assert Workload.objects.filter(phase="Running").count() > 10
    assert audit.violations(last_rounds=0) == ()


@pytest.mark.nightly
def test_the_week_made_again_is_the_one_in_the_repository(past: Past) -> None:
    made = week.simulate(demo.OPENING)
    for name, table in made.tables.items():
        same = {column for column in table if column != "took_ms"}  # by a real clock
        assert {c: list(table[c]) for c in same} == {c: list(past.tables[name][c]) for c in same}, name
