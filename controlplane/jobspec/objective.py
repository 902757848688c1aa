"""A service's objective as its job file has it: a p95 of the whole answer or of the first token, one of the two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.latency import ANSWER, FIRST_TOKEN, Within
from controlplane.jobspec.shapes import BAD, Faults

FIELDS = {ANSWER: "p95_latency", FIRST_TOKEN: "p95_first_token"}  # the field of each measure


@dataclass(frozen=True, slots=True)
class Objective:
    """A service's objective: p95 and window in seconds, availability a part in 0..1.

    of: what the p95 is of, one of autoscaler.latency.MEASURES.
    """

    p95: float
    availability: float
    window: float
    of: str = ANSWER

    def normalised(self) -> dict[str, Any]:
        """As it is stored beside the text, in the words of autoscaler.metrics.Objective."""
        named = {} if self.of == ANSWER else {"of": self.of}
        return {"p95_seconds": self.p95, "availability": self.availability, "window_seconds": self.window, **named}


def of_values(values: Mapping[str, Any] | None) -> Objective | None:
    """The objective that was read without a fault; None: there is none."""
    if not values:
        return None
    of = FIRST_TOKEN if values[FIELDS[FIRST_TOKEN]] is not None else ANSWER
    # milli-percent to a part: 99.9 % is 99,900
    return Objective(values[FIELDS[of]], values["availability"] / 100_000, values["window"], of)


def within(normalised: Mapping[str, Any] | None) -> Within | None:
    """The latency that a stored, normalised objective promises; None: none."""
    if not normalised or normalised.get("p95_seconds") is None:
        return None
    return Within(float(normalised["p95_seconds"]), normalised.get("of", ANSWER))


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Note an objective with neither latency, or with both."""
    given = values.get("objective")
    if given in (None, BAD):
        return
    has = [name for name in FIELDS.values() if given[name] is not None]
    both = " and ".join(FIELDS.values())
    if len(has) > 1:
        what = f"objective has both {both}, and a service is held to one."
        faults.add("objective", f"{what} Keep p95_latency for whole answers, or p95_first_token for what streams.")
    if not has:
        what = f"objective has neither {both.replace(' and ', ' nor ')}."
        faults.add("objective", f"{what} Add p95_latency: 200ms for whole answers, or p95_first_token: 500ms.")
