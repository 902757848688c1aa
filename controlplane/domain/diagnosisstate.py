"""What the diagnosis remembers of a training, as plain values for its row."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autoscaler.bottleneck.detect import Diagnosis, Evidence
from autoscaler.bottleneck.straggler import Pace
from autoscaler.bottleneck.window import Bottleneck, Levels
from autoscaler.throughput.goodput import Gradients


def plain(diagnosis: Diagnosis, gradients: Gradients | None = None) -> dict[str, Any]:
    """As JSON, numbers rounded as far as nobody can tell."""
    noise = {} if gradients is None else {"gradients": _rounded(asdict(gradients))}
    return noise | {
        "windows": diagnosis.windows,
        "levels": _rounded(asdict(diagnosis.levels)),
        "evidence": {
            one.value: [_short(known.odds), _short(known.removable), [round(part, 3) for part in known.lately]]
            for one, known in _known(diagnosis)
        },
        "pace": _rounded(asdict(diagnosis.pace)),
        "bottleneck": diagnosis.bottleneck and diagnosis.bottleneck.value,
        "slow_worker": diagnosis.slow_worker,
    }


def state_of(values: Mapping[str, Any]) -> Diagnosis:
    """The diagnosis that `plain` told."""
    levels, pace, named = values["levels"], values["pace"], values["bottleneck"]
    return Diagnosis(
        windows=values["windows"],
        levels=Levels(**levels | {"sm": tuple(levels["sm"])}),
        evidence={Bottleneck(name): _evidence(*known) for name, known in values["evidence"].items()},
        pace=Pace(**pace | {"means": tuple(pace["means"]), "squares": tuple(pace["squares"])}),
        bottleneck=None if named is None else Bottleneck(named),
        slow_worker=values["slow_worker"],
    )


def gradients_of(values: Mapping[str, Any]) -> Gradients | None:
    """The noise of its gradients that `plain` told; None where its program tells of none."""
    return Gradients(**values["gradients"]) if "gradients" in values else None


def _evidence(odds: float, removable: float, lately: Sequence[float] = ()) -> Evidence:
    """lately: not told by what an earlier version of Weft has stored."""
    return Evidence(odds, removable, tuple(lately))


def _known(diagnosis: Diagnosis) -> list[tuple[Bottleneck, Evidence]]:
    return sorted(diagnosis.evidence.items())


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [_short(one) for one in value] if isinstance(value, tuple) else _short(value)
        for name, value in values.items()
    }


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
