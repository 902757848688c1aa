"""No statement's number of parameters grows with the number of workloads: Postgres takes 65,535, and there may be more.

A list of marks for each workload works in every test and in every small cluster, and fails for ever in a large one.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from autoscaler.observed import Scrape
from controlplane.cluster.port import PodPhase, PodUse, Saved, ServiceUse
from controlplane.loops import account, actuate, audit, observe, predict_starts, publish, scale, schedule
from controlplane.models import Action, Delivery, Notice, Placement, Workload
from controlplane.services.notifications import notices
from controlplane.services.scheduling import clusters
from tests.autoscaler.services import look
from tests.controlplane.state import NoMetrics, World, node
from tests.controlplane.telling import Told

ROOT = Path(__file__).parents[2]
MISSING = 100_000  # more than one statement of Postgres takes parameters
SETTLED = 500  # of those
MAX_OF_OLD_SQLITE = 1_000  # more than one of SQLite took for long


class Measured(NoMetrics):
    """Each service is a bit too slow, each training has saved something, each notebook is in use."""

    at = 0.0

    def services(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return tuple(ServiceUse(uid, self.at, 60.0, 100.0, 0.5, 3000, 6000, 40) for uid in workloads)

    def scrapes(self, workloads: Sequence[str]) -> dict[str, Scrape]:
        return {uid: look(self.at, 100.0, waiting=40, seconds=0.2) for uid in workloads}

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return tuple(Saved(uid, 1, self.at, 0.5) for uid in workloads)

    def pods(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return tuple(PodUse(uid, 1, 0, None, 900, 100, None) for uid in workloads)


class Counted:
    """The most parameters of each statement that ran, by its beginning."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        beginning = re.split(r"%s|\bIN\b|\bVALUES\b", sql)[0]
        one_row = max(map(len, params), default=0) if many else len(params or ())
        self.most[beginning] = max(self.most.get(beginning, 0), one_row)
        return execute(sql, params, many, context)


class UndoneError(Exception):
    """Ends a transaction whose work is not wanted."""


def parameters(count: int) -> dict[str, int]:
    """What the loops ask while so many trainings, services and notebooks run, wait for others, end and vanish."""
    seen = Counted()
    with pytest.raises(UndoneError), transaction.atomic(), connection.execute_wrapper(seen):
        _live(count)
        raise UndoneError
    return seen.most


def _live(count: int) -> None:
    metrics = Measured()
    told = Told(World(metrics=metrics))
    world = told.world
    world.cluster.nodes |= {name: node(name) for name in "cdefgh"}
    world.observe_all()
    for who in ("ann", "ben"):
        for matter in ("ended", "waits-long", "slo"):
            told.rule(who, matter, by_mail=True)
    small = {"cpu": 1, "memory": "1Gi"}
    objective = {"p95_latency": "200ms", "availability": 99.9}
    for number in range(count):
        told.job(f"train-{number}", resources=small)
        told.job(f"after-{number}", resources=small, after=[f"train-{number}"])
        told.job(f"book-{number}", kind="notebook", resources=small, idle={"park_after": "1h"})
        window = {**objective, "window": f"{number % 3 + 1}d"}
        told.job(f"serve-{number}", kind="inference", resources=small, replicas={"min": 1, "max": 4}, objective=window)
        told.job(f"waits-{number}", gpus=8, workers=8)
    for _ in range(3):
        _round(world, told)
    for workload in Workload.objects.filter(kind="training", name__startswith="train"):
        world.cluster.set(workload, PodPhase.SUCCEEDED)
    _round(world, told)
    world.cluster.pods.clear()
    clusters.forget_cursor()
    _round(world, told)
    Notice.objects.update(at="2020-01-01T00:00Z")
    Delivery.objects.update(created_at="2020-01-01T00:00Z")
    notices.prune(lease=world.lease("notify"))


def _round(world: World, told: Told) -> None:
    world.later(60.0)
    world.metrics.at = world.cluster.at
    for pace in ("predict pace", "audit pace"):
        world.wiring.kept.pop(pace, None)
    world.wiring.kept.pop("timeouts_at", None)
    for loop in (schedule, actuate, publish):
        assert not loop.run_once(world.wiring).skipped
    for workload in Workload.objects.filter(phase__in=["Admitted", "Starting"]):
        world.cluster.set(workload, PodPhase.RUNNING)
    for loop in (observe, account, scale, predict_starts, audit):
        assert not loop.run_once(world.wiring).skipped
    told.round()


@pytest.mark.django_db
def test_no_statement_of_the_loops_has_more_parameters_for_more_workloads(settings: Any) -> None:
    settings.EMAIL_CONFIGURED = True
    few, many = parameters(3), parameters(12)
    assert len(many) > 50
    assert {start: (few[start], n) for start, n in many.items() if start in few and n > few[start]} == {}
    assert max(many.values()) == max(few.values())


@pytest.mark.django_db
def test_a_full_observation_takes_in_100_000_missing_pods() -> None:
    """Those that were to start just now are left alone, as it may be older than their start; the rest run again."""
    world = World()
    one = world.submit("one")
    world.run(one, "a")
    count = MISSING if connection.vendor == "postgresql" else MAX_OF_OLD_SQLITE
    _copy(one, count)
    world.cluster.forget(one)
    world.observe_all()
    assert Workload.objects.filter(phase="Queued").count() == SETTLED
    assert Placement.objects.exclude(state="Released").count() == count - SETTLED


def _copy(one: Workload, count: int) -> None:
    """Write so many workloads in all that are like this one, each with its place and most with a start to come."""
    if connection.vendor == "postgresql":
        numbers, uid = "generate_series(2, %s) n", "lpad(to_hex(n), 32, '0')::uuid"
    else:
        uid = "printf('%%032x', n)"
        numbers = "(WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < %s) SELECT n FROM c)"
    start = {"workload": uid, "done_at": f"CASE WHEN n > {SETTLED} THEN NULL ELSE t.done_at END"}
    copies = ((Workload, {"uid": uid, "seq": "n", "name": "'job-' || n"}), (Placement, {"workload_id": uid}))
    for model, new in (*copies, (Action, start)):
        table = model._meta.db_table
        columns = [f.column for f in model._meta.concrete_fields if f.column != "id"]
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(new.get(name, f't."{name}"') for name in columns)
        with connection.cursor() as cursor:
            cursor.execute(f'INSERT INTO "{table}" ({names}) SELECT {values} FROM "{table}" t, {numbers}', [count])
            cursor.execute(f'ANALYZE "{table}"')  # as Postgres does by itself, some time after so many rows


# --- lists that are written in the code, and no others ------------------------------------------


def test_a_list_that_depends_on_data_is_one_parameter() -> None:
    """`__in` is for lists written in the code, and for those of teams and people."""
    assert set(_lists()) == AS_FEW_AS


# Of teams, people, webhooks and what they have; and words of ours.
FEW = re.compile(r"(\w+__)?(team(_id|__name)?|user|group|webhook|matter|kind|phase|service_of__name)__in")
# Not of workloads, and few: what else is counted by its length.
AS_FEW_AS = {
    "controlplane/queries/workloads/search.py: name__in=access.team_names(user)",
    "controlplane/queries/workloads/search.py: uid__in=_uids(text)",  # one
    "controlplane/queries/reports/week.py: pk__in=rounds",  # a query
    "controlplane/queries/reports/sla.py: pk__in=newest",  # a query
    "controlplane/queries/workloads/scalingcurve.py: name__in=nodes",  # a query
    "controlplane/services/audit/audits.py: name__in=found",  # invariants
    "controlplane/services/tenancy/budgets.py: pk__in=used",
    "controlplane/services/scheduling/simulations.py: pk__in=list(kept)",  # KEEP of them
}


def _lists() -> Iterator[str]:
    for path in sorted((ROOT / "controlplane").rglob("*.py")):
        if {"migrations", "benchmarks"} & set(path.parts):
            continue
        for found in ast.walk(ast.parse(path.read_text())):
            values = None
            if isinstance(found, ast.keyword) and (found.arg or "").endswith("__in"):
                values = None if FEW.match(found.arg or "") else found.value
            if values is not None and not _is_written(values):
                yield f"{path.relative_to(ROOT)}: {ast.unparse(found)}"


def _is_written(values: ast.expr) -> bool:
    """Whether a list's length follows from the code: a literal, a constant, or one made of a constant's members."""
    match values:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return all(not isinstance(one, ast.Starred) or _is_written(one.value) for one in elements)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").isupper()
        case ast.ListComp(generators=[only]) | ast.GeneratorExp(generators=[only]):
            return _is_written(only.iter)
        case ast.Call(func=ast.Name(id="sorted" | "list"), args=[one]):
            return _is_written(one)
        case ast.Subscript(value=ast.Call()) | ast.Call(func=ast.Attribute(attr="values")):  # a query within it
            return True
    return False
