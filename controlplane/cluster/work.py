"""What the simulated cluster reads from a job file: the work to be done, and what only the simulation knows of it.

A job file without the key `simulated` is a person's own: it ends well, within an hour on the reference placement if it
does not say how long it takes. A first job is waited for, and must not fail by bad luck. The key (presets and tests
only; the API refuses it) may hold:

    profile          name of a profile of controlplane/simulator/worlds/profiles.py; else one is drawn by the workload's
    id duration         seconds of running time on the reference placement; training: instead of expected_duration;
                     notebook: its person ends it after that; service: not used
    fail_at          part of the work, 0..1, at which it fails by its own fault; null = it does not
    fail_attempts    how many attempts fail so; null = each one
    exit_code        of such a failure (1); reason of it (Error)
    reason
    checkpoint       seconds to write a checkpoint; else the profile's
    reference_model  GPU model on which duration holds; else the first of resources.gpu_model, else the cluster's
                     most common one
    batch_part       of a training whose job file names a batch: the part of its compute that goes with the batch
    most_batch       of the same: examples of all workers in a step, with more of which it fails at once
    gradient_noise   of the same: its gradient noise scale, samples
    rate             of requests to a service: {base, amplitude, period, burst, burst_part, rollout, noise, peak}, see
                     serving/traffic.Rate. Else a day's curve with bursts that replicas.max can answer nearly always
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoscaler.latency import ANSWER, Within
from controlplane.cluster import draws
from controlplane.cluster.physics import (
    GENERIC,
    NotebookProfile,
    Profile,
    ServiceProfile,
    TrainingProfile,
)
from controlplane.cluster.serving.traffic import Rate
from controlplane.jobspec import quantities
from controlplane.jobspec.objective import FIELDS
from scheduler.model.workload import Kind

Profiles = Mapping[Kind, Sequence[Profile]]

WAITING = 100  # requests in front of a service, where the job file does not say how many may wait
# A job that says nothing of how long it runs: a median quarter of an hour, nine in ten more than 5 minutes.
UNSAID_SECONDS, UNSAID_SIGMA, UNSAID_MAX = 900.0, 0.8, 3600.0


@dataclass(frozen=True, slots=True)
class Work:
    """One workload's work. seconds holds on `workers` workers in the reference placement; None = until stopped."""

    kind: Kind
    profile: Profile
    seconds: float | None
    workers: int = 1
    workers_min: int = 1  # below `workers_max`: the gang goes on when some of it are told to leave
    workers_max: int = 1
    limit: float = 1.0  # most of a shared device, 0..1
    checkpoint_interval: float | None = None
    checkpoint_seconds: float = 0.0
    reference_model: str | None = None
    fail_at: float | None = None
    fail_attempts: int | None = None
    exit_code: int = 1
    reason: str = "Error"
    has_luck: bool = True  # False: it does not die of something not its own either
    objective: Within | None = None  # p95
    rate: Rate | None = None
    queue: int | None = None  # requests that may wait where it may have no replica; None: it always has one
    batch: int = 0  # examples of all workers in a step on the reference placement; 0: the program's own
    most_batch: int | None = None  # with more of them it fails

    @property
    def training(self) -> TrainingProfile:
        """The profile of a training."""
        assert isinstance(self.profile, TrainingProfile)  # noqa: S101 - read_work() pairs kinds and profiles
        return self.profile

    @property
    def notebook(self) -> NotebookProfile:
        """The profile of a notebook."""
        assert isinstance(self.profile, NotebookProfile)  # noqa: S101
        return self.profile

    @property
    def service(self) -> ServiceProfile:
        """The profile of a service."""
        assert isinstance(self.profile, ServiceProfile)  # noqa: S101
        return self.profile


def read_work(uid: str, spec: Mapping[str, Any], profiles: Profiles, seed: int) -> Work:
    """The work of a workload with this job file."""
    kind = Kind(spec.get("type", Kind.TRAINING))
    truth = _part(spec, "simulated")
    profile = _profile(kind, truth.get("profile"), profiles, uid, seed)
    resources = _part(spec, "resources")
    models = resources.get("gpu_model") or ()
    work: dict[str, Any] = {
        "kind": kind,
        "profile": profile,
        "seconds": _seconds(kind, spec, truth, uid, seed),
        "limit": _fraction(_part(resources, "gpu_share").get("limit")),
        "reference_model": truth.get("reference_model") or _first(models),
        "fail_at": truth.get("fail_at"),
        "fail_attempts": truth.get("fail_attempts"),
        "exit_code": int(truth.get("exit_code", 1)),
        "reason": str(truth.get("reason", "Error")),
        "has_luck": "simulated" in spec,
    }
    if isinstance(profile, TrainingProfile):
        work["profile"] = _as_told(profile, truth)
        work["most_batch"] = truth.get("most_batch")
        work["batch"] = int(_part(spec, "batch").get("size") or 0)
        work["workers"] = int(_part(spec, "workers").get("count") or 1)
        work["workers_min"] = int(_part(spec, "workers").get("min") or work["workers"])
        work["workers_max"] = int(_part(spec, "workers").get("max") or work["workers"])
        work["checkpoint_interval"] = seconds(_part(spec, "checkpoint").get("interval"))
        work["checkpoint_seconds"] = float(truth.get("checkpoint", profile.checkpoint_seconds))
    if isinstance(profile, ServiceProfile):
        work["objective"] = within(_part(spec, "objective"))
        if _part(spec, "replicas").get("min") == 0:
            work["queue"] = int(_part(spec, "gateway").get("waiting", WAITING))
        most = int(_part(spec, "replicas").get("max") or 1) * profile.max_per_second
        work["rate"] = Rate.of_spec(uid, seed, profile.load * most, _part(truth, "rate"))
    return Work(**work)


def _as_told(profile: TrainingProfile, truth: Mapping[str, Any]) -> TrainingProfile:
    """The program, with what only the simulation knows of its batch."""
    part, noise = truth.get("batch_part"), truth.get("gradient_noise")
    profile = profile if part is None else replace(profile, batch_part=float(part))
    return profile if noise is None else replace(profile, noise_batches=float(noise) / profile.batch)


def within(objective: Mapping[str, Any]) -> Within | None:
    """What an objective promises, as a job file or a normalised one says it."""
    for of, name in FIELDS.items():
        if (found := seconds(objective.get(name))) is not None:
            return Within(found, of)
    known = seconds(objective.get("p95_seconds"))
    return None if known is None else Within(known, objective.get("of", ANSWER))


def seconds(value: object) -> float | None:
    """A duration as seconds, whether given so or as text."""
    if value is None:
        return None
    return quantities.seconds(value) if isinstance(value, str) else float(value)  # type: ignore[arg-type]


def _seconds(kind: Kind, spec: Mapping[str, Any], truth: Mapping[str, Any], uid: str, seed: int) -> float | None:
    given = truth.get("duration")
    if kind == Kind.NOTEBOOK:
        return seconds(given)
    if kind == Kind.INFERENCE:
        return None
    known = seconds(given if given is not None else spec.get("expected_duration"))
    if known is None:
        known = min(UNSAID_MAX, draws.lognormal(UNSAID_SECONDS, UNSAID_SIGMA, seed, "work", uid))
    return max(1.0, known)


def _profile(kind: Kind, name: object, profiles: Profiles, uid: str, seed: int) -> Profile:
    known = profiles.get(kind) or (GENERIC[kind],)
    named = [p for p in known if p.name == name]
    return named[0] if named else known[int(draws.uniform(seed, "profile", uid) * len(known))]


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def _first(models: object) -> str | None:
    if isinstance(models, str):
        return models or None
    return str(models[0]) if isinstance(models, Sequence) and models else None


def _fraction(limit: Any) -> float:
    """A share as 0..1, whether given so or as milli-GPU."""
    if limit is None:
        return 1.0
    return float(limit) / 1000 if limit > 1 else float(limit)
