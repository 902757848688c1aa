"""`fuzz`: requests made from the OpenAPI document, right and wrong ones and sequences of them, on each database.

Schemathesis asks a served Weft over HTTP with all its checks on: no server error, answers as documented in status,
type, headers and body, wrong data refused, right data taken, nothing used after it was deleted, no sign-in passed by.

It is no measure of speed: the limits on requests are lifted, as they have tests of their own, no loop runs, and what-if
is off, whose replays would take most of the time.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from django.core.management import call_command

from controlplane.benchmarks.harness import processes, tenants
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.testbed import postgres
from controlplane.testbed.processes import free_port, running, wait_for

CASES = 2_000  # on each database; --jobs says another number
OPERATIONS = 129  # about; each gets its part
ENDLESS = "/watch$"  # streams have no end to wait for; they are tested by their own tests
SEED = 7
UNLIMITED = "1000000"  # requests a second: the limits have tests of their own
TOLD = 12  # failures in the notes
DATABASES = ("sqlite", "postgres")
# Right data may be refused for what no document can say: a name that is taken, a class or a team that there is not.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 412, 422, 429, 503]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 411, 412, 413, 415, 422, 429]
[checks.missing_required_header]
expected-statuses = [400, 401, 403, 406, 415, 422]
"""


def run(options: Options, progress: Progress) -> Result:
    """Both databases, one after the other. Raises BenchmarkError or MissingError."""
    wanted = options.jobs or CASES
    reports = {}
    for number, name in enumerate(DATABASES):
        progress(0.05 + 0.5 * number, f"{wanted} cases on {name}")
        reports[name] = _fuzz(name, wanted)
    errors = {name: _server_errors(report) for name, report in reports.items()}
    notes = tuple(_note(name, report) for name, report in reports.items())
    failures = tuple(
        f"{name}: {one['title']}, {one['count']} times: {', '.join(one['operations'][:4])}"
        for name, report in reports.items()
        for one in report["failures"][:TOLD]
    )
    return Result(
        (
            Figure("fuzz.cases", sum(report["test_cases"]["generated"] for report in reports.values()), ""),
            Figure("fuzz.server_errors", sum(errors.values()), "", 0),
            Figure("fuzz.failed_checks", sum(len(report["failures"]) for report in reports.values()), "", 0),
        ),
        (*notes, *failures),
    )


def prepare(_: Mapping[str, Any]) -> dict[str, Any]:
    """The process's part: an installation to ask, and a token of its platform admin."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    made = tenants.fill()
    return {"token": next(person.token for person in made.people if person.role == "platform admin")}


def _fuzz(database: str, cases: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="weft-fuzz-") as name, ExitStack() as stack:
        folder = Path(name)
        env = processes.environment(folder) | _limits() | {"WEFT_EMBEDDED": "true", "WEFT_WHAT_IF": "false"}
        if database == "postgres":
            server = stack.enter_context(postgres.postgres())
            env["DATABASE_URL"] = postgres.create_database(server, "weft")
            env["SECRET_KEY"] = secrets.token_hex(32)
        token = processes.run(env, "benchmark_process", "fuzz-prepare")["token"]
        port, log = free_port(), folder / "web.log"
        web: list[str | Path] = [
            sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port), "--no-access-log",
            "--log-level", "warning",
        ]  # fmt: skip
        process = stack.enter_context(running(web, log=log, env=env))
        url = f"http://127.0.0.1:{port}"
        wait_for(process, lambda: _answers(url), "Weft", log)
        return _schemathesis(folder, url, token, cases)


def _schemathesis(folder: Path, url: str, token: str, cases: int) -> dict[str, Any]:
    tool = Path(sys.executable).with_name("schemathesis")
    if not tool.exists():
        raise BenchmarkError("Schemathesis is not installed. Run `make setup`.")
    (folder / "schemathesis.toml").write_text(CONFIG)
    phases = "examples,coverage,fuzzing,stateful" if cases > CASES else "fuzzing,stateful"
    each = max(1, -(-cases // OPERATIONS))
    command = [
        str(tool), "--config-file", str(folder / "schemathesis.toml"), "run", f"{url}/api/v1/schema",
        "--header", f"Authorization: Bearer {token}", "--checks", "all", "--phases", phases, "--mode", "all",
        "--max-examples", str(each), "--seed", str(SEED), "--continue-on-failure", "--no-shrink", "--no-color",
        "--exclude-path-regex", ENDLESS, "--generation-database", "none", "--suppress-health-check", "all",
        "--warnings", "off", "--request-timeout", "20",
        "--report", "json", "--report-json-path", str(folder / "report.json"),
    ]  # fmt: skip
    with (folder / "schemathesis.log").open("w") as log:
        subprocess.run(command, cwd=folder, env=dict(os.environ), stdout=log, stderr=log, check=False)
    report = folder / "report.json"
    if not report.exists():
        raise BenchmarkError(f"Schemathesis told nothing: {(folder / 'schemathesis.log').read_text()[-2000:]}")
    kept = os.environ.get("WEFT_FUZZ_LOG")  # a folder: what exactly was sent and answered
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        for name in ("schemathesis.log", "web.log", "report.json"):
            (Path(kept) / f"{folder.name}-{name}").write_text((folder / name).read_text())
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _limits() -> dict[str, str]:
    of = ("USER_REQUESTS", "ADDRESS_REQUESTS", "ANONYMOUS_REQUESTS", "EXPENSIVE_REQUESTS", "STRANGERS_REQUESTS")
    return {f"WEFT_{name}": UNLIMITED for name in (*of, "FAILED_SIGN_INS", "TEAM_SUBMISSIONS")}


def _server_errors(report: Mapping[str, Any]) -> int:
    return sum(int(one["count"]) for one in report["failures"] if one["title"] == "Server error")


def _note(name: str, report: Mapping[str, Any]) -> str:
    cases, operations = report["test_cases"], report["operations"] or {}
    return (
        f"{name}: {cases['generated']} cases of {operations.get('tested', 0)} operations in "
        f"{report['running_time']:.0f} s; ended: {report['stop_reason']}; errors: {report['errors'] or 'none'}"
    )


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
