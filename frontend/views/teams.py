"""Teams with their quotas."""

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries.reports import dashboard
from controlplane.queries.scheduling import policies
from controlplane.queries.tenancy import shares, teams
from controlplane.queries.workloads import whatif
from frontend.answers import answer, clock, is_later

SHARES_SECONDS = 5.0  # how old entitlements may be while nothing happens


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """The tree of teams with quotas, and the pools they divide."""
    if is_later(request, is_large=teams.are_many()):
        return answer(request, "teams", "tree", {"is_later": True})
    held = teams.held_by_team_and_pool()
    tree = teams.tree(held, _shares(), shares.budgets(clock(request).now))
    scale = max([max(b.row.nominal, b.row.held) for b in tree], default=0) * 1.04
    half_life = policies.scheduling().use_half_life_seconds
    context = {"tree": tree, "pools": teams.pools(held), "scale": scale, "half_life": half_life}
    return answer(request, "teams", "tree", context)


def _shares() -> Sequence[shares.Share]:
    """The entitlements of all teams, computed once for all viewers: it takes as long as the beginning of a round."""
    newest = f"shares-{dashboard.newest_event()}"
    known: Sequence[shares.Share] | None = cache.get(newest)
    if known is None:
        known = whatif.shares_of_all()
        cache.set(newest, known, SHARES_SECONDS)
    return known
