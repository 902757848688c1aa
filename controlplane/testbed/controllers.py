"""The controllers of JobSet and of Kubeflow's training jobs, built once with Go, with the kinds that they bring.

`python -m controlplane.testbed.controllers` builds them ahead of time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.testbed import golang
from controlplane.testbed.golang import GO, Say, pinned
from controlplane.testbed.processes import HOW, MissingError

FLAGS = ("-ldflags", "-s -w")
# By the module that pins them: the package of the program, the module with the files of its kinds, and those files.
JOB_SET, KUBEFLOW = "jobset", "kubeflow"
PACKAGES: Mapping[str, str] = {
    JOB_SET: "sigs.k8s.io/jobset",
    KUBEFLOW: "github.com/kubeflow/training-operator/cmd/training-operator.v1",
}
NAMES: Mapping[str, str] = {JOB_SET: "JobSet", KUBEFLOW: "training-operator"}
_MODULES = {JOB_SET: "sigs.k8s.io/jobset", KUBEFLOW: "github.com/kubeflow/training-operator"}
_CRDS = {
    JOB_SET: ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    KUBEFLOW: (
        "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
        "manifests/base/crds/kubeflow.org_tfjobs.yaml",
    ),
}


def find(which: str, say: Say = lambda _: None, *, build: bool = True) -> Path:
    """The controller's program, building it if it is not there. Raises MissingError."""
    programs = _programs(which)
    if not build and not programs.folder.exists():
        raise MissingError(NAMES[which], HOW)
    return golang.built(programs, say) / which


def kinds(which: str) -> list[Path]:
    """The files with the kinds that it brings, from its module as go.sum pins it. Raises MissingError."""
    go = golang.go_of(_programs(which), lambda _: None)
    command = [str(go), "mod", "download", "-json", _MODULES[which]]
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    done = subprocess.run(command, cwd=GO / which, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(NAMES[which], done.stderr[-1000:])
    return [Path(json.loads(done.stdout)["Dir"]) / name for name in _CRDS[which]]


def _programs(which: str) -> golang.Programs:
    version = pinned(which, rf"{_MODULES[which]} (v\S+)")
    return golang.Programs(NAMES[which], {which: {which: PACKAGES[which]}}, version, FLAGS, minutes="2 to 3")


if __name__ == "__main__":
    try:
        for one in sys.argv[1:] or PACKAGES:
            find(one, lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
