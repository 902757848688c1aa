"""Rows to plotly figures. Colours are tokens (`var(--team-0)`), which the page resolves, again for another theme."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from controlplane.queries.dashboard import Moment
from frontend import words

MILLI = 1000
FONT = {"family": "Inter, system-ui, sans-serif", "size": 11, "color": "var(--dim)"}


def gpus_over_time(moments: Sequence[Moment], colours: Mapping[str, int], capacity: int) -> dict[str, Any]:
    """Held GPUs stacked by team, what computes as a line over them."""
    go = _plotly()
    at = [words.iso(m.at) for m in moments]
    figure = go.Figure()
    for name in sorted({team for m in moments for team, held in m.held.items() if held}):
        token = f"--team-{colours[name] % 8}"
        figure.add_scatter(
            x=at, y=[round(m.held.get(name, 0) / MILLI, 2) for m in moments], name=name, stackgroup="held",
            mode="lines", line={"width": 1, "color": f"var({token})"}, fillcolor=f"var({token}, 0.55)",
            hovertemplate="%{y}",
        )  # fmt: skip
    figure.add_scatter(
        x=at, y=[round(m.computing / MILLI, 2) for m in moments], name="computing", mode="lines",
        line={"width": 2, "color": "var(--text)"}, hovertemplate="%{y}",
    )  # fmt: skip
    most = max([capacity, *(sum(m.held.values()) for m in moments)], default=0) / MILLI
    figure.update_layout(_layout(most))
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None  # plotly's default one is 7 kB of colours that we do not use
    return answer


def objective_over_time(points: Sequence[tuple[float, float | None]], target: float) -> dict[str, Any]:
    """A service's p95 latency against its objective, milliseconds."""
    go = _plotly()
    at = [words.iso(moment) for moment, _ in points]
    figure = go.Figure()
    known = [None if p95 is None else round(p95 * 1000, 1) for _, p95 in points]
    figure.add_scatter(x=at, y=known, name="p95", mode="lines", line={"width": 2, "color": "var(--accent)"})
    figure.add_scatter(
        x=at, y=[target * 1000] * len(at), name="objective", mode="lines",
        line={"width": 1, "dash": "dash", "color": "var(--bad)"},
    )  # fmt: skip
    figure.update_layout(_layout(max([target * 1000, *(p for p in known if p is not None)])))
    figure.update_yaxes(ticksuffix=" ms")
    figure.update_layout(margin_l=60)
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


def waits_before_and_after(teams: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each team's p95 wait in both replays of a what-if, as bars side by side. Minutes."""
    go = _plotly()
    names = ["All teams" if team["team"] == "all" else team["team"] for team in teams]
    figure, most = go.Figure(), 0.0
    for side, label, colour in (("before", "in force", "var(--dim)"), ("after", "the other", "var(--accent)")):
        waits = [team[side]["wait_p95_seconds"] for team in teams]
        minutes = [None if wait is None else round(wait / 60, 2) for wait in waits]
        most = max([most, *(wait for wait in minutes if wait is not None)])
        figure.add_bar(x=names, y=minutes, name=label, marker={"color": colour}, hovertemplate="%{y} min")
    figure.update_layout(_layout(most), barmode="group", margin_l=60)
    figure.update_xaxes(type="category", tickformat=None)
    figure.update_yaxes(ticksuffix=" min")
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


def _layout(most: float) -> dict[str, Any]:
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
        "xaxis": {**axis, "showgrid": False, "type": "date", "tickformat": "%H:%M"},
        "yaxis": {**axis, "range": [0, most * 1.05 or 1], "nticks": 5},
    }


@cache
def _plotly() -> Any:
    import plotly.graph_objects  # half a second, which only the first chart has to pay

    return plotly.graph_objects
