"""The requests of a replayed service: who is late, and that looking at some minutes says what all of them say."""

from dataclasses import replace

import pytest

from autoscaler.bounds import Bounds
from autoscaler.latency import Within
from autoscaler.settings import Settings as Scaling
from controlplane.cluster.serving.traffic import Rate, Sizes
from controlplane.simulator.replay.comparison import Figures, compare
from controlplane.simulator.replay.course import Played
from controlplane.simulator.replay.episode import Episode
from controlplane.simulator.replay.judge import MINUTE, Judge
from controlplane.simulator.replay.playback import _Run, play
from controlplane.simulator.replay.serving import Measured, Service
from scheduler.model.settings import Settings
from scheduler.model.workload import Gang
from tests.controlplane.simulator.test_playback import episode

DAY = 86_400.0
STEADY = Rate("steady", 20.0, amplitude=0.0, burst_part=0.0, noise=0.0)
ONE = Service(STEADY, seconds=0.05, slots=4, objective=Within(0.25))  # a replica does 80 requests/s
WAVES = Rate("waves", 160.0, amplitude=0.6, period=4 * 3600.0, burst=1.8, burst_part=0.03, peak=1.0)
BUSY = Service(WAVES, 0.05, 4, sizes=Sizes("lognormal", 0.7), objective=Within(0.25), is_scaled=True)


def counted(service: Service, hours: float, numbers: list[int] | None = None) -> tuple[Judge, list[int]]:
    """The autoscaler alone with a service; its replicas start half a minute after they are wanted.

    With numbers of replicas, minute by minute, those are taken instead, and every minute is looked at.
    """
    judge, chosen = Judge(service, DAY, is_thorough=numbers is not None), [2]
    judge.place(DAY, ("0", "1"), 30.0)
    for minute in range(1, round(hours * 60) + 1):
        at = DAY + minute * MINUTE
        judge.to(at)
        chosen.append(numbers[minute] if numbers else judge.wanted(at, chosen[-1], Bounds(1, 8), Scaling())[0])
        judge.place(at, [str(number) for number in range(chosen[-1])], 30.0)
    return judge, chosen


@pytest.mark.parametrize("key", ["dawn", "noon", "dusk"])
def test_some_minutes_say_of_late_requests_and_p95_what_all_minutes_say(key: str) -> None:
    service = replace(BUSY, rate=replace(WAVES, key=key))
    judge, numbers = counted(service, 6)
    some, all_ = judge.tally, counted(service, 6, numbers)[0].tally
    assert all_.requests > 3_000_000
    assert some.late_ratio == pytest.approx(all_.late_ratio, rel=0.05, abs=0.0005)
    assert some.requests == pytest.approx(all_.requests, rel=0.01)
    assert some.p95_seconds == pytest.approx(all_.p95_seconds, rel=0.05)


def test_the_same_key_gives_the_same_requests() -> None:
    first, second = (counted(BUSY, 1)[0].tally for _ in range(2))
    assert (first.requests, first.late, first.p95_seconds) == (second.requests, second.late, second.p95_seconds)
    other = counted(replace(BUSY, rate=replace(WAVES, key="other")), 1)[0].tally
    assert other.requests != first.requests


def test_nothing_comes_before_the_first_replica_and_all_is_refused_while_none_serves() -> None:
    judge = Judge(ONE, DAY)
    judge.to(DAY + 60)
    assert judge.tally.requests == 0
    judge.place(DAY + 60, ["0"], 30.0)
    judge.to(DAY + 120)
    assert judge.tally.requests == pytest.approx(600, rel=0.2)  # of half a minute
    assert judge.tally.late == 0
    judge.place(DAY + 120, [], 30.0)
    for minute in range(3, 6):
        judge.to(DAY + 60 * minute)
    assert judge.tally.late == pytest.approx(3600, rel=0.1)


def test_measured_rates_are_followed_in_straight_lines() -> None:
    measured = Measured("k", (0.0, 60.0, 120.0), (10.0, 20.0, 0.0))
    assert [measured.at(at) for at in (-1.0, 0.0, 30.0, 90.0, 500.0)] == [10.0, 10.0, 15.0, 10.0, 0.0]
    judge = Judge(replace(ONE, rate=Measured("k", (DAY,), (20.0,)), since=DAY - 1), DAY)
    judge.place(DAY, ["0"], 0.0)
    judge.to(DAY + 60)
    assert judge.tally.requests == pytest.approx(1200, rel=0.1)


WORLD = """
    at 86400
    node a 8 gpus
    team red nominal 8   team blue
    web red inference 1 x 2 running a:0 a:1 started 100
    j1 red training 2 since 86400
"""


def figures(played: Played) -> dict[str, Figures]:
    return {f.team: f for f in compare(played, played).before}


def with_service(world: Episode, service: Service) -> Episode:
    """The world's service has these requests, and one to six replicas."""
    web, rest = world.jobs[0], world.jobs[1:]
    scaling = replace(web.workload, gang=Gang(2, 1, 6))
    return replace(world, jobs=(replace(web, workload=scaling, service=service), *rest))


def test_a_replay_counts_requests_by_team_and_says_not_known_where_no_traffic_is_known() -> None:
    world = episode(WORLD, web=None)
    assert figures(play(world, Settings()))["red"].requests is None
    found = figures(play(with_service(world, replace(ONE, since=100.0)), Settings()))
    assert found["red"].requests == pytest.approx(20 * 3600, rel=0.02)
    assert (found["red"].late_percent, found["all"]) == (0.0, replace(found["red"], team="all"))
    assert found["red"].p95_seconds == pytest.approx(0.05, rel=0.03)


def test_the_autoscaler_decides_in_a_replay_unless_resizes_are_recorded() -> None:
    world = episode(WORLD, web=None)
    overrun = replace(ONE, rate=replace(STEADY, base=250.0), since=100.0)
    scaled, kept = (
        figures(play(with_service(world, replace(overrun, is_scaled=is_scaled)), Settings()))["red"]
        for is_scaled in (True, False)
    )
    assert kept.late_percent is not None
    assert scaled.late_percent is not None
    assert kept.late_percent > 90
    assert scaled.late_percent < 15
    assert scaled.allocated_gpu_hours > kept.allocated_gpu_hours


def test_a_slower_autoscaler_has_more_late_requests() -> None:
    world = with_service(episode(WORLD, web=None, hours=3), replace(BUSY, since=100.0))
    quick, slow = (
        figures(play(world, Settings(), scaling=scaling))["red"].late_percent
        for scaling in (Scaling(), Scaling(tail=0.0, horizon_seconds=0.0, queue_seconds=3600.0))
    )
    assert quick is not None
    assert slow is not None
    assert slow > quick


# --- limits that grow ------------------------------------------------------------------------------

SHARED = """
    at 86400
    node a 1 gpus
    team red nominal 1   team blue
    web red inference share 0.3 limit 0.3 x 1 running a:0 started 100
    nb red notebook share 0.2 running a:0 started 100
"""
# 50 requests a second of 0.1 s, four at once, on its guarantee of 0.3: with one replica it cannot keep up, with twice
# the limit it can.
GROWING = Service(
    replace(STEADY, base=50.0), seconds=0.1, slots=4, objective=Within(0.5), since=100.0, is_scaled=True,
    measured_at=300, limits=(300, 900),
)  # fmt: skip


def of_one(world: Episode, service: Service) -> Episode:
    """The world's service has these requests, and begins with one replica."""
    web, *rest = with_service(world, service).jobs
    return replace(world, jobs=(replace(web, workload=replace(web.workload, gang=Gang(1, 1, 6))), *rest))


def limits_of(world: Episode, scaling: Scaling | None = None) -> tuple[Figures, list[int]]:
    """The figures of red, and the limits that its service had, in their order."""
    run = _Run(world, Settings(), scaling or Scaling(young_seconds=0.0))
    seen = []
    while run.step():
        web = run.snapshot.workloads.get("web")
        share = web.ask.share if web else None
        if share and (not seen or seen[-1] != share.limit):
            seen.append(share.limit)
    run.close()
    return figures(Played(world, tuple(run.courses.values()), run.rounds))["red"], seen


def test_a_limit_that_may_be_raised_is_raised_in_a_replay_before_another_replica() -> None:
    world = episode(SHARED, web=None, nb=None)
    fixed, one = limits_of(of_one(world, replace(GROWING, limits=None)))
    raised, several = limits_of(of_one(world, GROWING))
    assert one == [300]
    assert several[0] == 300
    assert 300 < max(several) <= 800, "up to what its GPU does not guarantee to the notebook"
    assert raised.late_percent is not None
    assert fixed.late_percent is not None
    assert raised.late_percent < fixed.late_percent
    assert raised.allocated_gpu_hours < 0.7 * fixed.allocated_gpu_hours


def test_a_limit_is_raised_where_it_is_enforced_only() -> None:
    world = episode(SHARED, web=None, nb=None)
    advisory = replace(world, nodes=tuple(replace(node, enforces_limits=False) for node in world.nodes))
    assert limits_of(of_one(advisory, GROWING))[1] == [300]


def test_limits_that_were_recorded_are_followed_and_make_requests_faster() -> None:
    world = of_one(episode(SHARED, web=None, nb=None), replace(GROWING, is_scaled=False))
    web, *rest = world.jobs
    as_it_was, later = (
        replace(world, jobs=(replace(web, limits=limits), *rest)) for limits in ((), ((world.start + 600.0, 600),))
    )
    slow, (quick, seen) = limits_of(as_it_was)[0], limits_of(later)
    assert seen == [300, 600]
    assert slow.late_percent is not None
    assert quick.late_percent is not None
    assert quick.late_percent < 0.5 * slow.late_percent


@pytest.mark.parametrize(("over", "gpus", "is_slow"), [("", 1, True), ("gpu", 2, False)])
def test_replicas_of_one_service_are_packed_or_spread_in_a_replay_and_divide_a_gpu(
    over: str, gpus: int, is_slow: bool
) -> None:
    world = episode(f"""
        at 86400
        node a 2 gpus
        team red nominal 2   team blue
        web red inference share 0.5 limit 1.0 x 2 since 86400 {f"spread {over}" if over else ""}
    """, web=None)  # fmt: skip
    service = replace(GROWING, rate=replace(STEADY, base=20.0), measured_at=500, limits=(1000, 1000), is_scaled=False)
    (web,) = world.jobs
    run = _Run(replace(world, jobs=(replace(web, service=service),)), Settings(), Scaling())
    while run.step():
        pass
    there = {(a.node, a.gpus) for a in run.snapshot.workloads["web"].placement}
    assert len(there) == gpus
    run.close()
    (course,) = run.courses.values()
    assert course.tally is not None
    p95 = course.tally.p95_seconds
    assert p95 is not None
    assert (p95 > 0.08) is is_slow
