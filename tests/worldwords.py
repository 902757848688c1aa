"""The words of worlds as text: what a line of `worlds.parse` is made of."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpushare.gpu import WHOLE, Labels, Share
from scheduler.model.workload import Gang, Phase, ResourceRequest, Role

PHASES = {p.value.lower(): p for p in Phase if p != Phase.PREEMPTED} | {
    "pending": Phase.QUEUED,
    "leaving": Phase.CHECKPOINTING,
}
FLAGS = {
    "late",
    "down",
    "cordoned",
    "only-whole",
    "only-shares",
    "advisory",
    "alone",
    "firm",
    "moving",
    "finishing",
    "offloads",
    "demand",
    *PHASES,
}


def lines_of(text: str) -> Iterator[list[str]]:
    """The facts, each as its words."""
    for line in text.splitlines():
        for fact in re.split(r"\s{3,}", line.split("#")[0].strip()):
            if fact:
                yield fact.split()


def options_of(words: list[str]) -> dict[str, Any]:
    """Pairs of a word and its value; flags have none; `running a b:0` takes all places that follow."""
    out: dict[str, Any] = {"preempted": [], "role": []}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in PHASES:
            out["phase"], out["places"] = word, []
            while rest and rest[0] not in _WORDS:
                out["places"].append(rest.pop(0))
        elif word in FLAGS:
            out[word] = True
        elif word in _WORDS:
            _take(out, word, rest)
        else:
            raise ValueError(f"{word!r} is no word of a world, in {' '.join(words)!r}")
    return out


def _take(out: dict[str, Any], word: str, rest: list[str]) -> None:
    """Note what a word says, and take that off the rest."""
    match word:
        case "preempted":
            out[word].append((float(rest.pop(0)), rest[1]))
            del rest[:2]
        case "role":
            out[word].append(role_of(rest.pop(0)))
        case "lent":
            out[word] = rest.pop(0), ranks_of(rest.pop(0))
        case _:
            out[word] = rest.pop(0)


_WORDS = {
    *("model", "memory", "pool", "rack", "zone", "nvlink", "cpu", "ram", "down", "cordoned", "lost"),
    *("only-whole", "only-shares", "advisory", "alone", "by", "demands"),
    *("nominal", "borrowing", "lending", "weight", "parent"),
    *("affinity", "apart", "exclusion"),
    *("x", "share", "limit", "smem", "models", "gpumem", "require", "prefer", "priority", "firm"),
    *("after", "leaves", "since", "started", "checkpointed", "unmet", "notbefore", "preempted"),
    *("role", "saves", "attained", "failures", "deadline", "scaled", "moving", "finishing"),
    *("standby", "awake", "asleep", "lent", "goes", "off"),
    *("host", "tohost", "todevice", "spread"),
}


def milli_of(text: str | None) -> int | None:
    """Milli-GPU."""
    return None if text is None else round(float(text) * WHOLE)


def role_of(text: str) -> Role:
    """A role as `name*count/word=value`."""
    head, *asked = text.split("/")
    name, _, count = head.partition("*")
    o = dict(word.split("=") for word in asked)
    return Role(name, ask_of(int(o.get("gpus", 0)), o), int(count or 1))


def gang_of(text: str) -> Gang:
    """As `count`, `min..count` or `min..count..max`."""
    numbers = [int(n) for n in text.split("..")]
    if len(numbers) == 1:
        return Gang(numbers[0], numbers[0], numbers[0])
    least, count = numbers[0], numbers[1]
    return Gang(count, least, numbers[2] if len(numbers) > 2 else count)


def ask_of(gpus: int, o: dict[str, Any]) -> ResourceRequest:
    """What each worker asks for."""
    share = None
    if "share" in o:
        guarantee = milli_of(o["share"]) or 0
        labels = Labels(o.get("affinity", ""), o.get("apart", ""), o.get("exclusion", ""))
        share = Share(guarantee, max(guarantee, milli_of(o.get("limit", "1")) or 0), int(o.get("smem", 0)), labels)
        if "demand" in o:
            share = replace(share, on_demand=share.memory, memory=0)
    return ResourceRequest(
        gpus=gpus,
        share=share,
        gpu_memory=int(o.get("gpumem", 0)),
        cpu_milli=int(float(o.get("cpu", 0)) * 1000),
        memory=int(o.get("ram", 0)) + (share.on_demand if share else 0),
        models=tuple(o["models"].split(",")) if "models" in o else (),
        demands=tuple(o["demands"].split(",")) if "demands" in o else (),
    )


def ranks_of(text: str) -> frozenset[int]:
    """As `0,2`."""
    return frozenset(int(rank) for rank in text.split(",") if rank)
