"""Keys that have another name now: both are read for one minor version, and the old one is marked deprecated."""

from collections.abc import Mapping, Sequence
from typing import Any

REMOVED_IN = "0.2"  # the version without the names that keys had before 0.1


def deprecation(name: str) -> str:
    """The sentence about a key or an address that is called `name` now."""
    return f"Deprecated: use {name}. The old name is removed in {REMOVED_IN}."


def deprecated(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The JSON schema of the old name of a key."""
    return {**schema, "deprecated": True, "description": deprecation(name)}


def clash(value: Mapping[str, Any], was: str, name: str) -> str:
    """What is wrong, to follow the old name, where both names are given and their values differ; else empty."""
    if was not in value or name not in value or value[was] == value[name]:
        return ""
    return f"is the old name of {name}, and both are given with different values. Give {name} alone."


def required(fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What the JSON schema says of required keys: (name, old name or empty)."""
    always = [name for name, was in fields if not was]
    either = [{"anyOf": [{"required": [name]}, {"required": [was]}]} for name, was in fields if was]
    return ({"required": always} if always else {}) | ({"allOf": either} if either else {})
