"""The one place that chooses adapters: settings -> the cluster and the metrics that the loops use."""

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from controlplane.adopted.port import Owners
from controlplane.cluster.gateways import Activators
from controlplane.cluster.port import Cluster, Gateways, Metrics
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.kubeobjects.port import Objects
from controlplane.runtime.wake import WITHOUT_CLUSTER
from controlplane.services.workloads.presets import loaded
from controlplane.simulator.worlds.presets import START, Pace, Preset
from controlplane.simulator.worlds.profiles import PROFILES

EMBEDDED_HOLDER = "embedded"  # one process by its lock file, so it takes its own leases back at once after a crash


@dataclass(frozen=True)
class Wiring:
    """What a loop needs besides the database. `kept` is what this process's loops keep between rounds."""

    cluster: Cluster
    metrics: Metrics
    holder: str  # this process in the Lease table
    kept: dict[str, Any] = field(default_factory=dict)  # leases and snapshot keepers, by loop
    full_cycle_seconds: float = 5.0  # of the cluster's clock: the period of full cycles
    news_first: bool = True  # new arrivals get a partial cycle before the next full one
    full_seconds: float = 60.0  # how often everything is observed, by the cluster's clock too
    objects: Objects | None = None  # custom resources; None: the cluster has none
    owners: Owners | None = None  # objects of Kubernetes that are workloads; None: this cluster has none, or no room
    gateways: Gateways | None = None  # queues in front of services; None: there are none


if TYPE_CHECKING:
    from controlplane.cluster.kubernetes.adapter import KubernetesCluster

# Slots of a simulated cluster between two full observations: it misses nothing, but pods say what they saved. Only
# its own clock decides when, so that a seed gives the same at any speed.
FULL_SLOTS = 120
_of_thread = threading.local()


def get() -> Wiring:
    """The wiring of this thread, built from settings on first use: a simulated cluster's file belongs to one thread."""
    found: Wiring | None = getattr(_of_thread, "wiring", None)
    if found is None:
        found = _of_thread.wiring = _build()
    return found


def of(loop: str) -> Wiring:
    """The wiring of this thread for a loop: get(), but one that asks no cluster has none, and needs no rights to it."""
    if loop not in WITHOUT_CLUSTER:
        return get()
    found: Wiring | None = getattr(_of_thread, "without_cluster", None)
    if found is None:
        found = _of_thread.without_cluster = simulated(in_memory=True)
    return found


def use(build: Callable[[], Wiring]) -> None:
    """Have this process wired another way, before its first wiring: benchmarks bring machines of their own."""
    global _build
    _build = build


def simulated(preset: Preset | None = None, *, in_memory: bool = False) -> Wiring:
    """Loops on a simulated cluster: the one in the store, made with the preset's nodes if there is none yet."""
    world = loaded()
    seed = preset.seed if preset else world.seed if world else 0
    cluster = SimulatedCluster(
        preset.nodes if preset else (),
        Conditions(seed=seed, start=preset.start if preset else world.now if world else START),
        PROFILES,
        None if in_memory else ClusterStore(settings.SIMULATED_STORE),
    )
    pace = preset.pace if preset else Pace()
    return Wiring(
        cluster,
        measured(cluster, cluster),
        holder(),
        full_cycle_seconds=pace.net,
        full_seconds=FULL_SLOTS * pace.slot,
        news_first=preset is None,  # only the clock of the embedded driver waits for its rounds
    )


def measured(cluster: Cluster, itself: Metrics | None = None) -> Metrics:
    """The metrics of this cluster: Prometheus' if there is one, else its own, else none."""
    if not settings.PROMETHEUS_URL:
        return itself or Unmeasured()
    from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings  # costs 0.1 s; most need it not

    token, ca = settings.PROMETHEUS_TOKEN_FILE, settings.PROMETHEUS_CA
    given = Settings(settings.PROMETHEUS_URL, token_file=Path(token) if token else None, ca=Path(ca) if ca else None)
    return PrometheusMetrics(given, now=cluster.now)


def configured() -> Wiring:
    """The wiring that the settings ask for."""
    if settings.CLUSTER == "simulated":
        return simulated()
    if settings.CLUSTER == "kubernetes":
        return kubernetes()
    raise ImproperlyConfigured(f"CLUSTER is {settings.CLUSTER}. Set it to simulated or kubernetes.")


def kubernetes() -> Wiring:
    """Loops on a real cluster. Its adapter is one for the process: any thread may use it, and it watches once."""
    global _kubernetes, _objects
    from controlplane.cluster.kubernetes import adapter, connection, objects  # costs 1 s; most processes need it not

    with _of_process:
        if _kubernetes is None or _objects is None:
            access = connection.find()
            _kubernetes = adapter.KubernetesCluster(
                access,
                prefix=settings.NAMESPACE_PREFIX,
                placeholder_image=settings.PLACEHOLDER_IMAGE,
                has_autoscalers=settings.EXTERNAL_METRICS,
            )
            _objects = objects.KubernetesObjects(access)
    owners = _kubernetes.owners if settings.ADMISSION else None
    gateways = Activators(settings.ACTIVATORS) if settings.ACTIVATORS else None
    return Wiring(_kubernetes, measured(_kubernetes), holder(), objects=_objects, owners=owners, gateways=gateways)


_of_process = threading.Lock()
_kubernetes: "KubernetesCluster | None" = None
_objects: Objects | None = None


def holder() -> str:
    """The name of this process in the Lease table."""
    return EMBEDDED_HOLDER if settings.EMBEDDED else f"{socket.gethostname()}:{os.getpid()}"


_build: Callable[[], Wiring] = configured
