"""The two clocks. The cluster's: queue age, run time, accounting. The database's: leases, tokens, keys, audit."""

from datetime import datetime

from controlplane.models import ClusterState, bulk
from controlplane.models.statements import database_clock, read_clock


def now() -> float:
    """The cluster's clock, seconds: as last observed, running on since then where it is a real one."""
    columns = ("now", "is_simulated", "observed_at")
    found = bulk.select(ClusterState, columns, order=("id",), limit=1, extra=(database_clock(),))
    if not found:
        return database_now().timestamp()
    at, is_simulated, observed_at, database = found[0]
    if is_simulated or observed_at is None:
        return float(at)
    return float(at) + max(0.0, float((_moment(database) - observed_at).total_seconds()))


def database_now() -> datetime:
    """The database's clock."""
    return _moment(read_clock())


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")
