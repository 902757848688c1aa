"""For load balancers and supervisors: no sign-in, no data."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """Tell that this process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Tell whether requests can be served: the database answers and has our tables."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM controlplane_clusterstate WHERE 1 = 0")
    except DatabaseError:
        return JsonResponse({"status": "unready", "checks": {"database": "does not answer"}}, status=503)
    return JsonResponse({"status": "ok"})
