"""The demo's demand follows the hours: LOAD is what the busiest hours ask, the mean over a week is 0.7 of it."""

import math
from collections import defaultdict
from itertools import takewhile
from statistics import fmean

import numpy as np
import pytest

from controlplane.cluster.physics import MODEL_SPEED
from controlplane.cluster.serving.traffic import Rate
from controlplane.jobspec.spec import parse
from controlplane.simulator.worlds import demo, profiles
from controlplane.simulator.worlds.demand import Demand, mean_seconds
from controlplane.simulator.worlds.hours import DAY, HOUR, MEAN, part
from controlplane.simulator.worlds.presets import START, Arrival

GPUS = sum(node.gpus for node in demo.nodes())
WEEK = 7 * DAY


def asked(demand: Demand, until: float) -> dict[int, float]:
    """GPU hours of the work that comes in each hour, as its job files say."""
    hours: dict[int, float] = {}
    for arrival in takewhile(lambda one: one.at <= until, demand):
        if arrival.at == demand.start:
            continue
        for document in arrival.documents:
            resources, workers = document["resources"], document.get("workers", {}).get("count", 1)
            gpus = resources.get("gpus") or resources["gpu_share"]["guarantee"]
            seconds = document["simulated"].get("duration", demo.TRIAL_SECONDS)
            seconds *= demo.TAKES if document["type"] == "training" else 1.0
            hour = int((arrival.at - START) // HOUR)
            hours[hour] = hours.get(hour, 0.0) + gpus * workers * seconds / HOUR
    return hours


def test_the_mean_of_a_weeks_hours_is_seven_tenths_of_the_busiest() -> None:
    hours = [part(START + hour * HOUR) for hour in range(7 * 24)]

    assert fmean(hours) == pytest.approx(MEAN)
    assert max(hours) == 1.0
    assert max(hours[2 * 24 : 4 * 24]) == 0.9  # 2026-01-01 is a Thursday


def test_on_average_each_hour_asks_load_times_its_part_services_included() -> None:
    for load in (0.6, 1.2):
        demand = Demand(GPUS, load, seed=0)
        for hour in range(7 * 24):
            at = START + hour * HOUR
            assert demand.asked(at) + demo.serving_gpus() == pytest.approx(load * part(at) * GPUS)


@pytest.mark.parametrize("load", [0.6, 1.2])
def test_a_week_brings_seven_tenths_of_load_and_its_busiest_hours_all_of_it(load: float) -> None:
    weeks = [asked(Demand(GPUS, load, seed), START + WEEK) for seed in range(3)]

    def over_gpus(hours: list[int]) -> float:
        return (fmean(week.get(hour, 0.0) for week in weeks for hour in hours) + demo.serving_gpus()) / GPUS

    every = list(range(7 * 24))
    assert over_gpus(every) == pytest.approx(MEAN * load, rel=0.04)
    assert over_gpus([hour for hour in every if part(START + hour * HOUR) == 1.0]) == pytest.approx(load, rel=0.08)
    assert over_gpus([hour for hour in every if part(START + hour * HOUR) < 0.4]) < 0.45 * load


def test_running_times_have_the_mean_that_rates_are_made_of() -> None:
    demand = Demand(GPUS, 3.0, seed=1)
    found: dict[str, list[float]] = {stream.name: [] for stream in demo.STREAMS}
    for _, seconds, arrival in takewhile(lambda one: one[0] < START + WEEK, demand._submissions(START)):
        found[str(arrival.documents[0]["name"]).partition("-")[0]].append(seconds)

    for stream in demo.STREAMS:
        assert fmean(found[stream.name]) == pytest.approx(mean_seconds(stream.minutes), rel=0.1)


def test_an_hour_is_the_same_whenever_one_begins_to_look() -> None:
    def from_day_two(demand: Demand) -> list[Arrival]:
        found = takewhile(lambda one: one.at <= START + 2 * DAY, demand)
        return [one for one in found if one.at > START + DAY and one.at > demand.start]

    assert from_day_two(Demand(GPUS, 1.2, 0, START)) == from_day_two(Demand(GPUS, 1.2, 0, START + DAY))


def test_every_service_that_a_pipeline_brings_out_has_an_end() -> None:
    demand = Demand(GPUS, 1.2, 0)
    documents = [d for one in takewhile(lambda one: one.at < START + DAY, demand) for d in one.documents]
    trials = [d for d in documents if d["type"] == "inference" and "after" in d]

    assert len(trials) > 10
    assert all(parse(d, allow_simulated=True).max_duration == demo.TRIAL_SECONDS for d in trials)


def test_requests_to_services_have_their_peak_in_the_afternoon() -> None:
    rate = Rate.of_spec("chat", 0, 100.0, demo.RATE | {"burst_part": 0.0})
    hours = [fmean(rate.at(START + hour * HOUR + 10 * i) for i in range(60)) for hour in range(24)]

    assert max(hours) == pytest.approx(150, rel=0.05)
    assert max(range(24), key=hours.__getitem__) in (13, 14)
    assert max(range(24), key=lambda hour: -hours[hour]) in (1, 2)


def test_a_load_that_the_services_make_alone_has_no_other_arrivals():
    assert [arrival.documents[0]["type"] for arrival in Demand(GPUS, 0.1, 0)] == ["inference"] * len(demo.SERVICES)


@pytest.mark.parametrize("service", demo.SERVICES, ids=lambda service: service.name)
def test_a_service_may_have_replicas_for_half_more_than_its_busiest_minute(service: demo.Served) -> None:
    (profile,) = (profile for profile in profiles.SERVICES if profile.name == service.profile)
    sizes = profile.sizes.draw(np.random.default_rng(0), 100_000 * profile.batch)
    longest = sizes.reshape(-1, profile.batch).max(axis=1).mean()  # a batch takes as long as the largest request in it
    slowest = min(MODEL_SPEED[pool.gpu_model] for pool in demo.POOLS)
    answered = profile.max_per_second * slowest / longest
    assert service.most == math.ceil(1.5 * demo.BUSIEST * service.base / answered)


def test_the_most_replicas_of_services_are_within_what_their_teams_own() -> None:
    held: dict[str, float] = defaultdict(float)
    for service in demo.SERVICES:
        held[service.team] += service.most * (service.share or 1.0)
    assert all(gpus <= sum(demo.NOMINAL[team]) for team, gpus in held.items())
