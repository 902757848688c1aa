"""What every page knows: the clock, the viewer, and the navigation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from controlplane.queries.accounts import access
from controlplane.queries.cells import views
from controlplane.queries.notifications.notices import MAX_COUNTED, unread_count
from controlplane.queries.reports import dashboard
from frontend import answers, words

THEMES = ("light", "dark")
# Pages below an entry of the navigation.
BELONGS = {
    "members": "teams", "service_account": "teams",
    "workload": "workloads", "act": "workloads", "logs": "workloads", "node": "nodes", "node_act": "nodes",
    "simulation": "lab", "service": "services", "sla_report": "services",
    "rounds": "decisions", "round": "decisions", "audit": "decisions",
    "templates": "submit", "queue_dry_run": "queue", "budgets": "teams", "quota": "teams",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Link:
    """One place to go; key is the letter after `g`."""

    label: str
    url: str
    name: str
    key: str = ""
    count: int = 0


class Page:
    """Lazy, so that a swapped part pays only for what it shows."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def roles(self) -> dict[str, str]:
        """The viewer's role by team."""
        return {name: str(role) for name, role in answers.roles(self._request).items()}

    @property
    def is_admin(self) -> bool:
        """Whether the viewer is a platform admin."""
        return access.is_platform_admin(self._request.user)

    @cached_property
    def may_submit(self) -> bool:
        """Whether there is a team in which the viewer may submit."""
        return bool(answers.teams_for(self._request, access.Verb.SUBMIT))

    @cached_property
    def may_manage(self) -> bool:
        """Whether there is a team whose webhooks the viewer may set."""
        return bool(answers.teams_for(self._request, access.Verb.MANAGE))

    @cached_property
    def unread(self) -> int:
        """How many notices the viewer has not read, counted up to a limit."""
        return unread_count(self._request.user)

    @property
    def unread_words(self) -> str:
        """The same as the bell says it."""
        return f"{MAX_COUNTED - 1}+" if self.unread >= MAX_COUNTED else str(self.unread)

    @cached_property
    def may_audit(self) -> bool:
        """Whether the audit log has anything for the viewer."""
        return self.is_admin or bool(answers.teams_for(self._request, access.Verb.MANAGE))

    @property
    def standing(self) -> str:
        """The viewer's role in one line."""
        if self.is_admin:
            return "platform admin"
        if not self.roles:
            return "no team yet"
        if len(self.roles) > 2:
            return f"{len(self.roles)} teams"
        return ", ".join(f"{team} · {role}" for team, role in self.roles.items())

    @cached_property
    def sections(self) -> list[tuple[str, list[Link]]]:
        """The navigation; what a role cannot use is not shown."""
        work = [
            Link("Dashboard", reverse("frontend:dashboard"), "dashboard", "d"),
            Link("Workloads", reverse("frontend:workloads"), "workloads", "w"),
            Link("Queue", reverse("frontend:queue"), "queue", "q", dashboard.waiting_count()),
        ]
        if self.may_submit:
            work.append(Link("Submit", reverse("frontend:submit"), "submit", "s"))
        machines = [
            Link("Map", reverse("frontend:map"), "map", "m"),
            Link("Nodes", reverse("frontend:nodes"), "nodes", "n"),
            Link("GPU ledger", reverse("frontend:gpus"), "gpus", "l"),
        ]
        if views.known():
            machines.append(Link("Cells", reverse("frontend:cells"), "cells", "c"))
        teams = [
            Link("Teams & quotas", reverse("frontend:teams"), "teams", "t"),
            Link("Usage & cost", reverse("frontend:usage"), "usage", "u"),
            Link("Notebooks", reverse("frontend:notebooks"), "notebooks", "b"),
            Link("Services", reverse("frontend:services"), "services", "v"),
        ]
        decide = [Link("Decisions", reverse("frontend:decisions"), "decisions", "e")]
        if self.is_admin:
            decide.insert(0, Link("What-if", reverse("frontend:lab"), "lab", "i"))
            decide.append(Link("Admin", reverse("admin:index"), "admin", "a"))
        return [("Work", work), ("Cluster", machines), ("Teams", teams), ("Scheduling", decide)]

    @property
    def current(self) -> str:
        """The navigation entry that this page belongs to."""
        match = self._request.resolver_match
        name = match.url_name if match else ""
        return BELONGS.get(name or "", name or "")

    @property
    def problem(self) -> str:
        """What a page of a refusal is drawn in: with the navigation for users that are signed in."""
        user = getattr(self._request, "user", None)  # what is refused early has none yet
        return "problem_inside.html" if user and user.is_authenticated else "problem.html"

    @property
    def is_embedded(self) -> bool:
        """Whether this is `manage.py up`."""
        return bool(settings.EMBEDDED)


def page(request: HttpRequest) -> dict[str, Any]:
    """The context processor of settings.py."""
    if request.path.startswith("/api/") or (request.path.startswith("/admin/") and not _is_refused_there(request)):
        return {}
    theme = request.COOKIES.get("weft_theme", "")
    clock = answers.clock(request)
    return {
        "page": Page(request),
        "clock": clock,
        "clock_face": words.clock_time(clock.now),
        "theme": theme if theme in THEMES else "",
    }


def _is_refused_there(request: HttpRequest) -> bool:
    """Whether a page of the console can only be a refusal, which is a page of ours: its viewer has no right to it."""
    user = getattr(request, "user", None)  # what is refused early has none yet
    return bool(user and user.is_authenticated and not access.is_platform_admin(user))
