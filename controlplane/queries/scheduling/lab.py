"""What-if: the same work under the policy in force and under another, with other quotas or nodes. Writes nothing."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from controlplane.domain.policy import Policy, difference
from controlplane.jobspec.shapes import BAD, Choice, Document, Faults, FieldError, Record, Text, Whole
from controlplane.jobspec.shapes import Field as Shaped
from controlplane.models import Node, NodePool, PolicyVersion, Team
from controlplane.queries.scheduling import history
from controlplane.queries.scheduling.cycles import InputGoneError
from controlplane.simulator.replay.comparison import compare
from controlplane.simulator.replay.episode import Episode, of_preset
from controlplane.simulator.replay.overrides import OverrideError, Overrides, changed_episode, changed_policy
from controlplane.simulator.replay.overrides import check as check_overrides
from controlplane.simulator.replay.playback import play
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.presets import Preset, PresetError
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota
from scheduler.policies import POLICIES

POLICY_NAMES = tuple(POLICIES)
TRACES = ("demo", "philly", "openb")
MAX_CYCLES, MAX_HOURS, MAX_JOBS = 1000, 168, 20_000
DEFAULT_CYCLES, DEFAULT_HOURS, DEFAULT_JOBS = 200, 24, 2000

NOTHING_DIFFERS = "Nothing differs from the current settings. Give another policy, quotas or nodes."

Progress = Callable[[float, str], None]


REQUEST = Record(
    (
        Shaped("source", Choice(("history", "trace")), "What is replayed: stored rounds, or a trace.", "history"),
        Shaped("cycles", Whole(2, MAX_CYCLES), "history: so many of the newest stored rounds.", DEFAULT_CYCLES),
        Shaped("trace", Choice(TRACES), "trace: which one.", "demo"),
        Shaped("hours", Whole(1, MAX_HOURS), "trace: of the cluster's clock.", DEFAULT_HOURS),
        Shaped("jobs", Whole(1, MAX_JOBS), "trace: at most so many jobs.", DEFAULT_JOBS),
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


def read_question(document: object) -> Asked:
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
    if asked.overrides.quotas or asked.overrides.nodes:
        try:
            check_overrides(asked.overrides, *_names(asked))
        except OverrideError as wrong:
            raise CannotBeAnsweredError(wrong.errors) from None
    if before == after and not asked.overrides.quotas and not asked.overrides.nodes:
        raise CannotBeAnsweredError((FieldError("policy", NOTHING_DIFFERS),))
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
    if before == after and (other.quotas, other.nodes) == (episode.quotas, episode.nodes):
        raise CannotBeAnsweredError((FieldError("quotas", NOTHING_DIFFERS),))
    told, told_other = "Replaying the current settings", "Replaying the proposed ones"
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
        "quotas": _differing_quotas(episode, other),
        "nodes": _differing_nodes(episode, other),
        "rounds": {"before": first.rounds, "after": second.rounds},
        **compare(first, second).to_dict(),
        "took_seconds": round(time.monotonic() - began, 2),
    }


def differences(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What a stored answer's second replay had otherwise: what, before and after, in words."""
    told = [(str(c["field"]), str(c["before"]), str(c["after"])) for c in found["changes"]]
    for one in found.get("quotas", ()):
        what, none = _WORDS[one["field"]]
        is_gpus, sides = one["field"].endswith("_milli"), (one["before"], one["after"])
        before, after = (none if v is None else f"{v / WHOLE:g} GPUs" if is_gpus else str(v) for v in sides)
        told.append((f"{one['team']} in {one['pool']}: {what}", before, after))
    nodes = found.get("nodes", {})
    for one in nodes.get("added", ()):
        told.append((f"nodes of {one['gpus']} {one['gpu_model']} in {one['pool']}", "", f"{one['count']} more"))
    if removed := nodes.get("removed", ()):
        more = f" and {len(removed) - MAX_NAMED} more" if len(removed) > MAX_NAMED else ""
        told.append(("nodes taken away", "", ", ".join(removed[:MAX_NAMED]) + more))
    return told


MAX_NAMED = 8  # nodes
_WORDS = {
    "nominal_milli": ("owns", ""),
    "borrowing_limit_milli": ("may borrow", "no limit"),
    "lending_limit_milli": ("lends", "all of it"),
    "weight": ("weight", ""),
}


_QUOTA = (
    ("nominal_milli", "nominal"), ("borrowing_limit_milli", "borrowing"), ("lending_limit_milli", "lending"),
    ("weight", "weight"),
)  # fmt: skip


def _differing_quotas(before: Episode, after: Episode) -> list[dict[str, Any]]:
    """Each figure of a quota that differs; null is no limit, as in a quota."""
    was = {(quota.team, quota.pool): quota for quota in before.quotas}
    rows = []
    for quota in after.quotas:
        known = was.get((quota.team, quota.pool), Quota(quota.team, quota.pool, 0))
        for name, attribute in _QUOTA:
            values = getattr(known, attribute), getattr(quota, attribute)
            if values[0] != values[1]:
                row = {"team": quota.team, "pool": quota.pool, "field": name}
                rows.append({**row, "before": values[0], "after": values[1]})
    return rows


def _differing_nodes(before: Episode, after: Episode) -> dict[str, list[Any]]:
    """The nodes that are added, counted by pool and model, and the names of those taken away."""
    known, there = {node.name for node in before.nodes}, {node.name for node in after.nodes}
    added = Counter((node.pool, node.model, node.gpus) for node in after.nodes if node.name not in known)
    return {
        "added": [{"pool": p, "gpu_model": m, "gpus": n, "count": count} for (p, m, n), count in sorted(added.items())],
        "removed": sorted(known - there),
    }


def _names(asked: Asked) -> tuple[list[str], list[str], set[str]]:
    """Teams, pools and nodes that a what-if may name: those of its trace, or those there are."""
    if asked.trace is None:
        names = (model._default_manager.values_list("name", flat=True) for model in (Team, NodePool, Node))
        teams, pools, nodes = (list(found) for found in names)
        return teams, pools, set(nodes)
    preset = _preset(asked, asked.trace)
    return [t.name for t in preset.teams], [p.name for p in preset.pools], {n.name for n in preset.nodes}


def _episode(asked: Asked) -> Episode:
    if asked.trace is not None:
        return of_preset(_preset(asked, asked.trace), asked.hours, asked.jobs)
    try:
        return history.episode(asked.cycles)
    except InputGoneError as gone:
        raise CannotBeAnsweredError((FieldError("cycles", str(gone)),)) from None


def _preset(asked: Asked, trace: str) -> Preset:
    try:
        return catalogue.load(trace, load=asked.load, seed=asked.seed, data=settings.WEFT_DATA)
    except PresetError as wrong:
        raise CannotBeAnsweredError((FieldError("trace", str(wrong)),)) from None


def _below(at: str, errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    return tuple(FieldError(f"{at}.{e.field}" if e.field else at, e.message) for e in errors)
