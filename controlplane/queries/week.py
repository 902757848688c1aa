"""The demo's past as a small document: what pages, reports and the scheduler's memory need of a week that was run.

Everything of every workload that there was stays, so that the books balance: its row, events, places and usage. Charts'
samples get coarser with age, as nobody sees single minutes of last Friday; of the stored rounds the newest are kept,
without their inputs. Times are the cluster's; those of the database's clock are left out, and so are keys: teams,
pools and classes go by name, workloads by their place in the list.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from django.db import models

from controlplane.models import (
    Cycle,
    Dependency,
    Event,
    Node,
    NodePool,
    Placement,
    PriorityClass,
    ServiceWindow,
    Team,
    TeamSample,
    TeamUse,
    Usage,
    User,
    Workload,
    WorkloadSample,
)
from controlplane.simulator.pastfile import Past, Table

FINE = 6 * 3600.0  # s before the end in which samples are kept as they are: what the charts show at first
MINUTE = 60.0  # s of a service that one window is about
COARSE = 600.0  # s between two samples before that
ROUNDS = 200  # stored rounds kept
# In the order in which they may be written.
MODELS: Mapping[str, type[models.Model]] = {
    model.__name__: model
    for model in (
        Node, Workload, Dependency, Cycle, Placement, Event, Usage, TeamUse, TeamSample, ServiceWindow, WorkloadSample,
    )
}  # fmt: skip
NAMED = (Team, PriorityClass, NodePool)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def uid_of(world: str, team: str, name: str) -> UUID:
    """The id of a workload that a preset's people submit: the same in each run of this world."""
    return uuid5(NAMESPACE_OID, f"{world}/{team}/{name}")


def kept(model: type[models.Model]) -> tuple[Any, ...]:
    """The columns that the document has: not automatic keys, the database's clock, rounds' inputs and accounts."""
    out = (models.AutoField, models.DateTimeField, models.BinaryField)
    return tuple(
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, out) and not (field.is_relation and field.related_model is User)
    )


def is_workload(field: Any) -> bool:
    """Whether a column names a workload."""
    return isinstance(field, models.UUIDField) or (field.is_relation and field.related_model is Workload)


def taken(world: str, since: float, until: float) -> Past:
    """The past of this database's world. Workloads' ids have to follow from the world (`uid_of`)."""
    numbers = {str(uid): i for i, uid in enumerate(Workload.objects.order_by("seq").values_list("pk", flat=True))}
    rounds = list(Cycle.objects.order_by("-pk").values_list("pk", flat=True)[:ROUNDS])[::-1]
    rows = {model: _rows(model, until, rounds) for model in MODELS.values()}
    rounds_by_number = {number: i for i, number in enumerate(rounds)}
    return Past(
        world,
        since,
        until,
        {name: _table(model, rows[model], numbers, rounds_by_number) for name, model in MODELS.items()},
    )


def _rows(model: type[models.Model], until: float, rounds: list[int]) -> Iterable[dict[str, Any]]:
    names = [field.attname for field in kept(model)]
    found = model._default_manager.order_by("seq" if model is Workload else "pk").values(*names)
    if model is Cycle:
        return found.filter(pk__in=rounds)
    if model is TeamSample:
        return (row for row in found if row["at"] > until - FINE or row["at"] % COARSE == 0)
    if model is WorkloadSample:
        return found.filter(at__gt=until - FINE)
    if model is ServiceWindow:
        return _coarser(found.order_by("workload", "start"), until - FINE)
    return found


def _coarser(windows: Iterable[dict[str, Any]], fine: float) -> Iterator[dict[str, Any]]:
    """A service's windows before `fine` ten minutes at a time: the worst latency, and requests by the mean rate.

    Not every minute of those was looked at; the others had requests and failures like these.
    """

    def step(row: dict[str, Any]) -> tuple[Any, float]:
        return row["workload"], row["start"] if row["start"] >= fine else row["start"] // COARSE * COARSE

    for _, group in groupby(windows, step):
        rows = list(group)
        p95 = [row["p95_seconds"] for row in rows if row["p95_seconds"] is not None]
        rates = [row["requests_per_second"] or 0.0 for row in rows]
        minutes = 1 if rows[0]["start"] >= fine else COARSE / MINUTE / len(rows)
        yield {
            **rows[-1],
            "start": rows[0]["start"],
            "requests": round(minutes * sum(row["requests"] or 0 for row in rows)),
            "over": round(minutes * sum(row["over"] or 0 for row in rows)),
            "p95_seconds": round(max(p95), 4) if p95 else None,
            "requests_per_second": round(sum(rates) / len(rates), 2),
        }


def _table(
    model: type[models.Model],
    rows: Iterable[dict[str, Any]],
    numbers: Mapping[str, int],
    rounds: Mapping[int, int],
) -> Table:
    found = list(rows)
    table: dict[str, list[Any]] = {}
    for field in kept(model):
        write = _writer(field, numbers, rounds)
        table[field.attname] = [write(row[field.attname]) for row in found]
    return table


def _writer(field: Any, numbers: Mapping[str, int], rounds: Mapping[int, int]) -> Callable[[Any], Any]:
    """What turns a column's value into the document's."""
    if is_workload(field):
        return lambda value: None if value is None else numbers[str(value)]
    if field.is_relation and field.related_model in NAMED:
        names = dict(field.related_model._default_manager.values_list("pk", "name"))
        return lambda value: names[value]
    if isinstance(field, models.JSONField):
        return lambda value: numbered(json.dumps(value, separators=(",", ":")), numbers)
    if field.attname == "cycle":
        return rounds.get
    if isinstance(field, models.FloatField):
        return lambda value: None if value is None else round(value, 4)
    return lambda value: value


def numbered(text: str, numbers: Mapping[str, int]) -> str:
    """A text with `#12#` in place of the id of the twelfth workload."""
    return _UUID.sub(lambda found: f"#{numbers[found[0]]}#" if found[0] in numbers else found[0], text)
