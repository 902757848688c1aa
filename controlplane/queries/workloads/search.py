"""One search over workloads, teams and nodes, as far as the user may see them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, IntegerField, Q, QuerySet, When

from controlplane.models import Node, Team
from controlplane.queries.accounts import access
from controlplane.queries.workloads import workloads
from scheduler.model.workload import ENDED

EACH = 8  # rows of one kind
LONGEST = 63
LENGTH_OF_UID = 36


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found: what it is, how it is addressed, and a few words on it."""

    kind: str  # workload, team or node
    ref: str  # uid, or name
    name: str
    about: str


def find(user: access.Person, text: str) -> tuple[Hit, ...]:
    """What has the text in its name: those that begin with it first, work that goes on before work that has ended.

    `team/name` finds workloads by both. Three queries and those of the user's roles.
    """
    wanted = text.replace("\x00", "").strip()[:LONGEST]
    if not wanted:
        return ()
    team, slash, name = wanted.rpartition("/")
    found = workloads.visible(user)
    found = found.filter(team__name__icontains=team, name__icontains=name) if slash else _named(found, wanted)
    has_ended = Case(When(phase__in=[p.value for p in ENDED], then=1), default=0, output_field=IntegerField())
    ordered = found.annotate(rank=_rank(name or wanted), over=has_ended).order_by("over", "rank", "-seq")
    work = ordered.select_related(None).select_related("team").only("uid", "name", "kind", "phase", "team__name")[:EACH]
    hits = [Hit("workload", str(w.pk), f"{w.team.name}/{w.name}", f"{w.kind}, {w.phase}") for w in work]
    return (*hits, *_teams(user, wanted), *_nodes(wanted))


def rows(found: Iterable[Hit]) -> list[dict[str, Any]]:
    """As the API shows them."""
    return [{"kind": hit.kind, "ref": hit.ref, "name": hit.name, "about": hit.about} for hit in found]


def _teams(user: access.Person, text: str) -> Iterable[Hit]:
    teams = Team.objects.filter(name__icontains=text)
    if not access.is_platform_admin(user):
        teams = teams.filter(name__in=access.team_names(user))
    ordered = teams.annotate(rank=_rank(text)).order_by("rank", "name")
    return [Hit("team", name, name, "team") for name in ordered.values_list("name", flat=True)[:EACH]]


def _nodes(text: str) -> Iterable[Hit]:
    """Machines are everybody's to see, as on the map."""
    nodes = Node.objects.filter(name__icontains=text).annotate(rank=_rank(text)).order_by("rank", "name")
    found = nodes.values_list("name", "gpu_count", "gpu_model")[:EACH]
    return [Hit("node", name, name, f"node, {count} {model or 'GPU'}") for name, count, model in found]


def _named(found: QuerySet[Any], text: str) -> QuerySet[Any]:
    return found.filter(Q(name__icontains=text) | Q(uid__in=_uids(text)))


def _uids(text: str) -> list[UUID]:
    try:
        return [UUID(text)] if len(text) == LENGTH_OF_UID else []
    except ValueError:
        return []


def _rank(text: str) -> Case:
    return Case(
        When(name=text, then=0),
        When(name__istartswith=text, then=1),
        default=2,
        output_field=IntegerField(),
    )
