"""The cluster map."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries import cluster, teams
from frontend.views.answers import answer, is_later, link, seen_teams

SHOWS = (("", "Allocation"), ("use", "Use"), ("room", "Room"))  # what a cell's filling means


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Racks, nodes, GPUs: where there is room, and whose the rest is."""
    pools = teams.pools()
    wanted = request.GET.get("pool", "")
    pool = wanted if wanted in {p.name for p in pools} else ""
    wanted = request.GET.get("show", "")
    rows = [(row.name, row.colour) for row in teams.rows() if row.is_used]
    later = is_later(request, is_large=cluster.is_large())
    racks = () if later else cluster.racks(seen_teams(request), pool)
    context = {
        "is_later": later,
        "racks": racks,
        "room": cluster.room(racks),
        "pools": pools,
        "pool": pool,
        "teams": rows,
        "show": wanted if wanted in dict(SHOWS) else "",
        "shows": [(name, label, link(request, show=name)) for name, label in SHOWS],
    }
    return answer(request, "map", "racks", context)
