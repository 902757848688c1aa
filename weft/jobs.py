"""Jobs from the flags of `weft submit`: the short form of the job file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from weft import manifests
from weft.errors import FieldError, WeftError

TYPES = ("training", "notebook", "inference")
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Flags:
    """What was given on the command line; None and empty were not."""

    type: str
    name: str = ""
    team: str = ""
    image: str = ""
    command: Sequence[str] = ()
    env: Sequence[str] = ()
    gpus: int | None = None
    gpu_model: Sequence[str] = ()
    gpu_share: float | None = None
    gpu_share_limit: float | None = None
    gpu_share_max_limit: float | None = None
    gpu_memory: str = ""
    cpu: str = ""
    memory: str = ""
    workers: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    priority_class: str = ""
    port: int | None = None
    after: Sequence[str] = ()
    expected_duration: str = ""
    max_duration: str = ""
    checkpoint_interval: str = ""
    retries: int | None = None
    on_demand: bool = False

    @classmethod
    def of(cls, words: Sequence[str], options: Mapping[str, Any]) -> "Flags":
        """Read them from the options of the command and its words: the type, and the job's own command."""
        given = {one.name: options[one.name] for one in fields(cls) if options.get(one.name) is not None}
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        return cls(type="".join(words[:1]), command=tuple(words[1:]), **plain)


def job(flags: Flags) -> dict[str, Any]:
    """Return the job file that the flags mean; the server checks it and fills in the rest."""
    if flags.type not in TYPES:
        wrong = f"{flags.type} is not a type of workload." if flags.type else "No type of workload is given."
        raise WeftError(
            f"{wrong} Write `weft submit {'|'.join(TYPES)} ...` or `weft submit -f job.yaml`.",
            errors=(),
        )
    document: dict[str, Any] = {
        "type": flags.type,
        "name": flags.name,
        "team": flags.team,
        "priority_class": flags.priority_class,
        "image": flags.image,
        "command": list(flags.command),
        "env": _env(flags.env),
        "port": flags.port,
        **_size(flags),
        "resources": _resources(flags),
        "checkpoint": _kept({"interval": flags.checkpoint_interval}),
        "expected_duration": flags.expected_duration,
        "max_duration": flags.max_duration,
        "retries": flags.retries,
        "on_demand": flags.on_demand or None,
        "after": list(flags.after),
    }
    return _kept(document)


def with_team(document: Mapping[str, Any], team: str) -> dict[str, Any]:
    """Return a job with its team filled in if it names none."""
    if manifests.names_team(document) or not team:
        return dict(document)
    # The team stands where a person would have written it: after the name.
    head = {key: document[key] for key in ("type", "name") if key in document}
    return {**head, "team": team, **document}


def seconds(text: str) -> float:
    """Read a duration: 90s, 10m, 6h, 28d, or a bare number of seconds."""
    text = text.strip()
    unit = next((unit for unit in ("ms", "s", "m", "h", "d") if text.endswith(unit)), "")
    number = text.removesuffix(unit)
    try:
        value = float(number) * UNITS.get(unit, 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e10:
        raise WeftError(f"{text!r} is not a duration. Write one such as 90s, 10m, 6h or 2d.")
    return value


def _size(flags: Flags) -> dict[str, Any]:
    """Return workers, or for a service its replicas."""
    if flags.type == "inference":
        count = flags.workers
        least = flags.min_workers if flags.min_workers is not None else count
        most = flags.max_workers if flags.max_workers is not None else count
        return {"replicas": _kept({"min": least, "max": most})}
    return {"workers": _kept({"count": flags.workers, "min": flags.min_workers, "max": flags.max_workers})}


def _resources(flags: Flags) -> dict[str, Any]:
    is_share = flags.gpu_share is not None
    share = {"guarantee": flags.gpu_share, "limit": flags.gpu_share_limit, "memory": flags.gpu_memory}
    share["max_limit"] = flags.gpu_share_max_limit
    return _kept(
        {
            "gpus": flags.gpus,
            "gpu_share": _kept(share) if is_share else {},
            "gpu_memory": "" if is_share else flags.gpu_memory,
            "gpu_model": list(flags.gpu_model),
            "cpu": _cores(flags.cpu),
            "memory": flags.memory,
        }
    )


def _cores(text: str) -> int | str:
    """Return whole cores as the number that a job file would have; 500m stays text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _env(pairs: Sequence[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if wrong:
        raise WeftError(
            f"--env {wrong[0]} has no value. Write --env NAME=VALUE.", errors=[FieldError("env", "Write NAME=VALUE.")]
        )
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were given."""
    return {name: value for name, value in document.items() if value is not None and value not in ("", [], {})}
