"""Who may come to a notebook through the proxy, by what is so now: its session, its role, its notebook."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.utils import timezone

from controlplane.domain import addresses
from controlplane.models import Session, User, Workload
from controlplane.queries.accounts import access
from controlplane.security import notebookkeys, sessions
from controlplane.security.notebookkeys import Visit
from scheduler.model.workload import Kind, Phase


class No(StrEnum):
    """Why not."""

    SIGN_IN = "sign in"  # the session has ended, or the person may sign in no longer
    NOT_YOURS = "not yours"  # no such notebook, or one of a team in which the visitor may not act
    NOT_UP = "not up"  # it waits, is parked, or has ended


@dataclass(frozen=True, slots=True)
class Seat:
    """A running notebook: where its server listens, and the token to tell it (empty: its user's own)."""

    notebook: UUID
    attempt: int
    team: str
    name: str
    port: int
    token: str


def seat(visit: Visit) -> Seat | No:
    """Where the visitor may go."""
    user = User.objects.filter(pk=visit.user, is_active=True).first()
    if user is None or not _is_signed_in(visit):
        return No.SIGN_IN
    found = Workload.objects.filter(pk=visit.notebook, kind=Kind.NOTEBOOK.value).select_related("team").first()
    if found is None or not access.can(user, access.Verb.ACT, found.team.name):
        return No.NOT_YOURS
    listening = addresses.ports(found.spec)
    if found.phase != Phase.RUNNING.value or not listening:
        return No.NOT_UP
    own = notebookkeys.has_own_token(found.spec)
    token = "" if own else notebookkeys.token(found.pk)
    return Seat(found.pk, found.attempt, found.team.name, found.name, listening[0], token)


def looking_idle() -> tuple[Seat, ...]:
    """The running notebooks whose devices and CPU do nothing: their kernels are asked whether they are busy."""
    found = Workload.objects.filter(kind=Kind.NOTEBOOK.value, phase=Phase.RUNNING.value, idle_since__isnull=False)
    return tuple(
        Seat(row.pk, row.attempt, row.team.name, row.name, ports[0], notebookkeys.token(row.pk))
        for row in found.select_related("team").order_by("seq")
        if (ports := addresses.ports(row.spec)) and not notebookkeys.has_own_token(row.spec)
    )


def _is_signed_in(visit: Visit) -> bool:
    now = timezone.now()
    live = Session.objects.filter(user_id=visit.user, expire_date__gt=now, seen_at__gt=sessions.idle_since(now))
    return any(notebookkeys.is_of(visit, one.session_key) and sessions.is_whole(one) for one in live)
