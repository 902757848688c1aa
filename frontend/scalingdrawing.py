"""A training's figures: how it would do with other workers or batches, each doubling as far apart, and rows of bars."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from autoscaler.bottleneck.detect import LATELY
from autoscaler.throughput import batchcurve
from autoscaler.throughput.curve import Point
from frontend.drawing import EMPTY

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 200, 44, 24, 10, 12  # user units
LINES = 4  # across, at most
HIGH = 24  # of a row of bars


@dataclass(frozen=True, slots=True)
class Mark:
    """One point: at, along the bottom; value, low, high and what was measured, as multiples of now; other: of a second
    line; None: there is none. told: in words; is_named: whether it has its number below."""

    at: int
    value: float
    low: float
    high: float
    measured: float | None
    other: float | None
    told: str
    is_named: bool = True


def drawn(points: Sequence[Point], *, workers: int) -> SafeString:
    """The curve with its band, a ring for what was measured, and a mark at the workers that it has; empty for none.

    Where the noise of its gradients is known a second line is its goodput.
    """
    spread = _spread(points)
    marks = [
        Mark(p.workers, p.speed, p.low, p.high, p.measured, p.goodput, _told(p), is_named=p in spread) for p in points
    ]
    return _figure(marks, workers, "Speed with so many workers")


def of_batches(points: Sequence[batchcurve.Point], *, size: int) -> SafeString:
    """The goodput with each batch, in the same way; the second line is all examples a second."""
    marks = [Mark(p.examples, p.goodput, p.low, p.high, p.measured, p.speed, _told_of(p)) for p in points]
    return _figure(marks, size, "Goodput with a batch of so many examples")


def _figure(points: Sequence[Mark], has: int, title: str) -> SafeString:
    if len(points) < 2:
        return EMPTY
    most = 1.05 * max(min(one.high, 2 * one.value) for one in points)
    first, last = math.log2(points[0].at), math.log2(points[-1].at)

    def x(count: float) -> float:
        return round(LEFT + (math.log2(count) - first) / (last - first) * (WIDTH - LEFT - RIGHT), 1)

    def y(speed: float) -> float:
        return round(HEIGHT - BOTTOM - min(speed, most) / most * (HEIGHT - BOTTOM - TOP), 1)

    band = " ".join(f"{x(p.at)},{y(p.high)}" for p in points)
    band += " " + " ".join(f"{x(p.at)},{y(p.low)}" for p in reversed(points))
    parts = [
        _across(most, y),
        format_html('<polygon class="band" points="{}"/>', band),
        format_html('<polyline class="line" points="{}"/>', " ".join(f"{x(p.at)},{y(p.value)}" for p in points)),
        _other(points, x, y),
        _now(x(has)) if points[0].at <= has <= points[-1].at else EMPTY,
        format_html_join(
            "", '<g><circle class="{}" cx="{}" cy="{}" r="4"/><title>{}</title></g>',
            (("seen" if p.measured else "dot", x(p.at), y(p.measured or p.value), p.told) for p in points),
        ),
        format_html_join(
            "", '<text x="{}" y="{}" text-anchor="middle">{}</text>',
            ((x(p.at), HEIGHT - 6, p.at) for p in points if p.is_named),
        ),
    ]  # fmt: skip
    told = ", ".join(f"{p.at}: {p.value:.2f} x" for p in points)
    return format_html(
        '<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}: {}">{}</svg>',
        WIDTH, HEIGHT, title, told, format_html_join("", "{}", ((part,) for part in parts)),
    )  # fmt: skip


def _across(most: float, y: Callable[[float], float]) -> SafeString:
    step = next(one for one in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if most / one <= LINES)
    marks = [step * number for number in range(1, int(most / step) + 1)]
    return format_html_join(
        "", '<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end">{} x</text>',
        ((LEFT, y(one), WIDTH - RIGHT, LEFT - 6, y(one) + 4, f"{one:g}") for one in marks),
    )  # fmt: skip


def _other(points: Sequence[Mark], x: Callable[[float], float], y: Callable[[float], float]) -> SafeString:
    places = [f"{x(p.at)},{y(p.other)}" for p in points if p.other is not None]
    return format_html('<polyline class="useful" points="{}"/>', " ".join(places)) if places else EMPTY


def _now(at: float) -> SafeString:
    return format_html('<path class="now" d="M{} {}V{}"/>', at, TOP, HEIGHT - BOTTOM)


def _spread(points: Sequence[Point]) -> list[Point]:
    """Those whose numbers have room below: powers of two, and the ends."""
    return [p for p in points if p in (points[0], points[-1]) or p.workers & (p.workers - 1) == 0]


def _told(point: Point) -> str:
    measured = f", measured {point.measured:.2f} x" if point.measured else ""
    goodput = f", goodput {point.goodput:.2f} x" if point.goodput is not None else ""
    return f"{point.workers} workers: {point.speed:.2f} x, {point.low:.2f} to {point.high:.2f}{measured}{goodput}"


def _told_of(point: batchcurve.Point) -> str:
    measured = f", measured {point.measured:.2f} x" if point.measured else ""
    useful = f"{point.examples} examples: {point.goodput:.2f} x, {point.low:.2f} to {point.high:.2f}"
    return f"{useful}{measured}, all examples {point.speed:.2f} x"


def lately(parts: Sequence[float], title: str) -> SafeString:
    """A bar for each look, from nothing to all of a step, the newest at the right; empty for none."""
    if not parts:
        return EMPTY
    width = 100 / LATELY
    first = LATELY - len(parts)
    bars = (
        (
            f"{(first + at) * width:.2f}",
            f"{HIGH * (1 - min(part, 1.0)):.1f}",
            f"{width - 0.8:.2f}",
            f"{HIGH * min(part, 1.0):.1f}",
        )
        for at, part in enumerate(parts)
    )
    ends = f"{100 * parts[0]:.0f} % at first, now {100 * parts[-1]:.0f} %"
    told = f"{title}, part of a step in the last {len(parts)} looks: {ends}"
    return format_html(
        '<svg class="lately" viewBox="0 0 100 {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        HIGH, told, format_html_join("", '<rect x="{}" y="{}" width="{}" height="{}"/>', bars),
    )  # fmt: skip
