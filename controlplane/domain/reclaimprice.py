"""What it costs a training that it gave GPUs to another workload: from the terms that its decision was stored with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare.gpu import WHOLE
from scheduler.model.decision import EvictReason, Whose
from scheduler.model.mention import counted

HOUR = 3600.0  # s
# Whose GPUs what was evicted as a whole gave, where its terms do not say so.
EVICTED = {
    EvictReason.PREEMPTED: Whose.TEAM,
    EvictReason.RECLAIMED: Whose.OWNED,
    EvictReason.FAIR_SHARE: Whose.FAIR_SHARE,
}
WORDS = {
    Whose.LENT: "that were lent to it",
    Whose.SURPLUS: "beyond what it asked for",
    Whose.TEAM: "of the quota of its own team",
    Whose.OWNED: "that the other team owns",
    Whose.FAIR_SHARE: "above the fair share of its team",
}


@dataclass(frozen=True, slots=True)
class Price:
    """What left, what that is expected to lose, and whose the GPUs were.

    milli: GPUs that left, milli-GPU. lost: GPU-seconds. workers None: all of them.
    """

    milli: int
    lost: float
    whose: Whose
    workers: int | None = None

    @property
    def sentence(self) -> str:
        """ "1 worker left 1 GPU that was lent to it; about 0.2 GPU-seconds lost"."""
        who = "All workers" if self.workers is None else counted(self.workers, "worker")
        gpus = "1 GPU" if self.milli == WHOLE else f"{self.milli / WHOLE:g} GPUs"
        whose = WORDS[self.whose].replace("were", "was") if self.milli == WHOLE else WORDS[self.whose]
        return f"{who} left {gpus} {whose}; {self.told} lost."

    @property
    def told(self) -> str:
        """About what is lost, in a unit that fits it."""
        if round(self.lost, 1) == 0:
            return "next to nothing"
        if self.lost >= HOUR / 10:
            return f"about {self.lost / HOUR:,.1f} GPU-hours"
        return f"about {self.lost:.1f} GPU-seconds" if self.lost < 10 else f"about {self.lost:.0f} GPU-seconds"

    def shown(self) -> dict[str, Any]:
        """As REST has it."""
        return {
            "workers": self.workers,
            "milli_gpu": self.milli,
            "lost_gpu_seconds": round(self.lost, 3),
            "whose": self.whose.value,
            "sentence": self.sentence,
        }


def price_of(kind: str, reason: str, data: Mapping[str, Any]) -> Price | None:
    """The price of an event; None of one that tells none: it made no room for others, or is of an earlier version."""
    terms = data.get("terms")
    if kind not in ("Shrunk", "Evicted") or not isinstance(terms, Mapping):
        return None
    if "lost_milli_seconds" in terms:
        workers = int(terms["workers"]) if kind == "Shrunk" else None
        return Price(int(terms["leaves_milli"]), terms["lost_milli_seconds"] / WHOLE, Whose(terms["whose"]), workers)
    if reason not in EVICTED or "unsaved_seconds" not in terms:
        return None
    held = int(terms["held_milli"])
    return Price(held, held * terms["unsaved_seconds"] / WHOLE, EVICTED[EvictReason(reason)])
