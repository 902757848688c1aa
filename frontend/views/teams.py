"""Teams with their quotas, and what was used."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlplane.queries import shares, teams, usage, whatif
from frontend.views.answers import answer, clock, seen_teams

RANGES = {"24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
HOUR = 3600.0


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """The tree of teams with quotas, and the pools they divide."""
    held = teams.held_by_team_and_pool()
    tree = teams.tree(held, whatif.shares_of_all(), shares.budgets(clock(request).now))
    scale = max([max(b.row.nominal, b.row.held) for b in tree], default=0) * 1.04
    return answer(request, "teams", "tree", {"tree": tree, "pools": teams.pools(held), "scale": scale})


@login_required
@require_GET
def used(request: HttpRequest) -> HttpResponse:
    """GPU-hours by team and, of one's own teams, by workload."""
    wanted = request.GET.get("range", "24h")
    chosen = wanted if wanted in RANGES else "24h"
    until = clock(request).now // HOUR * HOUR + HOUR
    since = until - RANGES[chosen]
    context = {
        "teams": usage.by_team(since, until),
        "workloads": usage.by_workload(since, until, seen_teams(request), limit=50),
        "range": chosen,
        "ranges": list(RANGES),
    }
    return render(request, "frontend/usage.html", context)
