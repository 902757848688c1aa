"""Writing the demo's past (queries/reports/week.py) into a new database, as if it had been there all the week."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction

from controlplane.lifecycle.state import BOUND
from controlplane.models import Action, Cycle, Placement, Workload, bulk
from controlplane.models.past import MODELS, NAMED, is_workload, kept, uid_of
from controlplane.services.scheduling import changes
from controlplane.services.scheduling.clock import database_now
from controlplane.services.workloads import arrivals
from controlplane.simulator.worlds.pastfile import Past, Table, length
from scheduler.model.workload import ACTIVE, Kind

_NUMBER = re.compile(r"#(\d+)#")
_ACTION = ("verb", "workload", "attempt", "payload", "created_at", "tries", "not_before", "error", "done_at")


@dataclass(frozen=True, slots=True)
class Ahead:
    """How long before the end of the past a new cluster starts the pods that hold places then, seconds.

    Services earlier, as they get their requests step by step. Others so late that none ends before the end of the past:
    they have been billed up to it.
    """

    services: float
    others: float


@transaction.atomic
def load(*, past: Past, arrived: int, ahead: Ahead) -> None:
    """Write a past into a database that has the world's teams, and nothing else happened in.

    `arrived`: how many of the preset's arrivals are in the past already. What held GPUs at its end holds them still:
    its pods are commands for a new cluster, to be performed so long before it is first observed.
    """
    named = past.tables["Workload"]
    uids = [uid_of(past.world, team, name) for team, name in zip(named["team_id"], named["name"], strict=True)]
    rounds: list[int] = []
    for title, model in MODELS.items():
        _insert(model, _named(past.tables[title], named["name"]), uids, rounds)
        if model is Cycle:
            rounds += Cycle.objects.order_by("pk").values_list("pk", flat=True)
    _start_again(past.until, ahead)
    _shorten_sessions(past.until, ahead.others)
    arrivals.skip(arrived)
    changes.touch(None)


def _named(table: Table, names: Sequence[str]) -> Table:
    """A table with the names of workloads that were left out."""
    if "name" not in table or "workload" not in table:
        return table
    pairs = zip(table["name"], table["workload"], strict=True)
    return {**table, "name": [names[number] if name is None else name for name, number in pairs]}


def _insert(model: type[models.Model], table: Table, uids: Sequence[UUID], rounds: Sequence[int]) -> None:
    """Write a table's rows in order. Plain statements, as there are a hundred thousand of them within seconds."""
    known = {field.attname: field for field in kept(model)}
    stored = bulk.stored(Workload, "uid", uids)
    columns = {known[name].column: _read(known[name], table[name], stored, rounds) for name in table}
    count = length(table)
    for field in model._meta.concrete_fields:  # the database's clock, a round's input, and what is new since
        if field.column not in columns and not field.primary_key:
            value = database_now() if isinstance(field, models.DateTimeField) else field.get_default()
            columns[field.column] = [field.get_db_prep_save(value, connection)] * count
    bulk.insert_columns(model, columns)


def _read(field: Any, values: Sequence[Any], uids: Sequence[Any], rounds: Sequence[int]) -> Sequence[Any]:
    """A column's values as the database stores them."""
    if is_workload(field):
        return [None if number is None else uids[number] for number in values]
    if field.is_relation and field.related_model in NAMED:
        keys = dict(field.related_model._default_manager.values_list("name", "pk"))
        return [keys[name] for name in values]
    if isinstance(field, models.JSONField) or field.attname == "message":
        return [_with_ids(text, uids) if text and "#" in text else text for text in values]
    if field.attname == "cycle":
        return [None if number is None else rounds[number] for number in values]
    return values


def _with_ids(text: str, uids: Sequence[Any]) -> str:
    return _NUMBER.sub(lambda found: str(UUID(str(uids[int(found[1])]))), text)


def _start_again(at: float, ahead: Ahead) -> None:
    """Have the cluster start the pods of everything that holds a place: it is a new one, and knows of none."""
    ranks: dict[tuple[UUID, int, str], list[int]] = {}
    held = Placement.objects.filter(state=BOUND, workload__phase__in=[p.value for p in ACTIVE]).order_by("pk")
    for uid, attempt, rank, kind in held.values_list("workload", "attempt", "rank", "workload__kind"):
        ranks.setdefault((uid, attempt, kind), []).append(rank)
    early = {Kind.INFERENCE.value: ahead.services}
    rows = [
        ("start", uid, attempt, {"ranks": of}, at, 0, at - early.get(kind, ahead.others), "", None)
        for (uid, attempt, kind), of in ranks.items()
    ]
    bulk.insert(Action, _ACTION, rows)


def _shorten_sessions(at: float, ahead: float) -> None:
    """A notebook's person leaves when its session would have ended: the new cluster counts from its new start."""
    for one in Workload.objects.filter(kind="notebook", phase__in=[p.value for p in ACTIVE], started_at__isnull=False):
        truth = one.spec["simulated"]
        rest = truth["duration"] - (at - (one.started_at or at)) + ahead
        spec = {**one.spec, "simulated": {**truth, "duration": max(rest, ahead + 60.0)}}
        Workload.objects.filter(pk=one.pk).update(spec=spec)


def checkpoints(at: float, ahead: float) -> Mapping[UUID, tuple[float, float]]:
    """How far trainings that have begun are at a moment of the cluster's clock, less what they do in `ahead` seconds.

    (part of the work, when) by id: the checkpoints that a new cluster has to have.
    """
    found: dict[UUID, tuple[float, float]] = {}
    running = Workload.objects.filter(kind="training", ended_at=None, first_started_at__isnull=False)
    columns = ("pk", "phase", "spec", "progress", "checkpointed_at", "started_at")
    for uid, phase, spec, progress, saved_at, started_at in running.values_list(*columns):
        total, done = float(spec["simulated"]["duration"]), progress or 0.0
        if phase in ACTIVE and started_at is not None:
            done += (at - max(started_at, saved_at or 0.0) - ahead) / total
            done = min(done, 1.0 - (ahead + 1.0) / total)  # it ended after that, so it must not end before
        if done > 0:
            found[uid] = (round(done, 6), at - ahead)
    return found
