"""A stretch of the demo's week in a process and a database of its own, and what its services' requests came to."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management import call_command

from controlplane.loops import wiring
from controlplane.loops.embedded import Driver
from controlplane.models import ServiceWindow, Workload
from controlplane.queries.reports import sla
from controlplane.runtime import tuning
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import catalogue, demo
from controlplane.simulator.worlds.hours import HOUR
from controlplane.simulator.worlds.presets import Pace
from scheduler.model.workload import Kind

# Services are looked at as often as the product does. Rounds come every 15 s in place of every 5 s: what was decided is
# seen up to 10 s later, which spares two thirds of the time and is no help to any service.
PACE = Pace(slot=15.0)
WARM_HOURS = 2.0  # before a stretch that does not begin the week: the law has to learn the services first


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Run the demo with the default policy from `since` to `until` (hours from its opening); progress goes out as JSON.

    services: of each with an objective its team, name, p95_seconds, availability, and its minutes from `since` on as
    [start, requests, late or failed].
    """
    since, until = (demo.OPENING + HOUR * options[name] for name in ("since", "until"))
    start = demo.OPENING if options["since"] <= 0 else since - WARM_HOURS * HOUR
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    preset = replace(catalogue.demonstration(catalogue.DEFAULT_LOAD, options["seed"], start), pace=PACE)
    presets.load(preset=preset, password="", speed=preset.pace.speed)
    tuning.collect_less_often()
    driver = Driver(wiring.simulated(preset, in_memory=True), preset, contain=False)
    told = start

    def tell(at: float) -> None:
        nonlocal told
        if at >= told + HOUR:
            told = at
            print(json.dumps({"part": (at - start) / (until - start), "hours": (at - since) / HOUR}), flush=True)  # noqa: T201

    driver.run_to(until, tell)
    return {"services": _services(since)}


def _services(since: float) -> list[dict[str, Any]]:
    minutes: dict[Any, list[list[float]]] = defaultdict(list)
    measured = ServiceWindow.objects.filter(start__gte=since, requests__gt=0).order_by("start")
    for uid, *minute in measured.values_list("workload", "start", "requests", "over"):
        minutes[uid].append([float(value or 0) for value in minute])
    rows = Workload.objects.filter(pk__among=list(minutes), kind=Kind.INFERENCE.value).order_by("seq")
    found = []
    for uid, team, name, spec in rows.values_list("pk", "team__name", "name", "spec"):
        if promised := sla.objective(spec):
            parts = {key: float(promised[key]) for key in ("p95_seconds", "availability", "window_seconds")}
            found.append({"team": team, "name": name, **parts, "minutes": minutes[uid]})
    return found
