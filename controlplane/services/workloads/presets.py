"""Putting a preset into an empty database: teams, quotas, priority classes, pools and the demo's people."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import transaction

from controlplane.models import ClusterState, Membership, NodePool, PriorityClass, Quota, Role, Team, Template, User
from controlplane.services.audit import events
from controlplane.services.scheduling import changes
from controlplane.simulator.worlds.presets import PRIORITY_CLASSES, Preset

COLOURS = 8
# One person of each role; the platform admin is admin everywhere, the others in the first team that owns GPUs.
ADMIN = "admin"
PEOPLE = {"ada": Role.ADMIN, "mel": Role.MEMBER, "vic": Role.VIEWER}
# Templates for everybody: what the form begins from on the first day.
TEMPLATES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (
        "One GPU",
        "A training on one GPU that saves every ten minutes",
        {
            "type": "training",
            "image": "example/train:1",
            "resources": {"gpus": 1, "cpu": 8, "memory": "32Gi"},
            "checkpoint": {"interval": "10m"},
            "expected_duration": "1h",
        },
    ),
    (
        "Distributed 2 x 8 GPUs",
        "Two whole nodes in one rack, started together",
        {
            "type": "training",
            "image": "example/train:1",
            "workers": {"count": 2},
            "resources": {"gpus": 8, "cpu": 64, "memory": "256Gi"},
            "topology": {"require": "rack"},
            "checkpoint": {"interval": "10m"},
            "expected_duration": "6h",
        },
    ),
    (
        "Notebook on a quarter",
        "A quarter of a GPU for sure, all of it while it is idle; parked after 30 minutes without use",
        {
            "type": "notebook",
            "resources": {"gpu_share": {"guarantee": 0.25, "limit": 1.0, "memory": "8Gi"}, "cpu": 4, "memory": "16Gi"},
            "idle": {"park_after": "30m"},
        },
    ),
    (
        "Service under 200 ms",
        "One to four replicas, held to 99.9 % of requests within 200 ms",
        {
            "type": "inference",
            "image": "example/serve:1",
            "port": 8000,
            "replicas": {"min": 1, "max": 4},
            "resources": {"gpus": 1, "cpu": 8, "memory": "32Gi"},
            "objective": {"p95_latency": "200ms", "availability": 99.9, "window": "28d"},
        },
    ),
)


def loaded() -> ClusterState | None:
    """The row about the world that this database belongs to, if there is one."""
    return ClusterState.objects.exclude(preset="").first()


@transaction.atomic
def load(*, preset: Preset, password: str, speed: float) -> None:
    """Write all that the preset states, and the demo's users with this password."""
    ClusterState.objects.all().delete()
    ClusterState.objects.create(
        preset=preset.identity, is_simulated=True, now=preset.start, speed=speed, seed=preset.seed
    )
    PriorityClass.objects.bulk_create(
        PriorityClass(name=c.name, value=c.value, preemptible=c.preemptible, is_default=c.is_default)
        for c in PRIORITY_CLASSES
    )
    pools = {
        pool.name: NodePool.objects.create(name=pool.name, gpu_model=pool.gpu_model, price_per_gpu_hour=pool.price)
        for pool in preset.pools
    }
    teams: dict[str, Team] = {}
    for number, team in enumerate(preset.teams):  # parents come before their children
        parent = teams[team.parent] if team.parent else None
        teams[team.name] = Team.objects.create(
            name=team.name, parent=parent, colour=number % COLOURS, shares_with_others=team.shares_with_others
        )
    Quota.objects.bulk_create(
        Quota(
            team=teams[quota.team],
            pool=pools[quota.pool],
            nominal=quota.nominal,
            borrowing_limit=quota.borrowing,
            lending_limit=quota.lending,
            weight=quota.weight,
        )
        for quota in preset.quotas
    )
    _people(teams[_home(preset)], password)
    Template.objects.bulk_create(
        Template(name=name, about=about, kind=str(job["type"]), job=dict(job)) for name, about, job in TEMPLATES
    )
    events.record(kind="PresetLoaded", actor="system", at=preset.start, message=preset.identity)
    changes.touch(None)


@transaction.atomic
def set_pace(*, speed: float | None = None, paused: bool | None = None) -> None:
    """Change how fast the simulated clock may go, in cluster seconds per second, or stop it."""
    changed: dict[str, object] = {}
    if speed is not None:
        changed["speed"] = speed
    if paused is not None:
        changed["paused"] = paused
    ClusterState.objects.update(**changed)


def _home(preset: Preset) -> str:
    """The team of the demo's people: of those without teams below them the one that owns most."""
    owned: dict[str, int] = {}
    parents = {team.parent for team in preset.teams}
    for quota in preset.quotas:
        if quota.team not in parents:
            owned[quota.team] = owned.get(quota.team, 0) + quota.nominal
    return max(sorted(owned), key=lambda name: owned[name])


def _people(home: Team, password: str) -> None:
    hashed = make_password(password)  # once: Argon2 is slow on purpose
    User.objects.create(username=ADMIN, password=hashed, is_superuser=True, is_staff=True)
    for name, role in PEOPLE.items():
        user = User.objects.create(username=name, password=hashed)
        Membership.objects.create(user=user, team=home, role=role)


def forget_world(*, now: float) -> None:
    """Keep the preset's teams, but have the clock be a real one: benchmarks bring machines of their own."""
    ClusterState.objects.update(preset="", is_simulated=False, now=now)
