"""Pytest plugin: which database the tests run on, chosen before Django reads its settings.

pytest-django loads the settings before any conftest.py, hence a plugin named in `addopts`. It also notes which
functions with SQL text of their own the tests have been through, which tests/controlplane/test_both_databases.py asks.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import rawsql, servers

postgres_server = pytest.StashKey[str]()
postgres_lacks = pytest.StashKey[servers.MissingError]()
recorder = pytest.StashKey[rawsql.Recorder]()
_cleanup = pytest.StashKey[contextlib.ExitStack]()
PRODUCT = servers.ROOT / "tests/controlplane"
LAST = "test_both_databases.py"  # asks what the tests before it have been through


def both_databases() -> frozenset[str]:
    """What tests/both_databases.txt lists: files of tests/controlplane, and single tests of others."""
    lines = (servers.ROOT / "tests/both_databases.txt").read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --database."""
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="what the tests that use the database run on (default: sqlite, in a temporary file)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Point the settings at the test database, starting a Postgres if asked to."""
    options = early_config.known_args_namespace
    if getattr(options, "help", False) or getattr(options, "version", False):
        yield
        return
    # What a developer's shell sets for a server of their own must not reach the tests.
    for name in filter(servers.is_ours, tuple(os.environ)):
        del os.environ[name]
    stack = early_config.stash[_cleanup] = contextlib.ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-tests-", ignore_cleanup_errors=True)))
    os.environ.update(
        DATABASE_URL=f"sqlite:///{folder / 'weft.sqlite3'}",
        SECRET_KEY=servers.SECRET_KEY,
        WEFT_EMBEDDED="true",
        WEFT_HOME=str(folder),
        # A file, because threads cannot share Django's default, a database in memory.
        WEFT_TEST_SQLITE=str(folder / "test.sqlite3"),
    )
    if options.database == "postgres":
        try:
            server = stack.enter_context(servers.postgres())
        except servers.MissingError as missing:
            if servers.must_have_all():
                pytest.exit(str(missing), returncode=1)
            early_config.stash[postgres_lacks] = missing
        else:
            early_config.stash[postgres_server] = server
            os.environ["DATABASE_URL"] = f"{server.rpartition('/')[0]}/weft"
    yield


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Listen to every connection."""
    from django.db.backends.signals import connection_created

    config.stash[recorder] = rawsql.Recorder()
    connection_created.connect(config.stash[recorder].begin, weak=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs on both. On Postgres leave out what meets no database, and what production never runs there.

    LAST comes last, and not at all where only some of the tests were asked for.
    """
    listed = both_databases()
    for item in items:
        file = str(item.path).removeprefix(f"{PRODUCT}/")
        if file in listed or f"{file}::{item.name.partition('[')[0]}" in listed:
            item.add_marker("both_databases")
    wanted = items
    if config.getoption("--database") == "postgres":
        wanted = [item for item in items if _is_for_postgres(item)]
    last = [item for item in wanted if item.path.name == LAST]
    kept = [item for item in wanted if item.path.name != LAST] + (last if _is_whole(config) else [])
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _is_whole(config: pytest.Config) -> bool:
    """Whether all of the product's tests were asked for, as far as markers and the database do not choose."""
    option = config.option
    return "tests/controlplane" in config.args and not (option.keyword or option.lf or option.deselect)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where there is no Postgres, each test that was to run on it says so."""
    missing = item.config.stash.get(postgres_lacks, None)
    if missing is not None:
        raise missing


def _is_for_postgres(item: pytest.Item) -> bool:
    uses = item.get_closest_marker("django_db") or {"db", "transactional_db"} & set(getattr(item, "fixturenames", ()))
    return bool(uses) and item.get_closest_marker("embedded") is None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server and remove the files."""
    stack = config.stash.get(_cleanup, None)
    if stack is not None:
        stack.close()


def pytest_report_header(config: pytest.Config) -> str:
    """Say which database this is, so that a log tells the two runs apart."""
    return f"database: {config.getoption('--database')}"
