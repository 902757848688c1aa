"""A story: a world and what is done in it, step by step, with what has to happen. Text that a stranger can read.

    A workload of a higher class starts in the places of a lower one.      the first line says what it is about

    team nlp nominal 24                           a team and the GPUs that it owns in every pool
    class urgent 1000                             a priority class beside `normal` (100, the default)
    policy scheduling.min_runtime_seconds 0s      a setting that is not as it comes

    submit low nlp training {gpus: 8}             a step: a verb and what it is about
        low: Submitted -> Queued, Admitted, Running
        low holds 8 GPUs

Below a step stands what happens because of it: for each workload all of its events, in their order, and no others.
`Kind (Reason) -> Phase` is one event; a phase is left out where it is called as the event is, a reason where there is
none. A workload that is not named has no event. Then facts may follow, which hold at the end of the step:

    low holds 8 GPUs            low has 4 workers          low waits as Fragmented      low has 0 failures
    low may use 0.5 of its GPU  (each worker on a share)
    low has printed lines       low runs elsewhere         (on other nodes than at its start)
    low runs on 2 nodes         (so many)
    low is told a batch of 64   (each of its members, by the cluster)
    low is of revision 2        each of its replicas     low has 1 replica of revision 2
    low sends 25 % of requests to revision 2             low splits no requests
    chat has an address         chat has no address         (where requests to it come: Kubernetes' Service)
    chat has 2 replicas on standby                low borrows 2 GPUs of chat   (those of its sleeping replicas)
    chat has 1 replica with weights in host memory            (or on their way to or from there)
    c is cordoned               b has 7 usable GPUs        low has 2 cores and 512 MiB  (each of its workers)

Steps:

    submit NAME TEAM KIND {job file}       `gpus` and a number of `workers` may be given in short; `runs: 60s` says when
                                           it ends by itself, with `exit_code`, `slow: yes` that its start takes a while
    stop | suspend | resume | requeue NAME                     drain | cordon | uncordon NODE
    lose node NODE    restore node NODE    lose GPU of NAME    a GPU of its first worker that has one
    enforce | unenforce shares on NODE     what is on it says that it holds shares to their limits, or nothing does
    resize NAME {cpu: 2}                   each worker gets so much from now on
    change NAME {image: "registry.example/chat:2"}   fields of a service's job file; `undo NAME` goes back. An image of
                                           the tag `broken` starts and never answers
    measure NAME {requests_per_second: 9}  what is measured of a service from now on; {revisions: {2: [90, 80]}} says
                                           how many requests a revision has answered, and how many were late or failed;
                                           {gpu_seconds: 0.1} is what a request takes of a whole GPU
    use NAME {cpu_milli: 0}                what is measured of a workload's pods from now on
    reallocate TEAM off | recommend | automatic            what is done to make its trainings faster
    steps of NAME {1: [0.5, 0.1]}          how long a training's steps take on so many nodes, s, and the part of the
                                           exchange; windows are 15 s then
    batches of NAME {64: [0.5, 900]}       how long they take with such a batch, s, and the noise of its gradients
    slow NODE {times: 2}                   what a worker there does of a step takes so many times as long
    kill the worker                        the process of the loops dies at once, and another takes its place;
    kill the worker before | after start | stop of NAME    or it dies in the midst of its next command of that kind
    wait 60s                               time passes

NODE is a name, or `node of NAME`: that of its first worker. Seconds are those of the story; the simulated cluster takes
them as they are, and on a real API server a minute of them is a second.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "stories"
WORLD = ("team", "class", "policy")
_EVENT = re.compile(r"(\w+)(?: \((\w+)\))?(?: -> (\w+))?")


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of a workload: its kind and reason, and the phase that it left the workload in."""

    kind: str
    reason: str
    phase: str

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.kind}{reason}" + ("" if self.phase == self.kind else f" -> {self.phase}")


@dataclass(slots=True)
class Step:
    """One thing that is done, the values that come with it, and what has to follow."""

    line: int
    text: str
    values: dict[str, Any]
    events: dict[str, tuple[Happened, ...]] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Story:
    """What it is about, the lines of its world as words, and its steps."""

    name: str
    about: str
    world: tuple[tuple[str, ...], ...]
    steps: tuple[Step, ...]

    def lines(self, word: str) -> list[tuple[str, ...]]:
        """What the lines of the world that begin with this word go on with."""
        return [rest for first, *rest_ in self.world if first == word for rest in [tuple(rest_)]]


def names() -> list[str]:
    """Of all stories."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def load(name: str) -> Story:
    """The story in the file of this name."""
    return parse(name, (FOLDER / f"{name}.txt").read_text())


def parse(name: str, text: str) -> Story:
    """Read a story. Raises ValueError with the line that is none."""
    (_, about), *lines = _lines(text)
    world: list[tuple[str, ...]] = []
    steps: list[Step] = []
    for number, line in lines:
        if line[0] != " " and line.split()[0] in WORLD:
            world.append(tuple(line.split()))
        elif line[0] != " ":
            steps.append(_step(number, line))
        elif steps:
            _add(steps[-1], number, line.strip())
        else:
            raise ValueError(f"{name}, line {number}: nothing was done yet that this could follow from: {line}")
    return Story(name, about, tuple(world), tuple(steps))


def seconds(text: str) -> float:
    """`60s` as a number. Raises ValueError."""
    if not text.endswith("s"):
        raise ValueError(f"{text!r} is no time. Write seconds, as in 60s.")
    return float(text[:-1])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip()


def _step(number: int, line: str) -> Step:
    text, _, values = line.partition("{")
    return Step(number, text.strip(), yaml.safe_load("{" + values) if values else {})


def _add(step: Step, number: int, line: str) -> None:
    name, colon, told = line.partition(": ")
    if not colon:
        step.facts.append(line)
        return
    found = [_EVENT.fullmatch(part.strip()) for part in told.split(",")]
    if not all(found):
        raise ValueError(f"line {number}: write each event as Kind (Reason) -> Phase, not {told!r}")
    matches = [one for one in found if one]
    step.events[name] = tuple(Happened(m[1], m[2] or "", m[3] or m[1]) for m in matches)
