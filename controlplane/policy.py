"""The numbers of the cores that are edited at run time, as one versioned value. Free of the database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from autoscaler.settings import Settings as Scaling
from scheduler.settings import Settings as Scheduling


class PolicyError(Exception):
    """A policy that cannot be; the message says which field and why."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What `schedule` and `scale` are told."""

    scheduling: Scheduling = field(default_factory=Scheduling)
    scaling: Scaling = field(default_factory=Scaling)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for storage."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Policy":
        """The policy of stored values; what is missing has its default. Raises PolicyError for what is unknown."""
        parts: dict[str, type[Any]] = {"scheduling": Scheduling, "scaling": Scaling}
        unknown = sorted(data.keys() - parts)
        if unknown:
            raise PolicyError(f"{unknown[0]} is not part of a policy; its parts are {', '.join(parts)}.")
        return Policy(**{name: _settings(kind, name, data.get(name, {})) for name, kind in parts.items()})


def _settings(kind: type[Any], part: str, values: Mapping[str, Any]) -> Any:
    known = {f.name: f.type for f in fields(kind)}
    for name, value in values.items():
        if name not in known:
            raise PolicyError(f"{part}.{name} is not a setting. The settings are {', '.join(known)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise PolicyError(f"{part}.{name} is {value!r}; it must be a number from 0 to 1e12.")
    return kind(**values)
