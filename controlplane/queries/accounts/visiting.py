"""Who may come to a notebook through the proxy, by what is so now: its session, its role, its notebook."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from controlplane.domain import addresses
from controlplane.models import User, Workload
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
    session = sessions.named(visit.user, visit.session)
    if user is None or session is None or not sessions.is_whole(session):
        return No.SIGN_IN
    found = Workload.objects.filter(pk=visit.notebook, kind=Kind.NOTEBOOK.value).select_related("team").first()
    if found is None or not access.can(user, access.Verb.ACT, found.team.name):
        return No.NOT_YOURS
    return (_seat(found) if found.phase == Phase.RUNNING.value else None) or No.NOT_UP


def looking_idle() -> tuple[Seat, ...]:
    """The running notebooks whose devices and CPU do nothing: their kernels are asked whether they are busy."""
    found = Workload.objects.filter(kind=Kind.NOTEBOOK.value, phase=Phase.RUNNING.value, idle_since__isnull=False)
    seats = (_seat(row) for row in found.select_related("team").order_by("seq"))
    return tuple(seat for seat in seats if seat is not None and seat.token)


def _seat(row: Workload) -> Seat | None:
    """None: its server listens nowhere."""
    listening = addresses.ports(row.spec)
    token = "" if notebookkeys.has_own_token(row.spec) else notebookkeys.token(row.pk)
    return Seat(row.pk, row.attempt, row.team.name, row.name, listening[0], token) if listening else None
