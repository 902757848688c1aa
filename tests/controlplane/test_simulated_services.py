"""The services of the simulated cluster: the same requests for every reader, process and restart."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from autoscaler.latency import FIRST_TOKEN, Within
from controlplane.cluster.serving.outcomes import BOUNDS
from controlplane.cluster.simulated import START, SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.exporter import Exporter
from controlplane.simulator.worlds.profiles import PROFILES
from tests.controlplane.simulation import cluster, pod

FILE = {
    "type": "inference",
    "objective": {"p95_latency": "150ms"},
    "simulated": {"rate": {"base": 90.0, "amplitude": 0.5, "period": 1800.0, "burst_part": 0.1}},
}


def told(world: SimulatedCluster) -> tuple[object, ...]:
    """All that is to be seen of the service."""
    answered = {uid: vars_of(totals) for uid, totals in world.answered(["s"]).items()}
    logs = [world.logs("s", attempt, 0, 50, None) for attempt in (1, 2)]
    return world.services(["s"]), answered, world.gpus(), logs


def vars_of(totals: object) -> list[object]:
    return [getattr(totals, name) for name in ("answered", "refused", "failed", "within")]


def live(
    world: SimulatedCluster, again: Callable[[SimulatedCluster], SimulatedCluster], looks: bool, step: float
) -> SimulatedCluster:
    """An hour of a service whose replicas come, leave and break; `again` may exchange the cluster's instance."""
    world.start([pod("s", FILE)])
    deeds = {
        600.0: lambda w: w.start([pod("s", FILE, f"{'ab'[i % 2]}:{i}", rank=i) for i in (1, 2)]),
        1500.0: lambda w: w.stop("s", 1, [0], 5.0),
        2100.0: lambda w: w.lose_gpu("b", 1),
        2400.0: lambda w: w.stop("s", 1, [2], 5.0),
        2700.0: lambda w: w.start([pod("s", FILE, "c:0", attempt=2)]),
    }
    for number in range(1, round(3600 / step) + 1):
        at = number * step
        world.advance(START + at)
        if at in deeds:
            deeds[at](world)
        if looks:
            told(world)
        world = again(world)
    return world


def test_requests_do_not_depend_on_who_looks_when_nor_on_how_time_passes() -> None:
    rare = live(cluster(), lambda world: world, looks=False, step=300.0)
    often = live(cluster(), lambda world: world, looks=True, step=60.0)
    assert told(rare) == told(often)


def test_a_cluster_that_was_restarted_goes_on_with_the_same_requests(tmp_path: Path) -> None:
    files: list[ClusterStore] = [ClusterStore(tmp_path / "cluster.sqlite3")]

    def restarted(world: SimulatedCluster) -> SimulatedCluster:
        files[-1].close()
        files.append(ClusterStore(tmp_path / "cluster.sqlite3"))
        return cluster(files[-1])

    kept = live(cluster(files[0]), restarted, looks=True, step=300.0)
    alone = live(cluster(), lambda world: world, looks=False, step=300.0)
    assert told(kept) == told(alone)
    files[-1].close()


def test_two_instances_of_one_cluster_see_the_same_requests(tmp_path: Path) -> None:
    stores = [ClusterStore(tmp_path / "cluster.sqlite3") for _ in range(2)]
    writer, reader = (cluster(store) for store in stores)

    def both_agree(world: SimulatedCluster) -> SimulatedCluster:
        assert told(world) == told(reader)
        return world

    live(writer, both_agree, looks=False, step=60.0)
    stores.append(ClusterStore(tmp_path / "cluster.sqlite3"))
    assert told(cluster(stores[-1])) == told(writer)
    for store in stores:
        store.close()


def test_what_is_kept_of_a_service_stays_small(tmp_path: Path) -> None:
    store = ClusterStore(tmp_path / "cluster.sqlite3")
    world = cluster(store)
    overrun = {**FILE, "simulated": {"rate": {"base": 400.0, "amplitude": 0.0}}}
    world.start([pod("s", overrun)])
    for _ in range(24):
        world.advance(world.now() + 300.0)
    (use,) = world.services(["s"])
    assert use.queue > 2000
    ((size,),) = sqlite3.connect(tmp_path / "cluster.sqlite3").execute(
        "SELECT length(body) FROM row WHERE kind = 'service'"
    )
    assert size < 8_000
    store.close()


def test_a_file_that_an_older_version_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite3"
    store = ClusterStore(path)
    world = cluster(store)
    world.start([pod("s", FILE)])
    world.advance(START + 900.0)
    store.close()
    file = sqlite3.connect(path)
    ((body,),) = file.execute("SELECT body FROM row WHERE kind = 'service'")
    uid, attempt, spec, history, *_ = json.loads(body)
    older = json.dumps([uid, attempt, spec, [capacity[:4] for capacity in history]])
    file.execute("UPDATE row SET body = ? WHERE kind = 'service'", [older])
    file.commit()
    file.close()
    store = ClusterStore(path)
    world = cluster(store)
    world.advance(START + 1200.0)
    (use,) = world.services(["s"])
    assert use.requests > 0
    assert use.p95_seconds is not None
    store.close()


def test_the_histogram_is_of_the_requests_that_the_p95_is_of() -> None:
    world = cluster()
    world.start([pod("s", FILE)])
    world.advance(START + 540.0)
    page = CollectorRegistry()
    page.register(Exporter(world))
    before = counted(page)
    world.advance(START + 600.0)
    after = counted(page)
    (use,) = world.services({"s": Within(0.15)})
    in_window = {le: after[le] - before[le] for le in after}
    total = in_window[float("inf")]
    failed = use.requests - total
    assert 0 <= failed <= use.over_objective
    assert use.p95_seconds is not None
    above = min(bound for bound in BOUNDS if bound >= use.p95_seconds)
    below = max(bound for bound in BOUNDS if bound < use.p95_seconds)
    assert in_window[1000 * above] >= 0.95 * total > in_window[1000 * below]


def test_a_service_may_be_held_to_its_first_tokens_from_now_on() -> None:
    world = cluster()
    world.start([pod("s", FILE)])
    world.advance(START + 600.0)
    (answers,) = world.services({"s": Within(0.15)})
    (firsts,) = world.services({"s": Within(0.15, FIRST_TOKEN)})
    assert (firsts.requests, firsts.queue) == (answers.requests, answers.queue)
    assert firsts.p95_seconds < answers.p95_seconds
    assert firsts.over_objective < answers.over_objective
    assert world.scrapes(["s"])["s"].first is not None
    (again,) = world.services({"s": Within(0.15)})
    assert again == answers
    assert world.scrapes(["s"])["s"].first is None


def counted(page: CollectorRegistry) -> dict[float, float]:
    """Answered requests by bound, in milliseconds."""
    return {
        float(sample.labels["le"]): sample.value
        for family in page.collect()
        for sample in family.samples
        if sample.name == "istio_request_duration_milliseconds_bucket"
    }


def test_a_day_that_is_jumped_over_has_requests_at_its_end_only() -> None:
    world = cluster()
    world.start([pod("s", FILE)])
    world.advance(START + 600.0)
    before = world.answered(["s"])["s"].answered
    world.advance(START + 86_400.0)
    more = world.answered(["s"])["s"].answered - before
    assert 0 < more < 2000 * 90
    (use,) = world.services(["s"])
    assert use.requests > 0


def test_a_service_without_replicas_loses_its_clients_after_a_while() -> None:
    world = cluster()
    world.start([pod("s", FILE)])
    world.advance(START + 600.0)
    world.stop("s", 1, [0], 5.0)
    world.advance(START + 720.0)
    (refused,) = world.services(["s"])
    assert refused.requests == refused.over_objective > 0
    assert refused.p95_seconds is None
    world.advance(START + 1800.0)
    (quiet,) = world.services(["s"])
    assert (quiet.requests, quiet.queue) == (0, 0)


@pytest.mark.parametrize("profile", ["chat-like", "vision-like", "ranker-like", "speech-like-service"])
def test_each_service_of_ours_answers_within_its_objective_at_its_usual_load(profile: str) -> None:

    world = SimulatedCluster(cluster().observe(None).nodes, profiles=PROFILES)
    file = {"type": "inference", "objective": {"p95_latency": "250ms"}, "replicas": {"max": 4}}
    file |= {"simulated": {"profile": profile, "rate": {"amplitude": 0.0, "burst_part": 0.0}}}
    world.start([pod("s", file, f"a:{rank}", rank=rank) for rank in range(4)])
    world.advance(START + 600.0)
    (use,) = world.services(["s"])
    assert use.p95_seconds is not None
    assert use.p95_seconds < 0.25
    assert use.over_objective < 0.02 * use.requests
