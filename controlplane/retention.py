"""How long what grows is kept: the settings, and which table each is about (docs/production.md#what-is-kept)."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

LEAST_EVENTS, LEAST_AUDIT_LOG = 7, 30  # days; the database's triggers allow no less, whoever asks (migration 0022)
MOST = 3_650  # days


@dataclass(frozen=True, slots=True)
class Retention:
    """A setting: days that rows are kept, its bounds, and what it is about."""

    variable: str
    days: int
    least: int
    about: str


EVENTS = Retention("WEFT_KEEP_EVENTS_DAYS", 30, LEAST_EVENTS, "events: the history of workloads, nodes and settings")
CYCLES = Retention("WEFT_KEEP_CYCLES_DAYS", 30, 1, "rounds of the loops, with their decisions")
SAMPLES = Retention("WEFT_KEEP_SAMPLES_DAYS", 30, 7, "samples of teams and services: charts, service levels")
WORKLOAD_SAMPLES = Retention("WEFT_KEEP_WORKLOAD_SAMPLES_DAYS", 1, 1, "samples of single workloads: charts")
AUDIT_LOG = Retention("WEFT_KEEP_AUDIT_LOG_DAYS", 365, LEAST_AUDIT_LOG, "rows of the audit log")
ALL = (EVENTS, CYCLES, SAMPLES, WORKLOAD_SAMPLES, AUDIT_LOG)


def from_environment(read: Callable[[str, str], str]) -> dict[str, int]:
    """Days by variable; `read` takes a name and a default. Ends the process for what cannot be meant."""
    found: dict[str, int] = {}
    for one in ALL:
        text = read(one.variable, str(one.days)).strip()
        if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not one.least <= int(text) <= MOST:
            sys.exit(
                f"{one.variable} is {text!r}. Set it to whole days, {one.least} to {MOST}: how long to keep {one.about}."
            )
        found[one.variable] = int(text)
    return found
