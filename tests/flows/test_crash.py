"""`kill -9` at random moments: nothing lost, nothing run twice, usage adds up to the second."""

import json
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flows.processes import Server, rows, up
from tests.servers import environment, manage, wait_until

LIVE = "phase NOT IN ('Succeeded', 'Failed', 'Stopped', 'Rejected', 'Expired')"
ENOUGH = 100  # workloads running and waiting at each kill


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.nightly)])
def test_killed_at_random_moments_nothing_is_lost_or_run_twice(home: Path, kills: int) -> None:
    accepted = set[str]()
    rng = random.Random(20261121)
    for kill in range(kills):
        with up(home, "--speed", "120") as weft:
            wait_until(lambda: live(home) >= ENOUGH, f"{ENOUGH} live workloads", 120)
            submitting(weft, kill, accepted, rng.uniform(0.1, 4.0))
        check(home, accepted)
    with up(home):  # whatever was under way when it was killed is taken up again
        pass
    check(home, accepted)
    manage("audit", env=environment(home))  # fails if an invariant does not hold


def submitting(weft: Server, kill: int, accepted: set[str], seconds: float) -> None:
    """Submit as fast as answers come, and kill the server in the middle of it."""
    timer = threading.Timer(seconds, weft.process.kill)
    timer.start()
    number = 0
    while weft.process.poll() is None:
        name = f"kill-{kill}-{number}"
        try:
            answer = weft.submit(name)
        except httpx.TransportError:
            break
        if answer.status_code == 201:
            accepted.add(answer.json()["uid"])
        number += 1
    timer.join()
    assert weft.process.wait(timeout=30) == -9


def live(home: Path) -> int:
    """How many workloads have not ended."""
    return int(rows(home / "weft.sqlite3", f"SELECT count(*) FROM controlplane_workload WHERE {LIVE}")[0][0])


def check(home: Path, accepted: set[str]) -> None:
    """What must hold of the two files at any moment."""
    database, cluster = home / "weft.sqlite3", home / "cluster.sqlite3"
    assert rows(database, "PRAGMA integrity_check") == [("ok",)]
    stored = {uid for (uid,) in rows(database, "SELECT uid FROM controlplane_workload")}
    assert {uid.replace("-", "") for uid in accepted} <= {uid.replace("-", "") for uid in stored}
    twice = """
        SELECT workload_id FROM controlplane_placement WHERE state IN ('Bound', 'Leaving')
        GROUP BY workload_id HAVING count(DISTINCT attempt) > 1
    """
    assert rows(database, twice) == []
    assert attempts_at_once(rows(cluster, "SELECT body FROM row WHERE kind = 'pod' AND body IS NOT NULL")) == []
    assert accounted(database) == []


def attempts_at_once(pods: list[tuple[str]]) -> list[str]:
    """Workloads with live pods of two attempts on the cluster; a pod's row begins with workload and attempt."""
    seen: dict[str, set[int]] = {}
    for (body,) in pods:
        workload, attempt, *rest = json.loads(body)
        if "Pending" in rest or "Running" in rest:
            seen.setdefault(workload, set()).add(attempt)
    return [workload for workload, attempts in seen.items() if len(attempts) > 1]


def accounted(database: Path) -> list[Any]:
    """Workloads whose usage rows differ from the time that their settled placements were held."""
    statement = """
        SELECT p.workload_id, p.held, u.held FROM
            (SELECT workload_id, sum(milli * CAST(round(released_at - bound_at) AS INTEGER)) AS held
             FROM controlplane_placement GROUP BY workload_id
             HAVING min(is_settled) = 1 AND count(released_at) = count(bound_at)) AS p
        LEFT JOIN (SELECT workload, sum(held) AS held FROM controlplane_usage GROUP BY workload) AS u
            ON u.workload = p.workload_id
        WHERE coalesce(p.held, 0) != coalesce(u.held, 0)
    """
    return rows(database, statement)
