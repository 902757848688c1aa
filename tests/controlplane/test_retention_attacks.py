"""A worker that was taken over: with its own database user it prunes what is old, and cuts or changes nothing else."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, IntegrityError

from tests.controlplane.test_grants import Users, users  # noqa: F401
from tests.servers import manage

CODE = """
from controlplane.loops import prune, wiring
from controlplane.queries.audit import auditlog
from tests.controlplane.keeping import happened, written
"""
# As an anchor has to be, for the last row that is old enough; what stands in {} is what an attack changes.
ANCHOR = """
    INSERT INTO controlplane_auditanchor (number, digest, "rows", at, chain)
    SELECT number, digest, {rows}, now, encode(sha256(convert_to(concat_ws('|', repeat('0', 64), number, digest, {rows},
        to_char(now AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')), 'UTF8')), 'hex')
    FROM controlplane_auditentry, (SELECT {now} AS now) t WHERE number = {number}
"""


def anchor(number: int = 2, rows: str = "number", now: str = "clock_timestamp()") -> str:
    return ANCHOR.format(number=number, rows=rows, now=now)


@pytest.fixture(scope="module")
def seeded(users: Users) -> Users:  # noqa: F811
    """Rows of some age; each attack is taken back, so that one seed serves all."""
    code = CODE + "written([400, 390, 20, 5, 0]); happened([40, 39, 3, 0])"
    manage("shell", "--no-imports", "-c", code, env=users.env)
    return users


@pytest.fixture
def worker(seeded: Users) -> Iterator[psycopg.Connection]:
    with psycopg.connect(seeded.worker) as found:
        yield found


def is_denied(worker: psycopg.Connection, *statements: str) -> bool:
    """Whether the last of these is refused by a right or by a trigger; nothing is kept."""
    try:
        for statement in statements[:-1]:
            worker.execute(statement)
        worker.execute(statements[-1])
    except (InsufficientPrivilege, IntegrityError):
        return True
    finally:
        worker.rollback()
    return False


FLOOR = "INSERT INTO controlplane_pruned (name, number, \"rows\", at) SELECT 'controlplane_event', {}, 0, now()"
THIRD = "(SELECT id FROM controlplane_event ORDER BY id OFFSET 2 LIMIT 1)"
SHADOWS = (
    "CREATE TEMP TABLE controlplane_auditanchor AS SELECT * FROM public.controlplane_auditanchor",
    "INSERT INTO pg_temp.controlplane_auditanchor VALUES (99)",
    "CREATE TEMP TABLE controlplane_auditentry (number bigint, digest text, at timestamptz)",
    "CREATE TEMP TABLE controlplane_event (id bigint, at timestamptz)",
    "CREATE TEMP TABLE controlplane_pruned (name text, number bigint)",
    "INSERT INTO pg_temp.controlplane_pruned VALUES ('controlplane_event', 99999999)",
    "SET search_path = pg_temp, public",
)


@pytest.mark.parametrize(
    "attack",
    [
        ("DELETE FROM controlplane_auditentry",),
        ("DELETE FROM controlplane_auditentry WHERE number = 1",),
        (anchor(2), "DELETE FROM controlplane_auditentry WHERE number = 3"),
        (anchor(2), "UPDATE controlplane_auditentry SET actor = 'mallory' WHERE number = 1"),
        (anchor(2), "UPDATE controlplane_auditanchor SET number = 5"),
        (anchor(2), "DELETE FROM controlplane_auditanchor"),
        (anchor(2), anchor(1)),
        (anchor(3),),
        (anchor(5),),
        (anchor(2, rows="7"),),
        (anchor(2, now="'2020-01-01'::timestamptz"),),
        (anchor(2).replace("SELECT number, digest,", "SELECT number, repeat('f', 64),"),),
        ("TRUNCATE controlplane_auditentry",),
        ("DELETE FROM controlplane_event",),
        (FLOOR.format(THIRD),),
        (FLOOR.format("99999999"),),
        (FLOOR.format("1"), f"UPDATE controlplane_pruned SET number = {THIRD}"),
        (FLOOR.format("1"), "UPDATE controlplane_pruned SET name = 'x'"),
        (FLOOR.format("1"), "DELETE FROM controlplane_pruned"),
        ("SET session_replication_role = replica",),
        ("ALTER TABLE controlplane_auditentry DISABLE TRIGGER ALL",),
        (
            "CREATE OR REPLACE FUNCTION auditanchor_goes_on() RETURNS trigger "
            "LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        ),
        ("DROP TRIGGER auditanchor_goes_on ON controlplane_auditanchor",),
        (*SHADOWS, "DELETE FROM public.controlplane_auditentry"),
        (*SHADOWS, "DELETE FROM public.controlplane_event"),
        (*SHADOWS, anchor(3).replace("controlplane_audit", "public.controlplane_audit")),
        (*SHADOWS, FLOOR.format(THIRD.replace("FROM ", "FROM public.")).replace("INTO ", "INTO public.")),
    ],
)
def test_a_worker_cuts_and_changes_nothing_that_is_young(worker: psycopg.Connection, attack: tuple[str, ...]) -> None:
    assert is_denied(worker, *attack)


def test_the_same_attacks_would_be_done_where_they_are_allowed(worker: psycopg.Connection) -> None:
    """What the attacks are made of works: an anchor up to a row that is old, and a floor below what is young."""
    assert not is_denied(worker, anchor(2), "DELETE FROM controlplane_auditentry WHERE number <= 2")
    second = THIRD.replace("2 LIMIT", "1 LIMIT")
    assert not is_denied(worker, FLOOR.format(second), f"DELETE FROM controlplane_event WHERE id <= {second}")


def test_a_web_process_prunes_nothing(seeded: Users) -> None:
    with psycopg.connect(seeded.web) as web:
        for statement in (anchor(2), FLOOR.format("1"), "DELETE FROM controlplane_auditentry WHERE number = 1"):
            assert is_denied(web, statement)


def test_a_worker_prunes_by_its_own_rights(worker: psycopg.Connection, users: Users) -> None:  # noqa: F811
    work = "assert prune.run_once(wiring.of('prune')).did == 4; assert auditlog.check().pruned == 2"
    env = users.env | {"DATABASE_URL": users.worker, "WEFT_KEEP_EVENTS_DAYS": "30"}
    manage("shell", "--no-imports", "-c", f"{CODE}{work}; assert not auditlog.check().fault", env=env)
    kept = worker.execute("SELECT array_agg(number ORDER BY number) FROM controlplane_auditentry").fetchone()
    assert kept == ([3, 4, 5],)
    assert worker.execute("SELECT count(*) FROM controlplane_event").fetchone() == (2,)
