"""The course of a training as plain values that JSON has, and back, so that another process goes on from a row."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autoscaler.experiment.experiment import restored as experiment_of
from autoscaler.experiment.experiment import written as experiment_row
from autoscaler.reallocate.budgets import Level
from autoscaler.reallocate.candidates import Axis, Candidate
from autoscaler.reallocate.choice import Considered, Guard, Past
from autoscaler.reallocate.course import Course, Seen
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import Estimate
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation


def written(course: Course) -> dict[str, Any]:
    """Of what `restored` makes the same course."""
    change, noise = course.change, course.noise
    tabu = sorted(course.past.tabu, key=lambda one: (one.gpus, one.workers, one.batch, one.cpu, one.servers, one.off))
    return {
        "now": asdict(course.now),
        "experiment": experiment_row(course.experiment),
        "change": None
        if change is None
        else {
            "axis": change.candidate.axis.value,
            "allocation": asdict(change.candidate.allocation),
            "gain": change.gain.value,
            "error": change.gain.error,
            "cost": change.cost,
            "guard": change.guard.value,
            "budget": None if change.budget is None else change.budget.value,
        },
        "windows": [[one.step, one.exchange, one.wait] for one in course.windows],  # all with what it is to have
        "seen": [asdict(one) for one in course.seen],
        "tabu": [asdict(one) for one in tabu],
        "moves": course.past.moves,
        "is_resting": course.is_resting,
        **({} if noise is None else {"noise": asdict(noise)}),
    }


def restored(row: Mapping[str, Any]) -> Course:
    """What `written` wrote. Raises KeyError, TypeError or ValueError where it did not."""
    course = Course(
        allocation_of(row["now"]),
        experiment_of(row["experiment"]),
        None if row["change"] is None else _change(row["change"]),
        (),
        tuple(Observation(**{**one, "allocation": allocation_of(one["allocation"])}) for one in row["seen"]),
        Past(frozenset(allocation_of(one) for one in row["tabu"]), int(row["moves"])),
        bool(row["is_resting"]),
        noise=Gradients(**row["noise"]) if "noise" in row else None,
    )
    return replace(course, windows=tuple(Seen(course.wanted, *one) for one in row["windows"]))


def _change(row: Mapping[str, Any]) -> Considered:
    return Considered(
        Candidate(Axis(row["axis"]), allocation_of(row["allocation"])),
        Estimate(float(row["gain"]), float(row["error"])),
        float(row["cost"]),
        Guard(row["guard"]),
        None if row["budget"] is None else Level(row["budget"]),
    )


def allocation_of(row: Mapping[str, Any]) -> Allocation:
    """Of what `dataclasses.asdict` makes of one, also after JSON. Raises TypeError, KeyError or AllocationError."""
    return Allocation(**{**row, "gpus": tuple(row["gpus"]), "off": tuple(row.get("off", ()))})
