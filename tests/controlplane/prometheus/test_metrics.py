"""What the adapter makes of answers that are right."""

from collections.abc import Iterator

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.latency import Within
from autoscaler.observed import Learned
from controlplane.cluster.port import NodeUse, PodUse, Saved, ServiceUse, TrainingUse, WorkerUse
from controlplane.cluster.prometheus import connection, histogram, queries
from controlplane.cluster.prometheus.connection import Limits
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import wiring
from tests import servers
from tests.controlplane.prometheus.fake import NOW, FakePrometheus, Row, serving


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with serving() as one:
        yield one


@pytest.fixture
def metrics(fake: FakePrometheus) -> PrometheusMetrics:
    return PrometheusMetrics(Settings(fake.url, limits=Limits(rest=0.0)), now=lambda: NOW + 0.5)


def requests(*codes: tuple[str, str], uid: str = "w") -> list[Row]:
    return [({"workload": uid, "response_code": code}, count) for code, count in codes]


def buckets(*counts: tuple[str, str], uid: str = "w") -> list[Row]:
    return [({"workload": uid, "le": le}, count) for le, count in counts]


def test_a_service_is_told_with_what_was_slower_than_its_objective(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("istio_requests_total", requests(("200", "600"), ("404", "0")))
    fake.says("_bucket", buckets(("100", "300"), ("250", "540"), ("500", "600"), ("+Inf", "600")))
    fake.says("queue", [({"workload": "w"}, "3")])
    # 175 ms is half-way from 100 to 250 ms: 420 of 600 within. p95: 570 of 600 lies half-way from 250 to 500 ms.
    assert metrics.services({"w": Within(0.175)}) == (ServiceUse("w", NOW + 0.5, 60.0, 10.0, 0.375, 180, 600, 3),)


def test_failures_count_as_slow_and_not_as_latency(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("istio_requests_total", requests(("200", "90"), ("503", "8"), ("0", "2")))
    fake.says("_bucket", buckets(("100", "90"), ("+Inf", "90")))
    (use,) = metrics.services({"w": Within(0.2)})
    assert (use.requests, use.over_objective) == (100, 10)
    assert use.p95_seconds == pytest.approx(0.095)


def test_a_service_that_only_fails_is_all_over_and_has_no_latency(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("istio_requests_total", requests(("500", "120.4")))
    (use,) = metrics.services({"w": Within(0.2)})
    assert (use.requests, use.over_objective, use.p95_seconds, use.queue) == (120, 120, None, None)


def test_without_buckets_it_is_not_known_how_many_were_slow(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("istio_requests_total", requests(("200", "100")))
    (use,) = metrics.services({"w": Within(0.2)})
    assert (use.requests, use.over_objective, use.p95_seconds) == (100, None, None)


def test_without_an_objective_only_failures_are_over(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("istio_requests_total", requests(("200", "100"), ("500", "1")))
    fake.says("_bucket", buckets(("100", "0"), ("+Inf", "100")))
    (use,) = metrics.services({"w": None})
    assert use.over_objective == 1


def test_a_service_in_one_of_two_unknown_numbers_is_not_known(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("istio_requests_total", requests(("200", "100"), ("500", "NaN")) + requests(("200", "5"), uid="v"))
    assert [use.workload for use in metrics.services({"v": Within(0.2), "w": Within(0.2)})] == ["v"]


def test_all_queries_of_a_service_are_about_one_moment(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("istio_requests_total", requests(("200", "100")))
    metrics.services({"w": Within(0.2)})
    assert [asked.get("time") for asked in fake.asked] == [None, f"{NOW:.3f}", f"{NOW:.3f}"]


def test_the_requests_of_a_service_are_told_as_its_gateway_counts_them(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_arrivals_total", [({"workload": "w"}, "400")])
    fake.says("weft_gateway_service_seconds_bucket", buckets(("0.1", "100"), ("0.12", "390"), ("+Inf", "390")))
    fake.says("weft_gateway_service_seconds_sum", [({"workload": "w"}, "42.5")])
    fake.says("weft_service_queue", [({"workload": "w"}, "7")])
    fake.says("weft_gateway_running", [({"workload": "w"}, "12")])
    fake.says("weft_gateway_widest", [({"workload": "w"}, "4")])
    seen = metrics.scrapes(["w", "v"])
    assert list(seen) == ["w"]
    scrape = seen["w"]
    assert (scrape.at, scrape.seconds, scrape.arrived, scrape.answered_seconds) == (NOW + 0.5, 40.0, 400.0, 42.5)
    assert (scrape.waiting, scrape.running, scrape.widest) == (7, 12, 4)
    assert scrape.answered == pytest.approx(390)
    assert 0.1 < Learned(scrape.counts, 42.5).quantile(0.9) <= 0.137
    assert scrape.is_sound


def test_without_a_gateway_the_durations_of_the_mesh_stand_for_service_times(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_arrivals_total", [({"workload": "w"}, "400")])
    fake.says("istio_request_duration_milliseconds_bucket", buckets(("100", "0"), ("250", "600"), ("+Inf", "600")))
    scrape = metrics.scrapes(["w"])["w"]
    assert scrape.answered == pytest.approx(400)  # of a minute's 600, those of 40 s
    assert 0.1 < scrape.answered_seconds / scrape.answered < 0.25
    assert (scrape.waiting, scrape.running, scrape.widest) == (None, None, None)


def test_a_service_is_left_out_where_one_query_of_it_has_no_answer(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_arrivals_total", [({"workload": "w"}, "400")])
    fake.says("weft_gateway_widest", b"{}")
    assert metrics.scrapes(["w"]) == {}


def test_of_two_attempts_the_newest_is_told(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    def rows(*values: str) -> list[Row]:
        return [
            ({"workload": "w", "attempt": number}, value) for number, value in zip(("9", "10"), values, strict=True)
        ]

    fake.says("training_step{", rows("500", "100"))
    fake.says("step_seconds_total", rows("0.5", "0.25"))
    fake.says("samples_total", rows("64", "NaN"))
    fake.says("gradient_noise", rows("300", "900"))
    fake.says("data_wait", rows("0.1", "0"))
    fake.says("sync", rows("0.2", "0.125"))
    assert metrics.training(["w", "v"]) == (TrainingUse("w", 10, 100, 0.25, None, 0.0, 0.125, 900.0),)


def test_a_reporter_that_numbers_no_steps_tells_of_them(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("step_seconds_total", [({"workload": "w", "attempt": "2"}, "0.5")])
    fake.says("data_wait", [({"workload": "w", "attempt": "2"}, "0.4")])
    fake.says("sync", [])
    assert metrics.training(["w"]) == (TrainingUse("w", 2, None, 0.5, None, 0.4, None),)


def test_workers_of_the_newest_attempt_are_told_by_rank(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    def rows(*values: str) -> list[Row]:
        keys = (("9", "0"), ("10", "0"), ("10", "3"), ("10", "x"))
        return [
            ({"workload": "w", "attempt": attempt, "rank": rank}, value)
            for (attempt, rank), value in zip(keys, values, strict=True)
        ]

    fake.says("rank) (rate(weft_training_step_seconds_total", rows("0.5", "0.25", "0.25", "1"))
    fake.says("rank) (rate(weft_training_data_wait", rows("0.1", "0", "NaN", "0"))
    fake.says("rank) (rate(weft_training_sync", rows("0.2", "0.5", "0.125", "0"))
    fake.says("pressure_io", [({"pod": "w-10-3"}, "1.01")])
    assert metrics.workers(["w", "v"]) == (
        WorkerUse("w", 10, 0, 0.25, 0.0, 0.5, None),
        WorkerUse("w", 10, 3, 0.25, None, 0.125, 1.0),
    )


def test_a_node_whose_line_has_no_known_rate_tells_of_its_disk(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("node_disk", [({"node": "a"}, "0.5"), ({"node": "b"}, "1.02"), ({}, "0.1")])
    fake.says("node_network", [({"node": "b"}, "0.25"), ({"node": "c"}, "7")])
    assert metrics.nodes() == (NodeUse("a", 0.5, None), NodeUse("b", 1.0, 0.25), NodeUse("c", None, None))


def saved(at: str, attempt: str = "1", uid: str = "w") -> Row:
    return ({"workload": uid, "attempt": attempt}, at)


def test_the_newest_attempts_checkpoint_is_told(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("checkpoint_timestamp", [saved(f"{NOW - 600}", "9"), saved(f"{NOW - 60}", "10")])
    fake.says("checkpoint_part", [saved("0.25", "10")])
    assert metrics.checkpoints(["w", "v"]) == (Saved("w", 10, NOW - 60, 0.25),)


@pytest.mark.parametrize("value", ["0", "-1", "NaN", f"{NOW + 1}", f"{1000 * NOW}"])
def test_a_checkpoint_that_was_not_or_is_yet_to_come_is_not_known(
    fake: FakePrometheus, metrics: PrometheusMetrics, value: str
) -> None:
    fake.says("checkpoint_timestamp", [saved(value)])
    fake.says("checkpoint_part", [saved("1.5")])
    assert metrics.checkpoints(["w"]) == (Saved("w", 1, None, None),)


def test_a_part_may_be_told_without_a_time(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("checkpoint_part", [saved("0.5")])
    assert metrics.checkpoints(["w"]) == (Saved("w", 1, None, 0.5),)


def test_a_pod_is_told_by_its_name(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("cpu_usage", [({"pod": "a-b-2-13"}, "1500.4"), ({"pod": "nobody"}, "3")])
    fake.says("working_set", [({"pod": "a-b-2-13"}, "2048.2")])
    fake.says("throttled", [({"pod": "a-b-2-13"}, "1.01")])
    assert metrics.pods(["a-b"]) == (PodUse("a-b", 2, 13, None, 1500, 2048, 1.0),)


def test_what_holds_shares_tells_what_a_pod_computes_on_a_gpu_that_it_shares(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("gpu_share_duty", [({"pod": "a-b-2-13"}, "0.4"), ({"pod": "c-1-0"}, "7"), ({"pod": "d-1-0"}, "1.02")])
    assert metrics.pods(["a-b", "c", "d"]) == (
        PodUse("a-b", 2, 13, None, None, None, None, 0.4),
        PodUse("c", 1, 0, None, None, None, None, None),
        PodUse("d", 1, 0, None, None, None, None, 1.0),
    )


def test_many_workloads_are_asked_for_in_parts(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    metrics.services({f"w{number}": None for number in range(2 * queries.CHUNK + 1)})
    assert len(fake.asked) == 3
    assert max(len(asked["query"]) for asked in fake.asked) < 8000


def test_what_is_not_there_does_not_hide_what_is(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("GPU_UTIL", [({"Hostname": n, "gpu": "0"}, "0.25") for n in ("b", "a")])
    fake.says("FB_USED", [({"Hostname": "b", "gpu": "0"}, "10"), ({"Hostname": "b", "gpu": "1"}, "10")])
    assert [(use.node, use.index, use.duty, use.memory) for use in metrics.gpus()] == [("b", 0, 0.25, 10)]


@pytest.mark.parametrize("query", queries.TABLE, ids=lambda query: query.name)
def test_each_query_says_what_its_rows_are_known_by(query: queries.Query) -> None:
    assert f"by ({', '.join(query.labels)})" in query.text
    assert "$" not in queries.text(query, ["w"])


def test_names_of_queries_are_their_own() -> None:
    assert len({query.name for query in queries.TABLE}) == len(queries.TABLE)


def test_an_id_that_is_none_is_refused_where_queries_are_written() -> None:
    with pytest.raises(ValueError, match="no id"):
        queries.text(queries.STEP, ['w"} or up{a="'])


counts = st.dictionaries(st.integers(1, 100_000).map(float), st.floats(0, 1e9), min_size=1, max_size=8)


@given(counts, st.floats(0, 1e9), st.floats(0.01, 0.99), st.floats(0.1, 1e6))
def test_quantile_and_part_within_are_each_others_inverse(
    finite: dict[float, float], beyond: float, part: float, limit: float
) -> None:
    table = histogram.cumulative({**finite, float("inf"): beyond})
    value, within = histogram.quantile(table, part), histogram.ratio_within(table, limit)
    assert (value is None) >= (table[-1][1] <= 0)
    if within is not None:
        assert 0 <= within <= 1
    if value is not None and value < table[-2][0]:
        again = histogram.ratio_within(table, value)
        assert again is not None
        assert again >= part - 1e-6


def test_prometheus_is_used_where_there_is_one() -> None:
    cluster = object()
    with override_settings(PROMETHEUS_URL=""):
        assert isinstance(wiring.measured(cluster), Unmeasured)  # type: ignore[arg-type]


def test_the_address_of_the_settings_is_asked(fake: FakePrometheus) -> None:
    world = wiring.SimulatedCluster()
    with override_settings(PROMETHEUS_URL=fake.url):
        assert wiring.measured(world, world).gpus() == ()
    assert len(fake.asked) == 1
    with override_settings(PROMETHEUS_URL=""):
        assert wiring.measured(world, world) is world


def test_where_nobody_measures_nothing_is_known() -> None:
    nobody = Unmeasured()
    assert (nobody.checkpoints(["w"]), nobody.workers(["w"]), nobody.nodes()) == ((), (), ())
    assert (nobody.gpus(), nobody.training(["w"]), nobody.pods(["w"])) == ((), (), ())
    assert nobody.services({"w": Within(1.0)}) == ()


@pytest.mark.parametrize("query", queries.TABLE, ids=lambda query: query.name)
def test_the_docs_have_each_query(query: queries.Query) -> None:
    known = ", ".join(f"`{label}`" for label in query.labels)
    said = f"**{query.name}** - {query.unit}. From {query.source}; a row for each {known}.\n\n```promql\n{query.text}\n"
    assert said in (servers.ROOT / "docs" / "metrics.md").read_text()


def test_the_docs_name_the_numbers_of_the_code() -> None:
    text = (servers.ROOT / "docs" / "metrics.md").read_text()
    window = queries.WINDOW_SECONDS
    numbers = f"`$window` is {window:g} s, `$long` {queries.LONG * window:g} s, `$short` {queries.SHORT * window:g} s"
    assert numbers in text
    assert f"at most {queries.CHUNK} in one query" in text
    assert f"{connection.MAX_BYTES // 1_048_576} MiB or {connection.MAX_ROWS:,} rows" in text
    assert f"longer than {Limits().whole:g} seconds" in text
