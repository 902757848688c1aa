"""The SDK and the CLI are light: an HTTP client, and none of the server."""

import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    """The modules in memory after a statement, in a Python of its own."""
    code = f"{statement}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())


@pytest.mark.parametrize("statement", ["import weft", "import weft.cli, weft.client"])
def test_nothing_of_the_server_is_loaded(statement: str) -> None:
    modules = loaded_by(statement)
    ours = {name for name in modules if name.startswith("controlplane.")}
    assert {name for name in ours if not name.startswith("weft")} == set()
    assert {name.partition(".")[0] for name in modules} & {
        "autoscaler",
        "celery",
        "django",
        "frontend",
        "gpushare",
        "numpy",
        "rest_framework",
        "scheduler",
    } == set()


def test_help_starts_without_the_parts_it_does_not_need() -> None:
    modules = loaded_by("from weft.cli import run\nassert run(['--help']) == 0")
    assert {name.partition(".")[0] for name in modules} & {"httpx", "yaml", "rich", "pygments"} == set()


def test_a_command_does_not_load_the_command_line_of_httpx() -> None:
    modules = loaded_by("from weft.session import connect\nconnect('http://127.0.0.1:1')")
    assert "httpx" in modules
    assert modules & {"httpx._main", "pygments", "rich"} == set()


def test_the_pages_are_served_without_the_compiler_of_the_scheduler() -> None:
    statement = "import controlplane.asgi; from django.urls import get_resolver; get_resolver().url_patterns"
    modules = loaded_by(statement)
    assert "frontend.views.usage" in modules
    assert {name for name in modules if name.partition(".")[0] in ("numba", "llvmlite")} == set()
