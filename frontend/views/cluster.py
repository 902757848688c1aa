"""The cluster map, now and as it was; and the cells, where it is cut into some."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from controlplane.queries.cells import overview as standing
from controlplane.queries.cells.overview import Deciding
from controlplane.queries.scheduling import cluster, pastmap
from controlplane.queries.scheduling.cluster import RackRow
from controlplane.queries.tenancy import teams
from frontend import words
from frontend.answers import answer, clock, link, number, seen_teams

SHOWS = (("", "Allocation"), ("use", "Utilisation"), ("room", "Free capacity"))  # what a cell's filling means
STEP = 300  # s of the cluster's clock between two places of the slider
PRESENT = "The map shows the present."
JUMP = 3600  # s that Earlier and Later go
QUOTAS = 50  # on a page of cells, each with a line for every cell
NAMED = 6  # racks or pools of a cell; of more the number
STATES = {
    Deciding.DECIDING: ("ok", "deciding"),
    Deciding.TAKEN_OVER: ("warn", "taken over"),
    Deciding.LATE: ("bad", "late"),
    Deciding.NONE: ("bad", "no decider"),
}


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Racks, nodes and GPUs: what is free, and which teams have the rest; `at` asks for the state at that time.

    On a large cluster the nodes of a rack come when it is looked at.
    """
    asked = _asked(request)
    past = None if asked.moment is None else pastmap.at(asked.moment, seen_teams(request), asked.pool)
    if not cluster.is_large():
        racks = past.racks if past else cluster.racks(seen_teams(request), asked.pool)
        whole = {"racks": racks, "room": cluster.room(racks)}
        return answer(request, "map", "racks", _context(request, asked, past) | whole)
    sums, room = (past.sums, cluster.room(past.racks)) if past else cluster.rack_sums(asked.pool)
    parts = [(one, _link(request, one, part)) for part, one in enumerate(sums, 1)]
    return answer(request, "map", "rack_sums", _context(request, asked, past) | {"parts": parts, "room": room})


@login_required
@require_GET
def rack(request: HttpRequest) -> HttpResponse:
    """One rack, or a part of a large one: on the map, or on a page of its own."""
    asked, seen = _asked(request), seen_teams(request)
    zone, name, first = (request.GET.get(part, "") for part in ("zone", "rack", "first"))
    names = cluster.nodes_of(zone, name, first, asked.pool)
    past = None if asked.moment is None else pastmap.at(asked.moment, seen, asked.pool, names)
    nodes = [node for one in past.racks for node in one.nodes] if past else cluster.hosts(names, seen)
    one = {
        "rack": RackRow(zone, name, tuple(nodes)),
        "ends": (names[0], names[-1]) if first and names else None,
        "number": number(request.GET.get("part"), 0),
        "is_one": True,
    }
    return answer(request, "map", "rack", _context(request, asked, past) | one)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the address asks for. moment None: now; fault: what is wrong with the one asked for."""

    pools: Sequence[tuple[str, str]]  # names and GPU models
    pool: str
    now: float
    earliest: float
    moment: float | None
    fault: str


def _asked(request: HttpRequest) -> _Asked:
    pools = teams.pool_models()
    wanted = request.GET.get("pool", "")
    now = clock(request).now
    earliest = pastmap.first(now)
    moment, fault = _moment(request.GET.get("at", ""), earliest, now)
    return _Asked(pools, wanted if wanted in dict(pools) else "", now, earliest, moment, fault)


def _context(request: HttpRequest, asked: _Asked, past: pastmap.Past | None) -> dict[str, Any]:
    shows = [show for show in SHOWS if past is None or show[0] != "use"]  # use is not kept by GPU
    wanted = request.GET.get("show", "")
    return {
        "pools": asked.pools,
        "pool": asked.pool,
        "teams": [(row.name, row.colour) for row in teams.rows() if row.is_used],
        "show": wanted if wanted in dict(shows) else "",
        "shows": [(name, label, link(request, show=name)) for name, label in shows],
        "past": past,
        "moment": asked.moment,
        "fault": asked.fault,
        "slider": _slider(request, asked.moment, asked.earliest, asked.now),
        "all_url": f"{reverse('frontend:map')}?{_kept(request)}".rstrip("?"),
    }


def _kept(request: HttpRequest, **more: str) -> str:
    """What a link from the map to a rack, or back, keeps of the address."""
    kept = {name: request.GET[name] for name in ("pool", "show", "at") if request.GET.get(name)}
    return urlencode({**kept, **more})


def _link(request: HttpRequest, one: cluster.RackSum, part: int) -> str:
    """The address of a rack's nodes. part: its number on the map."""
    where = {"zone": one.zone, "rack": one.name, "first": one.first, "part": str(part)}
    return f"{reverse('frontend:map_rack')}?{_kept(request, **where)}"


def _moment(text: str, earliest: float, now: float) -> tuple[float | None, str]:
    """(the time asked for, or None for now; what is wrong with it): seconds or ISO 8601, UTC without a zone."""
    if not text:
        return None, ""
    try:
        asked = datetime.fromtimestamp(float(text), UTC) if text.isdigit() else datetime.fromisoformat(text)
        at = (asked if asked.tzinfo else asked.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return (
            None,
            f'at is "{text[:40]}". Give a time such as {words.iso(max(earliest, now - JUMP))}. {PRESENT}',
        )
    if at > now + STEP:
        return None, f"{words.exact(at)} is in the future. {PRESENT}"
    if at < earliest:
        return (
            None,
            f"{words.exact(at)} is too long ago: the map goes back to {words.exact(earliest)} UTC. {PRESENT}",
        )
    return (None if at > now else at), ""


def _slider(request: HttpRequest, moment: float | None, earliest: float, now: float) -> dict[str, Any] | None:
    """The places of the slider, seconds; its last one is now. None while there is no past."""
    first, last = -(-int(earliest) // STEP) * STEP, (int(now) // STEP + 1) * STEP
    if last - first <= STEP:
        return None
    at = now if moment is None else moment
    earlier, later = max(at - JUMP, float(first)), at + JUMP
    return {
        "min": first,
        "max": last,
        "step": STEP,
        "value": last if moment is None else round(moment / STEP) * STEP,
        "text": "now" if moment is None else words.clock_time(moment, now),
        "earlier": link(request, at=words.iso(earlier)) if earlier < at else "",
        "later": link(request, at=words.iso(later) if later < now else "") if moment is not None else "",
        "now": link(request, at=""),
    }


@login_required
@require_GET
def cells(request: HttpRequest) -> HttpResponse:
    """Every cell, and how the quotas of the teams that the viewer may see are divided."""
    found, offset = standing.rows(request.user), number(request.GET.get("from"), 0)
    total = standing.count_divided(request.user) if found else 0
    context = {
        "cells": [
            {"row": row, "state": STATES[row.decider.state], "where": [_named(row.pools), _named(row.racks)]}
            for row in found
        ],
        "quotas": standing.divided(request.user, offset, QUOTAS) if found else (),
        "total": total,
        "older": link(request, **{"from": offset + QUOTAS}) if offset + QUOTAS < total else "",
        "newer": link(request, **{"from": max(0, offset - QUOTAS)}) if offset else "",
    }
    return answer(request, "cells", "cell_rows", context)


def _named(names: tuple[str, ...]) -> str:
    """The first of these names, and how many there are besides."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
