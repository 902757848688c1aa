"""A small installation with two teams that must not see each other, for benchmarks that ask as each of its people.

Whatever a team keeps to itself carries its mark, so an answer to a stranger can be searched for it.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.test import Client

from controlplane.jobspec.spec import parse
from controlplane.models import (
    ClusterState,
    Cycle,
    Delivery,
    Membership,
    Node,
    NodePool,
    Notice,
    PriorityClass,
    Role,
    SavedView,
    Simulation,
    Team,
    Template,
    Token,
    User,
    Workload,
)
from controlplane.services.accounts import service_accounts, tokens
from controlplane.services.audit import events
from controlplane.services.notifications import subscriptions as rules
from controlplane.services.notifications import webhooks
from controlplane.services.scheduling import clock
from controlplane.services.tenancy import budgets, quotas, teams
from controlplane.services.workloads import submission
from scheduler.model.mention import mention

RED, BLUE, NONE = "red", "blue", "green"  # there is no team green
MARKS = {RED: "rubra-7f3a", BLUE: "caerulea-91c4"}
NO_WORKLOAD = UUID(int=1)
NO_ROW = 999_999
KINDS = ("training", "notebook", "inference")
GPU_MILLI = 1000


@dataclass
class Person:
    """Somebody of a role, who asks with a token under /api/ and with a session elsewhere; "" is nobody."""

    role: str
    team: str = ""
    user: User | None = None
    token: str = ""
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def ask(self, method: str, path: str, body: Any = None) -> HttpResponse:
        """The answer; a body is sent as JSON to the API and as a form to pages."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token and path.startswith("/api/") else {}
        if body is None:
            return self.client.generic(method, path, headers=headers)  # type: ignore[return-value]
        if path.startswith("/api/"):
            return self.client.generic(  # type: ignore[return-value]
                method,
                path,
                json.dumps(body).encode(),
                content_type="application/json",
                headers=headers,
            )
        return self.client.post(path, body)  # type: ignore[return-value]


@dataclass(frozen=True)
class Tenants:
    """The users, and what each team has."""

    people: tuple[Person, ...]
    workloads: Mapping[tuple[str, str], Workload]  # by team and type
    tokens: Mapping[str, int]  # of a member of each team; so are views
    views: Mapping[str, int]
    templates: Mapping[str, int]
    rules: Mapping[str, int]
    hooks: Mapping[str, UUID]
    deliveries: Mapping[str, UUID]
    accounts: Mapping[str, int]  # service accounts
    simulation: int


def fill() -> Tenants:
    """Make the installation in an empty database that has its tables."""
    ClusterState.objects.create(is_simulated=True, now=time.time())
    pool = NodePool.objects.create(name="main", gpu_model="A100")
    PriorityClass.objects.create(name="normal", value=100, is_default=True)
    for name in ("a", "b"):
        shape = {"gpu_model": "A100", "gpu_count": 8, "gpu_memory": 81_920, "cpu_milli": 64_000, "memory": 262_144}
        Node.objects.create(name=name, pool=pool, **shape)
    made = {name: teams.create(name=name, parent=None, actor="benchmark") for name in (RED, BLUE)}
    for team in made.values():
        quotas.save(team=team, pool=pool, nominal=8 * GPU_MILLI, actor="benchmark")
        budgets.save(team=team, period="month", gpu_hours=1000, is_hard=False, actor="benchmark")
    people = (
        Person("anonymous"),
        _person("viewer", made[RED], Role.VIEWER),
        _person("member", made[RED], Role.MEMBER),
        _person("team admin", made[RED], Role.ADMIN),
        _person("platform admin"),
        _person("other team's member", made[BLUE], Role.MEMBER),
    )
    owners = {RED: User.objects.get(pk=_key(people[2])), BLUE: User.objects.get(pk=_key(people[5]))}
    workloads = {
        (team, kind): submission.submit(spec=parse(job(team, f"{MARKS[team]}-{kind[0]}", kind)), user=user)
        for team, user in owners.items()
        for kind in KINDS
    }
    for (name, kind), one in workloads.items():
        _mention(one, workloads[BLUE if name == RED else RED, kind])
    issued = {team: Token.objects.filter(user=user).values_list("pk", flat=True)[0] for team, user in owners.items()}
    views = {team: SavedView.objects.create(user=user, name=MARKS[team]).pk for team, user in owners.items()}
    templates = {
        team: Template.objects.create(team=made[team], name=MARKS[team], kind="training", job={}, author=user).pk
        for team, user in owners.items()
    }
    told = {team: rules.save(user=user, matter="slo", team=None).pk for team, user in owners.items()}
    hooks = {
        team: webhooks.create(
            team=made[team], name=MARKS[team], url=f"https://{team}.example.test/", matters=["ended"], actor="benchmark"
        ).webhook
        for team in owners
    }
    now = clock.database_now()
    sent = {
        team: Delivery.objects.create(webhook=hook, key="k", state="delivered", not_before=now, created_at=now).uid
        for team, hook in hooks.items()
    }
    simulation = Simulation.objects.create(
        asked={}, author="root", at=clock.database_now(), seen_at=clock.database_now(), doing=""
    )
    accounts = {
        team: service_accounts.create(team=made[team], name="ci", role=Role.MEMBER, actor="benchmark").pk
        for team in owners
    }
    keys = {team: hook.pk for team, hook in hooks.items()}
    return Tenants(people, workloads, issued, views, templates, told, keys, sent, accounts, simulation.pk)


def _mention(workload: Workload, other: Workload) -> None:
    """All that rounds write about a workload speaks of another team's: in its row, an event, a notice and a round."""
    named = mention(str(other.pk))
    told: dict[str, Any] = {
        "reason": "ReservedForLargerJob",
        "message": f"Would fit, but the room is reserved for {named}.",
    }
    data = {"reserved_for": named, "by": str(other.pk)}
    Workload.objects.filter(pk=workload.pk).update(**told)
    about: dict[str, Any] = {"workload": workload.pk, "team": workload.team.name, "name": workload.name}
    events.record(kind="Waiting", actor="loop:schedule", data=data, **about, **told)
    events.record(kind="Evicted", actor="loop:schedule", data=data, **about, **told)
    now = clock.database_now()
    decided = {"kind": "Wait", "workload": str(workload.pk), "version": 1, "numbers": [["behind", named]], **told}
    Cycle.objects.create(
        loop="schedule",
        at=now,
        cluster_at=0.0,
        took_ms=1.0,
        epoch=1,
        digest="",
        decisions=[decided],
        counts={"Wait": 1},
    )
    assert workload.created_by is not None  # noqa: S101 - submitted with a user
    Notice.objects.create(
        user=workload.created_by, key=f"e:{workload.pk}", matter="preempted", team=workload.team.name,
        workload=workload.pk, title="made room", message=told["message"], cluster_at=0.0, at=now,
    )  # fmt: skip


def job(team: str, name: str, kind: str = "training") -> dict[str, Any]:
    """A job file."""
    more: dict[str, Any] = {}
    if kind == "inference":
        more = {"port": 8000, "objective": {"p95_latency": "200ms", "availability": 99.9, "window": "28d"}}
    return {"type": kind, "name": name, "team": team, "image": "example/app:1", "resources": {"gpus": 1}, **more}


def _key(person: Person) -> int:
    return person.user.pk if person.user else 0


def _person(role: str, team: Team | None = None, as_: Role = Role.VIEWER) -> Person:
    name = f"{MARKS[team.name]}-{as_.value}" if team else "root"
    user = User.objects.create(username=name, is_superuser=team is None, is_staff=team is None)
    if team:
        Membership.objects.create(user=user, team=team, role=as_)
    person = Person(role, team.name if team else "", user, tokens.create(user=user, name=name).secret)
    person.client.force_login(user)
    return person
