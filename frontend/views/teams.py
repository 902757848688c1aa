"""Teams with their quotas."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries import shares, teams, whatif
from frontend.views.answers import answer, clock, is_later


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """The tree of teams with quotas, and the pools they divide."""
    if is_later(request, is_large=teams.are_many()):
        return answer(request, "teams", "tree", {"is_later": True})
    held = teams.held_by_team_and_pool()
    tree = teams.tree(held, whatif.shares_of_all(), shares.budgets(clock(request).now))
    scale = max([max(b.row.nominal, b.row.held) for b in tree], default=0) * 1.04
    return answer(request, "teams", "tree", {"tree": tree, "pools": teams.pools(held), "scale": scale})
