"""Database roles of their own for web and worker, with what each needs; the user that installs owns the tables.

Neither may change tables or triggers, nor what is append-only; a worker deletes from its beginning what triggers find
old enough (migration 0022), as the retention asks. Web may not speak for the loops; a worker knows nothing
by which a session, a token or a second factor could be used. Postgres only. See
docs/production.md#database-users.

Raw SQL: the ORM has no words for roles and grants.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from django.db import connection, transaction
from psycopg import sql

APPEND_ONLY = frozenset({"controlplane_event", "controlplane_auditentry", "controlplane_auditanchor"})
OWNED = frozenset({"django_migrations"})  # by whoever installs


class RoleError(ValueError):
    """The URL of a role cannot be used."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a role may do where it may not read and write freely. A new table may be read and written by both."""

    reads: Collection[str] = ()
    prunes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # deletes by these columns, and reads no others
    changes: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # updates these columns, of those that it prunes
    empties: Collection[str] = ()  # of those that it reads: deletes, and writes nothing
    shortens: Collection[str] = ()  # append-only, but it may delete what triggers allow: the oldest rows
    nothing: Collection[str] = ()


WEB = Rights(
    reads=(
        "controlplane_audit",  # of the loops by themselves, not of what people did
        "controlplane_auditanchor",
        "controlplane_cycle",
        "controlplane_eventcursor",
        "controlplane_experiment",
        "controlplane_lease",
        "controlplane_pruned",
        "controlplane_roundview",
        "controlplane_servicealarm",
        "controlplane_serviceday",
        "controlplane_servicescaler",
        "controlplane_slownode",
        "controlplane_teamsample",
        "controlplane_trainingdiagnosis",
        "controlplane_trainingstart",
        "controlplane_workloadsample",
    ),
    empties=("controlplane_roundview",),  # when other cells come into force, by which none of them was decided
)
WORKER = Rights(
    reads=(
        "controlplane_budget",
        "controlplane_groupmapping",
        "controlplane_membership",
        "controlplane_notificationrule",
        "controlplane_policyversion",
        "controlplane_preferences",
        "controlplane_priorityclass",
        "controlplane_savedview",
        "controlplane_template",
        "controlplane_user",
        "django_content_type",
    ),
    prunes={
        "controlplane_idempotencykey": ("expires_at",),
        "controlplane_session": ("expire_date", "seen_at", "user_id"),
        "controlplane_signinfailures": ("until",),
        # To end them with an account or a role, and to say which: never what they are known by.
        "controlplane_token": ("id", "user_id", "issuer_id", "team_id", "name", "prefix", "expires_at", "told_at"),
    },
    shortens=("controlplane_auditentry", "controlplane_event"),
    changes={"controlplane_token": ("expires_at", "told_at")},
    nothing=(
        "account_emailaddress",
        "account_emailconfirmation",
        "auth_group",
        "auth_group_permissions",
        "auth_permission",
        "controlplane_user_groups",
        "controlplane_user_user_permissions",
        "django_admin_log",
        "django_session",
        "mfa_authenticator",
        "socialaccount_socialaccount",
        "socialaccount_socialapp",
        "socialaccount_socialtoken",
    ),
)


def give(url: str, rights: Rights) -> str:
    """Let the role of this database URL exist, with its password and these rights only; tell its name.

    Raises RoleError for a URL without user or password, and for the owner's own.
    """
    parts = urlsplit(url)
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not name or not password:
        raise RoleError(
            "The database URL of a role needs a user and a password: postgres://weft_web:PASSWORD@host/weft"
        )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        if cursor.fetchone() == (name,):
            raise RoleError(f"{name} owns the tables. Give web and worker database users of their own.")
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name])
        verb = "ALTER" if cursor.fetchone() else "CREATE"
        for statement in _statements(verb, name, password, rights):
            cursor.execute(statement)
    return name


def _statements(verb: str, name: str, password: str, rights: Rights) -> Iterator[sql.Composed]:
    role = sql.Identifier(name)
    yield sql.SQL("{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(
        sql.SQL(verb), role, sql.Literal(password)
    )
    yield sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(role)
    yield sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(role)
    yield sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role)
    for table in sorted(connection.introspection.table_names()):
        for granted in _granted(table, rights):
            yield sql.SQL("GRANT {} ON {} TO {}").format(granted, sql.Identifier(table), role)


def _granted(table: str, rights: Rights) -> Iterator[sql.Composable]:
    if table in rights.nothing:
        return
    if table in rights.prunes:
        columns = sql.SQL(", ").join(map(sql.Identifier, rights.prunes[table]))
        yield sql.SQL("DELETE")
        yield sql.SQL("SELECT ({})").format(columns)
        if table in rights.changes:
            yield sql.SQL("UPDATE ({})").format(sql.SQL(", ").join(map(sql.Identifier, rights.changes[table])))
    elif table in rights.reads or table in OWNED:
        yield sql.SQL("SELECT, DELETE" if table in rights.empties else "SELECT")
    elif table in APPEND_ONLY:
        yield sql.SQL("SELECT, INSERT, DELETE" if table in rights.shortens else "SELECT, INSERT")
    else:
        yield sql.SQL("SELECT, INSERT, UPDATE, DELETE")
