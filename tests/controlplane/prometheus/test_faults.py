"""What comes of a Prometheus that is down, slow, wrong or hostile (F23): nothing is known, soon, and nothing breaks."""

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.latency import Within
from controlplane.cluster.port import GpuUse
from controlplane.cluster.prometheus import connection
from controlplane.cluster.prometheus.connection import Limits
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from tests.controlplane.prometheus.fake import NOW, FakePrometheus, Row, serving, vector

LIMITS = Limits(connect=0.5, silence=0.3, whole=0.5, rest=0.0)
PATIENCE = 5.0  # s: LIMITS and a busy machine; far less than any of the delays below


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with serving() as one:
        yield one


@pytest.fixture
def metrics(fake: FakePrometheus) -> PrometheusMetrics:
    return PrometheusMetrics(Settings(fake.url, limits=LIMITS), now=lambda: NOW)


def device(node: str = "a", gpu: str = "0") -> dict[str, str]:
    return {"Hostname": node, "gpu": gpu}


def all_of(metrics: PrometheusMetrics) -> list[tuple[Any, ...]]:
    return [metrics.gpus(), metrics.training(["w"]), metrics.services({"w": Within(0.2)}), metrics.pods(["w"])]


def is_nothing(metrics: PrometheusMetrics) -> bool:
    """Whether every method says nothing, each having asked anew."""
    started = time.monotonic()
    answers = all_of(metrics)
    assert time.monotonic() - started < 12 * PATIENCE
    return answers == [(), (), (), ()]


def test_one_that_is_down_says_nothing() -> None:
    metrics = PrometheusMetrics(Settings("http://127.0.0.1:9", limits=LIMITS))
    assert is_nothing(metrics)
    assert "ConnectionError" in metrics.trouble


@pytest.mark.parametrize("status", [204, 301, 400, 404, 422, 500, 503])
def test_a_refusal_is_no_answer(fake: FakePrometheus, metrics: PrometheusMetrics, status: int) -> None:
    fake.status = status
    fake.headers = {"Location": f"{fake.url}/elsewhere", "Content-Length": "0"}
    fake.says("", b"")
    assert is_nothing(metrics)
    assert str(status) in metrics.trouble


def test_after_a_failure_nobody_is_asked_for_a_while(fake: FakePrometheus) -> None:
    metrics = PrometheusMetrics(Settings(fake.url, limits=Limits(rest=600.0)))
    fake.status = 500
    for _ in range(20):
        assert all_of(metrics) == [(), (), (), ()]
    assert len(fake.asked) == 1


def test_it_is_asked_again_and_then_all_is_well(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.status = 500
    assert metrics.gpus() == ()
    assert metrics.trouble == "gpu_duty: HTTP status 500"
    fake.status = 200
    fake.says("FB_USED", [(device(), "1000")])
    fake.says("GPU_UTIL", [(device(), "0.5")])
    assert metrics.gpus() == (GpuUse("a", 0, 0.5, 1000, ()),)
    assert metrics.trouble == ""


@pytest.mark.parametrize("headers", [{}, {"Transfer-Encoding": "chunked"}])
def test_an_answer_that_never_comes_is_not_waited_for(
    fake: FakePrometheus, metrics: PrometheusMetrics, headers: dict[str, str]
) -> None:
    fake.headers = headers
    fake.write = lambda out, body: fake.ended.wait(60)
    started = time.monotonic()
    assert metrics.gpus() == ()
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_answer_that_trickles_is_not_waited_for(
    fake: FakePrometheus, metrics: PrometheusMetrics, is_chunked: bool
) -> None:
    fake.headers = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": "1000000"}

    def trickle(out: Any, body: bytes) -> None:
        while not fake.ended.wait(0.05):
            out.write(b"1\r\n \r\n" if is_chunked else b" ")
            out.flush()

    fake.write = trickle
    started = time.monotonic()
    assert metrics.gpus() == ()
    assert time.monotonic() - started < PATIENCE


def test_headers_that_trickle_are_not_waited_for() -> None:
    stop = threading.Event()

    def trickle(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stop.wait(0.05):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        metrics = PrometheusMetrics(Settings(f"http://127.0.0.1:{listener.getsockname()[1]}", limits=LIMITS))
        started = time.monotonic()
        assert metrics.gpus() == ()
        took = time.monotonic() - started
        stop.set()
        thread.join()
    assert took < PATIENCE
    assert metrics.trouble == "gpu_duty: TimeoutError"


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_huge_answer_is_cut_off(fake: FakePrometheus, metrics: PrometheusMetrics, is_packed: bool) -> None:
    sent = 0
    block = b" " * 1_048_576
    packed = gzip.compress(block * 64)

    def flood(out: Any, body: bytes) -> None:
        nonlocal sent
        if is_packed:
            out.write(packed)
            return
        for _ in range(1024):
            out.write(block)
            sent += len(block)

    fake.headers = {"Content-Length": str(len(packed)), "Content-Encoding": "gzip"} if is_packed else {}
    fake.headers = fake.headers or {"Content-Length": str(1024 * len(block))}
    fake.write = flood
    metrics = PrometheusMetrics(Settings(fake.url, limits=Limits(whole=30.0)))
    assert metrics.gpus() == ()
    assert "ContentDecodingError" in metrics.trouble
    assert sent < 4 * connection.MAX_BYTES


def test_too_many_rows_are_no_answer(fake: FakePrometheus) -> None:
    rows: list[Row] = [(device("n", str(i)), "0.5") for i in range(connection.MAX_ROWS + 1)]
    fake.says("DCGM", vector(rows))
    metrics = PrometheusMetrics(Settings(fake.url, limits=Limits(whole=30.0)))
    assert metrics.gpus() == ()
    assert "ValueError" in metrics.trouble


NONSENSE: list[bytes] = [
    b"",
    b"not json",
    b"[]",
    b"null",
    b'{"status": "success"}',
    b'{"status": "success", "data": null}',
    b'{"status": "success", "data": {"result": null}}',
    b'{"status": "success", "data": {"result": {"a": 1}}}',
    b'{"status": "success", "data": {"result": [1]}}',
    b'{"status": "success", "data": {"result": [{"metric": {}}]}}',
    b'{"status": "success", "data": {"result": [{"metric": 3, "value": [0, "1"]}]}}',
    b'{"status": "success", "data": {"result": [{"metric": {}, "value": []}]}}',
    b'{"status": "success", "data": {"result": [{"metric": {}, "value": ["x", "1"]}]}}',
    b'{"data": {"result": ' + b"[" * 200_000,
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_is_no_answer(fake: FakePrometheus, metrics: PrometheusMetrics, body: bytes) -> None:
    fake.says("", body)
    assert is_nothing(metrics)
    assert metrics.trouble


VALUES = ["NaN", "+Inf", "-Inf", "-1", "1e308", "", "x", "0x10", " 7 7 "]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_out_of_range_is_not_known(fake: FakePrometheus, metrics: PrometheusMetrics, value: str) -> None:
    job = {"workload": "w", "attempt": "1"}
    fake.says("", [({**device(), **job, "pod": "w-1-0", "response_code": "200", "le": "+Inf"}, value)])
    assert metrics.gpus() == ()
    assert metrics.services({"w": Within(0.2)}) == ()
    (use,) = metrics.training(["w"])
    known = (use.step, use.step_seconds, use.samples_per_second, use.data_wait_ratio, use.sync_ratio)
    assert (*known, use.gradient_noise) == (None, None, None, None, None, None)
    (pod,) = metrics.pods(["w"])
    assert (pod.duty, pod.cpu_milli, pod.memory, pod.throttled_ratio) == (None, None, None, None)
    assert not metrics.trouble  # it answered


def test_a_value_that_is_no_text_is_not_known(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    body = {"data": {"result": [{"metric": device(), "value": [NOW, value]} for value in (1, None, True, [])]}}
    fake.says("", json.dumps(body).encode())
    assert metrics.gpus() == ()


def test_a_series_told_twice_is_known_only_if_both_agree(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("FB_USED", [(device(gpu=str(i)), "1000") for i in range(2)])
    fake.says("GPU_UTIL", [(device(gpu="0"), "0.5"), (device(gpu="0"), "0.5")])
    fake.says("GPU_UTIL", [(device(gpu="0"), "0.5"), (device(gpu="1"), "0.5"), (device(gpu="1"), "0.9")] * 2)
    assert metrics.gpus() == (GpuUse("a", 0, 0.5, 1000, ()),)


@pytest.mark.parametrize("labels", [{}, {"gpu": "0"}, {"Hostname": "a"}, device("a\n", "0"), device("", "0")])
def test_a_row_without_its_labels_is_left_out(
    fake: FakePrometheus, metrics: PrometheusMetrics, labels: dict[str, str]
) -> None:
    for words in ("FB_USED", "GPU_UTIL"):
        fake.says(words, [(labels, "0.5"), (device("b"), "0.5")])
    assert [use.node for use in metrics.gpus()] == ["b"]


@pytest.mark.parametrize("gpu", ["-1", "x", "1.5", "1e9", "99999999999999999999", "\u0663", "1024"])
def test_a_device_that_cannot_be_is_left_out(fake: FakePrometheus, metrics: PrometheusMetrics, gpu: str) -> None:
    for words in ("FB_USED", "GPU_UTIL"):
        fake.says(words, [(device("a", gpu), "0.5")])
    assert metrics.gpus() == ()


def test_others_rows_are_not_taken_for_those_asked_for(fake: FakePrometheus, metrics: PrometheusMetrics) -> None:
    fake.says("", [({"workload": "other", "attempt": "1", "response_code": "200", "le": "+Inf", "pod": "x"}, "1")])
    assert metrics.training(["w"]) == ()
    assert metrics.checkpoints(["w"]) == ()
    assert metrics.services({"w": Within(0.2)}) == ()
    assert metrics.pods(["w"]) == ()


@pytest.mark.parametrize("uid", ['x"} or up{a="', "a|b", ".*", "", "a\\", "ä", "a" * 64, "a\n"])
def test_an_id_that_is_none_goes_into_no_query(fake: FakePrometheus, metrics: PrometheusMetrics, uid: str) -> None:
    assert metrics.training([uid]) == ()
    assert metrics.checkpoints([uid]) == ()
    assert metrics.services({uid: Within(0.2)}) == ()
    assert metrics.pods([uid]) == ()
    assert fake.asked == []


def test_the_token_is_read_anew_and_goes_nowhere_else(fake: FakePrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    metrics = PrometheusMetrics(Settings(fake.url, token_file=token, limits=LIMITS))
    assert metrics.gpus() == ()  # no file yet
    for text in ("first", "second\n"):
        token.write_text(text)
        metrics.gpus()
        assert fake.asked[-1]["authorization"] == f"Bearer {text.strip()}"
    fake.status, fake.headers = 307, {"Location": "http://127.0.0.1:9/", "Content-Length": "0"}
    fake.says("", b"")
    metrics.gpus()
    assert metrics.trouble == "gpu_duty: HTTP status 307"


def test_trouble_names_no_password() -> None:
    metrics = PrometheusMetrics(Settings("http://user:canary@127.0.0.1:9", limits=LIMITS))
    assert metrics.gpus() == ()
    assert "canary" not in metrics.trouble


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="http"):
        PrometheusMetrics(Settings("file:///etc/passwd"))
