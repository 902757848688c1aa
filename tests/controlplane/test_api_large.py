"""What `api-large` fills a database with, and its figures."""

from dataclasses import replace

import pytest
from django.test import override_settings

from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.large import reads
from controlplane.benchmarks.large.reads import Read
from controlplane.models import RoundView, Workload
from controlplane.queries.workloads import whatif
from scheduler.model.workload import Phase

MADE = {"running": 24_000, "waiting": 5_000, "nodes": 6250, "rounds": 3, "uid": "u", "token": "t"}
FAST = Read(0.1, 0.2, 0.5)


@pytest.mark.django_db
def test_the_rounds_of_a_small_one_leave_what_reads_ask() -> None:
    with override_settings(ADMIN_PASSWORD="a benchmark's own"):
        made = reads.prepare({"nodes": 12, "count": 120, "seed": 0})
    assert made["nodes"] == 12
    assert made["running"] + made["waiting"] >= 100
    assert made["token"].startswith("weft_")
    assert RoundView.objects.count() == 1
    assert Workload.objects.get(pk=made["uid"]).phase == Phase.QUEUED
    with override_settings(DRY_RUN_MOST=0):
        line = whatif.line()
    assert len(line.turns) == made["waiting"]
    assert all(turn.is_known for turn in line.turns)


def test_the_slowest_read_and_the_map_have_goals_at_its_own_size_only() -> None:
    kinds = (*reads.COUNTED, "queue page", "map", "a rack")
    found = dict.fromkeys(kinds, FAST) | {"eta": replace(FAST, cpu_seconds=0.4), "map": replace(FAST, cpu_seconds=9.0)}
    result = reads.result(found, MADE, is_whole=True)
    values = {figure.name: (figure.value, figure.goal, figure.met) for figure in result.figures}
    assert values == {
        "api.large_read_cpu_seconds_max": (0.4, 0.3, False),
        "api.large_map_mib": (0.5, 1.0, True),
    }
    assert "the slowest is eta" in result.notes[-1]
    assert all(figure.goal is None for figure in reads.result(found, MADE, is_whole=False).figures)
    assert BENCHMARKS["api-large"].modules[0] == "large.reads"
