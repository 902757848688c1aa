"""All tables after a simulated day of the demo, seed 0, written by the production loops on SQLite.

Left out are what each run has anew (the database's clock, keys and passwords) and rounds' inputs, which `rounds` has.
Workloads stand under their names, where a column or a text has their id.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import models

from controlplane.loops.embedded import Driver
from controlplane.loops.wiring import simulated
from controlplane.models import User, Workload
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.demand import Demand
from controlplane.simulator.worlds.demo import Served
from controlplane.simulator.worlds.presets import START, Preset

DAY = 86_400.0  # s of the cluster's clock
SEED = 0
# Columns that each run has anew, and that are of no type that says so.
OF_THE_RUN = {("Cycle", "took_ms"), ("Lease", "holder"), ("Heartbeat", "took_ms"), ("Heartbeat", "holder")}
SERVED = (  # the demo's services as they were when it was recorded; it has larger ones now
    Served("nlp", "chat", "", 0.0, 0.0, 3, 6),
    Served("vision", "detector", "", 0.0, 0.5, 2, 4),
    Served("product", "ranker", "", 0.0, 0.5, 3, 6),
    Served("product", "asr", "", 0.0, 0.0, 2, 4),
)
ADDED_KINDS = ("Diagnosed",)  # of events that features since the recording have added
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Tables = Mapping[str, list[dict[str, Any]]]


def simulate(until: float = START + DAY, progress: Callable[[float], None] = lambda _: None) -> Preset:
    """Run the demo in this empty, migrated database from its first midnight on."""
    preset = catalogue.demonstration(catalogue.DEFAULT_LOAD, SEED, START)
    assert isinstance(preset.arrivals, Demand)
    preset = replace(preset, arrivals=replace(preset.arrivals, served=SERVED))
    presets.load(preset=preset, password="", speed=preset.pace.speed)
    Driver(simulated(preset, in_memory=True), preset, contain=False).run_to(until, progress)
    return preset


def migrate() -> None:
    """Make the tables."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)


def tables() -> Tables:
    """Every row of every table of ours, by the names of models and columns; in the order of their keys."""
    names = {
        str(uid): f"{team}/{name}" for uid, team, name in Workload.objects.values_list("uid", "team__name", "name")
    }
    found = {model.__name__: _rows(model, names) for model in apps.get_app_config("controlplane").get_models()}
    return {name: rows for name, rows in found.items() if rows}


def log_until(tables: Tables, seconds: float) -> list[dict[str, Any]]:
    """The log of events up to a moment of the first day: it only grows, so a shorter run has the same beginning.

    Without the kinds that features since then have added; the others are numbered anew, as these had numbers too.
    """
    told = [row for row in tables["Event"] if row["cluster_at"] < START + seconds and row["kind"] not in ADDED_KINDS]
    return [{**row, "id": number} for number, row in enumerate(told, 1)]


def _rows(model: type[models.Model], names: Mapping[str, str]) -> list[dict[str, Any]]:
    columns = [field.attname for field in _columns(model)]
    found: Iterable[dict[str, Any]] = model._default_manager.order_by("pk").values(*columns)
    rows = [{name: _named(value, names) for name, value in row.items()} for row in found]
    return rows if model is not Workload else sorted(rows, key=lambda row: str(row["seq"]))


def _columns(model: type[models.Model]) -> Iterable[Any]:
    out = (models.DateTimeField, models.BinaryField)
    for field in model._meta.concrete_fields:
        is_secret = model is User and field.attname == "password"
        if not isinstance(field, out) and (model.__name__, field.attname) not in OF_THE_RUN and not is_secret:
            yield field


def _named(value: Any, names: Mapping[str, str]) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {_named(key, names): _named(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_named(one, names) for one in value]
    return UUID.sub(lambda found: names.get(found[0], "an id"), str(value))
