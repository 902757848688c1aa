"""Putting a preset into an empty database: teams, quotas, priority classes, pools and the demo's people."""

from django.contrib.auth.hashers import make_password
from django.db import transaction

from controlplane.models import ClusterState, Membership, NodePool, PriorityClass, Quota, Role, Team, User
from controlplane.services import changes, events
from controlplane.simulator.presets import PRIORITY_CLASSES, START, Preset

COLOURS = 8
# One person of each role; the platform admin is admin everywhere, the others in the first team that owns GPUs.
ADMIN = "admin"
PEOPLE = {"ada": Role.ADMIN, "mel": Role.MEMBER, "vic": Role.VIEWER}


def loaded() -> ClusterState | None:
    """The row about the world that this database belongs to, if there is one."""
    return ClusterState.objects.exclude(preset="").first()


@transaction.atomic
def load(*, preset: Preset, password: str, speed: float) -> None:
    """Write all that the preset states, and the demo's users with this password."""
    ClusterState.objects.all().delete()
    ClusterState.objects.create(preset=preset.identity, is_simulated=True, now=START, speed=speed, seed=preset.seed)
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
        teams[team.name] = Team.objects.create(name=team.name, parent=parent, colour=number % COLOURS)
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
    events.record(kind="PresetLoaded", actor="system", at=START, message=preset.identity)
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
