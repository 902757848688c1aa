"""The cluster map and one node."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries import cluster, teams
from frontend.views.answers import answer, seen_teams


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Racks, nodes, GPUs: where there is room, and whose the rest is."""
    pools = teams.pools()
    wanted = request.GET.get("pool", "")
    pool = wanted if wanted in {p.name for p in pools} else ""
    rows = [(row.name, row.colour) for row in teams.rows() if row.is_used]
    context = {"racks": cluster.racks(seen_teams(request), pool), "pools": pools, "pool": pool, "teams": rows}
    return answer(request, "map", "racks", context)


@login_required
@require_GET
def node(request: HttpRequest, name: str) -> HttpResponse:
    """One machine: its GPUs and who holds which part of them."""
    found = cluster.node(name, seen_teams(request))
    if found is None:
        raise Http404
    return answer(request, "node", "node_detail", {"node": found})
