"""A database with a row of everything that pages show, and hostile text in every column that holds text."""

import itertools
import json
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import CharField, Model, TextField
from django.utils import timezone

from controlplane.models import (
    Action,
    Audit,
    AuditEntry,
    Cycle,
    Delivery,
    Event,
    GroupMapping,
    Heartbeat,
    Node,
    Notice,
    Placement,
    PolicyVersion,
    RoundView,
    SavedView,
    Session,
    Simulation,
    SimulationState,
    Template,
    User,
    Workload,
)
from controlplane.services.accounts import service_accounts, tokens
from controlplane.services.notifications import subscriptions, webhooks
from controlplane.services.tenancy import budgets
from tests.frontend.factory import NOW, World
from tests.hostile.strings import ALL, NAMES

ADMIN, TEAM = "admin", "nlp"
# What no user and no cluster can fill: names that the services keep to letters, digits and dashes (they stand in
# addresses), codes that only Weft writes, digests, and what is sealed.
OURS = {
    "AuditAnchor": {"chain", "digest"},
    "AuditEntry": {"changes", "digest", "method"},
    "ClusterState": {"cursor"},
    "Cycle": {"digest", "loop"},
    "Delivery": {"matter"},
    "Event": {"kind", "phase", "team"},
    "Heartbeat": {"loop"},
    "Audit": {"name"},
    "Action": {"verb"},
    "Lease": {"name"},
    "Node": {"enforcer", "name"},  # see `poison`
    "Notice": {"team"},
    "NodePool": {"enforcer", "name"},
    "Placement": {"node", "pool", "pod_phase", "weights"},
    "PriorityClass": {"name"},
    "ServiceAlarm": {"better", "standing"},
    "Session": {"session_key", "session_data"},
    "Team": {"managed_by", "name", "share_demands"},
    "TeamUse": {"pool"},
    "Token": {"digest"},
    "Usage": {"pool"},
    "User": {"password", "username"},  # see `poison`
    "ProviderGrant": {"sealed_token"},
    "RoundView": {"name"},
    "Webhook": {"sealed_secret"},
    "Workload": {"intent", "managed_by", "spread"},
}
JOB = ("image", "command", "args", "env", "labels", "annotations", "volumes", "secrets", "repository", "name")


def fill() -> World:
    """Work of all kinds and phases, and beside it what people make: tokens, templates, views, rules, webhooks."""
    world = World().base().fill(30)
    now, admin = timezone.now(), world.people[ADMIN]
    team = world.teams[TEAM]
    for number in range(3):
        tokens.create(user=admin, name=f"token {number}")
        SavedView.objects.create(user=admin, name=f"view {number}", query="phase=waiting")
        Template.objects.create(
            team=team, name=f"template {number}", kind="training", job={"image": "a/b:1"}, author=admin
        )
        Notice.objects.create(user=admin, key=f"{number}", matter="ended", team=TEAM, title="job failed", message="why",
                              cluster_at=NOW, at=now)  # fmt: skip
        GroupMapping.objects.create(group=f"group {number}", team=team)
        PolicyVersion.objects.create(data={}, author=ADMIN, at=now, comment="why")
        Session.objects.create(session_key=f"{number:032}", user=admin, expire_date=now.replace(year=2100),
                               created_at=now, session_data="", seen_at=now, address="::1", agent="-")  # fmt: skip
        AuditEntry.objects.create(number=number + 1, at=now, actor=ADMIN, token="weft_1", address="::1", method="POST",
                                  route="api/v1/workloads", path="/api/v1/workloads", status=201, outcome="done",
                                  kind="Submitted", team=TEAM, name="job", changes="[]", digest="0" * 64)  # fmt: skip
    for matter in ("ended", "slo"):
        subscriptions.save(user=admin, matter=matter, team=team)
    account = service_accounts.create(team=team, name="ci", role="member", actor=ADMIN)
    tokens.create(user=account, name="ci")
    budgets.save(team=team, period="month", gpu_hours=10, is_hard=False, actor=ADMIN)
    for number, state in enumerate(("delivered", "given-up", "waiting")):
        hook = webhooks.create(
            team=team, name=f"hook {number}", url="https://hooks.example/", matters=["ended"], actor=ADMIN
        )
        Delivery.objects.create(webhook=hook.webhook, key="k", matter="ended", body="{}", state=state, tries=1,
                                not_before=now, created_at=now, log=[[now.isoformat(), 500, 12, "no"]])  # fmt: skip
    _loops(now)
    return world


def _loops(now: Any) -> None:
    Heartbeat.objects.create(loop="schedule", at=now, holder="host", error="why")
    Audit.objects.create(name="S1", violations=1, example="which", at=now)
    waiting = Workload.objects.filter(phase="Queued")[:3]
    Action.objects.create(verb="start", workload=waiting[0].pk, created_at=NOW, tries=2, error="why")
    decisions = [
        {"kind": "Wait", "workload": str(one.pk), "version": 1, "reason": "Fragmented", "message": "why"}
        for one in waiting
    ]
    Cycle.objects.create(loop="schedule", at=now, cluster_at=NOW - 30, took_ms=4, epoch=1, digest="ab" * 32,
                         is_base=True, input=b"x", decisions=decisions, counts={"Wait": 3})  # fmt: skip
    at: dict[str, Any] = {"author": ADMIN, "at": now, "seen_at": now}
    asked = {"policy": {"scheduling": {"policy": "fifo"}}}
    RoundView.objects.create(name="schedule", cluster_at=NOW, every=5, lineup=b"x", held=b"x")
    Simulation.objects.create(asked=asked, state=SimulationState.RUNNING, doing="Replaying", progress=0.5, **at)
    Simulation.objects.create(asked=asked, state=SimulationState.FAILED, error="why", **at)


def poison(turn: int) -> int:
    """Write the strings into every text column of every row, others each turn; return how many were written."""
    _without_triggers()
    strings = itertools.cycle(ALL[turn:] + ALL[:turn])
    count = 0
    for model in apps.get_app_config("controlplane").get_models():
        fields = [field for field in model._meta.fields if _is_filled_by_others(model, field)]
        for row in model._default_manager.order_by("pk") if fields else ():
            values = {field.name: _fitting(next(strings), field, row) for field in fields}
            model._default_manager.filter(pk=row.pk).update(**values)
            count += len(values)
    return count + _json(strings) + _names(turn)


def _without_triggers() -> None:
    with connection.cursor() as cursor:
        for table in ("event", "auditentry"):
            cursor.execute(f"DROP TRIGGER IF EXISTS {table}_keeps_values")


def _is_filled_by_others(model: type[Model], field: Any) -> bool:
    is_text = isinstance(field, CharField | TextField) and not field.choices
    return is_text and not field.primary_key and field.name not in OURS.get(model.__name__, ())


def _fitting(text: str, field: Any, row: Model) -> str:
    """The string, cut to the column's length; what must not be there twice keeps what it had at its end."""
    kept = f" {row.pk}" if field.unique or field.name == "name" else ""
    return text[: (field.max_length or 10_000) - len(kept)] + kept


def _json(strings: Any) -> int:
    """Job files, templates, what events say of themselves, tries of deliveries, decisions and what-ifs."""
    count = 0
    for model, column in ((Workload, "spec"), (Template, "job")):
        for row in model._default_manager.all():
            job = {**getattr(row, column), **{name: _free(name, strings) for name in JOB}}
            model._default_manager.filter(pk=row.pk).update(**{column: job})
            count += len(JOB)
    for model, column in ((Event, "data"), (Delivery, "log"), (Simulation, "asked")):
        for row in model._default_manager.all():
            value = (
                {"why": "x", "workers": [[0, "a", [0]]], "nominal": [1, 2]} if model is Event else getattr(row, column)
            )
            model._default_manager.filter(pk=row.pk).update(**{column: _replaced(value, strings)})
            count += 1
    for number in AuditEntry.objects.values_list("pk", flat=True):
        changes = json.dumps(
            [{"kind": next(strings), "name": next(strings), "data": {"name": [next(strings), next(strings)]}}]
        )
        AuditEntry.objects.filter(pk=number).update(changes=changes)
        count += 4
    for cycle in Cycle.objects.all():
        for decision in cycle.decisions:
            decision["message"] = next(strings)
        cycle.save()
    return count


def _free(name: str, strings: Any) -> Any:
    """A value of the job file's free fields."""
    match name:
        case "command" | "args":
            return [next(strings) for _ in range(4)]
        case "env" | "labels" | "annotations":
            return {next(strings): next(strings) for _ in range(4)}
        case "volumes":
            return [{"claim": next(strings), "path": next(strings)}]
        case "secrets":
            return [{"name": next(strings), "key": next(strings), "env": next(strings)}]
    return next(strings)


def _replaced(value: Any, strings: Any) -> Any:
    """The same structure with other text; times stay."""
    if isinstance(value, dict):
        return {name: _replaced(one, strings) for name, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, strings) for one in value]
    return next(strings) if isinstance(value, str) and "T" not in value else value


def _names(turn: int) -> int:
    """People as a provider may name them, and machines: both stand in addresses, so their strings have no slash."""
    strings = itertools.cycle(NAMES[turn % len(NAMES) :] + NAMES[: turn % len(NAMES)])
    for user in User.objects.exclude(username=ADMIN):
        User.objects.filter(pk=user.pk).update(username=f"{next(strings)[:140]} {user.pk}")
    for node in Node.objects.order_by("pk")[:5]:
        name = f"{next(strings)[:200]} {node.pk}"
        Placement.objects.filter(node=node.name).update(node=name)
        Node.objects.filter(pk=node.pk).update(name=name)
    return User.objects.count() + 4
