"""Rows to plotly figures. Colours are tokens (`var(--team-0)`), which the page resolves, again for another theme."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from controlplane.queries.reports.dashboard import Moment
from controlplane.queries.reports.reports import Line
from controlplane.queries.workloads.measured import Sample
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR
from frontend import words

MILLI = 1000
MAX_TEAMS = 12  # named in a chart; more cannot be told apart
TICKS = (  # from so many ms between two ticks: what is written at them
    (None, "%H:%M:%S"), (60_000, "%H:%M"), (43_200_000, "%b %-d %H:%M"), (86_400_000, "%b %-d"),
)  # fmt: skip
FONT = {"family": "Inter, system-ui, sans-serif", "size": 11, "color": "var(--dim)"}


def gpus_over_time(moments: Sequence[Moment], colours: Mapping[str, int], capacity: int) -> dict[str, Any]:
    """Held GPUs stacked by team, what computes as a line over them."""
    go = plotly()
    at = [words.iso(m.at) for m in moments]
    figure = go.Figure()
    shown, others = largest_held(moments)
    lines = [(name, f"--team-{colours[name] % 8}", [m.held.get(name, 0) for m in moments]) for name in shown]
    if others:
        rest = [sum(held for name, held in m.held.items() if name in others) for m in moments]
        lines.append((f"{len(others)} others", "--control", rest))
    for name, token, held in lines:
        figure.add_scatter(
            x=at, y=[round(milli / MILLI, 2) for milli in held], name=name, stackgroup="held",
            mode="lines", line={"width": 1, "color": f"var({token})"}, fillcolor=f"var({token}, 0.55)",
            hovertemplate="%{y}",
        )  # fmt: skip
    figure.add_scatter(
        x=at, y=[round(m.computing / MILLI, 2) for m in moments], name="computing", mode="lines",
        line={"width": 2, "color": "var(--text)"}, hovertemplate="%{y}",
    )  # fmt: skip
    most = max([capacity, *(sum(m.held.values()) for m in moments)], default=0) / MILLI
    figure.update_layout(layout(most))
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None  # plotly's default one is 7 kB of colours that we do not use
    return answer


def largest_held(moments: Sequence[Moment], most: int = MAX_TEAMS) -> tuple[list[str], frozenset[str]]:
    """The teams that a chart or table names, by name: those that held most; and the others, which stand together."""
    totals: dict[str, float] = {}
    for moment in moments:
        for team, held in moment.held.items():
            totals[team] = totals.get(team, 0.0) + held
    held_any = sorted((team for team, held in totals.items() if held), key=lambda team: (-totals[team], team))
    few = held_any if len(held_any) <= most + 1 else held_any[:most]
    return sorted(few), frozenset(held_any) - frozenset(few)


def objective_over_time(
    points: Sequence[tuple[float, float | None]], target: float, name: str = "p95"
) -> dict[str, Any]:
    """A service's p95 latency against its objective, milliseconds. name: of the latency."""
    go = plotly()
    at = [words.iso(moment) for moment, _ in points]
    figure = go.Figure()
    known = [None if p95 is None else round(p95 * 1000, 1) for _, p95 in points]
    figure.add_scatter(x=at, y=known, name=name, mode="lines", line={"width": 2, "color": "var(--accent)"})
    figure.add_scatter(
        x=at, y=[target * 1000] * len(at), name="objective", mode="lines",
        line={"width": 1, "dash": "dash", "color": "var(--bad)"},
    )  # fmt: skip
    figure.update_layout(layout(max([target * 1000, *(p for p in known if p is not None)])))
    figure.update_yaxes(ticksuffix=" ms")
    figure.update_layout(margin_l=60)
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


@dataclass(frozen=True, slots=True)
class Measure:
    """What is drawn of a workload's samples: its value in the chart's unit, and the unit."""

    name: str
    value: Callable[[Sample], float | None]
    suffix: str
    most: float = 0.0  # the axis goes at least so far


MEASURES = {
    "duty": Measure("utilisation", lambda s: None if s.duty is None else round(100 * s.duty, 1), " %", 100.0),
    "memory": Measure("memory", lambda s: None if s.memory is None else round(s.memory / 1024, 2), " GiB"),
    "step": Measure("step", lambda s: s.step_seconds, " s"),
}


def measured_over_time(samples: Sequence[Sample], what: str) -> dict[str, Any]:
    """One of a workload's measures over time; a gap where it is not known."""
    go = plotly()
    measure = MEASURES[what]
    values = [measure.value(sample) for sample in samples]
    figure = go.Figure()
    figure.add_scatter(
        x=[words.iso(sample.at) for sample in samples], y=values, name=measure.name, mode="lines+markers",
        line={"width": 2, "color": "var(--accent)"}, marker={"size": 4}, hovertemplate="%{y}",
    )  # fmt: skip
    figure.update_layout(layout(max([measure.most, *(v for v in values if v is not None)])), showlegend=False)
    figure.update_yaxes(ticksuffix=measure.suffix)
    figure.update_layout(margin_l=64)
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


DAY = 86_400.0  # s
MAX_BARS = 8  # parts of one bar; the others are one more part


def usage_over_time(
    lines: Sequence[Line], *, is_team: bool, since: float | None = None, until: float | None = None
) -> dict[str, Any]:
    """Held GPU hours of each step, stacked by team, user or pool. Colours are teams'; others get shades of one.

    With since and until (cluster clock) the axis spans all of that, so that a single day is not a wall.
    """
    go = plotly()
    held: dict[str, int] = {}
    for line in lines:
        held[line.keys[0]] = held.get(line.keys[0], 0) + line.spent.held
    named = sorted(held, key=lambda name: (-held[name], name))[:MAX_BARS]
    colours = {line.keys[0]: line.colour % 8 for line in lines}
    starts = sorted({line.start for line in lines})
    hours: dict[str, dict[float, float]] = {name: {} for name in (*named, "others")}
    for line in lines:
        name = line.keys[0] if line.keys[0] in hours else "others"
        hours[name][line.start] = hours[name].get(line.start, 0.0) + line.spent.held / MILLI_SECONDS_PER_GPU_HOUR
    figure = go.Figure()
    for i, name in enumerate([*named, *(["others"] if hours["others"] and len(held) > len(named) else [])]):
        shade = (
            f"var(--team-{colours[name]})" if is_team and name in colours else f"var(--accent, {0.95 - 0.09 * i:.2f})"
        )
        figure.add_bar(
            x=[words.iso(at) for at in starts], y=[round(hours[name].get(at, 0.0), 2) for at in starts],
            name=name or "no user", marker={"color": shade}, hovertemplate="%{y} GPU-h",
        )  # fmt: skip
    most = max((sum(of.get(at, 0.0) for of in hours.values()) for at in starts), default=0.0)
    figure.update_layout(layout(most), barmode="stack", margin_l=60)
    if since is not None and until is not None and starts:
        figure.update_xaxes(range=[words.iso(min(since, starts[0])), words.iso(until)])
    step = min((b - a for a, b in pairwise(starts)), default=DAY)
    figure.update_traces(offset=0, width=900 * step)  # ms: a bar begins where its step does, and nearly fills it
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


def waits_before_and_after(teams: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each team's p95 wait in both replays of a what-if, as bars side by side. Minutes."""
    go = plotly()
    names = ["All teams" if team["team"] == "all" else team["team"] for team in teams]
    figure, most = go.Figure(), 0.0
    for side, label, colour in (("before", "current", "var(--dim)"), ("after", "proposed", "var(--accent)")):
        waits = [team[side]["wait_p95_seconds"] for team in teams]
        minutes = [None if wait is None else round(wait / 60, 2) for wait in waits]
        most = max([most, *(wait for wait in minutes if wait is not None)])
        figure.add_bar(x=names, y=minutes, name=label, marker={"color": colour}, hovertemplate="%{y} min")
    figure.update_layout(layout(most), barmode="group", margin_l=60)
    figure.update_xaxes(type="category", tickformatstops=None)
    figure.update_yaxes(ticksuffix=" min")
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


def layout(most: float) -> dict[str, Any]:
    """What all figures share; the axis goes up to `most`."""
    axis = {
        "gridcolor": "var(--line)",
        "zeroline": False,
        "linecolor": "var(--line)",
        "tickfont": FONT,
        "fixedrange": True,
    }
    return {
        "font": FONT,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 36, "r": 8, "t": 8, "b": 24},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "var(--panel)", "bordercolor": "var(--line)", "font": {"color": "var(--text)"}},
        "legend": {"orientation": "h", "y": -0.14, "x": 0, "traceorder": "normal"},
        "xaxis": {**axis, "showgrid": False, "type": "date", "tickformatstops": _ticks()},
        "yaxis": {**axis, "range": [0, most * 1.05 or 1], "nticks": 5},
    }


def _ticks() -> list[dict[str, Any]]:
    ends = [start for start, _ in TICKS[1:]]
    return [
        {"dtickrange": [start, None if end is None else end - 1], "value": form}
        for (start, form), end in zip(TICKS, [*ends, None], strict=True)
    ]


@cache
def plotly() -> Any:
    """plotly's figures."""
    import plotly.graph_objects  # half a second, which only the first chart has to pay

    return plotly.graph_objects
