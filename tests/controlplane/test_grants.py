"""The database users of web and worker: each does its part's work, and nothing beyond it."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from django.apps import apps
from psycopg.errors import InsufficientPrivilege

from controlplane.services.audit.grants import APPEND_ONLY, WEB, WORKER
from tests.servers import create_database, drop_database, environment, manage


@dataclass
class Users:
    """The database's URL as each may use it."""

    owner: str
    web: str
    worker: str
    env: dict[str, str]

    def refuses(self, url: str, statement: str) -> bool:
        """Whether the database says that this user may not."""
        with psycopg.connect(url) as connection:
            try:
                connection.execute(statement)
            except InsufficientPrivilege:
                return True
            except psycopg.Error:  # it may, but this row cannot be
                return False
            finally:
                connection.rollback()
        return False


@pytest.fixture(scope="module")
def users(postgres_url: str, _migrated_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    owner, home = create_database(postgres_url, "weft_grants", _migrated_template), tmp_path_factory.mktemp("home")
    server, _, name = owner.rpartition("/")
    host = server.rpartition("@")[2]
    web, worker = (f"postgres://{part}_{name}:secret-{part}@{host}/{name}" for part in ("web", "worker"))
    roles = {"WEB_DATABASE_URL": web, "WORKER_DATABASE_URL": worker}
    env = environment(home, DATABASE_URL=owner, CLUSTER="simulated", ADMIN_PASSWORD="")
    manage("install", env=env | roles)
    yield Users(owner, web, worker, env | roles)
    drop_database(postgres_url, name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for part in ("web", "worker"):
            connection.execute(f"DROP ROLE {part}_{name}")


def test_installing_again_changes_the_password_and_nothing_else(users: Users) -> None:
    other = users.web.replace("secret-web", "another")
    manage("install", env=users.env | {"WEB_DATABASE_URL": other})
    assert not users.refuses(other, "SELECT 1 FROM controlplane_workload")
    assert users.refuses(other, "DELETE FROM controlplane_event")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgres://weft_web@localhost/weft", "needs a user and a password"),
        ("OWNER", "owns the tables. Give web and worker database users of their own."),
    ],
)
def test_a_url_that_fences_nothing_is_refused_by_name(users: Users, url: str, said: str) -> None:
    url = users.owner.replace("@", ":x@") if url == "OWNER" else url
    with pytest.raises(AssertionError, match=said):
        manage("install", env=users.env | {"WEB_DATABASE_URL": url})


def test_neither_changes_tables_or_triggers_or_what_is_append_only(users: Users) -> None:
    for url in (users.web, users.worker):
        for table in sorted(APPEND_ONLY):
            assert not users.refuses(url, f"SELECT * FROM {table}")
            # A worker may delete what is old: test_retention_attacks.py tries what else it could.
            assert users.refuses(url, f"DELETE FROM {table}") or (url == users.worker and table in WORKER.shortens)
            assert users.refuses(url, f"UPDATE {table} SET at = at")
            assert users.refuses(url, f"TRUNCATE {table}")
            assert users.refuses(url, f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        assert users.refuses(url, "CREATE TABLE mine (id int)")
        assert users.refuses(url, "DELETE FROM django_migrations")
        assert users.refuses(url, "CREATE ROLE friend")


def test_web_takes_no_lease_and_writes_no_round(users: Users) -> None:
    for table in WEB.reads:
        assert not users.refuses(users.web, f"SELECT * FROM {table}")
        assert users.refuses(users.web, f"INSERT INTO {table} DEFAULT VALUES")
        assert users.refuses(users.web, f"DELETE FROM {table}") or table in WEB.empties
    assert users.refuses(users.web, "UPDATE controlplane_roundview SET every = 1")
    assert not users.refuses(users.web, "DELETE FROM controlplane_workload")


def test_web_puts_other_cells_in_force_with_its_own_rights(users: Users) -> None:
    code = """
from controlplane.models import Node, NodePool, RoundView
from controlplane.services.scheduling import policy
"""
    made = """
pool = NodePool.objects.create(name="main")
RoundView.objects.create(name="schedule", cluster_at=0, every=5, lineup=b"x", held=b"x")
"""
    cut = """
policy.change(changes={"scheduling": {"cells": {"north": {"pools": ["main"]}}}}, author="ann")
assert not RoundView.objects.exists()
"""
    manage("shell", "--no-imports", "-c", code + made, env=users.env)
    manage("shell", "--no-imports", "-c", code + cut, env=users.env | {"DATABASE_URL": users.web})


def test_a_worker_knows_nobodys_session_token_or_second_step(users: Users) -> None:
    for table in (*WORKER.nothing, *WORKER.prunes):
        assert users.refuses(users.worker, f"SELECT * FROM {table}")
        assert users.refuses(users.worker, f"INSERT INTO {table} DEFAULT VALUES")
    for table in WORKER.reads:
        assert not users.refuses(users.worker, f"SELECT * FROM {table}")
        assert users.refuses(users.worker, f"DELETE FROM {table}")
    assert not users.refuses(users.worker, "DELETE FROM controlplane_placement")


def test_a_worker_drops_what_has_run_out(users: Users) -> None:
    code = "from controlplane.security import sessions; from controlplane.services.accounts import logins; "
    code += "from controlplane.services.workloads import idempotency; "
    code += "sessions.prune(); idempotency.prune(); logins.prune()"
    manage("shell", "--no-imports", "-c", code, env=users.env | {"DATABASE_URL": users.worker})


def test_a_worker_ends_what_the_provider_dropped_and_gives_notice_of_what_its_maker_left(users: Users) -> None:
    code = """
from django.conf import settings
from controlplane.models import Notice, ProviderGrant, Role, Session, Team, Token, User
from controlplane.services.accounts import endings, provider, service_accounts, tokens
from controlplane.services.scheduling.clock import database_now
"""
    made = """
team = Team.objects.create(name="red")
mia, ada = User.objects.create(username="mia"), User.objects.create(username="ada", is_superuser=True)
tokens.create(user=mia, name="x")
account = service_accounts.create(team=team, name="ci", role=Role.MEMBER, actor="ada")
tokens.create(user=account, name="ci", issuer=mia)
provider.signed_in(user=mia, token="r")
ProviderGrant.objects.update(checked_at="2020-01-01T00:00:00Z", tried_at="2020-01-01T00:00:00Z")
"""
    ended = """
(one,) = provider.due(5)
assert one.token == "r"
assert provider.dropped(one=one)
assert endings.of_makers(actor="system") == 1
assert Token.objects.count() == 1
assert Notice.objects.get().user.username == "ada"
"""
    manage("shell", "--no-imports", "-c", code + made, env=users.env)
    manage("shell", "--no-imports", "-c", code + ended, env=users.env | {"DATABASE_URL": users.worker})


def test_the_rights_name_only_tables_that_there_are(users: Users) -> None:
    named = {*WEB.reads, *WORKER.reads, *WORKER.prunes, *WORKER.nothing, *WORKER.shortens, *APPEND_ONLY}
    there = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    assert named - there == set()
