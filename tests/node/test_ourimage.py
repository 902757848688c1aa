"""Our own image on a real node, put together by the Dockerfile's steps, with the settings of the compose file."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controlplane.testbed import compose
from controlplane.testbed.api import Json
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode import composed, ourimage, programs
from controlplane.testbed.realnode.node import RealNode
from controlplane.testbed.realnode.settings import NAME
from tests.servers import wait_until

# Minutes of CPU, and 0.8 GB: too much for each run of CI.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

NAMESPACE = "/api/v1/namespaces/default"
PATIENCE = 300.0  # s: Python starts slowly where other tests run beside
JOB = {
    "type": "training",
    "name": "hello",
    "team": "research",
    "image": "example/train:1",
    "expected_duration": "30s",
    "resources": {"gpus": 1, "cpu": 1, "memory": "1Gi"},
}


@pytest.fixture
def servers(node: RealNode, tmp_path: Path) -> Iterator[compose.Installation]:
    """Postgres and Redis, that pods can reach at the node's address."""
    with (
        compose.prepared(tmp_path / "site", database_options=compose.KILLED_ONLY) as made,
        contextlib.ExitStack() as stack,
    ):
        for url in (made.secret("database_url"), made.secret("redis_url")):
            stack.enter_context(composed.relay(node.place.address, int(url.rpartition(":")[2].partition("/")[0])))
        yield made


def test_our_image_serves_with_the_settings_of_the_compose_file(
    node: RealNode, kubernetes: TestCluster, servers: compose.Installation, tmp_path: Path
) -> None:
    registry = node.place.folder / "registry"
    ourimage.write(registry, tmp_path / "image", programs.find("busybox"), programs.find_python())
    inside, home = node.storage("weft")
    uid, _ = ourimage.user_of(ourimage.stages(ourimage.FILE.read_text())[-1])
    os.chown(home, uid, uid)
    files = (servers.folder / "secrets").iterdir()
    texts = {file.name: file.read_text().replace("127.0.0.1", node.place.address) for file in files}
    kubernetes.request("POST", f"{NAMESPACE}/secrets", composed.secrets(texts))

    def run(name: str) -> None:
        made = composed.pod(name, compose.services()[name], node=NAME, home=inside)
        kubernetes.request("POST", f"{NAMESPACE}/pods", made)

    def status(name: str) -> Json:
        node.check()
        found: Json = kubernetes.request("GET", f"{NAMESPACE}/pods/{name}")["status"]
        assert found["phase"] != "Failed", kubernetes.text(f"{NAMESPACE}/pods/{name}/log")
        return found

    def is_ready(name: str) -> bool:
        conditions = {one["type"]: one["status"] for one in status(name).get("conditions", ())}
        return conditions.get("Ready") == "True"

    run("install")
    wait_until(lambda: status("install")["phase"] == "Succeeded", "the installation", PATIENCE)
    parts = ("web", "worker", "beat")
    for part in parts:
        run(part)
    wait_until(lambda: all(is_ready(part) for part in parts), "all parts", PATIENCE)

    url = f"http://{status('web')['podIP']}:8000"
    with httpx.Client(base_url=url, headers={"Host": "localhost"}, timeout=30, trust_env=False) as http:
        wait_until(lambda: http.get("/readyz").status_code == 200, "every loop", PATIENCE)
        form = {"username": "admin", "password": servers.secret("admin_password"), "name": "test"}
        token = http.post("/api/v1/login", json=form).raise_for_status().json()["token"]
        http.headers["Authorization"] = f"Bearer {token}"
        uid = http.post("/api/v1/workloads", json=JOB).raise_for_status().json()["uid"]
        path = f"/api/v1/workloads/{uid}"
        wait_until(lambda: http.get(path).json()["phase"] in ("Running", "Succeeded"), "a job", PATIENCE)
    restarts = {part: status(part)["containerStatuses"][0]["restartCount"] for part in parts}
    assert restarts == dict.fromkeys(parts, 0)
