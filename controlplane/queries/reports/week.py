"""The demo's past as a small document: what pages, reports and the scheduler's memory need of a week that was run.

Everything of every workload that there was stays, so that the books balance: its row, events, places and usage. Charts'
samples get coarser with age, as single minutes of last Friday are not shown; of the stored rounds the newest are kept,
without their inputs. Times are the cluster's; those of the database's clock are left out, and so are keys: teams,
pools and classes go by name, workloads by their place in the list.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from django.db import models

from controlplane.models import Cycle, Event, ServiceWindow, TeamSample, Usage, Workload, WorkloadSample
from controlplane.models.past import MODELS, NAMED, is_workload, kept
from controlplane.simulator.worlds.pastfile import Past, Table

FINE = 6 * 3600.0  # s before the end in which samples are kept as they are: what the charts show at first
COARSE = 600.0  # s between two samples before that
ROUNDS = 200  # stored rounds kept
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def taken(world: str, since: float, until: float) -> Past:
    """The past of this database's world. Workloads' ids have to follow from the world (`past.uid_of`)."""
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
    if model in (Event, Usage):
        return _unnamed(found)
    if model is ServiceWindow:
        return _coarser(found.order_by("workload", "start"), until - FINE)
    return found


def _unnamed(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Without the names of workloads, which follow from which one it is."""
    names = dict(Workload.objects.values_list("pk", "name"))
    for row in rows:
        yield row | {"name": None} if names.get(row["workload"]) == row["name"] else row


def _coarser(windows: Iterable[dict[str, Any]], fine: float) -> Iterator[dict[str, Any]]:
    """A service's windows before `fine` ten minutes at a time: the worst latency, and the requests of all minutes."""

    def step(row: dict[str, Any]) -> tuple[Any, float]:
        return row["workload"], row["start"] if row["start"] >= fine else row["start"] // COARSE * COARSE

    for _, group in groupby(windows, step):
        rows = list(group)
        p95 = [row["p95_seconds"] for row in rows if row["p95_seconds"] is not None]
        rates = [row["requests_per_second"] or 0.0 for row in rows]
        yield {
            **rows[-1],
            "start": rows[0]["start"],
            "requests": sum(row["requests"] or 0 for row in rows),
            "over": sum(row["over"] or 0 for row in rows),
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
        return lambda value: None if value is None else numbered(json.dumps(value, separators=(",", ":")), numbers)
    if field.attname == "message":
        return lambda value: numbered(value, numbers)
    if field.attname == "cycle":
        return rounds.get
    if isinstance(field, models.FloatField):
        return lambda value: None if value is None else round(value, 4)
    return lambda value: value


def numbered(text: str, numbers: Mapping[str, int]) -> str:
    """A text with `#12#` in place of the id of the twelfth workload."""
    return _UUID.sub(lambda found: f"#{numbers[found[0]]}#" if found[0] in numbers else found[0], text)
