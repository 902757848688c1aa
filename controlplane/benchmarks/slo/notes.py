"""What `slo` prints beside its figures: each trace, each family of baselines, and what lies beside the keys."""

from collections.abc import Callable, Iterator, Sequence

from controlplane.benchmarks.slo import policies, traces
from controlplane.benchmarks.slo.cells import HEADROOM, MORE_ROOM, ROOM, SLEEPERS, STARTS, WAKES, Cell, mean, of, worst
from controlplane.benchmarks.slo.compare import FAMILIES, HINDSIGHT, all_cells, best_of_each, over_hpa, with_headroom
from controlplane.benchmarks.slo.judge import LEND_AFTER

# Half of the traces: on these and seeds 0 to 4 the constants were chosen again (docs/objectives.md). The rest is new.
CHOSEN_ON = ("azure", "mooncake", "genaiQ1", "ramp", "spike")

CALLS = (5.0, 60.0, 180.0)  # s of one GPU that a call is said to cost


def notes(cells: Sequence[Cell], seeds: Sequence[int], noisy: Sequence[str]) -> Iterator[str]:
    """All of it. noisy: what was seen of a load of noise."""
    compared = sorted({c.seed for c in cells if c.policy in policies.BASELINES})
    yield f"seeds {', '.join(map(str, seeds))}; baselines on seeds {', '.join(map(str, compared)) or 'none'}"
    for one in (_traces, _rooms, _onsets, _batching, _halves, _settings, _each_cell, _beside, _headroom, _roomier):
        yield from one(cells)
    yield from noisy


def _per_trace(cells: Sequence[Cell], told: Callable[[list[Cell]], str]) -> str:
    return ", ".join(f"{name} {told(some)}" for name in traces.NAMES if (some := [c for c in cells if c.trace == name]))


def _traces(cells: Sequence[Cell]) -> Iterator[str]:
    for name in traces.NAMES:
        mine = [c for c in cells if c.trace == name]
        quick, slow = (of(mine, "standby", wake) for wake in WAKES)
        told, later = ([f"{mean(c.net(s) for c in some):.2f}" for s in CALLS] for some in (quick, slow))
        lone = [
            f"{mean(c.net(0.0) for c in some):.2f} ({sum(c.attained for c in some)} of {len(some)})"
            for some in (of(mine, "alone", start) for start in STARTS)
        ]
        held = sum(c.hours for c in quick)
        yield (
            f"{name}: 2 s: late {worst(quick):.3f} %, net at 5, 60, 180 s a call {', '.join(told)}, "
            f"{sum(c.calls for c in quick) / held:.1f} calls and {sum(c.lends for c in quick) / held:.1f} lends a "
            f"replica-hour, {max(c.turns_per_hour for c in quick):.1f} turns an hour; 10 s: late {worst(slow):.3f} %, "
            f"{sum(c.bad_windows for c in slow)} bad, net {', '.join(later)}; "
            f"alone, 30, 90, 300 s: {', '.join(lone)} attained"
        )


def _rooms(cells: Sequence[Cell]) -> Iterator[str]:
    """Gross beside net, at both numbers of replicas at most; the oracle of each start; the first minute."""
    kinds = (("2 s", "standby", WAKES[0]), ("10 s", "standby", WAKES[1]), ("with batching, 2 s", "batching", WAKES[0]))
    for text, policy, wake in kinds:
        for room in (ROOM, MORE_ROOM):
            some = of(cells, policy, wake, room)
            hours = _per_trace(
                some, lambda x: f"{mean(c.net() for c in x):.2f} ({mean(c.gross / c.oracle for c in x):.1f})"
            )
            kept = [c for c in some if (policy, wake) == ("standby", WAKES[0]) or c.trace not in traces.HARD]
            yield (
                f"{room:g} x the busiest minute, {text}: late {worst(kept):.3f} %, "
                f"{sum(c.bad_windows for c in kept)} bad{'' if len(kept) == len(some) else ' but for step and spike'}, "
                f"net {mean(c.net() for c in some):.3f}; net (gross) of each: {hours}"
            )
    quick = of(cells, "standby", WAKES[0])
    at_once = _per_trace(quick, lambda x: f"{mean(c.net_at_once for c in x):.2f}")
    yield (
        f"2 s, were a replica lent from its last answer on, not once it has slept for {LEND_AFTER:g} s: "
        f"net {mean(c.net_at_once for c in quick):.3f}; of each: {at_once}"
    )
    for wake in WAKES:
        some = of(cells, "standby", wake)
        own = _per_trace(some, lambda x: "/".join(f"{mean(c.net(start=s) for c in x):.2f}" for s in STARTS))
        yield f"{wake:.0f} s: net over the oracle of starts of 30/90/300 s: {own}"
    lone = _per_trace(
        of(cells, "alone"), lambda x: "/".join(f"{mean(c.over_own for c in x if c.start == s):.2f}" for s in STARTS)
    )
    yield f"alone: hours over the oracle of the cell's own start, 30/90/300 s: {lone}"
    for wake in WAKES:
        first = _per_trace(of(cells, "standby", wake), lambda x: f"{max(c.first_late for c in x):.2f}")
        yield f"the very first minute, {wake:.0f} s, late of its arrivals, %, worst seed: {first}"


def _onsets(cells: Sequence[Cell]) -> Iterator[str]:
    lone = of(cells, "alone")

    def counted(some: list[Cell]) -> str:
        return "/".join(f"{max((c.onset for c in some if c.start == s), default=0)}" for s in STARTS)

    yield f"minutes of onset at starts of 30/90/300 s, the most of a seed: {_per_trace(lone, counted)}"


def _batching(cells: Sequence[Cell]) -> Iterator[str]:
    for name in traces.NAMES:
        mine = [c for c in of(cells, "batching") if c.trace == name]
        waited = round(max(c.waited_percent for c in mine), 3)
        yield (
            f"{name} with batching, 2 s: late {worst(mine):.3f} %, {waited:.3f} % only because they waited, "
            f"{sum(c.bad_windows for c in mine)} bad, net over work {mean(c.net() for c in mine):.2f}"
        )


def _halves(cells: Sequence[Cell]) -> Iterator[str]:
    """The keys of the half that constants were chosen on again, and of the other."""
    halves = (
        ("the half that was not used", [c for c in cells if c.trace not in CHOSEN_ON]),
        ("the other half", [c for c in cells if c.trace in CHOSEN_ON]),
    )
    for text, some in halves:
        quick, slow = (of(some, "standby", wake) for wake in WAKES)
        slow = [c for c in slow if c.trace not in traces.HARD]
        ratios = [c.net() for c in quick if c.trace != traces.SPARSE]
        slower = [c.net() for c in slow if c.trace != traces.SPARSE]
        lone = of(some, "alone")
        yield (
            f"{text} ({', '.join(dict.fromkeys(c.trace for c in some))}), seeds as above: 2 s: late "
            f"{worst(quick):.4f} %, {sum(c.bad_windows for c in quick)} bad, net {mean(c.net() for c in quick):.3f}, "
            f"at most {max(ratios):.3f}, at 60 s {mean(c.net(60.0) for c in quick):.3f}; 10 s: late "
            f"{worst(slow):.4f} %, {sum(c.bad_windows for c in slow)} bad, net {mean(c.net() for c in slow):.3f}, at "
            f"most {max(slower):.3f}; alone: {sum(c.attained for c in lone)} of {len(lone)} cells"
        )


def _settings(cells: Sequence[Cell]) -> Iterator[str]:
    """Of each family the setting that attains most cells, over the seeds that baselines are judged on."""
    seeds = {c.seed for c in cells if c.policy in policies.BASELINES}
    here = [c for c in cells if c.seed in seeds]
    for family in ("alone", *FAMILIES):
        for best in all_cells(here, (family,))[:1]:
            mine = of(here, best.label)
            hours = _per_trace(mine, lambda some: f"{mean(c.net(0.0) for c in some):.2f}")
            yield (
                f"without standby, {best.label}: {best.attained} of {len(mine)} cells; hours over the oracle's: {hours}"
            )


def _each_cell(cells: Sequence[Cell]) -> Iterator[str]:
    """Of each family the best setting of each cell, chosen in hindsight."""
    for family in FAMILIES:
        best = list(best_of_each(cells, (family,)).values())
        if best:
            told = _per_trace(
                best, lambda some: f"{mean(c.net(0.0) for c in some):.2f} ({sum(c.attained for c in some)})"
            )
            yield (
                f"the best {family} of each cell, chosen in hindsight: {sum(c.attained for c in best)} of {len(best)} "
                f"cells; hours over the oracle's (cells attained): {told}"
            )


def _beside(cells: Sequence[Cell]) -> Iterator[str]:
    """HPA with the law's standby, static replicas, and each cell against HPA in hindsight."""
    for label in policies.WITH_STANDBY:
        if mine := of(cells, f"standby {label}"):
            yield (
                f"standby of 2 s by {label}: late {worst(mine):.3f} %, {sum(c.bad_windows for c in mine)} bad, net "
                f"{mean(c.net() for c in mine):.2f}"
            )
    if best := [some for name in traces.NAMES if (some := _best_with_standby(cells, name))]:
        told = ", ".join(
            f"{some[0].trace} {some[0].policy.split()[-1]} {mean(c.net() for c in some):.2f} "
            f"({sum(c.bad_windows for c in some)} bad)"
            for some in best
        )
        net = mean(c.net() for some in best for c in some)
        yield f"standby of 2 s by the best hpa-rps of each trace, chosen in hindsight: net {net:.2f}; {told}"
    if fixed := of(cells, "static"):
        hours = _per_trace(fixed, lambda some: f"{mean(c.net(0.0) for c in some):.2f}")
        yield f"fewest static replicas that attain it, chosen in hindsight; hours over the oracle's: {hours}"
    for key, names, starts, _ in HINDSIGHT:
        if found := over_hpa(cells, names, starts):
            told = ", ".join(f"{n} {s:.0f} s {ratio:.2f}" for (n, s), ratio in found.items())
            yield f"net hours at 2 s over the cheapest HPA of each cell, worst seed, {key}: {told}"


def _best_with_standby(cells: Sequence[Cell], name: str) -> list[Cell]:
    """Of the settings with standby on one trace the cheapest without a bad minute, else the one with fewest.

    Its cells of all seeds.
    """
    mine = [[c for c in of(cells, f"standby {label}") if c.trace == name] for label in policies.WITH_STANDBY]
    whole = [some for some in mine if some]
    return min(whole, key=lambda some: (sum(c.bad_windows for c in some), mean(c.net() for c in some)), default=[])


def _headroom(cells: Sequence[Cell]) -> Iterator[str]:
    if found := with_headroom(cells):
        ours, theirs = found
        tried = all_cells(cells, ("alone", HEADROOM))
        told = "; ".join(f"{one.label} {one.attained} cells, {one.hours / theirs.hours:.2f} x" for one in tried)
        yield (
            f"alone within the hours of {theirs.label} ({theirs.attained} cells): "
            f"{ours.label}, {ours.attained} cells at {ours.hours / theirs.hours:.2f} x its hours; all tried: {told}"
        )


def _roomier(cells: Sequence[Cell]) -> Iterator[str]:
    for label in dict.fromkeys(c.policy for c in cells if c.room == MORE_ROOM and c.policy not in SLEEPERS):
        mine = of(cells, label, room=MORE_ROOM)
        hours = _per_trace(mine, lambda some: f"{mean(c.net(0.0) for c in some):.2f}")
        yield (
            f"3 x the busiest minute, without standby, {label}: {sum(c.attained for c in mine)} of {len(mine)} cells; "
            f"hours over the oracle's: {hours}"
        )
