"""What a what-if changes: the policy's settings, quotas, nodes. Documents are read strictly, each fault by its field.

    policy: {scheduling: {max_victims: 10}}                      what is left out stays as in force
    quotas: [{team: nlp, pool: a100, nominal_milli: 32000}]      replaces these rows; the others stay
    nodes:  {add: [{like: a100-00, count: 4}], remove: [a100-07]}

A quota has the fields of REST's. A node to be added is `like` one there is, with other fields where they are given.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.domain.policy import Policy, in_current_names, problems
from controlplane.domain.quotavalues import QUOTA_FIELDS
from controlplane.jobspec.shapes import (
    BAD,
    REQUIRED,
    Choice,
    Faults,
    Field,
    FieldError,
    Record,
    Shape,
    Text,
    Whole,
    shown,
)
from controlplane.simulator.replay.episode import Episode
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota

NAME = Text(253, r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "Use letters, digits, dots and dashes.")
MAX_ADDED, MAX_ROWS = 10_000, 10_000
NODE_FIELDS = (
    Field("count", Whole(1, MAX_ADDED), "How many.", 1),
    Field("pool", NAME, "The node pool."),
    Field("gpu_model", NAME, "The GPU model."),
    Field("gpus", Whole(0, 64), "Devices of each."),
    Field("gpu_memory_mib", Whole(1, 2**30), "MiB of each device."),
    Field("cpu_milli", Whole(0, 10**9), "1/1000 cores of each."),
    Field("memory_mib", Whole(0, 2**40), "MiB of each."),
    Field("rack", NAME, "The rack."),
    Field("zone", NAME, "The zone."),
)
# The fields of a document are those of core values under REST's names.
_OF_NODE = {"gpu_model": "model", "gpu_memory_mib": "gpu_memory", "memory_mib": "memory"}


class OverrideError(Exception):
    """A document that cannot be used; all faults, by dotted field."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(" ".join(error.message for error in errors))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The documents of a what-if; an empty one changes nothing."""

    policy: Mapping[str, Any] = field(default_factory=dict)
    quotas: Sequence[Mapping[str, Any]] = ()
    nodes: Mapping[str, Any] = field(default_factory=dict)


def changed_policy(base: Policy, document: object) -> Policy:
    """The policy in force with the document's settings. Raises OverrideError."""
    if faults := problems(document):
        raise OverrideError([FieldError(at, sentence) for at, sentence in faults.items()])
    values = base.to_dict()
    for part, settings in in_current_names(document).items():  # type: ignore[arg-type]
        values[part] |= settings
    return Policy.from_dict(values)


def check(overrides: Overrides, teams: Iterable[str], pools: Iterable[str], nodes: Collection[str]) -> None:
    """Find what is wrong with quotas and nodes before any work is read; these are the names there are.

    Raises OverrideError.
    """
    faults = Faults()
    _rows(overrides.quotas, Choice(tuple(sorted(teams))), Choice(tuple(sorted(pools))), faults)
    _asked_nodes(overrides.nodes, nodes, faults)
    if faults.errors:
        raise OverrideError(faults.errors)


def changed_episode(episode: Episode, overrides: Overrides) -> Episode:
    """The episode with other quotas and nodes; what ran on nodes taken away waits first. Raises OverrideError."""
    faults = Faults()
    nodes = _nodes(episode.nodes, overrides.nodes, faults)
    quotas = _quotas(episode, overrides.quotas, faults)
    if faults.errors:
        raise OverrideError(faults.errors)
    return replace(episode, nodes=nodes, quotas=quotas).without_lost_places()


def _quotas(episode: Episode, document: object, faults: Faults) -> tuple[Quota, ...]:
    rows = {(quota.team, quota.pool): quota for quota in episode.quotas}
    teams = Choice(tuple(sorted(team.name for team in episode.teams)))
    pools = Choice(tuple(sorted({node.pool for node in episode.nodes} | {pool for _, pool in rows})))
    for given in _rows(document, teams, pools, faults):
        limits = (given["borrowing_limit_milli"], given["lending_limit_milli"])
        key = given["team"], given["pool"]
        rows[key] = Quota(*key, given["nominal_milli"], *limits, given["weight"] or 1)
    return tuple(rows.values())


def _rows(document: object, teams: Shape, pools: Shape, faults: Faults) -> list[dict[str, Any]]:
    """The quotas of a document that are without fault."""
    if not isinstance(document, Sequence) or isinstance(document, str):
        faults.add("quotas", f"quotas is {shown(document)}. Give a list of quotas.")
        return []
    names = (Field("team", teams, "Of this team.", REQUIRED), Field("pool", pools, "In this pool.", REQUIRED))
    record, found, seen = Record((*names, *QUOTA_FIELDS)), [], set()
    for number, row in enumerate(document[:MAX_ROWS]):
        before = len(faults.errors)
        given = record.read(row, f"quotas[{number}]", faults)
        if given is BAD or len(faults.errors) > before:
            continue
        if (key := (given["team"], given["pool"])) in seen:
            faults.add(f"quotas[{number}]", f"quotas[{number}]: {key[0]} in {key[1]} is given twice. Keep one.")
        seen.add(key)
        found.append(given)
    return found


def _nodes(nodes: tuple[Node, ...], document: object, faults: Faults) -> tuple[Node, ...]:
    named = {node.name: node for node in nodes}
    gone, asked = _asked_nodes(document, named, faults)
    added: list[Node] = []
    for given in asked:
        added += _added(named, given, len(added))
    return (*(node for node in nodes if node.name not in gone), *added)


def _asked_nodes(document: object, named: Collection[str], faults: Faults) -> tuple[set[str], list[dict[str, Any]]]:
    """The names of nodes to take away, and what is to be added, as far as it is without fault."""
    if not isinstance(document, Mapping) or not document.keys() <= {"add", "remove"}:
        faults.add("nodes", f"nodes is {shown(document)}. Give an object with the lists add and remove.")
        return set(), []
    gone, added = set(), []
    for number, name in enumerate(_list(document, "remove", faults)):
        if isinstance(name, str) and name in named:
            gone.add(name)
        else:
            faults.add(f"nodes.remove[{number}]", f"nodes.remove[{number}]: there is no node {shown(name)}. Name one.")
    like = Field("like", NAME, "The name of a node there is.", REQUIRED)
    for number, row in enumerate(_list(document, "add", faults)):
        before, at = len(faults.errors), f"nodes.add[{number}]"
        given = Record((like, *NODE_FIELDS)).read(row, at, faults)
        if given is BAD or len(faults.errors) > before:
            continue
        if given["like"] in named:
            added.append(given)
        else:
            message = f"{at}.like is {shown(given['like'])}, which is no node. Name one that there is."
            faults.add(f"{at}.like", message)
    return gone, added


def _list(document: Mapping[str, Any], name: str, faults: Faults) -> Iterable[Any]:
    value = document.get(name, ())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value[:MAX_ROWS]
    faults.add(f"nodes.{name}", f"nodes.{name} is {shown(value)}. Give a list.")
    return ()


def _added(named: Mapping[str, Node], given: Mapping[str, Any], before: int) -> list[Node]:
    other = {
        _OF_NODE.get(f.name, f.name): given[f.name]
        for f in NODE_FIELDS
        if f.name != "count" and given[f.name] is not None
    }
    fresh = replace(named[given["like"]], ready=True, schedulable=True, lost=(), **other)
    return [replace(fresh, name=f"added-{before + i}") for i in range(given["count"])]
