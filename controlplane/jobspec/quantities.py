"""Quantities as Kubernetes writes them, durations and moments: text in, exact numbers out.

Each function raises ValueError with a sentence that says what is wrong and what to write instead.
"""

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_DURATION = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,3}))?(ms|s|m|h|d|w)")
_UNIT = {"": Decimal(1), "m": Decimal(1) / 1000} | {
    f"{prefix}{suffix}": Decimal(base**power)
    for suffix, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("KMGTP", 1)
}
_UNIT["k"] = _UNIT.pop("K")  # Kubernetes: k is 1000, Ki is 1024
_SECONDS: dict[str, Decimal] = {
    unit: Decimal(value)
    for unit, value in {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}.items()
}
MIB = 2**20


def memory_mib(text: str) -> int:
    """MiB of `64Gi`, `512Mi`, `10G` or plain bytes, rounded up."""
    value = _quantity(text, "64Gi")
    if text.endswith("m"):
        raise ValueError(f"{text!r} ends in m, which is a thousandth of a byte. Write for example 64Gi")
    return math.ceil(value / MIB)


def cpu_milli(text: str) -> int:
    """1/1000 cores of `8`, `0.5` or `500m`."""
    value = _quantity(text, "8 or 500m") * 1000
    if value != int(value):
        raise ValueError(f"{text!r} is finer than 1/1000 of a core. Write for example 500m")
    return int(value)


def seconds(text: str) -> float:
    """Seconds of `200ms`, `90s`, `10m`, `6h`, `28d` or `2w`."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a duration. Write a number and a unit, for example 90s, 10m, 6h or 28d")
    whole, part, unit = match.groups()
    return float(Decimal(f"{whole}.{part or 0}") * _SECONDS[unit])


def moment(text: str) -> float:
    """Seconds since 1970 of a moment such as `2026-12-01T08:00:00Z`; the zone must be given."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a moment. Write it as 2026-12-01T08:00:00Z") from None
    if value.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone. Add Z for UTC, as in 2026-12-01T08:00:00Z")
    try:
        return value.timestamp()
    except (OverflowError, ValueError):
        raise ValueError(f"{text!r} is out of range. Write it as 2026-12-01T08:00:00Z") from None


@lru_cache(maxsize=10_000)  # lists and pages show the same moments again and again
def iso(at: float) -> str:
    """The moment as text: UTC, to the millisecond, without a fraction where there is none."""
    value = datetime.fromtimestamp(round(at, 3), UTC)
    return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds").replace("+00:00", "Z")


def milli(text: str) -> int:
    """Thousandths of a number with at most 3 decimals, exactly: 0.3 -> 300."""
    try:
        scaled = Decimal(text) * 1000
        if scaled == scaled.to_integral_value():
            return int(scaled)
    except (ArithmeticError, ValueError):  # no number, NaN or infinity
        raise ValueError(f"{text!r} is not a number. Write for example 0.3") from None
    raise ValueError(f"{text} has more than 3 decimals. Round it to {scaled.to_integral_value() / 1000}")


def number(text: str) -> float:
    """A plain decimal number of at least 0."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text):
        raise ValueError(f"{text!r} is not a number. Write for example 1767225600.5")
    return float(text)


def _quantity(text: str, example: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a quantity. Write for example {example}")
    whole, part, unit = match.groups()
    return Decimal(f"{whole}.{part or 0}") * _UNIT[unit or ""]
