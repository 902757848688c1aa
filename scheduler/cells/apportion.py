"""An amount divided in proportion to weights, exactly: the largest remainders get what rounding leaves over."""

from collections.abc import Mapping

from gpushare.gpu import WHOLE


def apportion(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide milli-GPU by weights; the sum is the amount. Where all are whole GPUs, each gets whole GPUs.

    Where nothing has a weight, all goes to the first by name. Ties go to the first by name.
    """
    unit = 1 if any(value % WHOLE for value in (amount, *weights.values())) else WHOLE
    total = sum(weights.values())
    if not total:
        return {name: amount if name == min(weights) else 0 for name in weights}
    units = amount // unit
    out = {name: units * weight // total for name, weight in weights.items()}
    by_rest = sorted(weights, key=lambda name: (-(units * weights[name] % total), name))
    for name in by_rest[: units - sum(out.values())]:
        out[name] += 1
    return {name: count * unit for name, count in out.items()}


def whole(amount: int) -> int:
    """The next whole GPUs that are no less."""
    return -(-amount // WHOLE) * WHOLE


def by_room(amount: int, room: Mapping[str, int]) -> dict[str, int]:
    """Divide milli-GPU by the room that each has, in whole GPUs as far as it goes, and within it if there is enough."""
    floored = {name: max(0, free) // WHOLE * WHOLE for name, free in room.items()}
    if sum(floored.values()) < amount:
        return apportion(amount, {name: max(0, free) for name, free in room.items()})
    out = apportion(amount // WHOLE * WHOLE, floored)
    if rest := amount % WHOLE:
        out[min(room, key=lambda name: (out[name] - floored[name], name))] += rest
    return out
