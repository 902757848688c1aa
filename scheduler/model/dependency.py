"""When a step may start after another one, and when it never can: the one table of `after` (docs/job-file.md)."""

from enum import StrEnum

from scheduler.model.workload import ENDED, Kind, Phase

DEPENDENCY_FAILED = "DependencyFailed"  # the reason of a step that ends because what it starts after went another way
HOW = {
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.STOPPED: "was stopped",
    Phase.REJECTED: "was rejected",
    Phase.EXPIRED: "expired",
}


class When(StrEnum):
    """What a step waits for in a workload that it starts after."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # by itself, or as it never got a place; not by a person's stop
    ENDED = "ended"  # in any way
    HEALTHY = "healthy"  # it runs


_MET = {
    When.SUCCEEDED: frozenset({Phase.SUCCEEDED}),
    When.FAILED: frozenset({Phase.FAILED, Phase.REJECTED, Phase.EXPIRED}),
    When.ENDED: ENDED,
    When.HEALTHY: frozenset({Phase.RUNNING, Phase.SUCCEEDED}),  # what has succeeded has run, seen or not
}
# Without a rule of its own: a training's success, the end that a notebook's owner gives it, a service that runs.
_MET_BY_KIND = {
    Kind.TRAINING: _MET[When.SUCCEEDED],
    Kind.NOTEBOOK: frozenset({Phase.SUCCEEDED, Phase.STOPPED}),
    Kind.INFERENCE: frozenset({Phase.RUNNING}),
}
_SAID = {
    When.SUCCEEDED: "has succeeded",
    When.FAILED: "has failed",
    When.ENDED: "has ended",
    When.HEALTHY: "runs",
}
_SAID_BY_KIND = {
    Kind.TRAINING: _SAID[When.SUCCEEDED],
    Kind.NOTEBOOK: "was ended by its owner",
    Kind.INFERENCE: _SAID[When.HEALTHY],
}


def verdict(when: str, kind: str, phase: Phase) -> bool | None:
    """Whether what is waited for is so: True, it is; False, it can never be any more; None, not yet.

    `when` is empty for what `after: [name]` means by the kind of the workload named.
    """
    if phase in (_MET[When(when)] if when else _MET_BY_KIND[Kind(kind)]):
        return True
    return False if phase in ENDED else None


def condition(when: str, kind: str) -> str:
    """What is waited for, to follow the name of the workload in a sentence."""
    return _SAID[When(when)] if when else _SAID_BY_KIND[Kind(kind)]


def never(name: str, when: str, kind: str, phase: Phase) -> str:
    """Why a step can never start: the workload `name`, of this kind, has ended in this phase."""
    return (
        f"It starts after {name} {condition(when, kind)}, but {name} {HOW[phase]}. "
        f"Once {name} is submitted again, so is this."
    )
