"""The production shape: web, two workers and two beats as processes of their own on real Postgres and Redis."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest
import redis

from tests.flows.processes import answering, eventually, signed_in
from tests.servers import (
    answers,
    create_database,
    drop_database,
    environment,
    free_port,
    manage,
    running,
    wait_until,
)

SUCCEEDED_SECONDS = 120.0
CELERY = [sys.executable, "-m", "celery", "-A", "controlplane.celery"]


@dataclass
class Production:
    """The running processes, and how to reach them."""

    url: str
    database: str
    home: Path
    folder: Path
    processes: dict[str, "Popen[bytes]"]

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture(scope="module")
def production(
    postgres_url: str, _migrated_template: str, _redis_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Production]:
    """Weft's processes on an empty world of the demo's teams; the last of the tests stops the workers."""
    tmp_path = tmp_path_factory.mktemp("production")
    home, port = tmp_path / "home", free_port()
    database = create_database(postgres_url, "weft_production", _migrated_template)
    with redis.Redis.from_url(_redis_server) as client:
        client.flushall()
    env = environment(home, DATABASE_URL=database, REDIS_URL=_redis_server, CLUSTER="simulated")
    manage("simulate", "--hours", "0.01", env=env)
    url = f"http://127.0.0.1:{port}"
    worker = [*CELERY, "worker", "--pool", "threads", "--concurrency", "2", "--without-gossip", "--without-mingle"]
    beat = [*CELERY, "beat", "--scheduler", "controlplane.celery:Beat"]
    commands = {
        "web": [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)],
        "worker-1": [*worker, "--hostname", "one@%h"],
        "worker-2": [*worker, "--hostname", "two@%h"],
        "beat-1": beat,
        "beat-2": beat,
    }
    processes = {}
    with ExitStack() as stack:
        for name, command in commands.items():
            (tmp_path / name).mkdir()
            alive = env | {"WEFT_ALIVE": str(tmp_path / name)}
            processes[name] = stack.enter_context(running(command, log=tmp_path / f"{name}.log", env=alive))
        answering(url, processes["web"], tmp_path / "web.log")
        wait_until(lambda: answers(f"{url}/readyz"), "every loop", 60)
        yield Production(url, database, home, tmp_path, processes)
    drop_database(postgres_url, "weft_production")


def job(name: str) -> dict[str, object]:
    return {
        "type": "training",
        "name": name,
        "team": "research",
        "priority_class": "high",
        "image": "example/train:1",
        "expected_duration": "30s",
        "resources": {"gpus": 1},
    }


def test_a_job_goes_from_post_to_succeeded_and_its_usage_is_accounted(production: Production) -> None:
    with signed_in(production.url, (production.home / "password").read_text().strip()) as http:
        answer = http.post("/api/v1/workloads", json=job("hello"))
        assert answer.status_code == 201, answer.text
        uid = answer.json()["uid"]
        eventually(http, f"/api/v1/workloads/{uid}", SUCCEEDED_SECONDS, phase="Succeeded")
        kinds = [event["kind"] for event in http.get(f"/api/v1/workloads/{uid}/events").json()["results"]]
        assert {"Submitted", "Admitted", "Succeeded"} <= set(kinds)
    held = """
        SELECT sum(milli * round(released_at - bound_at)),
            (SELECT sum(held) FROM controlplane_usage WHERE workload = %s)
        FROM controlplane_placement WHERE workload_id = %s
    """
    with psycopg.connect(production.database, autocommit=True) as database:

        def is_accounted() -> bool:
            placed, used = database.execute(held, (uid, uid)).fetchone() or (None, None)
            return used is not None and used > 0 and placed == used

        wait_until(is_accounted, "usage equal to what was held", 120)  # the account loop runs once a minute


def test_with_two_workers_each_submission_is_decided_within_a_second(production: Production) -> None:
    seconds = []
    decided = (
        "SELECT count(*) FROM controlplane_event WHERE workload = %s AND kind IN ('Admitted', 'Waiting', 'Reserved')"
    )
    with (
        signed_in(production.url, (production.home / "password").read_text().strip()) as http,
        psycopg.connect(production.database, autocommit=True) as database,
    ):
        for number in range(15):
            began = time.monotonic()  # before the request: a hint that fails is waited for there
            answer = http.post("/api/v1/workloads", json=job(f"quick-{number}"))
            assert answer.status_code == 201, answer.text
            uid = answer.json()["uid"]
            wait_until(lambda uid=uid: bool(database.execute(decided, (uid,)).fetchone()[0]), "a decision", 30)  # type: ignore[misc]
            seconds.append(time.monotonic() - began)
    # The period is 5 s: a hint that went to the wrong worker would take seconds. The median leaves the machine room.
    assert sorted(seconds)[len(seconds) // 2] < 1.0, seconds


def test_a_stopped_worker_gives_its_leases_back_at_once(production: Production) -> None:
    holders = "SELECT DISTINCT holder FROM controlplane_lease WHERE expires_at > clock_timestamp() AND holder <> ''"
    with psycopg.connect(production.database, autocommit=True) as database:
        for name in ("worker-1", "worker-2"):
            pid = production.processes[name].pid
            began = time.monotonic()
            production.processes[name].send_signal(signal.SIGTERM)
            assert production.processes[name].wait(30) == 0, production.log(name)
            assert time.monotonic() - began < 20.0
            assert not [h for (h,) in database.execute(holders) if h.endswith(f":{pid}")]
            assert "Traceback" not in production.log(name)
        assert not database.execute(holders).fetchall()


def test_nothing_but_json_tasks_with_no_arguments_goes_through_the_broker() -> None:
    """A message is a hint: it names a loop and carries nothing that could be forged (L2)."""
    from controlplane import tasks
    from controlplane.celery import app

    assert app.conf.accept_content == ["json"]
    assert all(app.tasks[f"controlplane.tasks.{name}"].ignore_result for name in tasks.PERIODS)
    assert all("args" not in entry for entry in app.conf.beat_schedule.values())
