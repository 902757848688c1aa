"""Parts of a report: one HTML page that needs nothing else, in light and dark. Charts are SVG."""

from collections.abc import Mapping, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controlplane.benchmarks.harness.figure import Result

STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --dim: #60646c; --line: #d9d9e0; --ground: #fff;
  --p0: #0b5cad; --p1: #c2410c; --p2: #047857; --p3: #a21caf; --p4: #a16207; --p5: #57606a; }
@media (prefers-color-scheme: dark) { :root { --text: #edeef0; --dim: #b0b4ba; --line: #363a3f; --ground: #111113;
  --p0: #6cb6ff; --p1: #ff9d6c; --p2: #4ade80; --p3: #e594f5; --p4: #facc15; --p5: #adbac7; } }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; font: 15px/1.5 Inter, system-ui, sans-serif;
  color: var(--text); background: var(--ground); }
h2 { margin: 2.5rem 0 0; } h3 { margin: 1rem 0 0; font-size: 1rem; } p { color: var(--dim); margin: .25rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; white-space: nowrap; }
td, th { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
table.wraps { white-space: normal; } .wraps td, .wraps th { text-align: left; vertical-align: top; }
svg { display: block; } svg.chart { width: 100%; min-width: 48rem; height: auto; }
.name { white-space: nowrap; margin-right: .8rem; }
svg.key { display: inline-block; vertical-align: middle; margin-right: .5rem; }
svg text { font-size: 11px; fill: var(--dim); } .grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .load { stroke: var(--text); }
.spread { stroke: var(--p0); stroke-width: 2; opacity: .5; }
"""
WIDTH, ROW, LEFT, RIGHT, BOTTOM = 960, 18, 220, 80, 24  # of bars, in user units; on the right stands the mean
TALL = 240  # of lines, in user units
DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "1 2", "4 2 1 2")
Bar = tuple[str, float, float, float]  # name, low end, mean, high end


def whole(title: str, introduction: str, *parts: SafeString) -> str:
    """The page."""
    return format_html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>{0}</title><style>{1}</style></head><body><h1>{0}</h1><p>{2}</p>{3}</body></html>\n",
        title,
        STYLE,  # has nothing that HTML would escape
        introduction,
        format_html_join("", "{}", ((one,) for one in parts)),
    )


def figures(result: Result) -> SafeString:
    """Those with a goal, and whether it is met."""
    return table(
        ("figure", "value", "goal", "met"),
        [
            (one.name, f"{one.value:g} {one.unit}", f"{one.goal:g} {one.unit}", "yes" if one.met else "NO")
            for one in result.figures
            if one.goal is not None
        ],
    )


def bars(rows: Sequence[Bar], unit: str) -> SafeString:
    """A point and its 95 % interval for each policy; the upright line is where both are level."""
    even = 1.0 if unit == "x" else 0.0
    most = max((even, *(high for _, _, _, high in rows)))
    least = min(0.0, *(low for _, low, _, _ in rows)) if rows else 0.0
    scale = (WIDTH - LEFT - RIGHT) / max(most - least, 1e-9)
    height = ROW * len(rows) + BOTTOM
    level = LEFT + (even - least) * scale
    drawn = format_html_join(
        "",
        '<text x="{}" y="{}" text-anchor="end">{}</text><path class="spread" d="M{} {}H{}"/>'
        '<circle cx="{}" cy="{}" r="4" fill="var(--p0)"/><text x="{}" y="{}">{}</text>',
        (
            (
                LEFT - 8, ROW * at + 13, name, f"{LEFT + (low - least) * scale:.1f}", ROW * at + 9,
                f"{LEFT + (high - least) * scale:.1f}", f"{LEFT + (mean - least) * scale:.1f}", ROW * at + 9,
                f"{LEFT + (high - least) * scale + 6:.1f}", ROW * at + 13, f"{_mean(mean)} {unit}",
            )
            for at, (name, low, mean, high) in enumerate(rows)
        ),
    )  # fmt: skip
    return format_html(
        '<div class="wide"><svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path class="curve load" d="M{} 0V{}"/><text x="{}" y="{}" text-anchor="middle">{}</text>{}</svg></div>',
        WIDTH, height, f"{len(rows)} policies", f"{level:.1f}", height - BOTTOM, f"{level:.1f}", height - 8,
        f"level: {even:g} {unit}", drawn,
    )  # fmt: skip


def _mean(value: float) -> str:
    """With two digits after the point, or the first that is not 0."""
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.005 else f"{value:.1g}"


def section(title: str, *parts: SafeString) -> SafeString:
    """With a heading."""
    return format_html("<section><h2>{}</h2>{}</section>", title, format_html_join("", "{}", ((one,) for one in parts)))


def listed(lines: Sequence[str]) -> SafeString:
    """One after the other."""
    return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((line,) for line in lines)))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, wraps: bool = False) -> SafeString:
    """Text cells. wraps: each over several lines where the page is too narrow, but for their unbreakable spaces."""
    return format_html(
        '<div class="wide"><table class="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>',
        "wraps" if wraps else "",
        format_html_join("", "<th>{}</th>", ((one,) for one in head)),
        format_html_join(
            "", "<tr>{}</tr>", ((format_html_join("", "<td>{}</td>", ((one,) for one in row)),) for row in rows)
        ),
    )


def lines(labels: Sequence[str], curves: Mapping[str, Sequence[float | None]], unit: str) -> SafeString:
    """A line for each name over the same places from left to right, with a key; None: a line has no point there."""
    values = [value for one in curves.values() for value in one if value is not None]
    top = max((*values, 1.0)) * 1.05
    middle, bottom = (WIDTH - LEFT - RIGHT) / max(len(labels), 1), TALL - BOTTOM

    def at(place: int, value: float) -> str:
        return f"{LEFT + (place + 0.5) * middle:.1f} {bottom - (bottom - 8) * value / top:.1f}"

    drawn = [
        (number, [at(place, value) for place, value in enumerate(one) if value is not None])
        for number, one in enumerate(curves.values())
    ]
    level = 1.0 if unit == "x" else 0.0
    return format_html(
        '<p>{}</p><div class="wide"><svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}{}</svg>'
        "</div>",
        format_html_join(
            " ", '<span class="name">{}{}</span>', ((_key(number), name) for number, name in enumerate(curves))
        ),
        WIDTH, TALL, f"{len(curves)} lines over {', '.join(labels)}",
        format_html_join(
            "", '<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end" dy="4">{}</text>',
            (
                (LEFT, y, WIDTH - RIGHT, LEFT - 6, y, f"{value:.3g} {unit}")
                for value in sorted({0.0, level, *(top / 1.05 * part for part in (0.25, 0.5, 0.75, 1.0))})
                for y in (f"{bottom - (bottom - 8) * value / top:.1f}",)
            ),
        ),
        format_html_join(
            "", '<text x="{}" y="{}" text-anchor="middle">{}</text>',
            ((f"{LEFT + (place + 0.5) * middle:.1f}", TALL - 6, label) for place, label in enumerate(labels)),
        ),
        format_html_join(
            "", '<path class="curve" style="{}" d="M{}"/>',
            ((_style(number), "L".join(points)) for number, points in drawn if points),
        ),
        format_html_join(
            "", '<circle cx="{}" cy="{}" r="3" fill="var(--p{})"/>',
            ((*point.split(), number % 6) for number, points in drawn for point in points),
        ),
    )  # fmt: skip


def _style(number: int) -> str:
    """What tells lines apart: a colour, and dashes beside it."""
    return f"stroke:var(--p{number % 6});stroke-dasharray:{DASHES[number % len(DASHES)] or 'none'}"


def _key(number: int) -> SafeString:
    return format_html(
        '<svg class="key" width="34" height="8" aria-hidden="true"><path class="curve" style="{}" d="M0 4H34"/></svg>',
        _style(number),
    )
