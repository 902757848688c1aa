"""The routes under /api. Flat, without trailing slashes; whatever is not here is a 404 as problem+json."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny

from controlplane.api import errors
from controlplane.api.schema import Document
from controlplane.api.views import (
    accounts,
    actions,
    auditlog,
    cells,
    details,
    insight,
    kinds,
    members,
    notices,
    personal,
    platform,
    policies,
    quotas,
    reports,
    shares,
    suggestions,
    watching,
    workloads,
)

app_name = "api"

docs = SpectacularSwaggerSplitView.as_view(  # its script is an answer of its own: none is inline
    url_name="api:schema", permission_classes=[AllowAny], authentication_classes=[]
)


@login_not_required
@csrf_exempt
def unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer for every address that is none."""
    return errors.answer(404, "There is no such address. GET /api/v1/schema lists them, /api/docs explains them.")


v1: list[URLPattern] = [
    path("login", accounts.Login.as_view()),
    path("me", accounts.Me.as_view()),
    path("tokens", accounts.Tokens.as_view()),
    path("tokens/<int:pk>", accounts.Token.as_view()),
    path("service-accounts", members.ServiceAccounts.as_view()),
    path("service-accounts/<int:pk>", members.ServiceAccount.as_view()),
    path("service-accounts/<int:pk>/tokens", members.ServiceAccountTokens.as_view()),
    path("service-accounts/<int:pk>/tokens/<int:number>", members.ServiceAccountToken.as_view()),
    path("users/<str:username>/tokens", accounts.UserTokens.as_view()),
    path("group-mappings", members.GroupMappings.as_view()),
    path("group-mappings/<int:pk>", members.GroupMappingOne.as_view()),
    path("workloads", workloads.Workloads.as_view()),
    path("workloads:act", actions.Several.as_view()),
    path("workloads:apply", workloads.Apply.as_view()),
    path("workloads:batch", workloads.Batch.as_view()),
    path("workloads:diff", workloads.Diff.as_view()),
    path("workloads:preview", workloads.Preview.as_view()),
    path("workloads/watch", watching.WatchWorkloads.as_view()),
    path("workloads/<uuid:uid>", workloads.Workload.as_view()),
    *(path(f"workloads/<uuid:uid>/{verb}", view.as_view()) for verb, view in actions.ACTIONS.items()),
    *(path(f"workloads/<uuid:uid>/{name}", view.as_view()) for name, view in details.DETAILS.items()),
    path("workloads/<uuid:uid>/watch", watching.WatchWorkload.as_view()),
    path("workloads/<uuid:uid>/events", insight.Events.as_view()),
    path("workloads/<uuid:uid>/explanation", insight.Explanation.as_view()),
    path("workloads/<uuid:uid>/logs", insight.Logs.as_view()),
    path("workloads/<uuid:uid>/suggestion", suggestions.Suggestion.as_view()),
    path("workloads/<uuid:uid>/remedy", suggestions.Remedy.as_view()),
    path("workloads/<uuid:uid>/placement", insight.Placement.as_view()),
    *kinds.ROUTES,
    path("queue", insight.Queue.as_view()),
    path("teams", platform.Teams.as_view()),
    path("teams/<slug:name>", platform.Team.as_view()),
    path("teams/<slug:team>/members", members.Members.as_view()),
    path("teams/<slug:team>/members/<str:username>", members.Member.as_view()),
    path("teams/<slug:team>/quotas", quotas.TeamQuotas.as_view()),
    path("teams/<slug:team>/quotas/<slug:pool>", quotas.Quota.as_view()),
    path("teams/<slug:team>/budgets", shares.TeamBudgets.as_view()),
    path("teams/<slug:team>/budgets/<slug:period>", shares.Budget.as_view()),
    path("quotas", quotas.Quotas.as_view()),
    path("shares", shares.Shares.as_view()),
    path("priority-classes", platform.PriorityClasses.as_view()),
    path("node-pools", platform.NodePools.as_view()),
    path("node-pools/<slug:name>", platform.NodePool.as_view()),
    path("nodes", platform.Nodes.as_view()),
    path("nodes/<str:name>", platform.Node.as_view()),
    path("nodes/<str:name>/slow-workers", platform.SlowWorkers.as_view()),
    *(path(f"nodes/<str:name>/{verb}", view.as_view()) for verb, view in platform.CORDONS.items()),
    path("gpus", platform.Gpus.as_view()),
    path("gpu-profiles", platform.GpuProfiles.as_view()),
    path("topologies", platform.Topologies.as_view()),
    path("nodes/<str:name>/drain", platform.DrainNode.as_view()),
    path("usage", platform.Usage.as_view()),
    path("reports/usage", reports.UsageReport.as_view()),
    path("reports/slo", reports.SloReport.as_view()),
    path("reports/sla", reports.SlaReport.as_view()),
    path("policies", policies.Policies.as_view()),
    path("policies/<int:number>", policies.Policy.as_view()),
    path("policies/<int:number>/restore", policies.RestorePolicy.as_view()),
    path("simulations", policies.Simulations.as_view()),
    path("simulations/<int:number>", policies.Simulation.as_view()),
    path("simulations/<int:number>/apply", policies.ApplySimulation.as_view()),
    path("simulations/<int:number>/results", policies.SimulationResults.as_view()),
    path("audit-log", auditlog.AuditLog.as_view()),
    path("notices", notices.Notices.as_view()),
    path("notices:read", notices.ReadNotices.as_view()),
    path("notification-subscriptions", notices.Subscriptions.as_view()),
    path("notification-subscriptions/<int:subscription>", notices.Subscription.as_view()),
    path("notification-rules", notices.Rules.as_view()),
    path("notification-rules/<int:subscription>", notices.Rule.as_view()),
    path("webhooks", notices.Webhooks.as_view()),
    path("webhooks/<uuid:webhook>", notices.Webhook.as_view()),
    path("webhooks/<uuid:webhook>:secret", notices.WebhookSecret.as_view()),
    path("webhooks/<uuid:webhook>:test", notices.TestWebhook.as_view()),
    path("webhooks/<uuid:webhook>/deliveries", notices.Deliveries.as_view()),
    path("webhooks/<uuid:webhook>/deliveries/<uuid:delivery>:redeliver", notices.Redeliver.as_view()),
    path("templates", personal.Templates.as_view()),
    path("templates/<int:number>", personal.Template.as_view()),
    path("views", personal.SavedViews.as_view()),
    path("views/<int:number>", personal.SavedView.as_view()),
    path("search", personal.Search.as_view()),
    path("cells", cells.Cells.as_view()),
    path("cluster", platform.Cluster.as_view()),
]
urlpatterns = [
    path("v1/", include(v1)),
    path("v1/schema", Document.as_view(), name="schema"),
    path("docs", docs, name="docs"),
    re_path(r"^(?P<rest>[\s\S]*)$", unknown),  # of any characters: a line break as well
]
