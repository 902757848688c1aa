"""A database of its own for the processes of a benchmark."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controlplane.benchmarks.harness import processes
from controlplane.testbed import postgres
from controlplane.testbed.processes import running, wait_for


@contextmanager
def on_postgres() -> Iterator[dict[str, str]]:
    """The environment of our processes as in production, on an empty Postgres that runs meanwhile."""
    with tempfile.TemporaryDirectory(prefix="weft-benchmark-") as name, ExitStack() as stack:
        server = stack.enter_context(postgres.prepared({}))
        process = stack.enter_context(running(server.command, log=server.log, user=server.user))
        wait_for(process, server.answers, "Postgres", server.log)
        yield processes.production(Path(name), DATABASE_URL=postgres.create_database(server.url, "weft"))
