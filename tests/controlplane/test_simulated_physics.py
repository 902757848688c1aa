"""How fast things run in the simulated cluster, and what its metrics and logs say of it."""

from dataclasses import replace

import pytest

from controlplane.cluster import physics
from controlplane.cluster.physics import Layout, TrainingProfile
from controlplane.cluster.port import PodPhase
from controlplane.cluster.serving.traffic import Rate
from controlplane.cluster.simulated import START, Conditions, SimulatedCluster
from controlplane.simulator.worlds.profiles import PROFILES, named, names
from scheduler.model.workload import Kind, Level
from tests.controlplane.simulation import PROFILES as FEW
from tests.controlplane.simulation import (
    TRAINING,
    cluster,
    finish,
    gang,
    node,
    pod,
    running_seconds,
    seen,
    share,
    to_running,
    training,
)

CONSTANT = {"amplitude": 0.0, "burst_part": 0.0}


def service(base: float = 60.0, **rate: float) -> dict[str, object]:
    file = {"type": "inference", "objective": {"p95_latency": "250ms"}}
    return file | {"simulated": {"rate": {"base": base, **CONSTANT, **rate}}}


def gang_seconds(*where: str, workers: int | None = None) -> float:
    """How long a gang of 600 reference seconds makes progress at these places."""
    world = cluster()
    pods = gang("w", training(600.0, workers or len(where)), *where)
    world.start(pods)
    to_running(world, *(p.name for p in pods))
    began = world.now()
    return (finish(world, "w-1-0").ended_at or 0.0) - began


def test_closer_is_faster() -> None:
    node, rack, zone = gang_seconds("a:0", "a:1"), gang_seconds("a:0", "b:0"), gang_seconds("a:0", "c:0")
    assert 600 == node < rack < zone


def test_a_gang_is_as_fast_as_its_slowest_device() -> None:
    assert gang_seconds("a:0", "d:0") >= gang_seconds("d:0", "d:1") > 4 * gang_seconds("a:0", "a:1")


def test_fewer_workers_than_asked_for_take_longer_in_proportion_or_less() -> None:
    assert 1.8 * 600 < gang_seconds("a:0", "a:1", workers=4) <= 2 * 600


def test_without_a_model_asked_for_the_most_common_one_is_the_reference() -> None:
    world = cluster()
    file = training(600.0)
    del file["simulated"]["reference_model"]
    world.start([pod("w", file), pod("v", file, "d:0")])
    assert running_seconds(finish(world, "w-1-0")) == 600
    assert running_seconds(finish(world, "v-1-0")) == 3000  # a T4 has a fifth of an A100's speed


def test_step_times_add_up() -> None:
    layout = Layout(8, "A100", Level.RACK, cores_per_device=4.0)
    step = physics.step(TRAINING, layout)
    assert step.seconds == pytest.approx(step.compute + step.sync + step.data_wait)
    assert physics.samples_per_second(TRAINING, layout) == pytest.approx(8 * TRAINING.batch / step.seconds)


def test_more_devices_are_never_slower_in_all_and_never_better_than_linear() -> None:
    rates = [physics.samples_per_second(TRAINING, Layout(n, "A100", Level.NODE, 4.0)) for n in range(1, 9)]
    assert all(before < after for before, after in zip(rates, rates[1:], strict=False))
    assert all(rate <= (n + 1) * rates[0] for n, rate in enumerate(rates))


def test_too_little_cpu_makes_devices_wait_for_data() -> None:
    profile = TrainingProfile("p", step_seconds=0.1, input_core_seconds=0.4)
    starved, fed = (physics.step(profile, Layout(1, "A100", Level.NODE, cores)) for cores in (2.0, 8.0))
    assert starved.data_wait == pytest.approx(0.1)
    assert fed.data_wait == 0


def test_more_cpu_in_place_speeds_up_what_waits_for_data() -> None:
    world = cluster()
    file = training(600.0)
    file["simulated"]["profile"] = "t"
    world.start([pod("w", file, cpu_milli=250)])  # a quarter of a core: 0.4 s for a step of 0.25 s
    to_running(world, "w-1-0")
    world.resize("w", 1, 0, 4000, 1024)
    assert running_seconds(finish(world, "w-1-0")) == 375  # 600 x 0.25 / 0.4


@pytest.mark.parametrize("enforces", [True, False])
def test_where_shares_are_held_to_their_parts_each_pod_on_a_device_is_told_apart(enforces: bool) -> None:
    world = SimulatedCluster([replace(node("a"), enforces_limits=enforces)], Conditions(), FEW)
    world.start([pod("share", share(1.0, **training(9000.0)), milli=500, gpu_memory=8_192)])
    world.start([replace(pod("gang", training(9000.0), milli=0, gpu_memory=8_192), is_lent=True)])
    to_running(world, "share-1-0", "gang-1-0")
    told = {use.workload: use.own_duty for use in world.pods(["share", "gang"])}
    if not enforces:
        assert told == {"share": None, "gang": None}
        return
    device = next(use for use in world.gpus() if use.index == 0)
    assert 0 < told["gang"] < told["share"]
    assert told["share"] + told["gang"] <= device.duty + 1e-9
    assert world.pods(["gang"])[0].own_duty == told["gang"]  # whoever else is asked about


def test_a_share_alone_on_its_device_may_use_its_limit() -> None:
    for limit, seconds in ((1.0, 334), (0.5, 600)):
        world = cluster()
        world.start([pod("w", share(limit, **training(600.0)), milli=500)])
        assert running_seconds(finish(world, "w-1-0")) == seconds


def test_a_neighbour_takes_back_what_was_only_lent() -> None:
    world = cluster()
    world.start([pod("w", share(1.0, **training(1000.0)), milli=500)])
    to_running(world, "w-1-0")
    began = world.now()
    world.start([pod("v", share(1.0, **training(200.0)), milli=500)])
    to_running(world, "v-1-0")
    joined = world.now()
    alone, beside = 0.9 / 0.5, 1 / (1 + physics.INTERFERENCE)  # speeds against the reference
    left = (finish(world, "v-1-0").ended_at or 0) - joined
    assert left == pytest.approx(200 / beside, abs=1)
    rest = 1000 - (joined - began) * alone - left * beside
    assert finish(world, "w-1-0").ended_at == pytest.approx(world.now(), abs=1)
    assert world.now() == pytest.approx(joined + left + rest / alone, abs=2)


def test_two_replicas_of_one_service_divide_the_gpu_that_they_lie_on() -> None:
    """Each may use a whole one: apart they do; together they have what they were guaranteed, half of it."""
    told = []
    for places in (("a:0", "a:1"), ("a:0", "a:0")):
        world = cluster()
        served = service(2.0) | {"resources": {"gpu_share": {"guarantee": 0.5, "limit": 1.0}}}
        world.start([pod("s", served, where, rank=rank, milli=500) for rank, where in enumerate(places)])
        for rank in range(2):
            to_running(world, f"s-1-{rank}")
        world.advance(world.now() + 300)
        (use,) = world.services(["s"])
        assert use.p95_seconds is not None
        told.append(use.p95_seconds)
    apart, together = told
    assert together == pytest.approx(2 * apart, rel=0.25)


@pytest.mark.parametrize(
    ("demands", "guarantees", "limits", "granted"),
    [
        ((0.9, 0.9), (0.5, 0.5), (1.0, 1.0), (0.5, 0.5)),
        ((0.9, 0.1), (0.5, 0.5), (1.0, 1.0), (0.9, 0.1)),
        ((0.9, 0.1), (0.5, 0.5), (0.6, 1.0), (0.6, 0.1)),
        ((0.9, 0.9, 0.0), (0.5, 0.25, 0.25), (1.0, 1.0, 1.0), (0.5 + 1 / 6, 0.25 + 1 / 12, 0.0)),
    ],
)
def test_a_device_is_divided_by_guarantee_then_by_need(
    demands: tuple[float, ...], guarantees: tuple[float, ...], limits: tuple[float, ...], granted: tuple[float, ...]
) -> None:
    for i, part in enumerate(granted):
        assert physics.granted(i, demands, guarantees, limits) == pytest.approx(part)


def test_duty_is_what_the_devices_do() -> None:
    world = cluster()
    world.start([*gang("w", training(9000.0, workers=2), "a:0", "c:0"), pod("v", training(9000.0), "b:0")])
    to_running(world, "w-1-0", "w-1-1", "v-1-0")
    duty = {(u.node, u.index): u.duty for u in world.gpus()}
    assert duty["b", 0] == TRAINING.duty
    assert 0 < duty["a", 0] == duty["c", 0] < duty["b", 0]  # waiting for each other
    assert duty["a", 1] == 0


def test_a_person_at_a_notebook_uses_little_and_one_day_nothing() -> None:
    world = cluster()
    world.start([pod(f"n{i}", {"type": "notebook"}, f"a:{i}") for i in range(8)])
    hour: list[float] = []
    for minute in range(60):
        world.advance(START + 60 + 60 * minute)
        hour += [use.duty for use in world.gpus() if use.node == "a"]
    assert 0.05 < sum(hour) / len(hour) < 0.25
    assert hour.count(0) > len(hour) / 2
    assert max(hour) > 0.3
    world.advance(START + 3 * 86_400)
    assert all(use.duty == 0 for use in world.gpus())


def test_metrics_do_not_depend_on_who_asks_how_often() -> None:
    def answers(asked: bool) -> object:
        world = cluster()
        world.start([pod("s", service(burst_part=0.2, amplitude=0.5)), pod("w", training(9000.0), "a:1")])
        for _ in range(20):
            world.advance(world.now() + 30)
            if asked:
                world.services(["s"]), world.gpus(), world.training(["w"])
        return world.services(["s"]), world.gpus(), world.training(["w"])

    assert answers(True) == answers(False)


def test_too_few_replicas_break_the_objective_and_more_of_them_mend_it() -> None:
    world = cluster()
    world.start([pod("s", service(150.0))])  # one replica does 80 requests/s
    world.advance(START + 300)
    (slow,) = world.services(["s"])
    assert slow.requests == pytest.approx(9000, rel=0.05)
    assert slow.over_objective == slow.requests
    assert (slow.p95_seconds or 0) > 0.25
    assert (slow.queue or 0) > 100
    world.start([pod("s", service(150.0), f"a:{i}", rank=i) for i in (1, 2, 3)])
    world.advance(START + 600)
    (fast,) = world.services(["s"])
    assert (fast.p95_seconds or 1) < 0.25
    assert (fast.queue, fast.over_objective) == (0, 0)


def test_a_service_whose_last_replica_is_gone_fails_every_request() -> None:
    world = cluster()
    world.start([pod("s", service(50.0))])
    world.advance(START + 300)
    world.lose_node("a")
    world.advance(START + 400)
    (use,) = world.services(["s"])
    assert use.p95_seconds is None
    assert use.over_objective == use.requests
    assert (use.requests or 0) > 2500


def test_replicas_of_a_new_attempt_serve_the_same_address() -> None:
    world = cluster()
    world.start([pod("s", service(50.0))])
    world.advance(START + 200)
    world.lose_node("a")
    world.start([pod("s", service(50.0), "b:0", attempt=2)])
    world.advance(START + 600)
    (use,) = world.services(["s"])
    assert use.over_objective == 0


def test_requests_come_in_waves_and_bursts() -> None:
    rate = Rate("k", 100.0, amplitude=0.5, burst=3.0, burst_part=0.05)
    day = [rate.at(START + 60 * i) for i in range(1440)]
    assert 85 < sum(day) / len(day) < 130
    assert max(day) > 250
    assert min(day) < 60
    assert Rate("other", 100.0).at(START) != Rate("k", 100.0).at(START)


def test_logs_tell_the_story_of_a_job() -> None:
    world = cluster()
    file = training(300.0, fail_at=0.9, fail_attempts=1, exit_code=42)
    world.start([pod("w", file)])
    finish(world, "w-1-0")
    first = [line.text for line in world.logs("w", 1, 0, 100, None)]
    assert first[0] == "t started on a, GPU 0"
    assert first[-1] == "failed: Error, exit code 42"
    assert "checkpoint written at 80.0%" in first
    world.start([pod("w", file, attempt=2)])
    finish(world, "w-2-0")
    second = [line.text for line in world.logs("w", 2, 0, 100, None)]
    assert second[1] == "resumed at 80.0% of the work from the last checkpoint"
    assert second[-1] == "done"
    steps = [text for text in (*first, *second) if text.startswith("step ")]
    losses = [float(text.split()[3]) for text in steps]
    assert losses[0] > losses[-1]


def test_a_very_long_log_is_not_written_to_show_its_end() -> None:
    world = cluster()
    world.start([pod("w", training(1e8))])
    world.advance(START + 9e7)
    lines = world.logs("w", 1, 0, 20, None)
    assert len(lines) == 20
    assert lines[-1].at > world.now() - 120


@pytest.mark.parametrize("kind", list(Kind))
def test_each_profile_of_ours_runs(kind: Kind) -> None:
    world = cluster()
    world = type(world)(tuple(world.observe(None).nodes), profiles=PROFILES)
    for i, name in enumerate(names(kind)):
        assert named(name).name == name
        file = {"type": kind.value, "simulated": {"profile": name, "duration": 300}, "checkpoint": {"interval": "60s"}}
        world.start([pod(name, file, f"a:{i}")])
    world.advance(START + 120)
    pods = [seen(world, f"{name}-1-0") for name in names(kind)]
    assert {p.phase for p in pods} == {PodPhase.RUNNING}
    uses = [u for u in world.gpus() if u.node == "a"][: len(pods)]
    assert all(0 < u.memory <= 81_920 for u in uses)
    texts = [line.text for line in world.logs(names(kind)[0], 1, 0, 1000, None)]
    assert texts[0].startswith(names(kind)[0])


def test_logged_steps_go_on_while_the_speed_changes() -> None:
    world = cluster()
    world.start([pod("w", training(3600.0), milli=500, gpu_memory=8_192)])
    to_running(world, "w-1-0")
    for minute in range(1, 7):
        world.advance(world.now() + 120)
        if minute == 3:  # a neighbour comes: from here on it is slower
            world.start([pod("other", training(3600.0), milli=500, gpu_memory=8_192)])
    lines = [line.text for line in world.logs("w", 1, 0, 100, None) if line.text.startswith("step ")]
    steps = [int(text.split()[1]) for text in lines]
    assert len(steps) >= 10
    assert steps == sorted(set(steps))
    gains = [after - before for before, after in zip(steps, steps[1:], strict=False)]
    assert min(gains) < max(gains)
    (use,) = world.training(["w"])
    assert steps[-1] <= use.step
