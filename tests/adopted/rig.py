"""A real API server with our fences, rights and admission server, and the loops turned by hand."""

import asyncio
import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import trustme
import uvicorn

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import actuate, adopt, observe, publish, schedule
from controlplane.loops.wiring import Wiring
from controlplane.manifests import webhook
from controlplane.manifests.site import ADMISSION, Site, TeamSpace
from controlplane.models import Action, Event, Membership, NodePool, PriorityClass, Quota, Role, Team, User, Workload
from controlplane.services.scheduling import policy
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import free_port, wait_until
from controlplane.webhook.lookup import WorldLookup
from controlplane.webhook.server import Application
from tests.controlplane.kubernetes.fences import in_force

TEAM, NAMESPACE = "nlp", "weft-nlp"
GPU = "nvidia.com/gpu"
PATIENCE = 60.0


class Admission:
    """The admission server in a thread of this process, so that it reads the test's database."""

    def __init__(self, lookup: WorldLookup, folder: Path) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        self.port = free_port()
        self.ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        self.certificate, self.key = folder / "admission.crt", folder / "admission.key"
        self.certificate.write_bytes(certificate.cert_chain_pems[0].bytes())
        self.key.write_bytes(certificate.private_key_pem.bytes())
        config = uvicorn.Config(
            Application(lookup), host="127.0.0.1", port=self.port, ssl_certfile=str(self.certificate),
            ssl_keyfile=str(self.key), lifespan="off", log_config=None, access_log=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()), daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the admission server", 20.0)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20.0)


class Rig:
    """The loops, what a person may do with kubectl, and what they see."""

    def __init__(self, server: TestCluster, folder: Path, site: Site | None = None) -> None:
        self.server = server
        self.site = replace(site or Site(), has_admission=True)
        account = rights.scheduler(server, [TEAM], site=self.site)
        self._api = Api(find(str(server.kubeconfig(f"weft/{ADMISSION}"))), name="lookups")
        self.admission = Admission(WorldLookup(self._api, self.site.prefix), folder)
        self.site = replace(self.site, admission_ca=self.admission.ca, admission_url=self.admission.url)
        server.apply(webhook.webhook(self.site))
        autoscales = self.site.has_external_metrics
        self.cluster = KubernetesCluster(find(str(account)), prefix=self.site.prefix, has_autoscalers=autoscales)
        self.wiring = Wiring(self.cluster, Unmeasured(), "test", owners=self.cluster.owners)
        team = Team.objects.create(name=TEAM)
        ada = User.objects.create(username="ada")
        Membership.objects.create(team=team, user=ada, role=Role.MEMBER)
        User.objects.create(username="vic")
        PriorityClass.objects.create(name="normal", value=100, is_default=True, preemptible=True)
        PriorityClass.objects.create(name="high", value=200)
        self._people()
        self.turn()
        for pool in NodePool.objects.all():
            Quota.objects.create(team=team, pool=pool, nominal=24_000)
        policy.change(changes={"scheduling": {"min_runtime_seconds": 0}}, author="root")
        server.wait_for(self._is_asked, "the webhook")
        in_force(
            server, TeamSpace(TEAM), self.site
        )  # which only the Services and bindings tell: pods the webhook refuses

    def close(self) -> None:
        self.cluster.close()
        self.server.delete(f"{HOOKS}/weft")
        self.admission.close()
        self._api.close()

    def _people(self) -> None:
        """ada and vic may do with Jobs and the like what they want, as far as Kubernetes' own rights go."""
        verbs = ["get", "list", "create", "update", "patch", "delete"]
        groups = ["batch", "apps", "jobset.x-k8s.io", "kubeflow.org", ""]
        rules = [{"apiGroups": groups, "resources": ["*"], "verbs": verbs}]
        role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "queueing"}, "rules": rules}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "people"} for name in ("ada", "vic")]
        reference = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": "queueing"}
        binding = {
            "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "queueing"}, "subjects": subjects,
            "roleRef": reference,
        }  # fmt: skip
        accounts = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "people"}}
            for name in ("ada", "vic")
        ]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "people"}}
        self.server.apply([space, *accounts, role, binding])
        self._tokens = {name: self.server.token(f"people/{name}") for name in ("ada", "vic")}

    def _is_asked(self) -> bool:
        """The API server reads a new registration a moment after it was made."""
        return "label" in self.refused("POST", f"{self.path('pods')}?dryRun=All", bare_pod())

    # --- what people do ---------------------------------------------------------------------------

    def path(self, plural: str, name: str = "") -> str:
        batch = dict.fromkeys(("jobs", "cronjobs"), "/apis/batch/v1")
        root = {"pods": "/api/v1", "deployments": "/apis/apps/v1", **batch}.get(plural)
        root = root or ("/apis/jobset.x-k8s.io/v1alpha2" if plural == "jobsets" else "/apis/kubeflow.org/v1")
        return f"{root}/namespaces/{self.site.prefix}{TEAM}/{plural}{f'/{name}' if name else ''}"

    def kubectl(self, method: str, path: str, body: Any = None, *, by: str = "ada") -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self.server.request(method, path, body, content_type=kind, token=self._tokens[by])

    @contextlib.contextmanager
    def before(self) -> Iterator[None]:
        """As if the namespace were not adopted yet: the admission server is not asked."""
        self.server.delete(f"{HOOKS}/weft")
        self.server.wait_for(lambda: not self._is_asked(), "the end of the webhook")
        yield
        self.server.apply(webhook.webhook(self.site))
        self.server.wait_for(self._is_asked, "the webhook")

    def refused(self, method: str, path: str, body: Any = None, *, by: str = "ada") -> str:
        try:
            self.kubectl(method, path, body, by=by)
        except ApiError as error:
            return error.message
        return ""

    def create(self, plural: str, body: dict[str, Any], *, by: str = "ada") -> str:
        return str(self.kubectl("POST", self.path(plural), body, by=by)["metadata"]["uid"])

    # --- what comes of it -------------------------------------------------------------------------

    def turn(self) -> None:
        for loop in (adopt, observe, schedule, actuate, publish):
            report = loop.run_once(self.wiring)
            assert not report.skipped, report

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        def turned() -> bool:
            self.turn()
            return is_so()

        self.server.wait_for(turned, what, PATIENCE)

    def phase(self, uid: str) -> str:
        return str(Workload.objects.values_list("phase", flat=True).filter(uid=uid).first() or "")

    def until_phase(self, uid: str, phase: str) -> None:
        try:
            self.until(lambda: self.phase(uid) == phase, f"{phase}")
        except TimeoutError as error:
            rows = list(Workload.objects.filter(uid=uid).values("phase", "reason", "message", "attempt"))
            errors = list(Action.objects.filter(workload=uid).values_list("verb", "tries", "error"))
            raise TimeoutError(f"{error}: {rows}, {errors}, {self.story(uid)}") from error

    def story(self, uid: str) -> list[str]:
        return list(Event.objects.filter(workload=uid).order_by("id").values_list("kind", flat=True))

    def get(self, plural: str, name: str) -> dict[str, Any]:
        return self.server.request("GET", self.path(plural, name))

    def pods(self, uid: str) -> list[dict[str, Any]]:
        query = f"?labelSelector=weft.dev/workload={uid}"
        found: list[dict[str, Any]] = self.server.request("GET", f"{self.path('pods')}{query}")["items"]
        return found

    def told(self, name: str) -> list[str]:
        query = f"?fieldSelector=involvedObject.name={name}"
        items = self.server.request("GET", f"/api/v1/namespaces/{self.site.prefix}{TEAM}/events{query}")["items"]
        return [item["message"] for item in items if item["source"].get("component") == "weft"]


RBAC = "rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@contextlib.contextmanager
def rig(server: TestCluster, folder: Path, site: Site | None = None) -> Iterator[Rig]:
    made = Rig(server, folder, site)
    try:
        yield made
    finally:
        made.close()


def template(gpus: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod's template as people write it: nothing in it is made for Weft."""
    resources = {"limits": {"cpu": "1", "memory": "1Gi", **({GPU: gpus} if gpus else {})}}
    container = {"name": "train", "image": "registry.example/train:1", "resources": resources}
    meta = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**meta, "spec": {"containers": [container], "restartPolicy": "Never", **spec}}


def job(
    name: str, *, pods: int = 1, gpus: int = 1, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A plain Job with the one label."""
    meta = {"name": name, "labels": {"weft.dev/queue": TEAM, **(labels or {})}}
    body = {"parallelism": pods, "completions": pods, "template": template(gpus), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def cron_job(
    name: str, *, gpus: int = 1, priority_class: str = "normal", schedule: str = "* * * * *"
) -> dict[str, Any]:
    """A plain CronJob, due each minute, whose Jobs have the label."""
    labels = {"weft.dev/queue": TEAM, "weft.dev/priority-class": priority_class}
    made = {"metadata": {"labels": labels}, "spec": {"template": template(gpus)}}
    spec = {"schedule": schedule, "concurrencyPolicy": "Forbid", "jobTemplate": made}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def bare_pod(name: str = "bare") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **template()}


def deployment(name: str, *, replicas: int = 1, gpus: int = 1, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A plain Deployment with the one label."""
    app = {"app": name}
    pod = template(gpus, restartPolicy="Always")
    meta = {"name": name, "labels": {"weft.dev/queue": TEAM, **(labels or {})}}
    body = {"replicas": replicas, "selector": {"matchLabels": app}, "template": {**pod, "metadata": {"labels": app}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body}


def job_set(name: str, sets: dict[str, tuple[int, int, int]], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A JobSet with the one label; for each replicated job its replicas, pods and GPUs of each pod."""
    replicated = [
        {
            "name": part,
            "replicas": replicas,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "template": template(gpus), "backoffLimit": 0}
            },
        }
        for part, (replicas, pods, gpus) in sets.items()
    ]
    meta = {"name": name, "labels": {"weft.dev/queue": TEAM, **(labels or {})}}
    spec = {"replicatedJobs": replicated}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}


def kubeflow(kind: str, name: str, roles: dict[str, tuple[int, int]], **metadata: Any) -> dict[str, Any]:
    """A PyTorchJob or TFJob with the one label; for each replica type its replicas and the GPUs of each."""
    container, key = ("pytorch", "pytorchReplicaSpecs") if kind == "PyTorchJob" else ("tensorflow", "tfReplicaSpecs")
    specs: dict[str, Any] = {}
    for role, (replicas, gpus) in roles.items():
        pod = template(gpus)
        pod["spec"]["containers"][0]["name"] = container
        del pod["spec"]["restartPolicy"]
        specs[role] = {"replicas": replicas, "restartPolicy": "Never", "template": pod}
    meta = {"name": name, "labels": {"weft.dev/queue": TEAM}, **metadata}
    spec = {"runPolicy": {"backoffLimit": 0}, key: specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": meta, "spec": spec}
