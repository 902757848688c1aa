"""`demo-week`: whether the demo's services meet their objectives for seven days, by the default policy at LOAD 1.2.

The production loops on the simulated cluster with all of the demo's work (`simulator/worlds/demo.py`). The week is run
as two stretches side by side, on two cores; the second begins two hours earlier than it counts.

A service is violated when more of its requests were late or failed than its objective allows, in any window of the
objective (a day, ended at each of its minutes), or over all of its life where that is shorter. The product's own word
also counts the first minutes of a day's window, in which one late request is above any budget, as the window begins
with the service; so the benchmark judges whole windows.

- `violated_services`: of all: those that run from the start on, and those on trial, which pipelines bring out for two
  hours each.
- `late_percent_max`: of the services that run from the start on, the most over the week.
"""

import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.simulator.worlds.demo import SERVICES

DAYS = 7
STRETCHES = 2  # side by side: a core each
Minute = Sequence[float]  # start (cluster clock), requests, late or failed


@dataclass(slots=True)
class Service:
    """One service of the demo over the week. availability: the part promised, 0..1; window: of it, seconds."""

    team: str
    name: str
    availability: float
    window: float
    minutes: list[Minute] = field(default_factory=list)

    @property
    def late(self) -> float:
        """The part of all its requests that was late or failed."""
        return _part(self.minutes)

    @property
    def worst(self) -> float:
        """The largest part in any whole window; over all of its life where that is shorter."""
        first = self.minutes[0][0]
        whole = [part for start, part in self._windows() if start + 60.0 - first >= self.window]
        return max(whole, default=self.late)

    @property
    def is_violated(self) -> bool:
        """Whether that is more than its error budget."""
        return self.worst > 1 - self.availability

    def _windows(self) -> Iterable[tuple[float, float]]:
        """(the start of its last minute, part late) of the window that ends with each minute."""
        requests = over = 0.0
        oldest = 0
        for start, came, late in self.minutes:
            requests, over = requests + came, over + late
            while self.minutes[oldest][0] <= start - self.window:
                requests, over = requests - self.minutes[oldest][1], over - self.minutes[oldest][2]
                oldest += 1
            yield start, over / requests


def run(options: Options, progress: Progress) -> Result:
    """Run the week and judge it; `--repeat` takes so many days only. Raises BenchmarkError."""
    hours = 24.0 * (options.repeat or DAYS)
    bounds = [hours * n / STRETCHES for n in range(STRETCHES + 1)]
    parts, lock = [0.0] * STRETCHES, threading.Lock()

    def stretch(number: int) -> list[dict[str, Any]]:
        since, until = bounds[number : number + 2]
        asked = ("--since", f"{since}", "--until", f"{until}", "--seed", str(options.seeds[0]))
        with tempfile.TemporaryDirectory(prefix="weft-demo-week-") as home:
            for line in processes.lines(Path(home), "benchmark_process", "demo-week", *asked):
                if "services" in line:
                    return list(line["services"])
                with lock:
                    parts[number] = line["part"]
                    progress(sum(parts) / STRETCHES, f"hour {line['hours']:.0f} of stretch {number + 1}")
        return []

    with ThreadPoolExecutor(STRETCHES) as pool:
        return result(joined(pool.map(stretch, range(STRETCHES))))


def joined(stretches: Iterable[list[dict[str, Any]]]) -> list[Service]:
    """The services of stretches in their order; one that runs from the start on is the same in all of them."""
    found: dict[tuple[str, str], Service] = {}
    for one in (one for stretch in stretches for one in stretch):
        key = one["team"], one["name"]
        service = found.setdefault(key, Service(*key, one["availability"], one["window_seconds"]))
        service.minutes += one["minutes"]
    return list(found.values())


def result(services: Sequence[Service]) -> Result:
    """What is told of these."""
    stay = {(service.team, service.name) for service in SERVICES}
    from_the_start = [one for one in services if (one.team, one.name) in stay]
    on_trial = [one for one in services if (one.team, one.name) not in stay]
    late = max((one.late for one in from_the_start), default=0.0)
    violated = [one for one in services if one.is_violated]
    judged: dict[bool, list[Service]] = defaultdict(list)
    for one in on_trial:
        judged[one.is_violated].append(one)
    worst = sorted(judged[True], key=lambda one: -one.worst)[:5]
    return Result(
        (
            Figure("demo-week.violated_services", float(len(violated)), "", 0),
            Figure("demo-week.late_percent_max", round(100 * late, 3), "%"),
        ),
        (
            *map(_told, from_the_start),
            f"on trial: {len(on_trial)} services, {len(judged[True])} violated, {100 * _part_of(on_trial):.3f} % late",
            *(f"on trial, {_told(one)}" for one in worst),
        ),
    )


def _told(one: Service) -> str:
    word = "violated" if one.is_violated else "met"
    budget, requests = 100 * (1 - one.availability), sum(minute[1] for minute in one.minutes)
    return (
        f"{one.team}/{one.name}: {word}; {100 * one.late:.3f} % of {requests:,.0f} requests late, "
        f"{100 * one.worst:.3f} % in its worst window, {budget:.3g} % may"
    )


def _part_of(services: Iterable[Service]) -> float:
    return _part([minute for one in services for minute in one.minutes])


def _part(minutes: Sequence[Minute]) -> float:
    requests = sum(minute[1] for minute in minutes)
    return sum(minute[2] for minute in minutes) / requests if requests else 0.0
