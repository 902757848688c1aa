"""`manage.py reproduce seeds`: what DynamoML, NEARCHUS and the poster claim, beside what Weft reaches of it.

Nine experiments (`experiments.py`), each with its baselines. The mix of notebooks, a service and trainings is played
now; benchmarks that take long (services, notebooks, trainings alone, tokens, Sia) are shown as they are stored with
their commit and age, or measured anew. What is played is kept beside the report, and a second call goes on from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from controlplane.benchmarks.harness.figure import BenchmarkError, Progress
from controlplane.benchmarks.harness.record import machine
from controlplane.benchmarks.harness.registry import BENCHMARKS, HERE
from controlplane.benchmarks.mix.measure import All
from controlplane.benchmarks.seeds import mixrows, noted, plays, servicerows
from controlplane.benchmarks.seeds.experiments import View
from controlplane.benchmarks.seeds.forms import Form
from controlplane.benchmarks.seeds.kept import Kept, digest
from controlplane.benchmarks.seeds.rows import Kind, Row
from controlplane.benchmarks.seeds.taken import OF, Benchmarks, Taken, commit_of

MORE = (f"{HERE}/mix/dragon.py", f"{HERE}/seeds/plays.py")
CLAIM = Kind.CLAIM
BENCHMARK_PART = 0.5  # of the time, where benchmarks are measured; else they cost none


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of the experiments of a view; taken: of benchmarks, by name; head: when, where and of which code."""

    view: View
    form: Form
    rows: tuple[Row, ...]
    taken: dict[str, Taken]
    head: str


def found(
    view: View, form: Form, benchmarks: Benchmarks, data: Path, kept_at: Path | None, progress: Progress
) -> Found:
    """Play and measure what is not known yet. Raises BenchmarkError where data are missing."""
    names = list(dict.fromkeys(OF[one] for one in view.experiments if one in OF))
    require(form, benchmarks, data, names)
    kept = Kept(kept_at, codes(names))
    first = BENCHMARK_PART if any(benchmarks.is_due(name) for name in names) else 0.0
    taken = {}
    for at, name in enumerate(names):
        step = first / len(names)
        taken[name] = benchmarks.take(name, data, kept, _part(progress, at * step, step, f"{name}: "))
    rest = (1 - first) / 2
    mix = plays.played(data, plays.MIX, form.mix(), kept, _part(progress, first, rest), form.processes)
    keys = form.by_manifests() if {"E2", "E7"} & set(view.experiments) else ()
    manifests = plays.played(data, plays.MANIFESTS, keys, kept, _part(progress, first + rest, rest), form.processes)
    played = f"played, {commit_of(benchmarks.now)}"
    of_services = list(servicerows.rows(form.traces, data, played)) if "E3" in view.experiments else []
    mine = chosen(view, form, mix, manifests, taken, of_services, played)
    when = datetime.now(UTC).isoformat(timespec="minutes")
    return Found(view, form, mine, taken, f"{when}, {commit_of(benchmarks.now)}, {machine()}")


def chosen(
    view: View, form: Form, mix: All, manifests: All, taken: Mapping[str, Taken], more: Sequence[Row], played: str
) -> tuple[Row, ...]:
    """The rows of the view's experiments, in their order. more: rows that are neither of the mix nor of benchmarks."""
    some = [*mixrows.rows(mix, manifests, form, played), *more]
    for name, one in taken.items():
        some += noted.rows(name, one.result, one.source) if one.result.figures else ()
    mine = [row for row in some if row.experiment in view.experiments or (row.kind, row.policy) == (CLAIM, view.paper)]
    return tuple(sorted(mine, key=lambda row: row.experiment))


def require(form: Form, benchmarks: Benchmarks, data: Path, names: Sequence[str]) -> None:
    """All files are there without which it would end in the middle. Raises BenchmarkError that names those missing."""
    lack = list(benchmarks.missing(data, names))
    if set(form.sets) != {"ps"} and not (data / plays.TABLES).exists():
        lack.insert(0, f"{plays.TABLES} (E1, E2, E3, E4, E7)")
    if lack:
        raise BenchmarkError(
            f"{data} has no {', no '.join(lack)}. Set WEFT_DATA to the folder with the shared traces; --short needs "
            "none."
        )


def codes(names: Sequence[str]) -> dict[str, str]:
    """Digests of the code that makes what is kept."""
    mix = digest(BENCHMARKS["mixed"], MORE)
    return {plays.MIX: mix, plays.MANIFESTS: mix, **{name: digest(BENCHMARKS[name]) for name in names}}


def _part(progress: Progress, begin: float, length: float, said: str = "") -> Progress:
    return lambda part, what: progress(begin + length * part, said + what)
