"""Our own small models for the simulated cluster: what runs in demo, traces and tests.

All numbers are made up, of the size that such programs have; none is copied from a data set or measured anywhere.
What differs between them is what a scheduler can act on: how much a gang suffers from being spread out (sync_seconds
against step_seconds), how much CPU its input needs, how fast it is on which GPU, how much of a device it uses.
"""

from controlplane.cluster.physics import NotebookProfile, Profile, ServiceProfile, TrainingProfile
from controlplane.cluster.serving.traffic import Sizes
from controlplane.cluster.work import Profiles
from scheduler.model.workload import Kind

TRAININGS = (
    TrainingProfile(
        "resnet-like-small", step_seconds=0.09, sync_seconds=0.006, input_core_seconds=0.42, batch=128, duty=0.82,
        memory=9_000, checkpoint_seconds=3.0, loss=(2.4, 0.3), speed={"T4": 0.22, "L40S": 0.75},
    ),
    TrainingProfile(
        "resnet-like-large", step_seconds=0.31, sync_seconds=0.022, input_core_seconds=0.95, batch=96, duty=0.93,
        memory=24_000, checkpoint_seconds=8.0, loss=(6.9, 1.4),
    ),
    TrainingProfile(
        "transformer-like-base", step_seconds=0.38, sync_seconds=0.055, input_core_seconds=0.05, batch=32, duty=0.96,
        memory=30_000, checkpoint_seconds=14.0, loss=(9.8, 2.1), speed={"H100": 2.3, "L40S": 0.65},
    ),
    TrainingProfile(
        "transformer-like-large", step_seconds=0.9, sync_seconds=0.24, input_core_seconds=0.08, batch=8, duty=0.97,
        memory=38_000, checkpoint_seconds=24.0, loss=(10.4, 2.4), speed={"H100": 2.6, "L40S": 0.55, "T4": 0.12},
    ),
    TrainingProfile(
        "detector-like", step_seconds=0.44, sync_seconds=0.045, input_core_seconds=1.3, batch=16, duty=0.78,
        memory=18_000, checkpoint_seconds=7.0, loss=(5.1, 0.9),
    ),
    TrainingProfile(
        "speech-like", step_seconds=0.52, sync_seconds=0.06, input_core_seconds=0.8, batch=24, duty=0.85,
        memory=16_000, checkpoint_seconds=9.0, failure_rate=0.01, loss=(7.5, 0.6),
    ),
    TrainingProfile(
        "recommender-like", step_seconds=0.035, sync_seconds=0.018, input_core_seconds=0.14, batch=4096, duty=0.46,
        memory=11_000, checkpoint_seconds=12.0, failure_rate=0.02, loss=(0.7, 0.42), speed={"H100": 1.2, "T4": 0.4},
    ),
    TrainingProfile(
        "tabular-like", step_seconds=0.02, sync_seconds=0.002, input_core_seconds=0.03, batch=512, duty=0.3,
        memory=3_000, checkpoint_seconds=1.0, loss=(1.1, 0.2), speed={"H100": 1.1, "L40S": 0.95, "T4": 0.5},
    ),
)  # fmt: skip
NOTEBOOKS = (
    NotebookProfile("notebook-reading", busy=0.35, active_ratio=0.15, session_seconds=3_600.0, memory=3_000),
    NotebookProfile("notebook-plots", busy=0.5, active_ratio=0.25, session_seconds=5_400.0, memory=4_500),
    NotebookProfile("notebook-tuning", busy=0.7, active_ratio=0.35, session_seconds=10_800.0, memory=7_000),
)
SERVICES = (
    ServiceProfile(
        "chat-like", service_seconds=0.05, parallel=8, sizes=Sizes("tokens", 0.5, 120), load=0.3, memory=28_000
    ),
    ServiceProfile(
        "vision-like", service_seconds=0.03, parallel=2, sizes=Sizes("lognormal", 0.2), load=0.35, memory=9_000
    ),
    ServiceProfile(
        "ranker-like", service_seconds=0.02, parallel=1, sizes=Sizes("lognormal", 0.5), load=0.45, memory=6_000
    ),
    ServiceProfile(
        "speech-like-service", service_seconds=0.04, parallel=4, growth=0.2, sizes=Sizes("lognormal", 0.4), load=0.4,
        memory=14_000,
    ),
)  # fmt: skip
PROFILES: Profiles = {Kind.TRAINING: TRAININGS, Kind.NOTEBOOK: NOTEBOOKS, Kind.INFERENCE: SERVICES}


def names(kind: str) -> tuple[str, ...]:
    """The profiles of a kind, for the key `simulated.profile` of a job file."""
    return tuple(profile.name for profile in PROFILES[Kind(kind)])


def named(name: str) -> Profile:
    """The profile of this name. Raises KeyError if there is none."""
    return {profile.name: profile for kind in PROFILES.values() for profile in kind}[name]
