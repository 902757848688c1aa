"""The steps of a canary: when a new revision may get more of the requests by itself, and what it waits for else.

State.rollout (rollouts.py) has them as `steps`, percents in ascending order, with `step_seconds`, how long each lasts
at least, and `held`, what the next one waited for when that was last looked at. Its `weight` is the present step, and
`split_at` is when that came into force, so the requests that it is judged by are those of the present step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.lifecycle import canaries
from controlplane.lifecycle.canaries import LEAST, WHOLE, Judged
from controlplane.lifecycle.state import State


@dataclass(frozen=True, slots=True)
class Plan:
    """How a revision is to be brought in: percent of the requests at first, and the steps after that.

    steps: percents, ascending, the first of them is `weight`; empty: it stays until a person decides. step_seconds: how
    long each lasts at least.
    """

    weight: int = WHOLE
    steps: tuple[int, ...] = ()
    step_seconds: float = 0.0


def next_weight(rollout: Mapping[str, Any]) -> int | None:
    """Percent that the next step gives, WHOLE after the last; None of a canary without steps."""
    steps: Sequence[int] = rollout.get("steps") or ()
    weight = canaries.weight_of(rollout)
    return next((step for step in steps if step > weight), WHOLE) if steps and canaries.is_one(rollout) else None


def next_at(rollout: Mapping[str, Any]) -> float | None:
    """When the next step comes at the soonest, cluster clock; None while the present one is not in force."""
    if next_weight(rollout) is None or not _is_in_force(rollout):
        return None
    return float(rollout["split_at"] + rollout["step_seconds"])


def held(row: State, at: float, judged: Judged | None) -> str:
    """What the next step waits for, in a sentence; empty: it is to be taken now. To be asked of a canary with steps.

    judged: what the revision and the one before have answered in this step; None: that is not measured.
    """
    rollout = row.rollout
    assert rollout is not None  # noqa: S101 - asked of a canary
    wanted = canaries.shares(row)[row.revision]
    soonest = next_at(rollout)
    if soonest is None:
        return f"The present step, {canaries.weight_of(rollout)} %, is not in force yet."
    if rollout["ready"] < wanted:
        return f"{rollout['ready']} of the {wanted} replicas that this step needs answer."
    if judged is None:
        return "Its own requests are not measured. Promote it, or take it back."
    own, may = judged.own, 1 - judged.availability
    if own.requests >= LEAST and own.part > may:
        return f"{100 * own.part:.3g} % of its requests in this step were late or failed; {100 * may:.3g} % may."
    if at < soonest:
        return f"Each step lasts {rollout['step_seconds'] / 60:g} minutes."
    if own.requests < LEAST:
        return f"It has answered {own.requests} requests in this step; it is judged from {LEAST} on."
    return ""


def _is_in_force(rollout: Mapping[str, Any]) -> bool:
    split: Sequence[int] | None = rollout.get("split")
    is_told = split is not None and split[2] == canaries.weight_of(rollout)
    return is_told and rollout.get("split_at") is not None
