"""`manage.py what-if`: stored rounds replayed, the difference printed, nothing written."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from autoscaler.decision import Scale
from autoscaler.latency import Within
from autoscaler.law import State
from autoscaler.observed import Learned, counted
from controlplane.cluster import work as works
from controlplane.cluster.port import PodPhase
from controlplane.domain import lawstate
from controlplane.loops import schedule
from controlplane.models import ClusterState, NodePool, ServiceState, ServiceWindow, Team, Workload
from controlplane.queries.scheduling import history, lab, snapshot
from controlplane.services.tenancy import quotas as owned
from controlplane.simulator.worlds.profiles import PROFILES
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def lived() -> World:
    """Rounds in which work comes, runs, waits and ends on 16 GPUs."""
    world = World()
    for number in range(6):
        made = world.submit(f"j{number}", gpus=4)
        schedule.run_once(world.wiring)
        world.actuate()
        if number < 4:
            world.pods(made, PodPhase.RUNNING, 0)
        world.later(60)
    world.pods(Workload.objects.get(name="j0"), PodPhase.SUCCEEDED, 0, exit_code=0)
    schedule.run_once(world.wiring)
    return world


def rows() -> dict[str, int]:
    return {model._meta.label: model._default_manager.count() for model in apps.get_models()}


def said(*words: object) -> str:
    out = io.StringIO()
    call_command("what-if", *map(str, words), stdout=out)
    return out.getvalue()


def test_stored_rounds_are_replayed_and_compared_and_nothing_is_written(lived: World) -> None:
    before, columns = rows(), list(Workload.objects.order_by("pk").values())
    text = said("--policy", "fifo", "--cycles", "20")
    assert "scheduling.policy: weft -> fifo" in text
    assert "wait p50" in text
    assert rows() == before
    assert list(Workload.objects.order_by("pk").values()) == columns
    found = json.loads(said("--policy", "fifo", "--json"))
    assert [row["team"] for row in found["teams"]] == ["all", "red"]
    assert found["teams"][0]["before"]["jobs"] == 6


def test_other_quotas_and_nodes_come_from_files(lived: World, tmp_path: Path) -> None:
    nodes, quotas = tmp_path / "nodes.yaml", tmp_path / "quotas.json"
    nodes.write_text("add: [{like: a, count: 2}]\n")
    quotas.write_text('[{"team": "red", "pool": "main", "nominal_milli": 4000}]')
    found = json.loads(said("--nodes", nodes, "--quotas", quotas, "--json"))
    assert found["episode"]["gpus"] == {"before": 16, "after": 32}
    everybody = found["teams"][0]
    assert everybody["before"]["started"] < everybody["after"]["started"] == 6


@pytest.mark.parametrize(
    ("words", "file", "sentence"),
    [
        ((), None, "Nothing differs from the current settings"),
        (("--policy", "FILE"), "scheduling: {polcy: fifo}", "scheduling.polcy is not a setting"),
        (("--policy", "FILE"), "[1, 2]", "A policy is an object with the parts scheduling, scaling"),
        (("--policy", "FILE"), "scheduling: {max_victims: many}", "Use a number from 1 to 10000"),
        (("--policy", "no-such-file"), None, "There is no file no-such-file"),
        (("--quotas", "FILE"), "- {team: red, pool: x, nominal_milli: 1}", "quotas[0].pool is"),
        (("--policy", "fifo", "--trace", "nowhere.csv"), None, "There is no file nowhere.csv"),
        (("--policy", "fifo", "--cycles", "1"), None, "--cycles is 1. Give a number from 2"),
        (("--policy", "fifo", "--trace", "demo", "--hours", "0"), None, "--hours is 0."),
    ],
)
def test_what_cannot_be_names_the_field_and_the_fix(
    lived: World, tmp_path: Path, words: tuple[str, ...], file: str | None, sentence: str
) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(file or "")
    with pytest.raises(CommandError) as wrong:
        said(*(path if word == "FILE" else word for word in words))
    assert sentence in str(wrong.value)


def test_without_stored_rounds_a_trace_is_offered() -> None:
    with pytest.raises(CommandError, match="Let it run for a while, or use a trace"):
        said("--policy", "fifo")


def test_an_episode_has_what_ran_waited_and_ended_with_the_times_it_took(lived: World) -> None:
    found = history.episode(100)
    assert (found.gpus, len(found.jobs)) == (16, 6)
    assert sorted(job.workload.name for job in found.jobs) == [f"j{i}" for i in range(6)]
    assert all(not j.workload.message for j in found.jobs)
    assert found.start <= min(j.at for j in found.jobs) <= found.end


def test_the_report_names_the_quotas_and_nodes_that_differ(lived: World, tmp_path: Path) -> None:
    nodes, quotas = tmp_path / "nodes.yaml", tmp_path / "quotas.json"
    nodes.write_text("{add: [{like: a, count: 2}], remove: [b]}")
    quotas.write_text('[{"team": "red", "pool": "main", "nominal_milli": 4000, "lending_limit_milli": 1000}]')
    text = said("--nodes", nodes, "--quotas", quotas, "--policy", "fifo")
    for line in (
        "scheduling.policy: weft -> fifo",
        "red in main: owns: 0 GPUs -> 4 GPUs",
        "red in main: lends: all of it -> 1 GPUs",
        "nodes of 8 A100 in main: 2 more",
        "nodes taken away: b",
    ):
        assert f"  {line}" in text.splitlines()
    assert "weight" not in text


def test_quotas_and_nodes_that_are_as_they_were_differ_in_nothing(lived: World, tmp_path: Path) -> None:
    red, main = Team.objects.get(name="red"), NodePool.objects.get(name="main")
    owned.save(team=red, pool=main, nominal=4000, actor="root")
    for name in ("first", "second"):
        lived.submit(name, gpus=8)
        schedule.run_once(lived.wiring)
    quotas = tmp_path / "quotas.json"
    quotas.write_text('[{"team": "red", "pool": "main", "nominal_milli": 4000}]')
    with pytest.raises(CommandError, match="Nothing differs from the current settings"):
        said("--quotas", quotas, "--cycles", "2")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"quotas": [{"team": "rde", "pool": "main", "nominal_milli": 4000}]}, "quotas[0].team"),
        ({"quotas": [{"team": "red", "pool": "mian", "nominal_milli": 4000}]}, "quotas[0].pool"),
        ({"quotas": [{"team": "red", "pool": "main", "nominal_milli": 32}]}, "quotas[0].nominal_milli"),
        ({"quotas": [{"team": "red", "pool": "main", "nominal_milli": 4000}] * 2}, "quotas[1]"),
        ({"nodes": {"remove": ["z"]}}, "nodes.remove[0]"),
        ({"nodes": {"add": [{"like": "z"}]}}, "nodes.add[0].like"),
        ({"nodes": {"grow": []}}, "nodes"),
        ({"source": "trace", "nodes": {"remove": ["z"]}}, "nodes.remove[0]"),
    ],
)
def test_a_request_s_quotas_and_nodes_are_checked_before_it_runs(lived: World, document: Any, field: str) -> None:
    with pytest.raises(lab.CannotBeAnsweredError) as wrong:
        lab.read_question(document)
    assert [error.field for error in wrong.value.errors] == [field]


@pytest.fixture
def serving(lived: World) -> Workload:
    """A service that ran for ten minutes, in each of which a round was stored."""
    chat = lived.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    schedule.run_once(lived.wiring)
    lived.actuate()
    lived.pods(chat, PodPhase.RUNNING)
    for number in range(10):
        lived.later(60)
        lived.submit(f"late-{number}", gpus=8)
        schedule.run_once(lived.wiring)
    return chat


@pytest.mark.django_db
def test_the_limit_that_replicas_had_in_stored_rounds_is_part_of_the_episode() -> None:
    world = World()
    share = {"gpu_share": {"guarantee": 0.3, "memory": "6Gi", "max_limit": 0.9}, "cpu": 1, "memory": "1Gi"}
    chat = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3}, resources=share)
    schedule.run_once(world.wiring)
    world.actuate()
    world.pods(chat, PodPhase.RUNNING)
    for limit in (300, 700, 700):
        world.later(60)
        seen = snapshot.full().workloads[str(chat.pk)]
        assert not world.decide(Scale(str(chat.pk), seen.version, 1, "so it is", limit=limit)).stale
        world.submit(f"late-{round(world.cluster.at)}", gpus=1)
        schedule.run_once(world.wiring)
    job = next(job for job in history.episode(100).jobs if job.workload.name == "chat")
    assert [limit for _, limit in job.limits] == [700]


def requests_of(found: Any) -> list[float | None]:
    return [row["before"]["requests"] for row in found["teams"] if row["team"] == "red"]


def test_requests_of_a_stored_service_are_those_of_its_stored_minutes(serving: Workload) -> None:
    assert requests_of(json.loads(said("--policy", "fifo", "--json"))) == [None]
    assert "-" in said("--policy", "fifo").splitlines()[-3].split()
    since = history.episode(100).end - 600.0
    ServiceWindow.objects.bulk_create(
        ServiceWindow(
            workload=serving.pk, start=since + 60.0 * n, replicas=1, requests_per_second=20.0, p95_seconds=0.1, over=0
        )
        for n in range(9)
    )
    assert requests_of(json.loads(said("--policy", "fifo", "--json"))) == [None]  # what a replica does is not known
    known = State(Learned(counted(np.full(4000, 0.1)), 400.0, slots=3))
    ServiceState.objects.create(workload=serving.pk, at=since, state=lawstate.plain(known))
    (found,) = requests_of(json.loads(said("--policy", "fifo", "--json")))
    job = next(job for job in history.episode(100).jobs if job.workload.name == "chat")
    assert job.service is not None
    assert job.service.seconds == pytest.approx(0.1, rel=0.1)
    assert (job.service.slots, job.service.objective, job.service.is_scaled) == (3, Within(0.2), False)
    assert found == pytest.approx(20 * 600, rel=0.1)


def test_a_service_of_the_simulated_cluster_has_the_requests_that_it_had_there(serving: Workload) -> None:
    ClusterState.objects.update_or_create(defaults={"preset": "demo load=1.2 seed=7", "seed": 7, "is_simulated": True})
    job = next(job for job in history.episode(100).jobs if job.workload.name == "chat")
    there = works.read_work(str(serving.pk), serving.spec, PROFILES, 7)
    assert job.service is not None
    assert (job.service.rate, job.service.seconds) == (there.rate, there.service.service_seconds)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"policy": {"scheduling": {"policy": "fair"}}}, "policy.scheduling.policy"),
        ({"policy": []}, "policy"),
        ({"cycles": 1}, "cycles"),
        ({"trace": "/etc/passwd"}, "trace"),
        ({"hour": 1}, "hour"),
        ([], ""),
    ],
)
def test_a_request_is_read_strictly(document: Any, field: str) -> None:
    with pytest.raises(lab.CannotBeAnsweredError) as wrong:
        lab.read_question(document)
    assert field in [error.field for error in wrong.value.errors]
