"""Figures and notes of whole benchmarks as rows: E3 `slo`, E4 `notebooks`, E5 and E6 `nearchus`, E8 `tokens`, E9 `sia`.

What a benchmark says of other policies stands in its notes, for those that are stored too; a test holds what is read
here against what the benchmarks write. Where a note gives both intervals and no pairs, the quotient's goes from the
worst end of one over the best of the other to the opposite.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from controlplane.benchmarks.harness.figure import Figure, Result
from controlplane.benchmarks.notebooks.runs import OURS as ON_DEMAND
from controlplane.benchmarks.seeds.rows import Kind, Row, claim_of, goal_of
from controlplane.benchmarks.training.nearchuscluster import OURS as PLANNED

NUMBER = r"[-+]?\d+(?:\.\d+)?"
USERS = re.compile(rf"(human|all), (.+): ({NUMBER}) users a GPU \[({NUMBER}), ({NUMBER})\], (\d+) seeds")
LOWER = re.compile(rf"(.+?) ({NUMBER}) \[({NUMBER}), ({NUMBER})\]")
SINGLE = re.compile(rf"(\S.*?) ({NUMBER}) %, best ({NUMBER}) %")
RULE = re.compile(
    rf"(\w+): error ({NUMBER}) points in 1 s, ({NUMBER}) in 10 s; throughput of four ({NUMBER}) to ({NUMBER}), "
    rf"stretch p95 ({NUMBER}); of three with duty 40 % ({NUMBER}) to ({NUMBER})"
)
SPLIT = re.compile(rf"static split: throughput of four ({NUMBER}) to ({NUMBER}); of three with duty 40 % ({NUMBER})")
SIA = re.compile(rf"(\w+ \d+)(?:, constants were chosen on this family)?: mean ({NUMBER}) x, p99 ({NUMBER}) x; ours")
TRACE = re.compile(rf"(\w+): 2 s: late ({NUMBER}) %, net at 5, 60, 180 s a call ({NUMBER}), ")
STANDBY = re.compile(rf"standby of 2 s by (hpa-rps {NUMBER}): late ({NUMBER}) %, (\d+) bad, net ({NUMBER})")
ATTAINED = re.compile(r"without standby, (.+): (\d+) of (\d+) cells")
FIXED = "fewest static replicas that attain it, chosen in hindsight; hours over the oracle's: "


def rows(name: str, result: Result, source: str) -> Iterator[Row]:
    """Of one benchmark: its figures with goals, what stands beside them, and the claims that they answer."""
    figures = {one.name: one for one in result.figures}
    for figure in result.figures:
        if figure.goal is not None:
            yield goal_of(_home(figure.name), figure, "", source)
    for one in (*READ[name](result, figures), *CLAIMED[name](figures)):
        yield replace(one, source=source)


def _home(figure: str) -> str:
    name, _, key = figure.partition(".")
    if name == "nearchus":
        return "E5" if key in ("max_gain_percent", "median_gain_percent", "most_moves", "slower_percent") else "E6"
    return {"slo": "E3", "notebooks": "E4", "tokens": "E8", "sia": "E9"}[name]


def _against(
    experiment: str,
    what: str,
    where: str,
    policy: str,
    value: float,
    low: float,
    high: float,
    unit: str,
    seeds: int = 0,
) -> Row:
    level = 1.0 if unit == "x" else 0.0
    return Row(experiment, Kind.AGAINST, what, where, policy, value, low, high, unit, level, seeds=seeds)


def _notebooks(result: Result, figures: Mapping[str, Figure]) -> Iterator[Row]:
    del figures
    found = [match for note in result.notes if (match := USERS.match(note)) and " GPUs" not in match[2]]
    for which in ("human", "all"):
        mine = next((m for m in found if (m[1], m[2]) == (which, ON_DEMAND)), None)
        for other in found:
            if mine is None or other[1] != which or other is mine:
                continue
            (value, low, high), theirs = (float(mine[n]) for n in (3, 4, 5)), [float(other[n]) for n in (3, 4, 5)]
            if min(theirs) > 0:
                yield _against(
                    "E4", "users a GPU, ours over", which, other[2], value / theirs[0], low / theirs[2],
                    high / theirs[1], "x", int(other[6]),
                )  # fmt: skip


def _nearchus(result: Result, figures: Mapping[str, Figure]) -> Iterator[Row]:
    del figures
    for note in result.notes:
        head, _, rest = note.partition(": ")
        if "lower by %" in note and head.startswith(tuple(PLANNED)):
            ours = next(one for one in PLANNED if head.startswith(one))
            what, _, told = note.partition(" lower by %: ")
            what = what.removeprefix(f"{ours}, ").rpartition("; ")[2]
            for value in told.split("; "):
                if match := LOWER.fullmatch(value):
                    policy, (mean, low, high) = match[1], (float(match[n]) for n in (2, 3, 4))
                    yield _against("E6", f"{what}, % that ours saves", ours, policy, mean, low, high, "%")
        elif ", best " in rest and not head.endswith("every second row"):
            for match in SINGLE.finditer(rest.rpartition("): ")[2]):
                gain = float(match[2])
                model, where = match[1].removeprefix("; "), head.partition(" (")[0].partition(", ASSUMED")[0]
                yield _against(
                    "E5", f"gain at the same GPUs, {model}", where, "as it was placed", gain, gain, gain, "%"
                )


def _tokens(result: Result, figures: Mapping[str, Figure]) -> Iterator[Row]:
    del figures
    found = {
        match[1]: [float(one) for one in match.groups()[1:]] for note in result.notes if (match := RULE.match(note))
    }
    ours = found.pop("token", None)
    if ours is None:
        return
    error, longer, low, high, stretch, least, most = ours
    for rule, (err, far, few, many, other, fewest, most_of) in found.items():
        for seconds, more in ((1, err - error), (10, far - longer)):
            yield _against(
                "E8",
                f"share error more than ours, {seconds} s",
                "30/70 and 10/20/30/40",
                rule,
                more,
                more,
                more,
                "points",
            )
        yield _quotient("throughput, ours over", "four of duty .05-.4", rule, (low, high), (few, many))
        yield _quotient("throughput, ours over", "three of duty .4", rule, (least, most), (fewest, most_of))
        ratio = other / stretch
        yield _against("E8", "stretch of a burst over ours, p95", "four of duty .05-.4", rule, ratio, ratio, ratio, "x")
    for note in result.notes:
        if match := SPLIT.match(note):
            few, many, third = (float(one) for one in match.groups())
            yield _quotient("throughput, ours over", "four of duty .05-.4", "static split", (low, high), (few, many))
            yield _quotient("throughput, ours over", "three of duty .4", "static split", (least, most), (third, third))
    one = (1.0, 1.0)
    yield _quotient("throughput, ours over", "four of duty .05-.4", "whole GPU each", (low, high), one)
    yield _quotient("throughput, ours over", "three of duty .4", "whole GPU each", (least, most), one)


def _quotient(what: str, where: str, policy: str, ours: tuple[float, float], theirs: tuple[float, float]) -> Row:
    middle = sum(ours) / sum(theirs)
    return _against("E8", what, where, policy, middle, ours[0] / theirs[1], ours[1] / theirs[0], "x")


def _sia(result: Result, figures: Mapping[str, Figure]) -> Iterator[Row]:
    del figures
    for note in result.notes:
        if match := SIA.match(note):
            where = match[1] + (" (constants were chosen on its family)" if "were chosen" in note else "")
            for what, ratio in (("mean completion time over ours", match[2]), ("p99 of it over ours", match[3])):
                value = 1 / float(ratio)
                yield _against("E9", what, where, "sia", value, value, value, "x")


def _slo(result: Result, figures: Mapping[str, Figure]) -> Iterator[Row]:
    mean, late, bad = (figures[f"slo.{key}"].value for key in ("net_ratio_geomean", "late_percent_max", "bad_windows"))
    traces = {match[1]: float(match[3]) for note in result.notes if (match := TRACE.match(note))}
    lone = next((int(m[2]) for note in result.notes if (m := ATTAINED.match(note)) and m[1] == "alone"), None)
    for note in result.notes:
        if match := STANDBY.match(note):
            policy = f"{match[1]}, with our standby"
            for what, value, unit in (
                ("late requests more than ours, worst trace", float(match[2]) - late, "points"),
                ("bad minutes more than ours", float(match[3]) - bad, "minutes"),
                ("GPU hours over ours", float(match[4]) / mean, "x"),
            ):
                yield _against("E3", what, "ten traces", policy, value, value, value, unit)
        elif (match := ATTAINED.match(note)) and match[1] != "alone" and lone is not None:
            value = float(lone - int(match[2]))
            yield _against(
                "E3",
                f"traces x starts attained more, of {match[3]}",
                "no standby",
                match[1],
                value,
                value,
                value,
                "cells",
            )
        elif note.startswith(FIXED):
            for pair in note.removeprefix(FIXED).split(", "):
                trace, _, hours = pair.rpartition(" ")
                if trace in traces:
                    value = float(hours) / traces[trace]
                    yield _against(
                        "E3", "GPU hours over ours", trace, "static, chosen in hindsight", value, value, value, "x"
                    )


def _claims(experiment: str, *told: tuple[str, str, str, float]) -> Callable[[Mapping[str, Figure]], Iterator[Row]]:
    """told: paper, what it says, the figure that answers, and what it is to reach."""

    def claims(figures: Mapping[str, Figure]) -> Iterator[Row]:
        for paper, what, key, goal in told:
            if key in figures:
                yield claim_of(experiment, paper, what, figures[key], goal, "")

    return claims


def _both(*some: Callable[[Mapping[str, Figure]], Iterator[Row]]) -> Callable[[Mapping[str, Figure]], Iterator[Row]]:
    return lambda figures: (row for one in some for row in one(figures))


READ: Mapping[str, Callable[[Result, Mapping[str, Figure]], Iterator[Row]]] = {
    "slo": _slo, "notebooks": _notebooks, "nearchus": _nearchus, "tokens": _tokens, "sia": _sia,
}  # fmt: skip
CLAIMED: Mapping[str, Callable[[Mapping[str, Figure]], Iterator[Row]]] = {
    "slo": _claims("E3", ("DynamoML", "no SLA violation, ten traces", "slo.late_percent_max", 0.1)),
    "notebooks": _claims("E4", ("DynamoML", "notebooks keep their speed", "notebooks.cell_slowdown_p95", 1.10)),
    "nearchus": _both(
        _claims(
            "E5",
            ("NEARCHUS", "job speed up to +129.1 %", "nearchus.max_gain_percent", 129.1),
            ("NEARCHUS", "job speed +71.4 %", "nearchus.median_gain_percent", 71.4),
        ),
        _claims(
            "E6",
            *(
                ("NEARCHUS", f"completion time -35.6 %, against {policy}", f"nearchus.jct_{key}_percent_ci_low", 35.6)
                for policy, key in (
                    ("FIFO", "fifo"), ("Tiresias", "tiresias"), ("Tiresias ideal", "tiresias_ideal"),
                    ("Optimus", "optimus"),
                )
            ),
            ("NEARCHUS", "queue time -67.8 %", "nearchus.queue_percent_ci_low", 67.8),
        ),
    ),
    "tokens": _claims(
        "E8",
        ("KubeShare", "throughput 2x, three of duty .4", "tokens.throughput_ratio_duty_40", 2.0),
        ("KubeShare", "throughput 2x, four of duty .05-.4", "tokens.throughput_ratio", 2.0),
        ("Gemini", "overhead < 5 %", "tokens.lone_client_percent", 95.0),
    ),
    "sia": _claims(
        "E9",
        ("Weft", "mean completion time no longer than Sia's", "sia.jct_ratio_to_sia", 1.0),
        ("Weft", "p99 of it no longer than Sia's", "sia.p99_ratio_to_sia", 1.0),
    ),
}  # fmt: skip
