"""What docker-compose.yml states, started as processes: its commands and its environment, on loopback."""

import json
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from controlplane.domain import notebookhosts
from controlplane.runtime import liveness
from controlplane.testbed import compose
from controlplane.testbed.processes import wait_until
from tests.flows.processes import eventually, signed_in

JOB = {
    "type": "training",
    "name": "hello",
    "team": "research",
    "priority_class": "high",
    "image": "example/train:1",
    "expected_duration": "30s",
    "resources": {"gpus": 1},
}
WEFT, NOTEBOOKS = "http://127.0.0.1:8000", "http://notebooks.localhost:8010"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[compose.Installation]:
    folder, addresses = tmp_path_factory.mktemp("compose"), {"WEFT_URL": WEFT, "WEFT_NOTEBOOK_URL": NOTEBOOKS}
    with compose.prepared(folder, addresses, database_options=compose.KILLED_ONLY, profiles=("notebooks",)) as made:
        compose.up(made)
        yield made


def healthy(made: compose.Installation, part: str) -> bool:
    """Run the health check that the file states for a part, where the part runs."""
    service = compose.services()[part.partition("-")[0]]
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    said = made.parts[part]
    ports = {"8000": made.url.rpartition(":")[2], "8010": said.command[-1]}
    words = [re.sub(r"127\.0\.0\.1:(\d+)", lambda at: f"127.0.0.1:{ports[at[1]]}", word) for word in command]
    return subprocess.run(words, env=dict(said.env), cwd=compose.ROOT, timeout=60, check=False).returncode == 0


def test_a_submitted_job_succeeds(installation: compose.Installation) -> None:
    with signed_in(installation.url, installation.secret("admin_password")) as http:
        answer = http.post("/api/v1/workloads", json=JOB)
        assert answer.status_code == 201, answer.text
        eventually(http, f"/api/v1/workloads/{answer.json()['uid']}", 120, phase="Succeeded")


def test_a_size_is_changed_with_the_rights_that_web_has_in_the_database(installation: compose.Installation) -> None:
    asked = {"gpus": 1, "cpu": 2, "memory": "4Gi"}
    with signed_in(installation.url, installation.secret("admin_password")) as http:
        # Of a class that no other workload makes leave: within a second of the demo's time any other may have to.
        long = {"name": "resized", "resources": asked, "expected_duration": "1h", "priority_class": "serving"}
        made = http.post("/api/v1/workloads", json=JOB | long).json()
        eventually(http, f"/api/v1/workloads/{made['uid']}", 120, phase="Running")
        answer = http.patch(f"/api/v1/workloads/{made['uid']}", json={"resources": asked | {"cpu": 3}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["spec"]["resources"]["cpu"] == 3


def test_what_a_web_process_hints_goes_to_the_broker(installation: compose.Installation) -> None:
    with signed_in(installation.url, installation.secret("admin_password")) as http:
        assert http.post("/api/v1/workloads", json=JOB | {"name": "hinted"}).status_code == 201
    # A hint is sent before the answer; a send that fails holds the request up for seconds and leaves this line.
    assert "wake failed" not in installation.log("web").read_text()


@pytest.mark.parametrize("part", ["web", "worker-1", "worker-2", "beat-1", "beat-2", "notebooks"])
def test_the_stated_health_check_passes(installation: compose.Installation, part: str) -> None:
    wait_until(lambda: healthy(installation, part), part, 60)


def test_the_notebooks_proxy_answers_for_hosts_of_notebooks_and_sends_strangers_to_sign_in(
    installation: compose.Installation,
) -> None:
    wait_until(lambda: healthy(installation, "notebooks"), "the proxy", 60)
    url = f"http://127.0.0.1:{installation.parts['notebooks'].command[-1]}"
    host = notebookhosts.origin(NOTEBOOKS, uuid.UUID(int=7)).partition("://")[2]
    opened = {"Host": host, "Accept": "text/html"}
    answer = httpx.get(f"{url}/lab", headers=opened, trust_env=False)
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (
        303, f"{WEFT}/notebooks/{uuid.UUID(int=7)}/enter",
    )  # fmt: skip
    assert httpx.get(f"{url}/lab", trust_env=False).status_code == 404  # Weft's own host is no notebook's


def test_the_proxy_is_started_only_where_it_is_asked_for() -> None:
    said = compose.services()["notebooks"]
    assert said["profiles"] == ["notebooks"]
    assert said["ports"] == ["127.0.0.1:8010:8010"]
    assert (said["read_only"], said["cap_drop"]) == (True, ["ALL"])
    assert compose.services({"NOTEBOOKS": "--cluster"})["notebooks"]["command"].startswith(
        "python -m controlplane.notebookproxy --cluster --host"
    )


def test_prometheus_scrapes_the_installation_and_both_workers(installation: compose.Installation) -> None:
    flag = next(word for word in installation.parts["prometheus"].command if word.startswith("--web.listen-address="))
    url = f"http://{flag.partition('=')[2]}"

    def ask(query: str) -> list[Any]:
        try:
            answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=10, trust_env=False)
            return list(answer.json()["data"]["result"])
        except (httpx.HTTPError, ValueError):
            return []

    # The newest scrape of a target may be from before its first round: each of these comes with a later one.
    wait_until(lambda: len(ask("up == 1")) == 3, "three targets", 90)
    wait_until(lambda: ask("sum(weft_loop_rounds_total{result='done'}) > 0"), "a round that is done", 60)
    wait_until(lambda: ask("sum(weft_gpus)"), "GPUs that were observed", 60)
    assert float(ask("sum(weft_gpus)")[0]["value"][1]) == 120
    assert {row["metric"]["loop"] for row in ask("weft_loop_age_seconds")} >= {"observe", "schedule", "actuate"}


def test_metrics_are_shown_only_for_the_token(installation: compose.Installation) -> None:
    url = f"{installation.url}/metrics"
    assert httpx.get(url, trust_env=False).status_code == 401
    wrong = httpx.get(url, headers={"Authorization": "Bearer wrong"}, trust_env=False)
    assert wrong.status_code == 401


def test_redis_answers_nobody_without_its_password(installation: compose.Installation) -> None:
    address = installation.secret("redis_url")
    with redis.Redis.from_url(address) as known:
        assert known.ping()
    nameless = f"redis://{address.rpartition('@')[2]}"
    with redis.Redis.from_url(nameless) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_every_log_line_is_a_json_object_without_secrets(installation: compose.Installation) -> None:
    for part in ("worker-1", "worker-2", "beat-1", "web"):
        everything = installation.log(part).read_text()
        plain = [line for line in everything.splitlines() if not line.startswith("{")]
        assert not plain
        assert all("event" in json.loads(line) for line in everything.splitlines())
        hidden = [installation.secret(name) for name in ("secret_key", "metrics_token")]
        hidden.append(installation.secret("redis_conf").removeprefix("requirepass "))
        assert not any(secret in everything for secret in hidden)
        assert [line for line in everything.splitlines() if '"level": "error"' in line] == []


def test_a_worker_that_hangs_is_unhealthy(installation: compose.Installation) -> None:
    folder = installation.folder / "worker-1"
    alive = folder / "weft-worker.alive"
    assert alive.exists()
    before = alive.stat().st_mtime
    wait_until(lambda: alive.stat().st_mtime > before, "a fresh sign of life", 30)
    assert liveness.path("worker").name == alive.name
    assert time.time() - alive.stat().st_mtime < 60


def test_stopped_workers_give_their_leases_back_within_the_grace_period(installation: compose.Installation) -> None:
    grace = float(compose.services()["worker"]["stop_grace_period"].rstrip("s"))
    for part in ("worker-1", "worker-2"):
        began = time.monotonic()
        assert installation.stop(part) == 0, installation.log(part).read_text()
        assert time.monotonic() - began < grace
    with psycopg.connect(installation.database, autocommit=True) as database:
        held = "SELECT count(*) FROM controlplane_lease WHERE holder <> '' AND expires_at > clock_timestamp()"
        assert database.execute(held).fetchone() == (0,)
    wait_until(lambda: not installation.answers("/readyz"), "readyz to tell that no loop runs", 90)
    assert installation.answers("/readyz?exclude=loops")


def test_the_image_starts_what_the_file_starts() -> None:
    env = compose.image_environment()
    assert env["DJANGO_SETTINGS_MODULE"] == "controlplane.settings"
    web = compose.services()["web"]["command"]
    assert web.startswith("uvicorn controlplane.asgi:application")
    assert "--http controlplane.security.bounded:Bounded" in web
    assert '"--http", "controlplane.security.bounded:Bounded"' in compose.FILE.with_name("Dockerfile").read_text()
    assert {said["tmpfs"][0] for said in compose.services().values() if "tmpfs" in said} == {"/tmp:size=64m"}
    assert Path(compose.FILE).name == "docker-compose.yml"
