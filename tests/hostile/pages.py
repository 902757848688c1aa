"""Every page of the filled database, dialogs and parts included, from the written authorization matrix."""

from urllib.parse import quote, urlencode

from django.contrib import admin

from controlplane.models import Cycle, Node, Placement, Simulation, Template, Token, User, Webhook, Workload
from controlplane.security import authorization
from tests.hostile.strings import ALL

NO_PAGES = ("stream", "usage/export.csv", "services/report.csv", "healthz", "readyz", "metrics")  # no end, or files
TABS = ("why", "timeline", "placement", "logs", "file", "metrics", "objective")
# What stands in an address, too, and comes back on the page.
ASKED = {
    "/workloads/": ("q", "team", "user", "phase", "sort", "node"),
    "/decisions/": ("q", "team", "group", "workload"),
    "/decisions/audit/": ("team", "actor", "kind", "outcome"),
    "/nodes/": ("q", "pool", "rack", "state"),
    "/gpus/": ("q", "pool", "shared", "from"),
    "/cells/": ("from",),
    "/queue/": ("q", "team"),
    "/search": ("q",),
    "/submit/": ("name", "image", "team", "type", "from", "template"),
    "/usage/": ("team", "from", "to", "by"),
    "/services/report/": ("team", "month"),
    "/what-if/": ("policy", "settings", "quotas", "add"),
    "/notices/": ("show", "before"),
    "/login/": ("next",),
    "/": ("view",),
}


# Forms that come back with what was typed, or lead to a page that says what was done with it.
FORMS = {
    "/login/": ("username", "password", "next"),
    "/submit/": (
        "type",
        "name",
        "team",
        "image",
        "command",
        "args",
        "env",
        "labels",
        "memory",
        "priority_class",
        "roles",
    ),
    "/submit/preview": ("type", "name", "team", "image", "command", "env"),
    "/templates/save": ("template_for", "template_name", "template_about", "type", "name", "image", "env"),
    "/workloads/views": ("name", "query"),
    "/workloads/bulk": ("verb", "uid", "priority"),
    "/settings/tokens": ("name", "scope", "expires_in", "team"),
    "/settings/webhooks/": ("name", "url", "team", "format", "secret", "matters"),
    "/settings/notifications/": ("matter", "team", "how"),
    "/teams/nlp/people/save": ("username", "role"),
    "/teams/nlp/sharing": ("shares_with_others", "share_demands"),
    "/teams/nlp/reallocation": ("reallocation",),
    "/teams/nlp/notebooks": ("minutes", "share", "extend"),
    "/teams/nlp/service-accounts/": ("name", "role"),
    "/teams/nlp/budgets/": ("period", "gpu_hours", "is_hard", "version"),
    "/teams/nlp/quotas/a100/": ("nominal", "borrowing_limit", "lending_limit", "weight", "version"),
    "/teams/nlp/quotas/a100/preview": ("nominal", "borrowing_limit", "lending_limit", "weight"),
    "/what-if/": ("source", "trace", "policy", "settings", "quotas", "add", "remove", "hours"),
    "/queue/try": ("uid", "target"),
    "/two-steps/on/": ("code",),
    "/again/": ("password", "next"),
    "/again/code/": ("code", "next"),
}


def typed(turn: int) -> list[tuple[str, dict[str, str]]]:
    """Each form with strings in all fields, and with a right one in those that choose."""
    strings = ALL[turn:] + ALL[:turn]
    numbered = iter(range(1000))
    right = {"type": "training", "team": "nlp", "template_for": "nlp", "format": "weft", "matters": "ended",
             "scope": "read", "expires_in": "30", "role": "member", "period": "month", "verb": "stop"}  # fmt: skip
    found = []
    for path, names in FORMS.items():
        wrong = {name: strings[next(numbered) % len(strings)] for name in names}
        found += [(path, wrong), (path, wrong | {name: right[name] for name in names if name in right})]
    return found


def addresses(kinds: int = 100) -> list[str]:
    """Each once; those of a workload for one of each type and phase, or for so many of these only."""
    found = [page for rule in authorization.rules() if "GET" in rule.methods for page in _of(rule.address)]
    uids = _workloads()[:kinds]
    found += [f"/workloads/{uid}/?tab={tab}" for uid in uids for tab in TABS]
    found += [f"/workloads/{uids[0]}/{verb}" for verb in ("stop", "suspend", "resume", "requeue", "priority", "scale")]
    found += [f"/submit/?from={uids[0]}", f"/submit/?template={Template.objects.all()[0].pk}"]
    return [*dict.fromkeys(found)]


def asked(turn: int) -> list[str]:
    """The addresses with strings in their parameters."""
    strings = ALL[turn:] + ALL[:turn]
    numbered = iter(range(1000))
    return [
        f"{path}?{urlencode({name: strings[next(numbered) % len(strings)]})}"
        for path, names in ASKED.items()
        for name in names
    ]


def console() -> list[str]:
    """Lists, forms and histories of the platform admin's console."""
    found = []
    for model in admin.site._registry or {}:
        where = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        row = model._default_manager.first()
        found += (
            [where]
            if row is None
            else [where, f"{where}{quote(str(row.pk))}/change/", f"{where}{quote(str(row.pk))}/history/"]
        )
    return found


def _workloads() -> list[str]:
    """Of each kind, and of each phase."""
    rows = Workload.objects.order_by("seq").values_list("uid", "kind", "phase")
    chosen = {}
    for uid, kind, phase in rows:
        chosen.setdefault(kind, str(uid))
        chosen.setdefault(phase, str(uid))
    return [*dict.fromkeys(chosen.values())]


def _of(address: str) -> list[str]:
    """The addresses of one line of the matrix, with its parameters filled in."""
    if address.startswith(("api/", "admin/")) or address in NO_PAGES:
        return []
    if "<" not in address:
        return ["/" + address.lstrip("/")]
    hook, token, account = Webhook.objects.all()[0], Token.objects.filter(user__service_of=None)[0], _account()
    service = Workload.objects.filter(kind="inference")[0].pk
    person = User.objects.filter(memberships__team__name="nlp", service_of=None)[0]
    about = {
        "workloads/<uuid:uid>/latency": {"<uuid:uid>": service},
        "services/": {"<uuid:uid>": service},
        "settings/webhooks/": {"<uuid:uid>": hook.pk, "<slug:verb>": "delete"},
        "settings/tokens/": {"<int:pk>": token.pk},
        "templates/": {"<int:number>": Template.objects.all()[0].pk},
        "teams/": {"<int:pk>": account.pk, "<int:number>": account.tokens.all()[0].pk},
        "decisions/rounds/": {"<int:number_>": Cycle.objects.all()[0].pk},
        "parts/": {"<slug:name>": "waiting"},
        "nodes/": {"<str:name>": Placement.objects.all()[0].node, "<slug:verb>": "drain"},
        "what-if/": {"<int:number>": Simulation.objects.all()[0].pk},
        "notices/": {"<str:token>": "zq7x"},
        "sso/": {"<slug:provider_id>": "none"},
        "workloads/<slug:team>/": {"<str:name>": "job"},
        "notebooks/<str:team>/": {"<anything:name>": "job"},
        "workloads/": {"<slug:name>": "use"},
    }  # fmt: skip
    values = {"<uuid:uid>": Workload.objects.all()[0].pk, "<str:team>": "nlp", "<slug:team>": "nlp",
              "<str:pool>": "a100", "<str:username>": person.username, "<slug:verb>": "stop"}  # fmt: skip
    values |= next((more for start, more in about.items() if address.startswith(start)), {})
    for parameter, value in values.items():
        address = address.replace(parameter, quote(str(value), safe=""))
    assert "<" not in address, f"{address}: what does its parameter mean?"
    nodes = [f"/nodes/{quote(name, safe='')}/" for name in Node.objects.values_list("name", flat=True)[:5]]
    return ["/" + address, *(nodes if address.startswith("nodes/") else [])]


def _account() -> User:
    return User.objects.filter(service_of__isnull=False)[0]
