"""The production shape: web, worker and beat as processes of their own on real Postgres and Redis."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.flows.processes import answering, eventually, signed_in
from tests.servers import environment, free_port, manage, running

SUCCEEDED_SECONDS = 120.0


@pytest.fixture
def production(tmp_path: Path, postgres_database: str, redis_url: str) -> Iterator[tuple[str, Path]]:
    """Weft's processes on an empty world of the demo's teams; its address and its folder."""
    home, port = tmp_path / "home", free_port()
    env = environment(home, DATABASE_URL=postgres_database, REDIS_URL=redis_url, CLUSTER="simulated")
    manage("simulate", "--hours", "0.01", env=env)
    url = f"http://127.0.0.1:{port}"
    celery = [sys.executable, "-m", "celery", "-A", "controlplane.celery"]
    commands = {
        "web": [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)],
        "worker": [*celery, "worker", "--loglevel", "info", "--concurrency", "2"],
        "beat": [*celery, "beat", "--loglevel", "info", "--schedule", str(tmp_path / "beat")],
    }
    with ExitStack() as stack:
        for name, command in commands.items():
            process = stack.enter_context(running(command, log=tmp_path / f"{name}.log", env=env))
            if name == "web":
                answering(url, process, tmp_path / "web.log")
        yield url, home


def test_a_job_goes_from_post_to_succeeded_and_its_usage_is_accounted(
    production: tuple[str, Path], postgres_database: str
) -> None:
    url, home = production
    job = {
        "type": "training",
        "name": "hello",
        "team": "research",
        "priority_class": "high",
        "image": "example/train:1",
        "expected_duration": "30s",
        "resources": {"gpus": 1},
    }
    with signed_in(url, (home / "password").read_text().strip()) as http:
        answer = http.post("/api/v1/workloads", json=job)
        assert answer.status_code == 201, answer.text
        uid = answer.json()["uid"]
        eventually(http, f"/api/v1/workloads/{uid}", SUCCEEDED_SECONDS, phase="Succeeded")
        kinds = [event["kind"] for event in http.get(f"/api/v1/workloads/{uid}/events").json()["results"]]
        assert {"Submitted", "Admitted", "Succeeded"} <= set(kinds)
        assert http.get("/readyz").status_code == 200
    held = """
        SELECT sum(milli * round(released_at - bound_at)),
            (SELECT sum(held) FROM controlplane_usage WHERE workload = %s)
        FROM controlplane_placement WHERE workload_id = %s
    """
    with psycopg.connect(postgres_database, autocommit=True) as database:
        for _ in range(600):
            placed, used = database.execute(held, (uid, uid)).fetchone() or (None, None)
            if used is not None and placed == used:
                break
            httpx.get(f"{url}/healthz", timeout=30)  # the account loop runs once a minute
            database.execute("SELECT pg_sleep(0.2)")
        assert placed == used
        assert used > 0


def test_nothing_but_json_tasks_with_no_arguments_goes_through_the_broker() -> None:
    """A message is a hint: it names a loop and carries nothing that could be forged (reliability.md SEC-5)."""
    from controlplane import tasks
    from controlplane.celery import app

    assert app.conf.accept_content == ["json"]
    assert all(app.tasks[f"controlplane.tasks.{name}"].ignore_result for name in tasks.PERIODS)
    assert all("args" not in entry for entry in app.conf.beat_schedule.values())
