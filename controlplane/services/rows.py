"""Workloads and placements as the writing services hold them in memory: locked, changed, then written in bulk."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.models import Placement, PlacementState, Workload, bulk
from controlplane.models.bulk import chunks
from controlplane.rolevalues import role_ask, role_of
from gpushare.gpu import WHOLE
from scheduler.workload import Kind, Phase

RESERVED, BOUND, LEAVING, RELEASED = (
    PlacementState.RESERVED.value,
    PlacementState.BOUND.value,
    PlacementState.LEAVING.value,
    PlacementState.RELEASED.value,
)


@dataclass(slots=True)
class Row:
    """The columns of a workload that services change or decide by. Changed only through a Batch."""

    uid: UUID
    team_id: int
    name: str
    kind: str
    phase: Phase
    version: int
    attempt: int
    next_rank: int
    gpus: int
    share_guarantee: int
    workers: int
    workers_min: int
    workers_max: int
    roles: list[Any]  # companions, as controlplane/rolevalues.py writes them
    priority: int
    retries: int
    failures: int
    submitted_at: float
    queued_at: float
    not_before: float | None
    started_at: float | None
    first_started_at: float | None
    ended_at: float | None
    exit_code: int | None
    attained: int
    grace_seconds: float
    checkpointed_at: float | None
    progress: float | None
    preempted_at: list[float]
    preempted_by: list[str]
    scaled_at: float | None
    finishing: bool
    moving: bool
    reserved_after: list[str]
    unmet: list[str]
    intent: str
    reason: str
    message: str
    reason_at: float
    # not columns
    seen: int = 0  # the version when it was locked
    team: str = ""
    changed: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        """The uid as the cores and the cluster write it."""
        return str(self.uid)

    @property
    def milli(self) -> int:
        """Milli-GPU of one worker, as quota counts it."""
        return self.share_guarantee or self.gpus * WHOLE

    @property
    def companions(self) -> int:
        """How many companions its workers have: the rank of the first worker."""
        return sum(count for _, count, _ in self.roles)

    def milli_of(self, rank: int) -> int:
        """Milli-GPU of the member with this rank."""
        ask = role_ask(self.roles, rank)
        return self.milli if ask is None else ask.milli

    def role_of(self, rank: int) -> tuple[str, int]:
        """The role of the member with this rank, and its number within the role."""
        return role_of(self.roles, rank)

    @property
    def is_service(self) -> bool:
        """Whether its workers come and go one by one."""
        return self.kind == Kind.INFERENCE


COLUMNS = tuple(name for name in Row.__slots__ if name not in ("seen", "team", "changed"))
TEAM_NAME = '(SELECT "t"."name" FROM "controlplane_team" "t" WHERE "t"."id" = "controlplane_workload"."team_id")'
_PHASE = COLUMNS.index("phase")


@dataclass(slots=True)
class Seat:
    """One placement that is not released (or was until now)."""

    pk: int
    workload: str
    attempt: int
    rank: int
    node: str
    milli: int
    state: str
    pod_phase: str
    bound_at: float | None
    released_at: float | None = None
    is_changed: bool = False

    @property
    def is_live(self) -> bool:
        """Whether it still holds or reserves its place."""
        return self.state != RELEASED


class Told(NamedTuple):
    """What a reason for waiting is written by: of those that only are told something, nothing else is read."""

    uid: UUID
    name: str
    phase: Phase
    version: int
    reason: str
    team: str


_TOLD = Told._fields[:-1]


_SEAT = ("id", "workload_id", "attempt", "rank", "node", "milli", "state", "pod_phase", "bound_at")


def lock(uids: Iterable[UUID]) -> dict[str, Row]:
    """Read these workloads and keep others from writing them until the transaction ends; always in one order."""
    rows: dict[str, Row] = {}
    for part in chunks(sorted(uids)):
        named, keys = bulk.among(Workload, "uid", part)
        where = f'WHERE {named} ORDER BY "uid" {bulk.for_update()}'
        for *values, team in bulk.select(Workload, COLUMNS, where, keys, extra=(TEAM_NAME,)):
            row = Row(*values)
            row.phase = Phase(values[_PHASE])
            row.seen = row.version
            row.team = team
            rows[row.id] = row
    return rows


def keep(uids: Iterable[UUID]) -> None:
    """Keep others from writing these workloads until the transaction ends, in the same order."""
    for part in chunks(sorted(uids)):
        named, keys = bulk.among(Workload, "uid", part)
        bulk.select(Workload, ("uid",), f'WHERE {named} ORDER BY "uid" {bulk.for_update()}', keys)


def told(uids: Iterable[UUID]) -> dict[str, Told]:
    """What these workloads were told last, by id. Locked by whoever calls this (Batch.lock, ahead)."""
    found: dict[str, Told] = {}
    for part in chunks(uids):
        named, keys = bulk.among(Workload, "uid", part)
        for uid, name, phase, *rest in bulk.select(Workload, _TOLD, f"WHERE {named}", keys, extra=(TEAM_NAME,)):
            found[str(uid)] = Told(uid, name, Phase(phase), *rest)
    return found


def seats(uids: Iterable[UUID]) -> dict[str, list[Seat]]:
    """The live placements of these workloads, by rank."""
    found: dict[str, list[Seat]] = {}
    for part in chunks(uids):
        named, keys = bulk.among(Placement, "workload_id", part)
        live = f"""WHERE {named} AND "state" <> 'Released' ORDER BY "rank" """
        for pk, workload, *rest in bulk.select(Placement, _SEAT, live, keys):
            seat = Seat(pk, str(workload), *rest)
            found.setdefault(seat.workload, []).append(seat)
    return found


def seconds_held(seat: Seat) -> int:
    """Whole seconds between two whole seconds of the cluster's clock, so that parts of an interval add up exactly."""
    if seat.bound_at is None or seat.released_at is None:
        return 0
    return max(0, int(seat.released_at) - int(seat.bound_at))


def uuids(ids: Iterable[str]) -> list[UUID]:
    """Ids of the cores as keys; what is no uid (a stranger's pod) is left out."""
    found = []
    for text in ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def as_data(**values: Any) -> dict[str, Any]:
    """Event data without what is empty."""
    return {key: value for key, value in values.items() if value not in (None, "", (), [], {})}
