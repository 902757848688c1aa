"""Quotas in milli-GPU as REST and what-ifs take them: a number of GPUs written in their place is refused."""

from dataclasses import dataclass
from typing import Any

from controlplane.jobspec.shapes import BAD, REQUIRED, Faults, Field, Schema, Whole
from gpushare.gpu import WHOLE

MAX_MILLI = 10**9  # a million GPUs
TENTH = WHOLE // 10


@dataclass(frozen=True, slots=True)
class MilliGpus(Whole):
    """A whole number of milli-GPU. Less than one GPU is given in tenths: 32 is what people write for 32 GPUs."""

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the number, or None where that is allowed."""
        read = Whole.read(self, value, at, faults)
        if read in (None, BAD) or not 0 < read < WHOLE or read % TENTH == 0:
            return read
        message = (
            f"{at} is {read}, which is {read / WHOLE:g} GPUs. For {read} GPUs write {read * WHOLE}: 1000 is one GPU. "
            "A part of a GPU is written in tenths, such as 500."
        )
        return faults.add(at, message)

    def schema(self) -> Schema:
        """Return the numbers from one GPU on, and tenths below."""
        forms: list[Schema] = [
            {"type": "integer", "minimum": WHOLE, "maximum": self.most},
            {"type": "integer", "minimum": 0, "maximum": WHOLE, "multipleOf": TENTH},
        ]
        return {"anyOf": [*forms, *([{"type": "null"}] if self.may_be_null else [])]}


QUOTA_FIELDS = (
    Field("nominal_milli", MilliGpus(0, MAX_MILLI), "milli-GPU of nominal quota; 1000 = one GPU.", REQUIRED),
    Field("borrowing_limit_milli", MilliGpus(0, MAX_MILLI, True), "milli-GPU it may borrow; null = no limit."),
    Field("lending_limit_milli", MilliGpus(0, MAX_MILLI, True), "milli-GPU others may borrow; null = all."),
    Field("weight", Whole(1, 10_000), "Its weight when idle quota is shared among borrowers.", 1),
)


def small(values: dict[str, int | None]) -> list[str]:
    """What is told of quotas below one GPU, which may have been meant as a number of GPUs."""
    return [
        f"{name} is {value / WHOLE:g} of one GPU. For {value} GPUs write {value * WHOLE}."
        for name, value in values.items()
        if value and name.endswith("_milli") and 0 < value < WHOLE
    ]
