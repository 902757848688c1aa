"""Fixtures for all tests: databases, servers and a browser; see tests/servers.py for how they run."""

import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from hypothesis import settings

from controlplane.testbed import binaries
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from controlplane.testbed.processes import MissingTraceError
from tests import audited, servers
from tests.audited import MISSING, noted
from tests.database import postgres_server
from tests.identity import IdentityProvider, identity_provider
from tests.prometheus import Prometheus
from tests.prometheus import prometheus as run_prometheus

# CI says the same of the same code: its examples follow from each test. All other runs, also nightly, search on.
# In neither is an example too slow: how long one takes says how busy the machine is.
settings.register_profile("elsewhere", deadline=None)
settings.load_profile("ci" if servers.must_have_all() else "elsewhere")

# Whoever uses one of these fixtures needs that server, so the mark follows from the fixture.
MARK_OF_FIXTURE = {
    "postgres_url": "postgres",
    "postgres_database": "postgres",
    "_redis_server": "redis",
    "prometheus": "prometheus",
    "chromium": "browser",
    "kubernetes_server": "kubernetes",
    "node_server": "node",
}


GARBAGE = 20_000  # objects between two looks for garbage: Python's 700 means a thousand looks a second


def pytest_configure() -> None:
    """Have each round that a test runs by the loop compare its ledger with a recount."""
    django_settings.LEDGER_CHECK_EVERY = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the servers its fixtures start."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in MARK_OF_FIXTURE:
                item.add_marker(MARK_OF_FIXTURE[fixture])
    items.sort(key=lambda item: item.path.name == "test_audit_of_the_run.py")  # it judges what all others have done


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get ready for the first test.

    What has been imported and collected by now stays until the end, so the garbage collector need not look at it again
    and again: a tenth of all processor time. The programs of the Kubernetes test cluster are built now, as that takes
    longer than a test may.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    if session.config.option.collectonly or not any(item.get_closest_marker("kubernetes") for item in session.items):
        return
    try:
        binaries.find(lambda text: print(text, file=sys.stderr))
    except servers.MissingError as missing:
        print(missing, file=sys.stderr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip what wants a program that this machine lacks. Where all is required, no test may skip: CI has run each.

    But for trace files: they are not Weft's to give, so where they are not, what needs them is named at the end.
    """
    report = yield
    lacking = servers.lacking(call.excinfo.value) if call.excinfo else None
    if lacking is not None:
        report.user_properties.append(("missing", lacking.name))
        if audited.uses_rights(_file(item)):
            item.config.stash[MISSING] = True
        report.outcome = "skipped"
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {lacking}")
    may_lack = isinstance(lacking, MissingTraceError) or hasattr(report, "wasxfail")
    if report.skipped and servers.must_have_all() and not may_lack:
        report.outcome = "failed"
        report.longrepr = f"skipped under WEFT_REQUIRE_ALL=1: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What is noted of our accounts is judged, but for what some files do on purpose (audited.UNJUDGED)."""
    with contextlib.ExitStack() as stack:
        if not audited.is_judged(_file(item)):
            for cluster in audited.CLUSTERS:
                stack.enter_context(audited.without_rights(cluster))
        return (yield)


def _file(item: pytest.Item) -> str:
    return item.path.relative_to(item.config.rootpath).as_posix()


@pytest.fixture(autouse=True)
def _no_what_if_processes() -> Iterator[None]:
    """A what-if's process would look for its row in another database than the test's."""
    from django.conf import settings

    settings.WHAT_IF_PROCESS = False
    yield


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_found_when_asked_for() -> None:
    """Every test client has middleware of its own, which would else list all static files first: most of its time."""
    from django.conf import settings

    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture(autouse=True)
def _nobody_has_asked_yet() -> None:
    """Tests ask faster than people, and all from one address."""
    from controlplane.security import known, limits

    limits.of_process().forget()
    known.credentials.forget_all()
    known.addresses.forget_all()
    if logins := sys.modules.get("controlplane.services.accounts.logins"):
        logins.forget()
    if strangerrows := sys.modules.get("controlplane.services.audit.strangerrows"):
        strangerrows.forget()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of the maintenance database of a real Postgres, one server per test run."""
    already = request.config.stash.get(postgres_server, None)
    if already is not None:
        yield already
        return
    with servers.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def _migrated_template(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a database with our tables; copying it takes a tenth of migrating again."""
    name = "weft_template"
    url = servers.create_database(postgres_url, name)
    home = tmp_path_factory.mktemp("migrate")
    servers.manage("migrate", "--skip-checks", "--verbosity=0", env=servers.environment(home, DATABASE_URL=url))
    return name


def _wait_for_slow_tests(connection: Any, **_: Any) -> None:
    """A test holds its transaction open while it makes input; production's limit on idle ones is not for it."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = 0")


@pytest.fixture(scope="session", autouse=True)
def _patient_database() -> Iterator[None]:
    from django.db.backends.signals import connection_created

    connection_created.connect(_wait_for_slow_tests)
    yield
    connection_created.disconnect(_wait_for_slow_tests)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Let Django empty the tables after a test with real transactions: on SQLite it deletes rows, events too."""
    from django.db import connection

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for table in ("event", "auditentry", "auditanchor", "pruned"):
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}_keeps_rows")


_numbers = itertools.count(1)


@pytest.fixture
def postgres_database(postgres_url: str, _migrated_template: str) -> Iterator[str]:
    """URL of a fresh, migrated Postgres database for processes of ours (`DATABASE_URL`)."""
    name = f"weft_{next(_numbers)}"
    yield servers.create_database(postgres_url, name, _migrated_template)
    servers.drop_database(postgres_url, name)


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[str]:
    with servers.redis_server() as url:
        yield url


@pytest.fixture
def redis_url(_redis_server: str) -> str:
    """URL of a real Redis, empty at the start of each test."""
    import redis

    with redis.Redis.from_url(_redis_server) as client:
        client.flushall()
    return _redis_server


@pytest.fixture(scope="session")
def prometheus() -> Iterator[Prometheus]:
    """A real Prometheus that scrapes one loopback port five times a second; a test serves there, and cleans up."""
    with run_prometheus() as one:
        yield one


@pytest.fixture(scope="session")
def kubernetes_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A real Kubernetes with KWOK's nodes a, b and c of 8 GPUs, one per test run; tests use `kubernetes`.

    It notes every request in its audit log.
    """
    binaries.find(build=False)  # it was tried when the tests had been collected
    folder = tmp_path_factory.mktemp("kubernetes")
    with test_cluster(folder, nodes=named("a", "b", "c"), audit=True) as cluster, noted(cluster):
        yield cluster


@pytest.fixture
def kubernetes(kubernetes_server: TestCluster) -> TestCluster:
    """That Kubernetes, empty at the start of each test: no pods, Services or policies, its nodes as they were."""
    kubernetes_server.empty()
    return kubernetes_server


@pytest.fixture(scope="session")
def _identity_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with identity_provider(tmp_path_factory.mktemp("identity")) as one:
        yield one


@pytest.fixture
def identity(_identity_server: IdentityProvider) -> IdentityProvider:
    """A real OpenID Connect provider on a loopback port, with nobody signed in."""
    _identity_server.forget()
    return IdentityProvider(_identity_server.issuer)


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Path of the Chromium to drive."""
    return servers.find_chromium()


@pytest.fixture(scope="session")
def browser(chromium: Path) -> Iterator[Any]:
    """A Playwright browser; `browser.new_context()` is a fresh person without cookies."""
    from playwright.sync_api import sync_playwright

    # Playwright keeps an event loop in this thread, in which Django would refuse its ORM.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=str(chromium), args=list(servers.CHROMIUM_FLAGS))
            yield opened
            opened.close()
    finally:
        if before is None:
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        else:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A Playwright page of a fresh person, 1280 x 800."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()
