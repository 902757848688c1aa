"""Addresses of the pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from frontend.views import accounts, budgets, cluster, lab, overview, submit, teams, workloads

app_name = "frontend"
urlpatterns = [
    path("", overview.home, name="dashboard"),
    path("parts/history", overview.history, name="history"),
    path("parts/waiting-count", overview.waiting_count, name="waiting_count"),
    path("parts/clock", overview.clock, name="clock"),
    path("parts/<slug:name>", overview.part, name="part"),
    path("charts/gpus", overview.chart, name="chart"),
    path("pace", overview.pace, name="pace"),
    path("stream", overview.stream, name="stream"),
    path("login/", accounts.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("submit/", submit.submit, name="submit"),
    path("submit/preview", submit.preview, name="preview"),
    path("workloads/", workloads.index, name="workloads"),
    path("workloads/<uuid:uid>/", workloads.detail, name="workload"),
    path("workloads/<uuid:uid>/logs", workloads.logs, name="logs"),
    path("workloads/<uuid:uid>/latency", workloads.service_chart, name="service_chart"),
    path("workloads/<uuid:uid>/<slug:verb>", workloads.act, name="act"),
    path("workloads/<slug:team>/<str:name>", workloads.by_name, name="by_name"),
    path("queue/", workloads.queue, name="queue"),
    path("map/", cluster.overview, name="map"),
    path("map/<str:name>/", cluster.node, name="node"),
    path("teams/", teams.overview, name="teams"),
    path("teams/<str:team>/budgets/", budgets.index, name="budgets"),
    path("what-if/", lab.index, name="lab"),
    path("what-if/<int:number>/", lab.simulation, name="simulation"),
    path("what-if/<int:number>/apply", lab.apply, name="apply_simulation"),
    path("what-if/<int:number>/chart", lab.chart, name="simulation_chart"),
    path("what-if/<int:number>/delete", lab.delete, name="delete_simulation"),
    path("usage/", teams.used, name="usage"),
]
