"""The settings of a policy as people edit them: unit, bounds, and what each does. Free of the database.

A setting that a core has and this table does not know is edited all the same, as a number from 0 on: the table only
knows better.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any

from autoscaler.settings import Settings as Scaling
from controlplane.domain import cellsetting
from scheduler.model.settings import Placement
from scheduler.model.settings import Settings as Scheduling
from scheduler.policies import ONLY_COMPARED, POLICIES

PARTS: Mapping[str, type[Any]] = {"scheduling": Scheduling, "scaling": Scaling}
# The settings that have another name now, by part; stored policies and requests of before have the old one.
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "scheduling": {
        "ageing_most": "max_ageing",
        "most_changes": "max_changes",
        "reservation_after_most_seconds": "reservation_after_max_seconds",
    },
    "scaling": {},
}
MAX = 1e12
DAY, WEEK = 86_400.0, 604_800.0


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. `least` and `most` are in its unit; choices are its words if it is one; `refused` are words that
    only a comparison may use."""

    part: str
    name: str
    kind: type
    default: Any
    unit: str = ""
    least: float = 0.0
    most: float = MAX
    about: str = ""
    choices: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """How sentences and diffs call it: `scheduling.ageing_seconds`."""
        return f"{self.part}.{self.name}"

    @property
    def is_word(self) -> bool:
        """Whether it is one of some words, not a number."""
        return issubclass(self.kind, str)

    @property
    def is_cells(self) -> bool:
        """Whether it is the cells by name, each with pools and racks (cellsetting.py)."""
        return self.kind is tuple

    @property
    def is_number(self) -> bool:
        """Whether it is a number, with bounds."""
        return not (self.is_word or self.is_cells)

    def read(self, value: Any) -> Any:
        """A stored value as the cores hold it: 3.0 may be a whole number; a word there is no more is the default."""
        if self.is_cells:
            return cellsetting.cells_of(value)
        if self.choices and value not in self.choices:
            return self.default
        return self.kind(value)

    def problem(self, value: object, in_force: bool = True) -> str:
        """What is wrong with a value and what to do; empty if nothing. in_force: it is to decide in production."""
        if self.is_word:
            return self._word_problem(value, in_force)
        if self.is_cells:
            return cellsetting.problem(self.path, value)
        if self.kind is bool:
            return "" if isinstance(value, bool) else f"{self.path} is {value!r}. Use true or false."
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.kind is int and isinstance(value, float) and not value.is_integer():
            return f"{self.path} is {value!r}. Use a whole number."
        if not is_number or not self.least <= value <= self.most:  # type: ignore[operator]
            unit = f" {self.unit}" if self.unit else ""
            return f"{self.path} is {value!r}. Use a number from {figure(self.least)} to {figure(self.most)}{unit}."
        return ""

    def _word_problem(self, value: object, in_force: bool) -> str:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            return f"{self.path} is {value!r}. Use one of {', '.join(self.allowed(in_force))}."
        if in_force and value in self.refused:
            return (
                f"{self.path} is {value!r}, which is for comparison in what-if only. "
                f"Use one of {', '.join(self.allowed(in_force))}."
            )
        return ""

    def allowed(self, in_force: bool) -> tuple[str, ...]:
        """Its words."""
        return tuple(word for word in self.choices if not (in_force and word in self.refused))


# unit, least, most, what it does
_KNOWN: Mapping[str, tuple[str, float, float, str]] = {
    "ageing_seconds": ("s", 1, WEEK, "A workload gains one point of priority for each of these times it has waited."),
    "max_ageing": (
        "points",
        0,
        99,
        "Most points by ageing. Below 100, so that a workload never passes the next class.",
    ),
    "min_runtime_seconds": ("s", 0, DAY, "A workload is not preempted before it has run this long."),
    "borrower_runtime_seconds": ("s", 0, WEEK, "A borrower is not preempted for another borrower before this time."),
    "use_half_life_seconds": ("s", 0, 365 * DAY, "Recent usage: a GPU hour that is this old counts half."),
    "use_correction": ("", 0, 100, "How strongly recent usage changes the weights; 0: not at all."),
    "max_preemptions": ("times", 0, 1000, "Most times a workload is preempted within the window."),
    "preemption_window_seconds": ("s", 0, 30 * DAY, "The window in which preemptions are counted."),
    "overtaken_seconds": (
        "s",
        0,
        365 * DAY,
        "A first workload of a team's queue that waits longer may preempt work of its team that was queued later.",
    ),
    "overtaken_waits": ("times", 0, 1000, "... and this many times the median wait of its team's running work."),
    "gang_timeout_seconds": ("s", 1, DAY, "A gang that does not run completely within this time is queued again."),
    "wait_refresh_seconds": (
        "s",
        0,
        DAY,
        "A reason for waiting whose figures have changed is written again after this time.",
    ),
    "wait_refresh_fraction": ("of the wait", 0, 10, "... and not before the wait has grown by this ratio."),
    "restart_seconds": ("s", 0, DAY, "What a restart costs a victim in addition to the work it loses."),
    "attained_step_seconds": (
        "GPU-s",
        1,
        MAX,
        "First bucket of attained service; each next one is 4 times as wide.",
    ),
    "deadline_near_seconds": ("s", 0, 30 * DAY, "A training with a deadline this near goes ahead of others."),
    "rejoin_seconds": ("s", 0, DAY, "... and for each worker of a gang beyond the first."),
    "outage_seconds": ("s", 0, WEEK, "What a service loses when it is preempted: this much time of its GPUs."),
    "scheduling.settle_seconds": ("s", 0, DAY, "An elastic gang is not resized again within this time."),
    "surplus_after_seconds": (
        "s",
        0,
        DAY,
        "An elastic gang that started or was resized grows beyond its count only after this time.",
    ),
    "lend_after_seconds": (
        "s",
        0,
        DAY,
        "The GPU of a replica on standby is lent to an elastic gang only after this time.",
    ),
    "harvest": ("", 0, 1, "Elastic gangs compute beside shares, in the time that these leave, where it is enforced."),
    "max_moves": ("workloads", 0, 1000, "Most workloads that one round moves to consolidate free GPUs."),
    "max_move_scenarios": ("scenarios", 0, 10_000, "Most sets of moves that one round tries."),
    "max_victims": ("scenarios", 1, 10_000, "Most sets of victims that are tried for one workload."),
    "max_changes": (
        "changes",
        1,
        1_000_000,
        "Most workloads placed or preempted in one round; the rest waits for the next.",
    ),
    "cells": (
        "",
        0,
        0,
        "Parts of the cluster with a decider of their own, by name: the node pools and racks of each. Empty: one.",
    ),
    "dragon_wait_seconds": (
        "s",
        0,
        DAY,
        "dragon, edragon: how long the first in the queue waits before others shrink.",
    ),
    "dragon_settle_seconds": ("s", 0, DAY, "dragon, edragon: time between the last resize and the next growth."),
    "dragon_hold_seconds": (
        "s",
        0,
        DAY,
        "edragon: how long a service that does not fit keeps trainings from starting.",
    ),
    "dragon_high_priority": (
        "priority",
        0,
        1_000_000,
        "dragon, edragon: notebooks and shares from it on are urgent.",
    ),
    "horizon_seconds": ("s", 0, DAY, "Beyond the start of a replica: load is predicted so far ahead."),
    "wait_ratio": ("of the wait", 0.01, 1, "What may be used of the wait that the objective allows a request."),
    "tail": ("", 0, 100, "Slots for the longest waits: the larger, the rarer is a request late."),
    "queue_seconds": ("s", 1, DAY, "The time, at least, in which a queue may be worked off."),
    "fall_seconds": ("s", 0, DAY, "Fewer replicas must be enough for this long; 0: for three starts of a replica."),
    "young_seconds": ("s", 0, DAY, "A service this young, or with a gap in its metrics so recent, keeps its replicas."),
    "start_seconds": ("s", 1, DAY, "Until a replica serves, before it is known how long this service's replicas take."),
    "wake_seconds": ("s", 0, DAY, "Until a replica on standby answers, what borrows its GPU being told to leave."),
    "host_wake_seconds": (
        "s",
        0,
        DAY,
        "Until one answers whose weights wait in host memory, once the borrower is gone.",
    ),
    "headroom": ("of those needed", 0, 10, "Without standby: replicas on top of those needed, held and paid for."),
    "stale_seconds": ("s", 1, DAY, "An older measurement is ignored, and after a longer gap a trend begins anew."),
}
_WORDS: Mapping[str, tuple[tuple[str, ...], frozenset[str], str]] = {
    "policy": (
        tuple(POLICIES),
        ONLY_COMPARED,
        "The policy that decides: weft, or a reference policy (fifo, best-fit, fgd, k8s+gang, dragon, edragon).",
    ),
    "placement": (
        tuple(Placement),
        frozenset(),
        "How the place of a single worker or replica is chosen; worth and fgd need 10 submissions with GPUs first.",
    ),
}


def figure(number: float) -> str:
    """A number in full, whole ones without a point: 2592000, 0.25."""
    return f"{number:.0f}" if float(number).is_integer() else repr(float(number))


@cache
def known_fields() -> tuple[Field, ...]:
    """All settings of all parts, in the order of the cores."""
    return tuple(_field(part, kind, f) for part, kind in PARTS.items() for f in fields(kind))


def _field(part: str, settings: type[Any], f: Any) -> Field:
    default = getattr(settings(), f.name)
    kind = type(default)
    if issubclass(kind, str):
        words = tuple(str(word) for word in kind) if issubclass(kind, StrEnum) else ()
        choices, refused, about = _WORDS.get(f.name, (words, frozenset(), ""))
        return Field(part, f.name, kind, default, about=about, choices=choices, refused=refused)
    unknown = (_unit(f.name), 0.0, MAX, "")
    unit, least, most, about = _KNOWN.get(f"{part}.{f.name}") or _KNOWN.get(f.name, unknown)
    return Field(part, f.name, kind, default, unit, least, most, about)


def _unit(name: str) -> str:
    return "s" if name.endswith("_seconds") else ""
