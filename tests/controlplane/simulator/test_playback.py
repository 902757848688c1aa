"""A fast replay: the real decisions, simple physics, figures per team."""

from dataclasses import replace

import pytest

from controlplane.domain.policy import Policy
from controlplane.simulator.replay.comparison import ALL, Figures, compare
from controlplane.simulator.replay.course import Course, Played
from controlplane.simulator.replay.episode import Episode, Job, of_preset
from controlplane.simulator.replay.overrides import OverrideError, Overrides, changed_episode, changed_policy
from controlplane.simulator.replay.playback import _Run, play
from controlplane.simulator.worlds.presets import START, Arrival, Pool, Preset
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Use
from scheduler.model.workload import Kind
from tests.worlds import parse

WEFT = Settings()


def episode(text: str, hours: float = 1.0, seconds: float | None = 600.0, **own: float | None) -> Episode:
    """The world as an episode; what is pending comes at its `since`. Running time by id, else `seconds`."""
    world: Snapshot = parse(text)
    jobs = [
        Job(w, max(world.at, w.queued_at) if not w.placement else world.at, own.get(w.id, seconds))
        for w in world.workloads.values()
    ]
    jobs.sort(key=lambda j: (j.at, j.workload.seq))
    nodes = world.inventory.nodes
    return Episode("test", world.at, world.at + hours * 3600, nodes, world.teams, world.quotas, tuple(jobs))


def courses(played: Played) -> dict[str, Course]:
    return {c.job.workload.id: c for c in played.courses}


def figures(played: Played) -> dict[str, Figures]:
    return {f.team: f for f in compare(played, played).before}


def test_work_starts_runs_for_its_time_and_makes_room_for_the_next() -> None:
    world = episode("""
        at 1000
        node a 1 gpus
        team red nominal 1
        j1 red training 1 since 1000
        j2 red training 1 since 1000
    """)
    found = courses(play(world, WEFT))
    first, second = found["j1"], found["j2"]
    # 20 s to start, 600 s of work; the other follows in the next slot of 5 s.
    assert (first.first_start, first.ended) == (1000, 1620)
    assert (second.first_start, second.ended) == (1625, 2245)
    assert figures(play(world, WEFT))[ALL].wait_p95_seconds == pytest.approx(594, abs=1)


def test_what_had_its_places_at_the_start_has_no_wait_and_what_never_starts_waits_to_the_end() -> None:
    world = episode(
        """
        at 1000
        node a 1 gpus
        team red nominal 1
        r1 red training 1 running a started 500
        j1 red training 1 since 1000
    """,
        r1=None,
    )
    row = figures(play(world, WEFT))["red"]
    assert (row.jobs, row.started, row.ended) == (2, 1, 0)
    assert row.wait_p50_seconds == row.wait_p95_seconds == 3600
    assert row.utilisation_percent == pytest.approx(100)


def test_an_evicted_job_keeps_its_work_only_if_it_writes_checkpoints() -> None:
    text = """
        at 1000
        node a 1 gpus
        team red nominal 1
        low red training 1 running a started 500
        high red training 1 priority 100 since 1400
    """
    world = episode(text, low=1000.0, high=100.0)
    bare = courses(play(world, WEFT))["low"]
    saving = tuple(replace(j, workload=replace(j.workload, checkpoint_interval=60.0)) for j in world.jobs)
    saved = courses(play(replace(world, jobs=saving), WEFT))["low"]
    assert bare.preemptions == saved.preemptions == 1
    assert bare.lost_seconds == pytest.approx(405)
    assert saved.lost_seconds == 0
    assert bare.ended is not None
    assert saved.ended is not None
    assert bare.ended - saved.ended == pytest.approx(405)


def test_an_elastic_gang_is_as_fast_as_it_has_workers() -> None:
    world = episode("""
        at 1000
        node a 2 gpus
        team red nominal 2
        e1 red training 1 x 1..4 since 1000
    """)
    found = courses(play(world, WEFT))["e1"]
    assert found.ended == 1000 + 20 + 1200


def test_partial_gangs_hold_without_progress_until_the_youngest_is_killed() -> None:
    world = episode("""
        at 1000
        node a 4 gpus
        team red nominal 4
        g1 red training 1 x 4 since 1000
        g2 red training 1 x 4 since 1000
    """)
    played = play(world, Settings(policy="native-k8s"))
    found = courses(played)
    assert found["g2"].preemptions == 1
    # Both hold two GPUs from 1000 on; the dead-lock ends in the first round 300 s later.
    assert found["g1"].first_start == pytest.approx(1305, abs=65)
    assert found["g1"].ended is not None
    row = figures(played)["red"]
    assert row.allocated_gpu_hours > row.used_gpu_hours
    whole = play(world, Settings(policy="k8s+gang"))
    assert courses(whole)["g1"].first_start == 1000


def test_a_service_keeps_the_wanted_replicas_and_a_withdrawn_job_has_no_wait() -> None:
    world = episode(
        """
        at 1000
        node a 4 gpus
        team red nominal 4
        web red inference 1 x 3 running a:0 a:1 a:2 started 100
        j1 red training 2 since 1000
    """,
        web=None,
    )
    web = replace(world.jobs[0], resizes=((1600.0, 1),))
    assert web.workload.kind is Kind.INFERENCE
    gone = replace(world.jobs[1], withdrawn=1300.0)
    found = courses(play(replace(world, jobs=(web, world.jobs[1])), WEFT))
    assert found["j1"].first_start == pytest.approx(1635, abs=10)
    row = figures(play(replace(world, jobs=(web, gone)), WEFT))["red"]
    assert (row.started, row.wait_p50_seconds) == (1, None)


def test_a_claimant_starts_when_its_victims_have_left() -> None:
    world = episode(
        """
        at 1000
        node a 2 gpus
        team red nominal 2   team blue nominal 0
        b1 blue training 1 x 2 running a started 100
        j1 red training 2 since 1000
    """,
        b1=None,
    )
    found = courses(play(world, WEFT))
    assert found["b1"].preemptions == 1
    assert found["j1"].first_start == 1000 + 30  # the grace


def test_the_same_episode_gives_the_same_courses() -> None:
    world = of_preset(tiny(), hours=1, max_jobs=50)
    assert repr(play(world, WEFT)) == repr(play(world, WEFT))
    assert len(world.jobs) == 10


def tiny() -> Preset:
    """Ten jobs that a trace brings, one of them for a team that there is not."""
    world = parse("node a 4 gpus   team red nominal 4")

    def job(number: int, team: str) -> dict[str, object]:
        return {
            "type": "training", "name": f"j{number}", "team": team, "image": "x/y:1",
            "resources": {"gpus": 1}, "simulated": {"duration": 60.0},
        }  # fmt: skip

    arrivals = [Arrival(START + i * 60, (job(i, "red" if i != 3 else "none"),), "x") for i in range(11)]
    return Preset("tiny", 1.0, 0, world.inventory.nodes, (Pool("gpu", "gpu"),), world.teams, world.quotas, arrivals)


def test_an_episode_of_a_trace_leaves_out_what_the_product_would_refuse() -> None:
    found = of_preset(tiny(), hours=1, max_jobs=50)
    assert [j.workload.name for j in found.jobs] == [f"j{i}" for i in range(11) if i != 3]
    assert all(j.seconds == 60 for j in found.jobs)
    assert of_preset(tiny(), hours=1, max_jobs=3).end == START + 120


def test_quotas_and_nodes_are_replaced_and_added() -> None:
    world = episode("""
        node a,b 2 gpus
        team red nominal 4   team blue
        r1 red training 1 running b
    """)
    other = changed_episode(
        world,
        Overrides(
            quotas=[{"team": "red", "pool": "gpu", "nominal_milli": 1000, "borrowing_limit_milli": 0}],
            nodes={"add": [{"like": "a", "count": 2, "gpus": 8}], "remove": ["b"]},
        ),
    )
    assert [(n.name, n.gpus) for n in other.nodes] == [("a", 2), ("added-0", 8), ("added-1", 8)]
    assert [(q.team, q.nominal, q.borrowing) for q in other.quotas if q.team == "red"] == [("red", 1000, 0)]
    assert not other.jobs[0].workload.placement  # its node is gone: it waits first


@pytest.mark.parametrize(
    ("overrides", "field", "sentence"),
    [
        (
            Overrides(quotas=[{"team": "rde", "pool": "gpu", "nominal_milli": 1000}]),
            "quotas[0].team",
            "Did you mean red?",
        ),
        (Overrides(quotas=[{"team": "red", "pool": "gpu"}]), "quotas[0].nominal_milli", "is missing"),
        (Overrides(quotas=[{"team": "red", "pool": "gpu", "nominal_milli": -1}]), "quotas[0].nominal_milli", "least 0"),
        (Overrides(quotas={"team": "red"}), "quotas", "Give a list of quotas."),  # type: ignore[arg-type]
        (Overrides(nodes={"remove": ["z"]}), "nodes.remove[0]", "there is no node"),
        (Overrides(nodes={"add": [{"like": "z"}]}), "nodes.add[0].like", "Name one that there is."),
        (Overrides(nodes={"add": [{"like": "a", "gpu": 4}]}), "nodes.add[0].gpu", "Did you mean gpus?"),
        (Overrides(nodes={"more": []}), "nodes", "the lists add and remove"),
    ],
)
def test_a_bad_document_names_the_field_and_the_fix(overrides: Overrides, field: str, sentence: str) -> None:
    with pytest.raises(OverrideError) as wrong:
        changed_episode(episode("node a 2 gpus   team red nominal 2"), overrides)
    (error,) = wrong.value.errors
    assert error.field == field
    assert sentence in error.message


def test_settings_that_are_left_out_stay_as_they_are() -> None:
    base = Policy(Settings(restart_seconds=90.0))
    other = changed_policy(base, {"scheduling": {"policy": "native-k8s"}})
    assert (other.scheduling.restart_seconds, other.scheduling.policy) == (90.0, "native-k8s")
    with pytest.raises(OverrideError, match=r"scheduling\.max_victims is 0\. Use a number from 1"):
        changed_policy(base, {"scheduling": {"max_victims": 0}})


def test_decayed_use_goes_on_from_the_episode_s_start() -> None:
    world = episode(
        """
        at 1000
        node a 4 gpus
        team red nominal 2   team blue nominal 2
        r1 red training 2 running a started 100
        j1 blue training 2 since 3000
    """,
        hours=2,
        r1=None,
        j1=None,
    )
    rules = replace(WEFT, use_half_life_seconds=600.0)
    run = _Run(replace(world, use=(Use("blue", "gpu", 4000),)), rules)
    while run.step():
        pass
    use = {one.team: one.milli for one in run.snapshot.use}
    assert use["red"] == pytest.approx(2000, abs=300)
    assert 0 < use["blue"] < 2500
