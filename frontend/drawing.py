"""GPUs as cells and teams as bars, put together in Python: the map of a large cluster has ten thousand cells.

A cell is drawn with as few elements as it needs. What names it is its title, so that nothing is told by colour alone.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from frontend import words

WIDTH, HEIGHT, PITCH = 13, 18.0, 16  # user units
EMPTY = format_html("{}", "")
CROSS = "M3 4l7 10M10 4L3 14"


def cell(device: Any, x: int, *, shows_use: bool = False) -> SafeString:
    """One GPU, its left edge at x: free is dashed, whole in its team's colour, shares stacked, lost ones crossed.

    shows_use: what is held is pale, and a bar inside says how much of the time it computes.
    """
    title = f"GPU {device.index}: {_told(device)}"
    if not device.healthy:
        return format_html(
            '<rect class="lost" x="{}" y=".5" width="12" height="17" rx="3"><title>{}</title></rect>'
            '<path class="cross" d="{}" transform="translate({})"/>',
            x + 0.5, title, CROSS, x,
        )  # fmt: skip
    if not device.tenants:
        return format_html(
            '<rect class="free" x="{}" y=".5" width="12" height="17" rx="3"><title>{}</title></rect>', x + 0.5, title
        )
    if len(device.tenants) == 1 and device.tenants[0].milli >= 1000:
        (tenant,) = device.tenants
        more = f"t{tenant.colour}{' leaving' * tenant.is_leaving}{' pale' * shows_use}"
        whole = format_html(
            '<rect class="slice whole {}" x="{}" y=".5" width="12" height="17" rx="3"><title>{}</title></rect>',
            more, x + 0.5, title,
        )  # fmt: skip
        return whole + _duty(device, x) if shows_use else whole
    return format_html(
        '<g transform="translate({})"><rect class="hatch-ground" width="13" height="18" rx="3"/>{}{}'
        '<rect class="frame-line" x=".5" y=".5" width="12" height="17" rx="3"/><title>{}</title></g>',
        x, _slices(device.tenants, " pale" if shows_use else ""), _duty(device, 0) if shows_use else "", title,
    )  # fmt: skip


def row(devices: Sequence[Any], *, shows_use: bool = False) -> SafeString:
    """The GPUs of one machine side by side."""
    return reduce(add, (cell(device, i * PITCH, shows_use=shows_use) for i, device in enumerate(devices)), EMPTY)


def bullet(name: str, colour: int, holding: Any, computing: float | None, scale: int) -> str:
    """GPUs of a team, or of one of its quotas, as a bar on one scale for all; milli-GPU.

    Nominal is a tick, held pale, borrowed hatched, computing solid (None: not known).
    """
    whole = max(scale, 1)

    def part(milli: float) -> str:
        return f"{min(100.0, 100 * milli / whole):.2f}%"

    own, borrowed = part(holding.held - holding.borrowed), ""
    if holding.borrowed > 0:
        borrowed = format_html(
            '<rect class="borrowed t{0}" x="{1}" y="5" width="{2}" height="12" rx="3" fill="url(#hatch-{0})"/>',
            colour, own, part(holding.borrowed),
        )  # fmt: skip
    label = (
        f"{name}: {words.gpus(computing)} computing of {words.gpus(holding.held)} allocated, "
        f"{words.gpus(holding.nominal)} nominal, {words.gpus(holding.borrowed)} borrowed"
    )
    return format_html(
        '<svg class="bullet t{}" role="img" aria-label="{}"><title>{}</title>'
        '<rect class="track" y="5" width="100%" height="12" rx="3"/>'
        '<rect class="held" y="5" width="{}" height="12" rx="3"/>{}'
        '<rect class="computing" y="8.5" width="{}" height="5" rx="1"/>'
        '<rect class="nominal" x="{}" y="1" width="2" height="20" transform="translate(-1)"/></svg>',
        colour, label, label, own, borrowed, part(computing or 0), part(holding.nominal),
    )  # fmt: skip


def _duty(device: Any, x: int) -> SafeString:
    """The bar of what computes, from below: in its team's colour, or neutral where several share the GPU."""
    high = HEIGHT * min(1.0, device.duty or 0.0)
    colour = f" t{device.tenants[0].colour}" if len(device.tenants) == 1 else ""
    return format_html(
        '<rect class="duty{}" x="{}" y="{}" width="5" height="{}"/>',
        colour, x + 4, f"{HEIGHT - high:.1f}", f"{high:.1f}",
    )  # fmt: skip


def _slices(tenants: Sequence[Any], more: str = "") -> str:
    """Shares, stacked from below."""
    drawn, top = [], HEIGHT
    for tenant in tenants:
        height = HEIGHT * min(1.0, tenant.milli / 1000)
        top -= height
        leaving = (" leaving" if tenant.is_leaving else "") + more
        drawn.append((tenant.colour, leaving, f"{max(0.0, top):.1f}", WIDTH, f"{height:.1f}"))
    return format_html_join("", '<rect class="slice t{}{}" y="{}" width="{}" height="{}" rx="1"/>', drawn)


def _told(device: Any) -> str:
    if not device.healthy:
        return "unhealthy"
    if not device.tenants:
        return "free"
    holders = "".join(
        f"{tenant.team}/{tenant.name}" * bool(tenant.name)
        + f"team {tenant.team}" * (not tenant.name)
        + f" {words.gpus(tenant.milli)}{', leaving' if tenant.is_leaving else ''}; "
        for tenant in device.tenants
    )
    return holders + (
        f"{words.percent(device.duty)} utilisation" if device.duty is not None else "utilisation not known"
    )
