"""With the scrape configuration of docs/metrics.md a program cannot say what another pod had of a GPU, nor what it had.

A real Prometheus asks a program and the daemon of a node, each as its job there says.
"""

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controlplane.cluster.port import PodUse
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.enforcer.exporting import Busy, page
from controlplane.testbed import processes
from controlplane.testbed.prometheus import prometheus
from tests import metricspage, servers

pytestmark = pytest.mark.prometheus
WINDOW, SCRAPES = 3, 14  # s, and how many there are in it
CLAIMS = (
    'weft_gpu_share_duty{pod="one-1-0"} 0',
    'weft_gpu_share_duty{pod="two-1-0"} 1',
    'DCGM_FI_DEV_GPU_UTIL{pod="one-1-0",Hostname="a",gpu="0"} 100',
    'container_memory_working_set_bytes{pod="one-1-0",container="main"} 1048576',
)


def documented(**targets: str) -> dict[str, Any]:
    """The jobs of the docs, each with what says whose its series are, of one address instead of a cluster's pods."""
    text = (servers.ROOT / "docs" / "metrics.md").read_text()
    (block,) = re.findall(r"```yaml\n(global: .*?)```", text, re.DOTALL)
    jobs = {job["job_name"]: job for job in yaml.safe_load(block)["scrape_configs"]}
    kept = [
        {key: jobs[name][key] for key in ("job_name", "honor_labels", "metric_relabel_configs") if key in jobs[name]}
        | {"static_configs": [{"targets": [address]}]}
        for name, address in targets.items()
    ]
    return {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": kept}


def test_what_a_program_claims_of_gpus_is_not_read(tmp_path: Path) -> None:
    start = time.monotonic()

    def counted() -> int:
        return int((time.monotonic() - start) * 300_000)

    def program() -> str:
        lie = page([Busy("a", "two-1-0", "0", 3 * counted())]) + "\n".join(CLAIMS)
        return f"{lie}\nweft_training_steps_total 1\n"

    def daemon() -> str:
        return page([Busy("a", "one-1-0", "0", counted()), Busy("b", "two-1-0", "0", 0)])

    with (
        metricspage.page(program) as pods,
        metricspage.page(daemon) as node,
        prometheus(tmp_path, documented(**{"weft-pods": pods, "weft-enforcer": node})) as url,
    ):
        metrics = PrometheusMetrics(Settings(url, window_seconds=WINDOW))
        processes.wait_until(lambda: scrapes(url) >= 2 * SCRAPES, "a window of scrapes of both")
        one, two = metrics.pods(["one", "two"])
        assert one.own_duty == pytest.approx(0.3, abs=0.1)
        assert two == PodUse("two", 1, 0, None, None, None, None, 0.0)
        assert (one.duty, one.memory) == (None, None)


def scrapes(url: str) -> int:
    """How often both were asked in a window, together."""
    asked = f"sum(count_over_time(up[{WINDOW}s])) and on () weft_training_steps_total"
    found = httpx.get(f"{url}/api/v1/query", params={"query": asked}, trust_env=False).json()["data"]["result"]
    return int(found[0]["value"][1]) if found else 0
