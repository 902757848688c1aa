"""Random worlds and random work for the invariants' runner: the three kinds, gangs, shares, services, quota trees."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpushare.gpu import WHOLE, Share
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Gang, Kind, Level, ResourceRequest, Topology, Workload

TEAMS = (
    Team("research"),
    Team("nlp", "research"),
    Team("vision", "research"),
    Team("search", shares_with_others=False),
    Team("robotics"),
)
MEMBERS = ("nlp", "vision", "search", "robotics")  # the teams that submit
MODELS = ("A100", "H100")
GPU_MEMORY = 80_000  # MiB


def nodes(count: int = 64, gpus: int = 8) -> tuple[Node, ...]:
    """Half the nodes of one model and pool, half of the other; eight in a rack, NVLink over four devices."""
    return tuple(
        Node(
            name=f"n{i:03}",
            pool=MODELS[2 * i // count].lower(),
            model=MODELS[2 * i // count],
            gpus=gpus,
            gpu_memory=GPU_MEMORY,
            cpu_milli=12_000 * gpus,
            memory=128_000 * gpus,
            rack=f"r{i // 8}",
            zone=f"z{4 * i // count}",
            nvlink=4,
        )
        for i in range(count)
    )


def quotas(of: tuple[Node, ...]) -> tuple[Quota, ...]:
    """Nominal quotas that add up to the pool, with and without limits to borrowing and lending."""
    out = []
    for pool in sorted({n.pool for n in of}):
        there = sum(n.gpus for n in of if n.pool == pool) * WHOLE
        eighth = there // 8
        out += [
            Quota("research", pool, 4 * eighth, borrowing=2 * eighth),
            Quota("nlp", pool, 2 * eighth, borrowing=3 * eighth, lending=eighth),
            Quota("vision", pool, 2 * eighth, weight=2),
            Quota("search", pool, 2 * eighth, borrowing=4 * eighth, lending=eighth),
            Quota("robotics", pool, 2 * eighth),
        ]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work as it is submitted: the scheduler's view, its job file for the cluster, its retries."""

    workload: Workload
    spec: dict[str, Any]
    retries: int


class Mix:
    """Draws work. Sizes and times are such that the cluster is full and hundreds of events fit in an hour of it."""

    def __init__(self, generator: np.random.Generator, largest: int = 32) -> None:
        self._rng = generator
        self._largest = largest  # workers of a gang, at most
        self._count = 0

    def draw(self, at: float) -> Job:
        """The next piece of work, submitted now."""
        self._count += 1
        kind = (Kind.TRAINING, Kind.NOTEBOOK, Kind.INFERENCE)[int(self._pick([0.6, 0.25, 0.15]))]
        base = Workload(
            id=f"w{self._count:06}",
            name=f"w{self._count:06}",
            team=MEMBERS[int(self._pick([0.35, 0.2, 0.25, 0.2]))],
            kind=kind,
            ask=ResourceRequest(),
            priority=(0, 100, 200)[int(self._pick([0.5, 0.35, 0.15]))],
            preemptible=bool(self._rng.random() < 0.85),
            seq=self._count,
            submitted_at=at,
            queued_at=at,
            grace_seconds=float(self._rng.integers(5, 40)),
        )
        return {Kind.TRAINING: self._training, Kind.NOTEBOOK: self._notebook, Kind.INFERENCE: self._service}[kind](base)

    def _training(self, base: Workload) -> Job:
        gpus = (0, 1, 2, 4, 8)[int(self._pick([0.03, 0.45, 0.22, 0.15, 0.15]))]
        count = min(self._largest, (1, 2, 4, 8, 16, 32)[int(self._pick([0.4, 0.2, 0.2, 0.12, 0.06, 0.02]))])
        least = count if self._rng.random() < 0.6 else int(self._rng.integers(1, count + 1))
        ask = ResourceRequest(gpus, None, 0, *self._host(max(1, gpus)), models=self._models())
        if gpus == 1 and self._rng.random() < 0.15:
            ask = replace(ask, gpus=0, share=self._share())
        fails = self._rng.random() < 0.1
        seconds = float(np.clip(self._rng.lognormal(6.2, 0.9), 20, 7200))
        spec = self._spec(base, ask, seconds) | {"workers": {"count": count, "min": least}}
        spec["checkpoint"] = {"interval": 120}
        if fails:
            spec["simulated"] |= {"fail_at": float(self._rng.random()), "fail_attempts": int(self._rng.integers(1, 3))}
        most = count if least == count or self._count % 2 else 2 * count  # every other elastic gang can use more
        spec["workers"]["max"] = most
        if gpus == 1 and ask.gpus and most > count:  # and says what it needs, so that it may borrow
            ask = replace(ask, gpu_memory=GPU_MEMORY * (1 if self._count % 3 else 3) // 4)
        workload = replace(
            base,
            ask=ask,
            gang=Gang(count, least, most),
            topology=self._topology(count, gpus),
            expected_seconds=seconds,
            checkpoint_interval=120.0,
        )
        return Job(workload, spec, int(self._rng.integers(0, 3)))

    def _notebook(self, base: Workload) -> Job:
        share = self._share() if self._rng.random() < 0.8 else None
        ask = ResourceRequest(0 if share else 1, share, 0, *self._host(1), models=self._models())
        seconds = float(np.clip(self._rng.lognormal(6.5, 0.8), 30, 7200))
        return Job(replace(base, ask=ask), self._spec(base, ask, seconds), 0)

    def _service(self, base: Workload) -> Job:
        share = self._share() if self._rng.random() < 0.4 else None
        ask = ResourceRequest(
            0 if share else int(self._rng.integers(1, 3)), share, 0, *self._host(1), models=self._models()
        )
        count = int(self._rng.integers(1, 4))
        if not self._count % 2:
            return Job(replace(base, ask=ask, gang=Gang(count, 1, 6)), self._spec(base, ask, None), 0)
        ask = replace(ask, gpus=0, share=Share(WHOLE, WHOLE, GPU_MEMORY // 2))  # every other one has standby
        offloads = self._count % 4 == 1  # half of these can keep weights in host memory
        standby = replace(base, ask=ask, gang=Gang(count + 2, 1, 6), awake=count, standby=2, offloads=offloads)
        return Job(standby, self._spec(base, ask, None), 0)

    def _spec(self, base: Workload, ask: ResourceRequest, seconds: float | None) -> dict[str, Any]:
        limit = {"gpu_share": {"limit": ask.share.limit}} if ask.share else {}
        truth = {} if seconds is None else {"duration": seconds}
        return {"type": base.kind.value, "resources": limit, "simulated": truth}

    def _share(self) -> Share:
        guarantee = int(self._rng.integers(1, 8)) * 100
        return Share(guarantee, max(guarantee, int(self._rng.integers(5, 11)) * 100), guarantee * GPU_MEMORY // 1250)

    def _host(self, gpus: int) -> tuple[int, int]:
        """Cores in 1/1000 and MiB; at times more than the devices' part of a node."""
        greedy = 2 if self._rng.random() < 0.05 and gpus < 8 else 1
        return int(self._rng.integers(1, 12)) * 1000 * gpus * greedy, int(self._rng.integers(4, 128)) * 1000 * gpus

    def _models(self) -> tuple[str, ...]:
        return () if self._rng.random() < 0.7 else (MODELS[int(self._rng.integers(2))],)

    def _topology(self, count: int, gpus: int) -> Topology:
        if self._rng.random() < 0.7 or not gpus:
            return Topology()
        fits = [level for level, most in ((Level.NVLINK, 4), (Level.NODE, 8), (Level.RACK, 64)) if count * gpus <= most]
        levels = [*fits, Level.ZONE, Level.CLUSTER]
        level = levels[int(self._rng.integers(len(levels)))]
        return Topology(require=level) if self._rng.random() < 0.5 else Topology(prefer=level)

    def _pick(self, odds: list[float]) -> int:
        return int(self._rng.choice(len(odds), p=odds))
