"""The routes under /api. Flat, without trailing slashes; whatever is not here is a 404 as problem+json."""

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.permissions import AllowAny

from controlplane.api import errors
from controlplane.api.views import accounts, insight, platform, policies, quotas, shares, workloads

app_name = "api"

schema = SpectacularAPIView.as_view(permission_classes=[AllowAny], authentication_classes=[], versioning_class=None)
docs = SpectacularSwaggerView.as_view(url_name="api:schema", permission_classes=[AllowAny], authentication_classes=[])


@csrf_exempt
def unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer for every address that is none."""
    return errors.answer(404, "There is no such address. GET /api/v1/schema lists them, /api/docs explains them.")


v1: list[URLPattern] = [
    path("login", accounts.Login.as_view()),
    path("me", accounts.Me.as_view()),
    path("tokens", accounts.Tokens.as_view()),
    path("tokens/<int:pk>", accounts.Token.as_view()),
    path("workloads", workloads.Workloads.as_view()),
    path("workloads:apply", workloads.Apply.as_view()),
    path("workloads:batch", workloads.Batch.as_view()),
    path("workloads:preview", workloads.Preview.as_view()),
    path("workloads/<uuid:uid>", workloads.Workload.as_view()),
    *(path(f"workloads/<uuid:uid>/{verb}", view.as_view()) for verb, view in workloads.ACTIONS.items()),
    path("workloads/<uuid:uid>/events", insight.Events.as_view()),
    path("workloads/<uuid:uid>/explanation", insight.Explanation.as_view()),
    path("workloads/<uuid:uid>/logs", insight.Logs.as_view()),
    path("workloads/<uuid:uid>/placement", insight.Placement.as_view()),
    path("queue", insight.Queue.as_view()),
    path("teams", platform.Teams.as_view()),
    path("teams/<slug:name>", platform.Team.as_view()),
    path("teams/<slug:team>/quotas", quotas.TeamQuotas.as_view()),
    path("teams/<slug:team>/quotas/<slug:pool>", quotas.Quota.as_view()),
    path("teams/<slug:team>/budgets", shares.TeamBudgets.as_view()),
    path("teams/<slug:team>/budgets/<slug:period>", shares.Budget.as_view()),
    path("quotas", quotas.Quotas.as_view()),
    path("shares", shares.Shares.as_view()),
    path("priority-classes", platform.PriorityClasses.as_view()),
    path("node-pools", platform.NodePools.as_view()),
    path("nodes", platform.Nodes.as_view()),
    path("nodes/<str:name>", platform.Node.as_view()),
    *(path(f"nodes/<str:name>/{verb}", view.as_view()) for verb, view in platform.CORDONS.items()),
    path("usage", platform.Usage.as_view()),
    path("policies", policies.Policies.as_view()),
    path("policies/<int:number>", policies.Policy.as_view()),
    path("policies/<int:number>/restore", policies.RestorePolicy.as_view()),
    path("simulations", policies.Simulations.as_view()),
    path("simulations/<int:number>", policies.Simulation.as_view()),
    path("simulations/<int:number>/apply", policies.ApplySimulation.as_view()),
    path("simulations/<int:number>/results", policies.SimulationResults.as_view()),
    path("cluster", platform.Cluster.as_view()),
]
urlpatterns = [
    path("v1/", include(v1)),
    path("v1/schema", schema, name="schema"),
    path("docs", docs, name="docs"),
    re_path(r"^(?P<rest>.*)$", unknown),
]
