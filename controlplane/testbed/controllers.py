"""The controllers of JobSet and of Kubeflow's training jobs, built once with Go, with the kinds that they bring.

`python -m controlplane.testbed.controllers` builds them ahead of time.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import yaml

from controlplane.testbed import golang, processes
from controlplane.testbed.api import ApiError, Json
from controlplane.testbed.golang import Say, pinned
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import HOW, MissingError, free_port

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
    folder = golang.sources(_programs(which), which, _MODULES[which])
    return [folder / name for name in _CRDS[which]]


@contextlib.contextmanager
def job_set(cluster: TestCluster) -> Iterator[None]:
    """Run JobSet's controller with its own webhooks, as it is shipped; its certificate is the API server's."""
    program, folder = find(JOB_SET), cluster.layout.folder / JOB_SET
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True, exist_ok=True)
    shutil.copy(cluster.layout.folder / "api.crt", certificates / "tls.crt")
    shutil.copy(cluster.layout.folder / "api.key", certificates / "tls.key")
    health, port = free_port(), free_port()
    settings = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(certificates)},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 500, "burst": 500},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    crds = [yaml.safe_load(path.read_text()) for path in kinds(JOB_SET)]
    cluster.apply(crds)
    for crd in crds:
        path = f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
        cluster.wait_for(partial(_is_served, cluster, path), path)
    line = [str(program), f"--config={folder / 'config.yaml'}"]
    environment = os.environ | {"KUBECONFIG": str(cluster.layout.admin), "TMPDIR": str(folder)}
    process = processes.start(line, log=folder / "log", env=environment, stop=signal.SIGKILL)
    hook = _job_set_hook(cluster, port)
    try:
        processes.wait_until(lambda: processes.listens(port) or process.poll() is not None, "JobSet's webhook", 60.0)
        if process.poll() is not None:
            raise RuntimeError(f"JobSet's controller ended:\n{(folder / 'log').read_text()[-3000:]}")
        cluster.apply([hook])
        yield
    finally:
        cluster.delete(f"/apis/{HOOK.partition('/')[0]}/v1/mutatingwebhookconfigurations/{hook['metadata']['name']}")
        processes.end(process, signal.SIGKILL)


# Where the training operator looks whether its certificate is there; where it reads it, TMPDIR says.
OPERATORS_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - a name in its program
OPERATORS_NAMESPACE, OPERATORS_SECRET = "kubeflow", "training-operator-webhook-cert"  # noqa: S105 - the name of one
OPERATORS_HOOK = "validator.training-operator.kubeflow.org"


@contextlib.contextmanager
def training_operator(cluster: TestCluster) -> Iterator[None]:
    """Run Kubeflow's training operator for PyTorchJobs and TFJobs. Its webhook only validates, and is left out."""
    program, folder = find(KUBEFLOW), cluster.layout.folder / KUBEFLOW
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    for where in (certificates, OPERATORS_CERTIFICATES):
        where.mkdir(parents=True, exist_ok=True)
        shutil.copy(cluster.layout.folder / "api.crt", where / "tls.crt")
        shutil.copy(cluster.layout.folder / "api.key", where / "tls.key")
    made: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATORS_NAMESPACE}},
        {"apiVersion": "v1", "kind": "Secret",
         "metadata": {"name": OPERATORS_SECRET, "namespace": OPERATORS_NAMESPACE}},
        {"apiVersion": HOOK, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": OPERATORS_HOOK}},
    ]  # fmt: skip
    cluster.apply([*made, *(yaml.safe_load(path.read_text()) for path in kinds(KUBEFLOW))])
    for plural in ("pytorchjobs", "tfjobs"):
        path = f"/apis/kubeflow.org/v1/{plural}"
        cluster.wait_for(partial(_is_served, cluster, path), path)
    health, port = free_port(), free_port()
    options = (
        "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{health}", f"--webhook-server-port={port}",
        "--enable-scheme=pytorchjob", "--enable-scheme=tfjob",
    )  # fmt: skip
    environment = os.environ | {"KUBECONFIG": str(cluster.layout.admin), "TMPDIR": str(folder)}
    process = processes.start([str(program), *options], log=folder / "log", env=environment, stop=signal.SIGKILL)
    try:
        processes.wait_until(lambda: processes.listens(port) or process.poll() is not None, "the operator", 90.0)
        if process.poll() is not None:
            raise RuntimeError(f"The training operator ended:\n{(folder / 'log').read_text()[-3000:]}")
        yield
    finally:
        processes.end(process, signal.SIGKILL)


def _is_served(cluster: TestCluster, path: str) -> bool:
    """Whether the API server has the kind by now."""
    try:
        cluster.request("GET", path)
    except ApiError:
        return False
    return True


HOOK = "admissionregistration.k8s.io/v1"


def _job_set_hook(cluster: TestCluster, port: int) -> Json:
    """Its defaults, without which its controller does not work. Its name goes before ours, so it is asked first."""
    url = f"https://127.0.0.1:{port}/mutate-jobset-x-k8s-io-v1alpha2-jobset"
    authority = base64.b64encode(cluster.ca.read_bytes()).decode()
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["v1alpha2"], "operations": ["CREATE"]}
    webhook = {
        "name": "mjobset.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": {"url": url, "caBundle": authority}, "rules": [{**rule, "resources": ["jobsets"]}],
    }  # fmt: skip
    name = {"name": "jobset-mutating-webhook-configuration"}
    return {"apiVersion": HOOK, "kind": "MutatingWebhookConfiguration", "metadata": name, "webhooks": [webhook]}


def _programs(which: str) -> golang.Programs:
    version = pinned(which, rf"{_MODULES[which]} (v\S+)")
    return golang.Programs(NAMES[which], {which: {which: PACKAGES[which]}}, version, FLAGS, minutes="2 to 3")


if __name__ == "__main__":
    try:
        for one in sys.argv[1:] or PACKAGES:
            find(one, lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
