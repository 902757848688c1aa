"""The two clocks. The cluster's: queue age, run time, accounting. The database's: leases, tokens, keys, audit."""

from datetime import datetime

from django.db import connection
from django.db.models.functions import Now

from controlplane.models import ClusterState

# SQL for the database's clock, as Django's Now() writes it; %% because it stands in statements with parameters.
_SQL = {"sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')", "postgresql": "CLOCK_TIMESTAMP()"}


def now() -> float:
    """The cluster's clock, seconds: as last observed, running on since then where it is a real one."""
    row = (
        ClusterState.objects.order_by("id")
        .annotate(database_now=Now())
        .values_list("now", "is_simulated", "observed_at", "database_now")
        .first()
    )
    if row is None:
        return database_now().timestamp()
    at, is_simulated, observed_at, database = row
    if is_simulated or observed_at is None:
        return float(at)
    return float(at) + max(0.0, (database - observed_at).total_seconds())


def database_sql() -> str:
    """The database's clock as an SQL expression."""
    return _SQL[connection.vendor]


def database_now() -> datetime:
    """The database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + database_sql().replace("%%", "%"))
        (value,) = cursor.fetchone()
    if isinstance(value, datetime):
        return value
    return datetime.fromisoformat(f"{value}+00:00")
