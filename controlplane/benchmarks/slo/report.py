"""Curves as one HTML page that needs nothing else: charts are SVG, with one x axis for all of a trace's charts."""

import math
from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controlplane.benchmarks.harness.parts import STYLE
from controlplane.benchmarks.slo.curves import Cell, Curve
from controlplane.benchmarks.slo.traces import Floats

WIDTH, HEIGHT = 960, 150  # user units, of what is drawn in
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 20
# What tells lines apart beside their colour: dashes, in user units.
DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "1 2")
COLOURS = 6  # STYLE has so many, `--p0` and on
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880)  # minutes between two ticks
TICKS = 10
LAST = 0.97  # of the length: a tick behind that has its text to its left, where there is room
INTRODUCTION = (
    "Seed {seed}. Each policy has the same requests, and as many replicas at most as one and a half times the busiest "
    "minute needs. A minute is bad when more than 5 % of its arrivals were late. With standby a replica serves "
    "{first:g} s after it is called, else {last:g} s. Hours are those of replicas, from the call until the last "
    "request has ended."
)


def page(cells: Sequence[Cell], seed: int) -> str:
    """The whole report."""
    starts = sorted({curve.start for cell in cells for curve in cell.curves})
    return format_html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>{0}</title><style>{1}</style></head><body><h1>{0}</h1><p>{2}</p>{3}</body></html>\n",
        "Services held to their objectives",
        STYLE,  # has nothing that HTML would escape
        INTRODUCTION.format(seed=seed, first=starts[0], last=starts[-1]),
        format_html_join("", "{}", ((_cell(cell),) for cell in cells)),
    )


def _cell(cell: Cell) -> SafeString:
    span = "a minute" if cell.minutes == 1 else f"{cell.minutes} minutes"
    many = len(cell.curves)
    kinds = [f"p{at % COLOURS}" for at in range(many)]
    charts = (
        ("Load, requests/s", [cell.load], ["load"]),
        ("Replicas wanted", [curve.wanted for curve in cell.curves], kinds),
        ("Replicas ready", [curve.ready for curve in cell.curves], kinds),
        ("Late, % of arrivals", [curve.late for curve in cell.curves], kinds),
    )
    drawn = format_html_join(
        "",
        '<h3>{}</h3><div class="wide">{}</div>',
        ((title, _chart(title, lines, kinds, cell)) for title, lines, kinds in charts),
    )
    return format_html(
        '<section id="{0}"><h2>{0}</h2><p>{1} requests in {2}, objective {3} s, {4} at once in a replica. '
        "A point is {5}: of replicas wanted the most, of those ready the fewest.</p>{6}{7}</section>",
        cell.trace, f"{cell.requests:,}", _length(cell.seconds), f"{cell.objective:.3g}", cell.slots, span,
        _table(cell.curves), drawn,
    )  # fmt: skip


def _table(curves: Sequence[Curve]) -> SafeString:
    rows = format_html_join(
        "",
        '<tr><td><svg class="key" width="34" height="8" aria-hidden="true">{}</svg>{}</td><td>{}</td><td>{}</td>'
        "<td>{}</td><td>{}</td></tr>",
        (
            (
                format_html('<path class="curve" style="{}" d="M0 4H34"/>', _style(at)),
                curve.policy,
                f"{curve.judged.late_percent:.3f} %",
                len(curve.judged.bad_windows),
                f"{curve.judged.hours:,.1f}",
                f"{curve.judged.starts:,}",
            )  # fmt: skip
            for at, curve in enumerate(curves)
        ),
    )
    return format_html(
        '<div class="wide"><table><thead><tr><th>policy</th><th>late</th><th>bad minutes</th><th>replica-hours</th>'
        "<th>starts or calls</th></tr></thead><tbody>{}</tbody></table></div>",
        rows,
    )


def _chart(title: str, lines: Sequence[Floats], kinds: Sequence[str], cell: Cell) -> SafeString:
    """One chart: all lines on the same axes."""
    most = max(max(float(line.max()) for line in lines), 1e-9)
    step = _step(most)
    top = step * math.ceil(most / step)
    length = len(lines[0]) * cell.minutes
    rules = [(f"{_y(step * at, top):.1f}", f"{step * at:g}") for at in range(round(top / step) + 1)]
    ticks = [
        (f"{_x(minute, length):.1f}", "end" if minute > LAST * length else "middle", _clock(minute))
        for minute in range(0, length + 1, _minutes(length))
    ]
    return format_html(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>',
        WIDTH, HEIGHT, f"{title}, {cell.trace}",
        format_html_join(
            "", '<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end" dy="4">{}</text>',
            ((LEFT, y, WIDTH - RIGHT, LEFT - 6, y, text) for y, text in rules),
        ),
        format_html_join(
            "", '<text x="{}" y="{}" text-anchor="{}">{}</text>', ((x, HEIGHT - 4, at, text) for x, at, text in ticks)
        ),
        format_html_join(
            "", '<path class="curve {}" style="{}" d="{}"/>',
            (
                (kind, "" if kind == "load" else _style(at), _path(line, top, length, cell.minutes))
                for at, (line, kind) in enumerate(zip(lines, kinds, strict=True))
            ),
        ),
    )  # fmt: skip


def _style(at: int) -> str:
    dash = DASHES[(at + at // COLOURS) % len(DASHES)]  # a colour that comes again has another dash
    return f"stroke:var(--p{at % COLOURS});stroke-dasharray:{dash or 'none'}"


def _path(line: Floats, top: float, length: int, minutes: int) -> str:
    """A line through the middle of each span."""
    points = (f"{_x((at + 0.5) * minutes, length):.1f} {_y(value, top):.1f}" for at, value in enumerate(line.tolist()))
    return "M" + "L".join(points)


def _x(minute: float, length: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * minute / length


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _step(most: float) -> float:
    """Between two rules: 1, 2 or 5 times a power of ten, so that there are four to ten."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    return max(power * factor for factor in (1, 2, 5) if power * factor <= most / 4 * (1 + 1e-9))


def _minutes(length: int) -> int:
    return next((step for step in STEPS if length / step <= TICKS), STEPS[-1])


def _clock(minute: int) -> str:
    days, rest = divmod(minute, 1440)
    clock = f"{rest // 60}:{rest % 60:02d}"
    return f"{days} d {clock}" * bool(days and rest) or (f"{days} d" if days else clock)


def _length(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"
