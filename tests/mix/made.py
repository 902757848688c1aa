"""Small mixes, made by hand."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.benchmarks.mix.draws import Service, Training, World
from controlplane.benchmarks.mix.engine import Outcome, play
from controlplane.benchmarks.mix.policies import POLICIES
from controlplane.benchmarks.mix.speeds import ParameterServer, Speed

AT = 300.0
DECIDE = ("scheduler.", "autoscaler.", "controlplane.benchmarks.mix.planned", "controlplane.benchmarks.mix.policies")


@dataclass(frozen=True)
class Watched:
    """A speed that only the engine may ask for."""

    server: ParameterServer = field(default_factory=ParameterServer)
    restart: float = 0.0

    def of(self, placement: tuple[int, ...]) -> float:
        """As a parameter server; not for what decides."""
        _only_for_the_engine()
        return self.server.of(placement)

    def beside(self, placement: tuple[int, ...], parts: Sequence[float]) -> float:
        """The same, with parts of GPUs."""
        _only_for_the_engine()
        return self.server.beside(placement, parts)


def _only_for_the_engine() -> None:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(DECIDE):
            raise AssertionError(f"{name} read how fast a training is")
        frame = frame.f_back


def training(name: str, at: float = AT, work: float = 300.0, workers: int = 2, speed: Speed | None = None) -> Training:
    """One with a parameter server unless said otherwise; what is told of it is right."""
    server = ParameterServer()
    shapes = {(n, g): server.of((g - n + 1,) + (1,) * (n - 1)) for g in range(1, 5) for n in range(1, g + 1)}
    return Training(name, at, workers, work, work, speed or server, shapes, 0.0)


def world(trainings: Sequence[Training], notebooks: int, seed: int = 0, need: float = 0.0) -> World:
    """need: what the phase of the service's day is drawn to, 0: its mean at the beginning."""
    return World(seed, tuple(trainings), Service(seed, need), notebooks, 4)


def told(name: str, mix: World) -> tuple[str, Outcome]:
    """What came of it, as text: of each training the minute in which it began, and that in which it was done."""
    outcome = play(mix, POLICIES[name], is_checked=True)
    begins = {one.name: one.at for one in mix.trainings}
    lines = [f"{uid} {outcome.waited[uid] // 60:.0f}-{outcome.jct[uid] // 60:.0f}" for uid in sorted(begins, key=str)]
    return ", ".join(lines), outcome
