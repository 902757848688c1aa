"""The cluster map, now and as it was."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries.scheduling import cluster, pastmap
from controlplane.queries.tenancy import teams
from frontend import words
from frontend.answers import answer, clock, is_later, link, seen_teams

SHOWS = (("", "Allocation"), ("use", "Utilisation"), ("room", "Free capacity"))  # what a cell's filling means
STEP = 300  # s of the cluster's clock between two places of the slider
PRESENT = "The map shows the present."
JUMP = 3600  # s that Earlier and Later go


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Racks, nodes and GPUs: what is free, and which teams have the rest; `at` asks for the state at that time."""
    pools = teams.pools()
    wanted = request.GET.get("pool", "")
    pool = wanted if wanted in {p.name for p in pools} else ""
    now = clock(request).now
    earliest = pastmap.first(now)
    moment, fault = _moment(request.GET.get("at", ""), earliest, now)
    past = None if moment is None else pastmap.at(moment, seen_teams(request), pool)
    shows = [show for show in SHOWS if past is None or show[0] != "use"]  # use is not kept by GPU
    wanted = request.GET.get("show", "")
    later = past is None and is_later(request, is_large=cluster.is_large())
    racks = past.racks if past else () if later else cluster.racks(seen_teams(request), pool)
    context = {
        "is_later": later,
        "racks": racks,
        "room": cluster.room(racks),
        "pools": pools,
        "pool": pool,
        "teams": [(row.name, row.colour) for row in teams.rows() if row.is_used],
        "show": wanted if wanted in dict(shows) else "",
        "shows": [(name, label, link(request, show=name)) for name, label in shows],
        "past": past,
        "moment": moment,
        "fault": fault,
        "slider": _slider(request, moment, earliest, now),
    }
    return answer(request, "map", "racks", context)


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
