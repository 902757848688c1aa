"""The benchmark `fairness`: jobs out of demand, the loop around the core, and what it judges."""

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.scheduling.fairness import errors
from controlplane.simulator.replay.sharing import Mean, Outcome, Sample, Sharing
from controlplane.simulator.worlds import helios
from controlplane.simulator.worlds.helios import Demand, HeliosJob
from controlplane.simulator.worlds.presets import PresetError
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

HEADER = ",".join(helios.COLUMNS)
DAY = 86_400.0


def write(path: Path, *lines: str) -> Path:
    with gzip.open(path, "wt") as file:
        file.write("\n".join((HEADER, *lines)))
    return path


def world(
    jobs: list[HeliosJob],
    until: float,
    settings: Settings = Settings(),  # noqa: B008
    nominal: int = 2,
    gpus: int = 4,
) -> Outcome:
    """Two teams that own `nominal` GPUs each, on one node of `gpus`."""
    node = Node("a", "gpu", "gpu", gpus, 16_000, 64_000, 64_000)
    quotas = [Quota(team, "gpu", nominal * 1000) for team in ("blue", "red")]
    return Sharing([node], [Team("blue"), Team("red")], quotas, settings).run(jobs, until, lambda part: None)


def test_demand_is_read_by_team_with_what_waits(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv.gz", "v,2020-05-01 00:00,16,7.5,2,3,1", "v,2020-05-01 00:10,16,8,0,3,0")
    assert helios.read_demand(path) == {"v": Demand(16, [9.5, 8.0], [4.0, 3.0])}


def test_a_file_that_lacks_a_column_is_named_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("vc,time\nv,0")
    with pytest.raises(PresetError, match="has no column total_gpus"):
        helios.read_demand(path)


def test_jobs_add_up_to_the_demand_at_every_step() -> None:
    gpus = [3.0, 10.0, 10.0, 4.0, 0.0, 6.0]
    demand = {"v": Demand(16, gpus, [1.0, 3.0, 3.0, 2.0, 0.0, 2.0])}
    jobs = helios.jobs(demand, seed=1)
    for step, wanted in enumerate(gpus):
        end = (step + 1) * helios.STEP  # all that happens within the step has happened
        held = sum(job.gpus for job in jobs if job.at < end <= job.at + job.seconds)
        assert wanted <= held < wanted + max(job.gpus for job in jobs)
    assert all(a.at <= b.at for a, b in pairwise(jobs))
    assert jobs == helios.jobs(demand, seed=1) != helios.jobs(demand, seed=2)


def test_the_cluster_and_its_quotas_are_200_gpus() -> None:
    demand = {"a": Demand(64, [], []), "b": Demand(16, [], [])}
    assert sum(node.gpus for node in helios.nodes()) == 200
    assert {q.team: q.nominal for q in helios.quotas(demand)} == {"a": 160_000, "b": 40_000}


def test_a_mean_decays_by_half_in_a_half_life() -> None:
    mean = Mean(100.0)
    mean.update(0.0, 8.0)
    assert mean.update(100.0, 0.0) == pytest.approx(4.0)
    assert mean.update(200.0, 0.0) == pytest.approx(2.0)


def test_who_is_owed_gets_it_back_within_minimum_run_time_and_grace() -> None:
    jobs = [HeliosJob("red", 0.0, 1, DAY)] * 4 + [HeliosJob("blue", 1000.0, 2, 600.0)]
    seen = world(jobs, 3000.0)
    assert seen.waits["blue"] == [30.0]
    assert seen.evictions == {"Reclaimed": 2}
    assert (seen.unfair, seen.ended) == (set(), 1)


def test_a_scheduler_that_does_not_take_back_is_found_out() -> None:
    jobs = [HeliosJob("red", 0.0, 1, DAY)] * 4 + [HeliosJob("blue", 1000.0, 2, 600.0)]
    assert world(jobs, 3000.0, Settings(max_victims=0)).unfair == {"4"}


def test_a_wait_for_a_job_that_a_team_may_keep_is_unfair_only_strictly_taken() -> None:
    jobs = [HeliosJob("red", 0.0, 4, DAY), HeliosJob("blue", 1000.0, 2, 600.0)]
    seen = world(jobs, 3000.0)
    assert (seen.unfair, seen.unfair_strictly) == (set(), {"1"})


def test_a_team_has_what_it_owns_while_its_own_first_in_line_waits_to_borrow() -> None:
    running = [HeliosJob("red", 0.0, 1, DAY), *[HeliosJob("blue", 0.0, 1, DAY)] * 3]
    seen = world([*running, HeliosJob("red", 10.0, 4, 600.0), HeliosJob("red", 2000.0, 1, 600.0)], 3000.0)
    assert (seen.waits["red"], seen.unfair) == ([0.0, 30.0], set())


@pytest.mark.parametrize(("patience", "starts"), [(DAY, True), (30 * DAY, False)])
def test_a_gang_that_its_own_team_overtakes_on_and_on_starts_once_it_waited_for_a_day(
    patience: float, starts: bool
) -> None:
    """Blue holds one more than it owns, and red's jobs of one GPU come so that its two are never free at once."""
    small = [HeliosJob("red", 3600.0 * hour, 1, 7200.0) for hour in range(60)]
    jobs = [HeliosJob("blue", 0.0, 3, 9 * DAY), *small, HeliosJob("red", 5000.0, 2, 600.0)]
    jobs.sort(key=lambda job: job.at)
    seen = world(jobs, 2.5 * DAY, Settings(overtaken_seconds=patience), gpus=5)
    longest = max(seen.waits["red"])
    assert (DAY < longest < DAY + 7200.0) is starts
    assert seen.evictions.get("Preempted", 0) <= 2
    assert seen.unfair == set()


_jobs = st.builds(
    HeliosJob,
    team=st.sampled_from(["blue", "red"]),
    at=st.sampled_from([0.0, 60.0, 1000.0, 2000.0, 4000.0]),
    gpus=st.sampled_from([1, 1, 1, 2, 3, 4]),
    seconds=st.sampled_from([30_000.0, 3000.0, 300.0]),
)


@given(st.lists(_jobs, min_size=4, max_size=12).map(lambda jobs: sorted(jobs, key=lambda job: job.at)))
@settings(max_examples=60, deadline=None)
def test_nobody_waits_for_what_its_team_owns_while_another_borrows(jobs: list[HeliosJob]) -> None:
    assert world(jobs, 2 * 3600.0).unfair == set()


def test_what_was_made_to_leave_goes_on_where_it_was() -> None:
    jobs = [HeliosJob("red", 0.0, 4, 2000.0), HeliosJob("blue", 1000.0, 2, 600.0)]
    quota_free = world(jobs, 5000.0, nominal=4)
    assert quota_free.ended == 2
    early = world([HeliosJob("red", 0.0, 2, 2000.0), HeliosJob("red", 0.0, 1, 2000.0), jobs[1]], 2089.0)
    late = world([HeliosJob("red", 0.0, 2, 2000.0), HeliosJob("red", 0.0, 1, 2000.0), jobs[1]], 2800.0)
    assert (early.evictions, early.ended, late.ended) == ({"Reclaimed": 1}, 2, 3)


def test_decayed_use_follows_entitlement_where_both_always_want_more() -> None:
    jobs = [HeliosJob(team, 0.0, 1, 30 * DAY) for team in ("red", "blue") for _ in range(4)]
    seen = world(jobs, 4 * DAY, Settings(use_half_life_seconds=DAY))
    found = errors(seen, DAY, is_covered=True)
    assert len(found) == 2 * 73
    assert max(found) < 1.0


def test_only_hours_after_a_half_life_of_enough_demand_are_judged() -> None:
    samples = [Sample(DAY * n, "red", 0.0, 1000.0, 500.0, covered_since=DAY) for n in (0.5, 1.5, 2.0)]
    seen = Outcome(4000, samples)
    assert errors(seen, DAY, is_covered=False) == [25.0, 25.0]
    assert errors(seen, DAY, is_covered=True) == [25.0]
    assert errors(seen, DAY, is_covered=True, is_plain=True) == [12.5]


def test_without_the_shared_data_the_benchmark_stops_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="Set WEFT_DATA to the folder"):
        BENCHMARKS["fairness"](Options(tmp_path), lambda part, text: None)
