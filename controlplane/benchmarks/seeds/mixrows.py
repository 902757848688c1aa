"""What the runs of the mix say of the claims: E1, E2, E7, and of E3 how late the service is beside trainings."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from controlplane.benchmarks.harness.figure import Figure
from controlplane.benchmarks.mix import dragon, mixed
from controlplane.benchmarks.mix.measure import All, Floats, down, interval
from controlplane.benchmarks.mix.mixed import OURS
from controlplane.benchmarks.mix.runs import CROWDED, Key, Told
from controlplane.benchmarks.seeds.forms import Form
from controlplane.benchmarks.seeds.rows import Kind, Row, claim_of, goal_of

MAKESPAN, JCT, LATE = "makespan over ours", "mean completion time that ours saves", "late requests more than ours"
CELLS, USED = "cells' p95 over ours", "GPUs' time that ours computes in more"
OF_NATIVE = "makespan over native's"
Pairs = list[tuple[Told, Told]]


def rows(found: All, manifests: All, form: Form, source: str) -> Iterator[Row]:
    """All of them. found: runs of the mix; manifests: of DRAGON's, and at random."""
    yield from _goals(found, form, source)
    for which in form.sets:
        for policy in form.baselines:
            yield from _main(found, Key(which, policy, 0), source)
        for crowded in sorted({*form.crowding, CROWDED}):
            for policy in form.curve:
                yield from _compared(found, Key(which, policy, 0, crowded), "E1", Kind.CURVE, source)
        yield from _steps(found, which, form, source)
    for times in form.times:
        for policy in form.scaled:
            yield from _compared(found, Key(form.sets[-1], policy, 0, times=times), "E1", Kind.SCALE, source)
    yield from _of_dragon(manifests, form, source)


def _goals(found: All, form: Form, source: str) -> Iterator[Row]:
    """The goals of `mixed`, and the claims that its figures answer."""
    seeds, sets = len(form.first), form.sets
    by_name = {figure.name.removeprefix("mixed."): figure for figure in mixed.figures(found, sets)}
    homes = {"makespan_ratio_ci_low_tuned": "E2", "jct_percent_ci_low": "E2", "late_percent_max": "E3",
             "utilisation_points": "E7", "cell_slowdown_p95": "E4"}  # fmt: skip
    for name, figure in by_name.items():
        yield goal_of(homes.get(name, "E1"), figure, "the worst set", source, seeds)
    total = by_name["makespan_ratio_ci_low"]
    yield claim_of("E1", "poster", "total time 2.39x", total, 2.39, source, seeds)
    more = Figure("mixed.trainings_an_hour_percent", down(100 * (total.value - 1), 1), "%", higher_is_better=True)
    yield claim_of("E1", "DynamoML", "throughput +60 %", more, 60.0, source, seeds)
    for which in sets:
        ratio = _low_ratio(pairs(found, Key(which, "native", 0)))
        figure = Figure(f"mixed.makespan_ratio_ci_low, {which}", down(ratio), "x", 3.26, higher_is_better=True)
        if which in ("ps", "mixed"):
            yield goal_of("E2", figure, which, source, seeds)
        yield claim_of("E2", "poster", f"training 3.26x, {which}", figure, 3.26, source, seeds)
    less = Figure("mixed.makespan_less_percent", down(100 * (1 - 1 / total.value), 1), "%", higher_is_better=True)
    yield claim_of("E1", "DynamoML", "training time -70 %, as makespan", less, 70.0, source, seeds)
    yield claim_of(
        "E1", "DynamoML", "training time -70 %, as mean completion time", by_name["jct_percent_ci_low"], 70.0, source,
        seeds,
    )  # fmt: skip
    late = by_name["late_percent_max"]
    yield claim_of("E3", "DynamoML", "no SLA violation, in the mix", late, 0.1, source, seeds)


def _main(found: All, theirs: Key, source: str) -> Iterator[Row]:
    """At 12 of 16: everything that both can be compared by."""
    yield from _compared(found, theirs, "E1", Kind.AGAINST, source)
    some = pairs(found, theirs)
    if not some:
        return
    where = _where(theirs)
    late = np.array([other.late - ours.late for other, ours in some])
    yield _row("E3", Kind.AGAINST, LATE, where, theirs.policy, late, "points", source)
    slowed = np.log([other.slowed / ours.slowed for other, ours in some])
    yield _ratio("E4", Kind.AGAINST, CELLS, where, theirs.policy, slowed, source)
    used = np.array([100 * (ours.used - other.used) for other, ours in some])
    yield _row("E7", Kind.AGAINST, USED, where, theirs.policy, used, "points", source)


def _compared(found: All, theirs: Key, experiment: str, kind: Kind, source: str) -> Iterator[Row]:
    """By makespan and completion time."""
    some = pairs(found, theirs)
    if not some:
        return
    where = _where(theirs)
    ratios = np.log([other.makespan / ours.makespan for other, ours in some])
    yield _ratio(experiment, kind, MAKESPAN, where, theirs.policy, ratios, source)
    gains = np.array([100 * (1 - ours.jct / other.jct) for other, ours in some])
    yield _row(experiment, kind, JCT, where, theirs.policy, gains, "%", source)


def _steps(found: All, which: str, form: Form, source: str) -> Iterator[Row]:
    """Over native's makespan, and over that of all parts together; late requests beside."""
    for label, policy in form.steps:
        part = Key(which, policy, 0)
        of_native = np.log(
            [one.makespan / native.makespan for native, one in pairs(found, Key(which, "native", 0), policy)]
        )
        if not len(of_native):
            continue
        yield replace(_ratio("E1", Kind.STEP, OF_NATIVE, which, label, of_native, source), level=None)
        late = np.array([one.late for one in of(found, part)])
        yield replace(_row("E1", Kind.STEP, "late requests", which, label, late, "%", source), level=None)
        if policy != OURS:
            of_all = np.log([one.makespan / ours.makespan for one, ours in pairs(found, part)])
            yield _ratio("E1", Kind.STEP, MAKESPAN, which, label, of_all, source)


def _of_dragon(found: All, form: Form, source: str) -> Iterator[Row]:
    """Of DRAGON's manifests, and at random; nothing where these were not played."""
    if not found:
        return
    for which in (one for one in dragon.SETS if one in form.sets):
        for crowded, policies in ((CROWDED, form.manifests), (dragon.NOTHING_ELSE, form.alone)):
            for policy in policies:
                for row in _compared(found, Key(which, policy, 0, crowded), "E2", Kind.AGAINST, source):
                    where = "alone" if not crowded else f"{crowded} of 16"
                    yield replace(row, where=f"DRAGON's manifests, {which}, {where}")
    yield from _random(found, form, source)


def _random(found: All, form: Form, source: str) -> Iterator[Row]:
    """Trainings that come at random: each policy at each load, and what DRAGON claims at the worst one."""
    for load in form.loads:
        for policy in form.at_random:
            yield from _at_random(found, Key(form.sets[-1], policy, 0, load=load), source)
    natives = [pairs(found, Key(form.sets[-1], "native", 0, load=load)) for load in form.loads]
    points = min(interval(_points(some))[0] for some in natives)
    sooner = min(interval(_gains(some))[0] for some in natives)
    figures = (
        Figure("at random.utilisation_points_ci_low", down(points, 1), "points", higher_is_better=True),
        Figure("at random.elapsed_percent_ci_low", down(sooner, 1), "%", higher_is_better=True),
    )
    for figure, (what, goal) in zip(
        figures, (("utilisation +20 points", 20.0), ("elapsed time -65 %", 65.0)), strict=True
    ):
        yield claim_of("E7", "DRAGON", what, figure, goal, source, form.few)


def _at_random(found: All, theirs: Key, source: str) -> Iterator[Row]:
    some = pairs(found, theirs)
    if some:
        yield from _compared(found, theirs, "E7", Kind.AGAINST, source)
        yield _row("E7", Kind.AGAINST, USED, _where(theirs), theirs.policy, _points(some), "points", source)


def pairs(found: All, theirs: Key, ours: str = OURS) -> Pairs:
    """What a policy and ours did with the same draws, by seed; where both were played. theirs: of any seed."""
    keys = (replace(theirs, seed=seed) for seed in sorted({key.seed for key in found}))
    both = ((key, replace(key, policy=ours)) for key in keys)
    return [(found[one], found[other]) for one, other in both if one in found and other in found]


def of(found: All, one: Key) -> list[Told]:
    """Its runs, by seed."""
    return [theirs for theirs, _ in pairs(found, one, one.policy)]


def _points(some: Pairs) -> Floats:
    return np.array([100 * (ours.used - other.used) for other, ours in some])


def _gains(some: Pairs) -> Floats:
    return np.array([100 * (1 - ours.jct / other.jct) for other, ours in some])


def _low_ratio(some: Pairs) -> float:
    return float(np.exp(interval(np.log([other.makespan / ours.makespan for other, ours in some]))[0]))


def _ratio(experiment: str, kind: Kind, what: str, where: str, policy: str, logs: Floats, source: str) -> Row:
    """A geometric mean; logs: by seed."""
    low, high = interval(logs)
    value, least, most = (float(np.exp(one)) for one in (logs.mean(), low, high))
    return Row(experiment, kind, what, where, policy, value, least, most, "x", 1.0, seeds=len(logs), source=source)


def _row(
    experiment: str, kind: Kind, what: str, where: str, policy: str, values: Sequence[float] | Floats, unit: str,
    source: str,
) -> Row:  # fmt: skip
    """A mean by seed; ours is level at 0."""
    some = np.array(values)
    low, high = interval(some)
    return Row(
        experiment, kind, what, where, policy, float(some.mean()), low, high, unit, 0.0, seeds=len(some), source=source
    )


def _where(key: Key) -> str:
    said = [key.which, f"{key.crowded} of 16"]
    said += [f"x{key.times}"] if key.times > 1 else []
    said += [f"at random, load {key.load:g}"] if key.load else []
    return ", ".join(said)
