"""The time to the first token, as Prometheus tells it."""

from collections.abc import Iterator

import pytest

from autoscaler.latency import FIRST_TOKEN, Within
from autoscaler.observed import Learned
from controlplane.cluster.port import RevisionUse, ServiceUse
from controlplane.cluster.prometheus import queries
from controlplane.cluster.prometheus.connection import Limits
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from tests.controlplane.prometheus.fake import NOW, FakePrometheus, serving
from tests.controlplane.prometheus.test_metrics import buckets, requests

HALF_A_SECOND = {"w": Within(0.5, FIRST_TOKEN)}
FIRSTS = buckets(("0.25", "300"), ("0.75", "540"), ("+Inf", "600"))


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with serving() as one:
        yield one


@pytest.fixture
def metrics(fake: FakePrometheus) -> PrometheusMetrics:
    return PrometheusMetrics(Settings(fake.url, limits=Limits(rest=0.0)), now=lambda: NOW + 0.5)


def test_a_service_is_late_by_its_first_tokens_and_fails_by_its_codes(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_first_byte_seconds_bucket", FIRSTS)
    fake.says("weft_gateway_requests_total", requests(("200", "600"), ("503", "20")))
    fake.says("queue", [({"workload": "w"}, "3")])
    # 500 ms is half-way from 250 to 750 ms: 420 of 600 within; 20 more failed. p95 is at the last bound that is known.
    assert metrics.services(HALF_A_SECOND) == (ServiceUse("w", NOW + 0.5, 60.0, 620 / 60, 0.75, 200, 620, 3),)


def test_without_codes_the_model_servers_own_count_stands_for_requests(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("vllm:time_to_first_token_seconds_bucket", FIRSTS)
    (use,) = metrics.services(HALF_A_SECOND)
    assert (use.requests, use.over_objective) == (600, 180)


def test_durations_of_whole_answers_are_never_taken_for_first_tokens(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("istio_requests_total", requests(("200", "600")))
    fake.says("istio_request_duration_milliseconds_bucket", buckets(("100", "600"), ("+Inf", "600")))
    assert metrics.services(HALF_A_SECOND) == (), "neither activator nor vLLM: nothing is known of it"
    assert [use.workload for use in metrics.services({"w": Within(0.5)})] == ["w"]


def test_a_count_that_is_not_known_makes_the_service_not_known(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_first_byte_seconds_bucket", FIRSTS)
    fake.says("weft_gateway_requests_total", requests(("200", "NaN")))
    assert metrics.services(HALF_A_SECOND) == ()


def test_a_service_whose_requests_all_fail_is_over_and_has_no_first_token(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    fake.says("weft_gateway_first_byte_seconds_bucket", buckets(("0.25", "0"), ("+Inf", "0")))
    fake.says("weft_gateway_requests_total", requests(("502", "30")))
    (use,) = metrics.services(HALF_A_SECOND)
    assert (use.requests, use.over_objective, use.p95_seconds) == (30, 30, None)


def test_a_look_has_first_tokens_beside_whole_answers(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("weft_gateway_arrivals_total", [({"workload": "w"}, "400")])
    fake.says("vllm:request_inference_time_seconds_bucket", buckets(("2", "0"), ("5", "390"), ("+Inf", "390")))
    fake.says("vllm:request_prefill_time_seconds_bucket", buckets(("0.1", "100"), ("0.12", "390"), ("+Inf", "390")))
    scrape = metrics.scrapes(["w"])["w"]
    assert scrape.is_sound
    assert scrape.first is not None
    assert 0.1 < Learned(scrape.first, 1.0).quantile(0.9) <= 0.137
    assert 2 < Learned(scrape.counts, 1.0).quantile(0.5) < 5


def test_revisions_count_by_first_tokens_where_the_activator_judged_them_and_never_by_istio(
    fake: FakePrometheus, metrics: PrometheusMetrics
) -> None:
    istio = [({"workload": "w", "destination_canonical_revision": "2", "response_code": "200"}, "50")]
    fake.says("istio_requests_total", istio)
    row = {"workload": "w", "destination_canonical_revision": "2"}
    fake.says("istio_request_duration_milliseconds_bucket", [(row | {"le": le}, "50") for le in ("100", "+Inf")])
    assert metrics.revisions({"w": (0.0, Within(0.5))}) == (RevisionUse("w", 2, 50, 0),)
    assert metrics.revisions({"w": (0.0, Within(0.5, FIRST_TOKEN))}) == ()
    ours = [
        ({"workload": "w", "revision": "2", "outcome": one}, count) for one, count in (("good", "40"), ("late", "2"))
    ]
    fake.says("weft_gateway_revision_requests_total", ours)
    assert metrics.revisions({"w": (0.0, Within(0.5, FIRST_TOKEN))}) == (RevisionUse("w", 2, 42, 2),)


def test_the_activator_is_believed_before_the_model_server() -> None:
    for query in (queries.FIRST_WITHIN, queries.FIRST_SERVED):
        assert query.text.index("weft_gateway") < query.text.index("vllm:")
        assert "istio" not in query.text
    assert "istio" in queries.FIRST_REQUESTS.text, "it knows as well how many failed"
