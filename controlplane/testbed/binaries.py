"""The programs of the Kubernetes test cluster: found in KUBEBUILDER_ASSETS or a cache folder, else built once with Go.

`python -m controlplane.testbed.binaries` builds them ahead of time. `go/*/go.sum` pins every source by its hash.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.testbed import golang
from controlplane.testbed.golang import GO, Say, pinned
from controlplane.testbed.processes import HOW, MissingError

__all__ = ["GO", "PACKAGES", "PROGRAMS", "assets", "find", "kubernetes_version", "link_flags"]

NAME = "Kubernetes"
# By the module that pins them; KWOK wants newer libraries of Kubernetes than our Kubernetes has.
PACKAGES: Mapping[str, Mapping[str, str]] = {
    "kubernetes": {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
    "kwok": {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
}
PROGRAMS = tuple(program for packages in PACKAGES.values() for program in packages)


def find(say: Say = lambda _: None, *, build: bool = True) -> Mapping[str, Path]:
    """Return the path of each program, building what no folder has. Raises MissingError."""
    given = assets()
    found = {name: given / name for name in PROGRAMS if (given / name).exists()}
    if len(found) == len(PROGRAMS):
        return found
    programs = _programs()
    if not build and not programs.folder.exists():
        raise MissingError(NAME, HOW)
    folder = golang.built(programs, say)
    return {name: folder / name for name in PROGRAMS} | found


def assets() -> Path:
    """The folder whose programs go before built ones."""
    return Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))


def kubernetes_version() -> str:
    """The version that go.mod pins, such as v1.35.4."""
    return pinned("kubernetes", r"k8s\.io/kubernetes (v\S+)")


def link_flags() -> tuple[str, ...]:
    """The flags of `go build` by which a program of Kubernetes knows its version."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    names = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    settings = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in names.items()]
    return ("-ldflags", " ".join(["-s -w", *settings]))


def _programs() -> golang.Programs:
    return golang.Programs(NAME, PACKAGES, kubernetes_version(), link_flags(), minutes="5 to 10")


if __name__ == "__main__":
    try:
        find(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
