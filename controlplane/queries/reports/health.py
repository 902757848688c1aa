"""Whether this installation works: the database, and how long ago each loop made progress."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import DateTimeField, F
from django.db.models.functions import Now

from controlplane.models import Audit, ClusterState, Heartbeat, Lease
from controlplane.queries.scheduling import policies
from scheduler.cells.route import shown
from scheduler.model.cell import names

# A loop's period, three times, and what a take-over of its lease costs (loops/threads.py,
# services/scheduling/leases.py). `tell` is loops/publish.py, `foresee` is loops/predict_starts.py.
PATIENCE_SECONDS = {
    "observe": 30.0, "schedule": 30.0, "actuate": 30.0, "tell": 30.0, "scale": 60.0, "account": 195.0, "audit": 195.0,
    "foresee": 60.0, "notify": 60.0, "prune": 195.0, "intake": 30.0,
    **({"adopt": 30.0} if settings.ADMISSION else {}),
}  # fmt: skip
OF_KUBERNETES = ("intake",)  # loops that no other cluster has


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop as its heartbeat tells. age_seconds None: no round was ever complete."""

    name: str
    age_seconds: float | None
    took_ms: float
    holder: str
    error: str

    @property
    def is_stalled(self) -> bool:
        """Whether it has made no progress for too long."""
        patience = PATIENCE_SECONDS[self.name.partition("/")[0]]
        return self.age_seconds is None or self.age_seconds > patience


def reach() -> None:
    """Have the database plan a statement over our tables, and read nothing. Raises DatabaseError."""
    ClusterState.objects.filter(pk__lt=0).exists()


def loops() -> tuple[Loop, ...]:
    """All loops, those that never ran included; with cells, also the decider of each. Raises DatabaseError."""
    now = Now(output_field=DateTimeField())
    rows = Heartbeat.objects.annotate(now=now).values_list("loop", "at", "now", "took_ms", "holder", "error")
    found = {
        name: Loop(name, None if at is None else max(0.0, (read_at - at).total_seconds()), took_ms, holder, error)
        for name, at, read_at, took_ms, holder, error in rows
    }
    absent = () if settings.CLUSTER == "kubernetes" else OF_KUBERNETES
    expected = [name for name in PATIENCE_SECONDS if name in found or name not in absent]
    cells = policies.scheduling().cells
    expected += [f"schedule/{shown(cell)}" for cell in names(cells)] if cells else []
    return tuple(found.get(name, Loop(name, None, 0.0, "", "")) for name in expected)


def holders() -> dict[str, str]:
    """The worker that holds each lease, by the lease's name; only those that one holds."""
    held = Lease.objects.filter(expires_at__gt=Now()).exclude(holder="")
    return dict(held.values_list("name", "holder"))


def observation_age_seconds() -> float | None:
    """Real seconds since the cluster was last seen; None before the first time."""
    age = Now(output_field=DateTimeField()) - F("observed_at")
    found = ClusterState.objects.filter(observed_at__isnull=False).annotate(age=age).values_list("age", flat=True)
    value = found.first()
    return None if value is None else max(0.0, float(value.total_seconds()))


@dataclass(frozen=True, slots=True)
class Audited:
    """One invariant in the newest self-audit; `example` is the first of its violations."""

    name: str
    violations: int
    example: str
    age_seconds: float


def audit() -> tuple[Audited, ...]:
    """What the newest self-audit found, every invariant by its number; nothing before the first audit."""
    rows = Audit.objects.annotate(age=Now(output_field=DateTimeField()) - F("at"))
    values = rows.values_list("name", "violations", "example", "age")
    found = [Audited(name, count, text, max(0.0, age.total_seconds())) for name, count, text, age in values]
    return tuple(sorted(found, key=lambda row: (len(row.name), row.name)))
