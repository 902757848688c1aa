"""What-if: the same work under the policy in force and under another, with other quotas or nodes. Writes nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from controlplane.models import PolicyVersion
from controlplane.policy import Policy, difference
from controlplane.queries import history
from controlplane.queries.cycles import InputGoneError
from controlplane.shapes import BAD, Choice, Document, Faults, FieldError, Record, Text, Whole
from controlplane.shapes import Field as Shaped
from controlplane.simulator import catalogue
from controlplane.simulator.comparison import compare
from controlplane.simulator.episode import Episode, of_preset
from controlplane.simulator.overrides import OverrideError, Overrides, changed_episode, changed_policy
from controlplane.simulator.playback import play
from controlplane.simulator.presets import PresetError
from scheduler.policies import POLICIES

POLICY_NAMES = tuple(POLICIES)
TRACES = ("demo", "philly", "openb")
MOST_CYCLES, MOST_HOURS, MOST_JOBS = 1000, 168, 20_000
DEFAULT_CYCLES, DEFAULT_HOURS, DEFAULT_JOBS = 200, 24, 2000

Progress = Callable[[float, str], None]


REQUEST = Record(
    (
        Shaped("source", Choice(("history", "trace")), "What is replayed: stored rounds, or a trace.", "history"),
        Shaped("cycles", Whole(2, MOST_CYCLES), "history: so many of the newest stored rounds.", DEFAULT_CYCLES),
        Shaped("trace", Choice(TRACES), "trace: which one.", "demo"),
        Shaped("hours", Whole(1, MOST_HOURS), "trace: of the cluster's clock.", DEFAULT_HOURS),
        Shaped("jobs", Whole(1, MOST_JOBS), "trace: at most so many jobs.", DEFAULT_JOBS),
        Shaped("seed", Whole(0, 2**31), "trace: where it begins.", 0),
        Shaped("policy", Document(dict), "Settings that differ: {scheduling: {policy: fifo}}."),
        Shaped("quotas", Document(list), "Quotas that differ, with the fields of /quotas."),
        Shaped("nodes", Document(dict), "{add: [{like: node, count: 2}], remove: [node]}."),
        Shaped("comment", Text(200, may_be_empty=True), "What it is about.", ""),
    )
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A what-if: what is replayed (rounds, or a trace by name or file), and what is other."""

    cycles: int = DEFAULT_CYCLES
    trace: str | None = None
    hours: float = DEFAULT_HOURS
    jobs: int = DEFAULT_JOBS
    load: float = catalogue.DEFAULT_LOAD
    seed: int = 0
    overrides: Overrides = field(default_factory=Overrides)


def traces() -> list[tuple[str, str]]:
    """The traces by name, and what each means here: its file, or the model after it."""
    return [(name, catalogue.told(catalogue.named(name, settings.WEFT_DATA))) for name in TRACES]


class CannotBeAnsweredError(Exception):
    """The what-if cannot be: all faults, by field."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__(" ".join(error.message for error in errors))
        self.errors = errors


def read(document: object) -> Asked:
    """The request of a page or REST, checked as far as it can be without replaying. Raises CannotBeAnsweredError."""
    faults = Faults()
    given = REQUEST.read(document, "", faults)
    if faults.errors or given is BAD:
        raise CannotBeAnsweredError(tuple(faults.errors))
    overrides = Overrides(given["policy"] or {}, given["quotas"] or (), given["nodes"] or {})
    asked = Asked(
        cycles=given["cycles"],
        trace=given["trace"] if given["source"] == "trace" else None,
        hours=given["hours"],
        jobs=given["jobs"],
        seed=given["seed"],
        overrides=overrides,
    )
    check(asked)
    return asked


def check(asked: Asked) -> tuple[Policy, Policy]:
    """The policies of both replays. Raises CannotBeAnsweredError if nothing differs or the other one cannot be."""
    newest = PolicyVersion.objects.order_by("-pk").first()
    before = Policy() if newest is None else Policy.stored(newest.data)
    try:
        after = changed_policy(before, asked.overrides.policy)
    except OverrideError as wrong:
        raise CannotBeAnsweredError(_below("policy", wrong.errors)) from None
    if before == after and not asked.overrides.quotas and not asked.overrides.nodes:
        message = "Nothing differs from what is in force. Give another policy, quotas or nodes."
        raise CannotBeAnsweredError((FieldError("policy", message),))
    return before, after


def answer(asked: Asked, progress: Progress = lambda part, text: None) -> dict[str, Any]:
    """Replay twice and compare. Raises CannotBeAnsweredError."""
    began = time.monotonic()
    before, after = check(asked)
    progress(0.0, "Reading the work")
    episode = _episode(asked)
    try:
        other = changed_episode(episode, asked.overrides)
    except OverrideError as wrong:
        raise CannotBeAnsweredError(wrong.errors) from None
    told, told_other = "Replaying what is in force", "Replaying the other"
    first = play(episode, before.scheduling, lambda part: progress(part / 2, told), before.scaling)
    second = play(other, after.scheduling, lambda part: progress(0.5 + part / 2, told_other), after.scaling)
    return {
        "episode": {
            "name": episode.name,
            "work": "" if asked.trace is None else catalogue.told(episode.name),
            "jobs": len(episode.jobs),
            "hours": round((episode.end - episode.start) / 3600, 2),
            "gpus": {"before": episode.gpus, "after": other.gpus},
        },
        "policy": {"before": before.scheduling.policy, "after": after.scheduling.policy},
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in difference(before, after)],
        "quotas_changed": len(asked.overrides.quotas),
        "rounds": {"before": first.rounds, "after": second.rounds},
        **compare(first, second).to_dict(),
        "took_seconds": round(time.monotonic() - began, 2),
    }


def _episode(asked: Asked) -> Episode:
    try:
        if asked.trace is None:
            return history.episode(asked.cycles)
        preset = catalogue.load(asked.trace, load=asked.load, seed=asked.seed, data=settings.WEFT_DATA)
    except InputGoneError as gone:
        raise CannotBeAnsweredError((FieldError("cycles", str(gone)),)) from None
    except PresetError as wrong:
        raise CannotBeAnsweredError((FieldError("trace", str(wrong)),)) from None
    return of_preset(preset, asked.hours, asked.jobs)


def _below(at: str, errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    return tuple(FieldError(f"{at}.{e.field}" if e.field else at, e.message) for e in errors)
