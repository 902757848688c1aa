"""A training model whose numbers can be reckoned by hand, for tests of the simulated cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.training.cluster16 import GPU_TYPE, Outcome, Policy, simulate
from controlplane.benchmarks.training.nearchuscluster import Setting
from controlplane.benchmarks.training.rounds import Plan
from controlplane.benchmarks.training.tables import Application, Convergence, Placement, Submitted
from controlplane.benchmarks.training.trainings import Asked


class Table(Application):
    """A step takes 1 s wherever it runs. guard: is told who asks."""

    guard: "Guarded | None" = None

    def times_of(self, placement: Placement, local: int) -> tuple[float, float]:
        """See Application."""
        if self.guard is not None:
            self.guard.reads += self.guard.is_deciding
        return 1.0, 0.0


def application(epochs: int = 3, restart: float = 50.0) -> Table:
    """A step takes 1 s whatever its batch and placement; an epoch is 200 steps of the least batch."""
    ones = np.ones((2, epochs))
    convergence = Convergence((8, 64), np.arange(1.0, epochs + 1) * 200, ones * 1e-6, ones * 1e3, epochs)
    measured = {(1,): (np.array([8.0, 64.0]), np.array([[1.0, 0.0], [1.0, 0.0]]))}
    empty = np.zeros((0, 3))
    return Table("cifar10", convergence, restart, measured, empty, np.zeros((0, 2)), empty, 64)


def submitted(name: str, *, at: float = 0.0, gpus: int = 1, batch: int = 64) -> Submitted:
    """A training as a user submits it."""
    return Submitted(name, "cifar10", at, gpus, batch)


class Linear:
    """As fast as it has GPUs, up to 8; what more give is ever less."""

    one = 1.0

    def examples(self, nodes: npt.NDArray[np.float64], gpus: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Useful examples per s."""
        return gpus

    def __call__(self, nodes: Any, gpus: Any) -> Any:
        """Over one GPU."""
        return gpus


def jobs_of(text: str) -> list[dict[str, Any]]:
    """One a line: its name, the GPUs it asks for, then `held` GPU-seconds and `remaining` examples if there are any."""
    found = []
    for number, line in enumerate(line.split() for line in text.strip().splitlines()):
        more = dict(zip(line[2::2], map(float, line[3::2]), strict=True))
        found.append({
            "id": line[0], "model": "m", "submitted": float(number), "age": 100.0, "restarts": 0,
            "requested_gpus": int(line[1]), "attained_gpu_s": more.get("held", 0.0), "restart_cost_s": 30.0,
            "remaining": more.get("remaining", 0.0), "max_gpus": {GPU_TYPE: 64 if line[0] != "short" else 8},
            "restarting": False, "ref_rate": {GPU_TYPE: 1.0}, "goodput": {GPU_TYPE: Linear()},
        })  # fmt: skip
    return found


class Stopwatch:
    """One GPU from a time on."""

    def __init__(self, begins: float) -> None:
        self.begins = begins

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See cluster16.Policy."""
        return {job["id"]: [((GPU_TYPE, 0), 1)] for job in jobs} if now >= self.begins else {}

    def event(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See cluster16.Policy."""
        return current


@dataclass
class Guarded:
    """A policy and a table; reads: of the table while the policy decided."""

    application: Application
    policy: Policy | None = None
    is_deciding: bool = False
    reads: int = 0
    plans: int = 0

    @classmethod
    def watch(cls) -> "Guarded":
        """One with a table that it watches."""
        table = application()
        table.guard = cls(table)
        return table.guard

    def of(self, policy: Policy) -> "Guarded":
        """The same, deciding as this policy does."""
        self.policy = policy
        return self

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._decide("plan", now, jobs, current)

    def event(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._decide("event", now, jobs, current)

    def _decide(self, how: str, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        self.is_deciding = True
        self.plans += 1
        plan: Plan = getattr(self.policy, how)(now, jobs, current)
        self.is_deciding = False
        return plan


def guarded(setting: Setting) -> tuple[Outcome, Guarded]:
    """Twenty trainings under a setting's policy, and how often it read the table while it decided."""
    guard = Guarded.watch()
    apps: Mapping[str, Application] = {"cifar10": guard.application}
    asked = [Asked(submitted(f"a-{number}", at=number * 30.0, gpus=2), setting.free > 0) for number in range(20)]
    return simulate(asked, apps, guard.of(setting.policy()), setting.rules), guard
