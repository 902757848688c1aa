"""SQLite and Postgres answer to the same code: what each of them has to have run, wherever a run leaves tests out.

`make test` runs each of the product's tests on SQLite, and those of tests/both_databases.txt on Postgres too;
`make nightly` runs all of them on both. The list is for what a database decides: locks, constraints, triggers,
transactions, JSON, lists of parameters, migrations. Here is the rule that none is forgotten.
"""

import pytest
from django.db import connection

from tests import rawsql
from tests.database import recorder

# Not seen in this process, and why.
ELSEWHERE = {
    "services/audit/auditlog:_minute": "makes values only; those that call it run the statements",
    "services/workloads/samples:_holders": "asked where an exporter names pods: tests/contract/test_devices.py",
    "services/audit/grants:give": "run by `manage.py install` as a process, on Postgres only: test_grants.py",
}
# What only one of the databases does.
ONLY_ON = {
    "queries/audit/feed:Reader._may_fill": "postgresql",  # SQLite numbers events in the order of their commits
    "services/cells/parts:alone": "postgresql",  # SQLite has one writer at a time anyway
    "services/scheduling/leases:keep_rounds_still": "postgresql",  # the same
    "services/workloads/rows:keep": "postgresql",
    "services/workloads/week:_insert": "sqlite",  # the demo's week of history
    "services/workloads/week:_start_again": "sqlite",
}


@pytest.mark.django_db
def test_every_function_with_sql_of_its_own_has_run_on_this_database(pytestconfig: pytest.Config) -> None:
    wanted = rawsql.functions() - set(ELSEWHERE)
    wanted -= {name for name, vendor in ONLY_ON.items() if vendor != connection.vendor}
    assert sorted(wanted - pytestconfig.stash[recorder].seen) == []
