from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from controlplane.testbed.prometheus import prometheus, scrape
from tests.servers import wait_until

pytestmark = pytest.mark.prometheus


@pytest.fixture
def exporter() -> Iterator[str]:
    registry = CollectorRegistry()
    Gauge("weft_answer", "Of the test.", registry=registry).set(42)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_prometheus_has_what_an_exporter_serves(tmp_path: Path, exporter: str) -> None:
    with prometheus(tmp_path, scrape({"tests": exporter}, 0.2)) as url:

        def answer() -> list[str]:
            found = httpx.get(f"{url}/api/v1/query", params={"query": 'weft_answer{job="tests"}'}).json()
            return [one["value"][1] for one in found["data"]["result"]]

        wait_until(lambda: answer() == ["42"], "the first scrape")


def test_a_configuration_that_is_wrong_is_told_with_the_log(tmp_path: Path) -> None:
    wrong = {"scrape_configs": [{"job": "no such key"}]}

    with pytest.raises(RuntimeError, match="field job not found"), prometheus(tmp_path, wrong):
        pytest.fail("it started")
