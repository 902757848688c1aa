"""The two clocks. The cluster's: queue age, run time, accounting. The database's: leases, tokens, keys, audit.

Raw SQL: the ORM does not ask for the database's clock alone.
"""

from datetime import datetime

from django.db import connection

from controlplane.models import ClusterState, bulk, statements

# SQL for the database's clock, as Django's Now() writes it; %% because it stands in statements with parameters.
_SQL = {"sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')", "postgresql": "CLOCK_TIMESTAMP()"}


def now() -> float:
    """The cluster's clock, seconds: as last observed, running on since then where it is a real one."""
    columns = ("now", "is_simulated", "observed_at")
    found = bulk.select(ClusterState, columns, 'ORDER BY "id" LIMIT 1', extra=(database_sql(),))
    if not found:
        return database_now().timestamp()
    at, is_simulated, observed_at, database = found[0]
    if is_simulated or observed_at is None:
        return float(at)
    return float(at) + max(0.0, float((_moment(database) - observed_at).total_seconds()))


def database_sql() -> str:
    """The database's clock as an SQL expression."""
    return _SQL[connection.vendor]


def database_now() -> datetime:
    """The database's clock."""
    ((value,),) = statements.rows("SELECT " + database_sql().replace("%%", "%"))
    return _moment(value)


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")
