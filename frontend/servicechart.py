"""A service on one time axis: latency against the objective, the error budget, replicas and load, and what was decided.

Each of them has a panel of its own, one above the other, with the same minutes; what was decided stands as marks at
the replicas. Rows to a plotly figure, as charts.py has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.latency import Within
from autoscaler.standings import Moment
from controlplane.queries.workloads.serving import Borrower, Window
from frontend import charts, words

LATENCY, BUDGET, REPLICAS = (0.68, 1.0), (0.42, 0.6), (0.0, 0.34)  # parts of the height, from below


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was decided: when, its sentence, and the replicas after it where that changed them."""

    at: float
    text: str
    replicas: int | None = None
    is_up: bool = True


def drawn(
    windows: Sequence[Window], moments: Sequence[Moment], target: Within | None, decided: Sequence[Mark],
    taken: Sequence[Mark], lent_to: Sequence[Borrower] = (),
) -> dict[str, Any]:  # fmt: skip
    """The figure. target: the p95 that was promised; taken: workloads whose GPUs it took; lent_to: who had its GPUs."""
    figure = charts.plotly().Figure()
    _latency(figure, windows, target)
    _budget(figure, moments)
    _lent(figure, windows, lent_to)
    _replicas(figure, windows, has_borrowers=bool(lent_to))
    _marks(figure, windows, decided, taken)
    figure.update_layout(_layout(windows, moments, target), margin_l=60, margin_r=44)
    answer: dict[str, Any] = figure.to_plotly_json()
    answer["layout"]["template"] = None
    return answer


def _latency(figure: Any, windows: Sequence[Window], target: Within | None) -> None:
    at = [words.iso(m.start) for m in windows]
    name = "p95 to first token" if target is not None and target.is_first_token else "p95"
    figure.add_scatter(
        x=at, y=_milli(windows), name=name, mode="lines", line={"width": 2, "color": "var(--accent)"},
        hovertemplate="%{y} ms",
    )  # fmt: skip
    if target is not None:
        figure.add_scatter(
            x=at, y=[target.seconds * 1000] * len(at), name="objective", mode="lines", hovertemplate="%{y} ms",
            line={"width": 1, "dash": "dash", "color": "var(--bad)"},
        )  # fmt: skip


def _budget(figure: Any, moments: Sequence[Moment]) -> None:
    known = [None if one.budget_left is None else round(100 * one.budget_left, 2) for one in moments]
    figure.add_scatter(
        x=[words.iso(one.at) for one in moments], y=known, name="error budget left", yaxis="y2", mode="lines",
        line={"width": 2, "color": "var(--warn)"}, hovertemplate="%{y} %",
    )  # fmt: skip


def _lent(figure: Any, windows: Sequence[Window], lent_to: Sequence[Borrower]) -> None:
    """Whose trainings had the GPUs of sleeping replicas: an area for each team, one on the other."""
    at = [words.iso(m.start) for m in windows]
    for one in lent_to:
        token = "--dim" if one.colour is None else f"--team-{one.colour % 8}"
        figure.add_scatter(
            x=at, y=list(one.gpus), name=f"lent to {one.name or 'other teams'}", yaxis="y3", stackgroup="lent",
            mode="lines", line={"width": 0, "shape": "hv", "color": f"var({token})"}, fillcolor=f"var({token}, 0.45)",
        )  # fmt: skip


def _replicas(figure: Any, windows: Sequence[Window], *, has_borrowers: bool) -> None:
    at = [words.iso(m.start) for m in windows]
    lines: list[tuple[str, list[int | None], str, str]] = [
        ("ready", [m.replicas for m in windows], "var(--accent)", "solid"),
        ("wanted", [m.wanted for m in windows], "var(--dim)", "dot"),
    ]
    if any(m.asleep is not None for m in windows):
        lines += [
            ("on standby", [m.asleep for m in windows], "var(--warn)", "dash"),
            ("lent in all" if has_borrowers else "lent to trainings", [m.lent for m in windows], "var(--ok)", "solid"),
        ]
    for name, values, colour, dash in lines:
        line = {"width": 2, "color": colour, "shape": "hv", "dash": dash}
        figure.add_scatter(x=at, y=values, name=name, yaxis="y3", mode="lines", line=line)
    figure.add_scatter(
        x=at, y=[None if m.rate is None else round(m.rate, 2) for m in windows], name="requests/s", yaxis="y4",
        mode="lines", line={"width": 1.5, "color": "var(--text)"},
    )  # fmt: skip


def _marks(figure: Any, windows: Sequence[Window], decided: Sequence[Mark], taken: Sequence[Mark]) -> None:
    """Triangles where the number of replicas was changed, diamonds where GPUs were taken from other work."""
    for name, marks, colour in (("decisions", decided, "var(--text)"), ("GPUs taken", taken, "var(--bad)")):
        symbols = [
            "diamond" if one.replicas is None else "triangle-up" if one.is_up else "triangle-down" for one in marks
        ]
        figure.add_scatter(
            x=[words.iso(one.at) for one in marks], y=[_level(one, windows) for one in marks], name=name, yaxis="y3",
            mode="markers", text=[one.text for one in marks], hovertemplate="%{text}",
            marker={"size": 9, "symbol": symbols, "color": colour},
        )  # fmt: skip


def _level(mark: Mark, windows: Sequence[Window]) -> int:
    """At which height a mark stands: at the replicas that it led to, or that there were."""
    if mark.replicas is not None:
        return mark.replicas
    return next((m.replicas for m in reversed(windows) if m.start <= mark.at), 0)


def _layout(windows: Sequence[Window], moments: Sequence[Moment], target: Within | None) -> dict[str, Any]:
    promised = 0.0 if target is None else 1000 * target.seconds
    latency = max([promised, *(p95 for p95 in _milli(windows) if p95 is not None)])
    layout = charts.layout(latency)
    replicas = max([1, *(max(m.replicas, m.wanted, m.asleep or 0) for m in windows)])
    rate = max((m.rate for m in windows if m.rate is not None), default=0.0)
    left = [one.budget_left for one in moments if one.budget_left is not None]
    layout["yaxis"] |= {"domain": LATENCY, "ticksuffix": " ms", "nticks": 4}
    least = min([0.0, *left])
    layout["yaxis2"] = {
        **charts.layout(1.0)["yaxis"], "domain": BUDGET, "ticksuffix": " %", "nticks": 4,
        "range": [105 * least, 105], "zeroline": least < 0, "zerolinecolor": "var(--bad)",
    }  # fmt: skip
    layout["yaxis3"] = {
        **charts.layout(replicas)["yaxis"], "domain": REPLICAS, "dtick": -(-replicas // 4), "nticks": None,
    }  # fmt: skip
    layout["yaxis4"] = {
        **charts.layout(rate)["yaxis"], "overlaying": "y3", "side": "right", "showgrid": False, "tickmode": "auto",
        "nticks": 4,
    }  # fmt: skip
    layout["xaxis"] |= {"anchor": "y3"}
    layout["legend"] |= {"y": -0.08}
    return layout


def _milli(windows: Sequence[Window]) -> list[float | None]:
    return [None if m.p95 is None else round(m.p95 * 1000, 1) for m in windows]
