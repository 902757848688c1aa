"""The settings of the cores that are edited at run time, as one versioned value. Free of the database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autoscaler.settings import Settings as Scaling
from controlplane.domain import cellsetting
from controlplane.domain.policyfields import OLD_NAMES, PARTS, figure, known_fields
from controlplane.jobspec.oldnames import clash
from scheduler.model.settings import Settings as Scheduling


class PolicyError(Exception):
    """A policy that cannot be; the message says which field and why, `problems` all of them by dotted field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(next(iter(problems.values())))
        self.problems = dict(problems)


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs between two policies."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.before)} -> {shown(self.after)}"


@dataclass(frozen=True, slots=True)
class Policy:
    """What `schedule` and `scale` are told."""

    scheduling: Scheduling = field(default_factory=Scheduling)
    scaling: Scaling = field(default_factory=Scaling)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for storage."""
        data = asdict(self)
        data["scheduling"]["cells"] = cellsetting.plain(self.scheduling.cells)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any], in_force: bool = False) -> "Policy":
        """The policy of plain values; what is missing has its default. Raises PolicyError for what cannot be.

        in_force: it is to decide in production, where policies that are for comparison only may not.
        """
        if faults := problems(data, in_force):
            raise PolicyError(faults)
        return Policy.stored(data)

    @staticmethod
    def stored(data: Mapping[str, Any]) -> "Policy":
        """The policy of a version that was checked when it was saved; settings that there are no more are left out."""
        values: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        data = in_current_names(data)
        for known in known_fields():
            given = data.get(known.part, {})
            if known.name in given:
                values[known.part][known.name] = known.read(given[known.name])
        return Policy(**{part: kind(**values[part]) for part, kind in PARTS.items()})


def problems(data: object, in_force: bool = False) -> dict[str, str]:
    """What is wrong with the plain values of a policy, by dotted field; empty if nothing."""
    if not isinstance(data, Mapping):
        return {"": f"A policy is an object with the parts {', '.join(PARTS)}."}
    out: dict[str, str] = {}
    names = {part: {f.name: f for f in known_fields() if f.part == part} for part in PARTS}
    for part, values in data.items():
        if part not in names:
            out[str(part)] = f"{part} is not part of a policy. Its parts are {', '.join(PARTS)}."
        elif not isinstance(values, Mapping):
            out[str(part)] = f"{part} is {values!r}. Give an object of settings."
        else:
            for name, value in values.items():
                at = f"{part}.{name}"
                known = names[part].get(OLD_NAMES[part].get(name, name))
                if known is None:
                    out[at] = f"{at} is not a setting. The settings are {', '.join(names[part])}."
                elif fault := known.problem(value, in_force):
                    out[at] = fault
    return out | clashes(data)


def clashes(data: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with settings given under both their names, by dotted field; empty if nothing."""
    pairs = (
        (part, was, clash(data[part], was, now))
        for part, old in OLD_NAMES.items()
        if isinstance(data.get(part), Mapping)
        for was, now in old.items()
    )
    return {f"{part}.{was}": f"{part}.{was} {wrong}" for part, was, wrong in pairs if wrong}


def in_current_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of a policy with its settings under their names of now."""
    return {part: _renamed(OLD_NAMES.get(part, {}), values) for part, values in data.items()}


def _renamed(old: Mapping[str, str], values: Any) -> Any:
    return {old.get(name, name): value for name, value in values.items()} if isinstance(values, Mapping) else values


def difference(before: Policy, after: Policy) -> tuple[Change, ...]:
    """The settings that differ, in the order of the cores."""
    one, other = before.to_dict(), after.to_dict()
    pairs = ((f.path, one[f.part][f.name], other[f.part][f.name]) for f in known_fields())
    return tuple(Change(path, a, b) for path, a, b in pairs if a != b)


def shown(value: object) -> str:
    """A setting's value in a sentence."""
    return figure(value) if isinstance(value, float) else str(value)
