"""The body that names one change which would start a waiting workload."""

from typing import Any

from controlplane.jobspec.shapes import REQUIRED, Choice, Faults, Field, Record, Schema, Text
from scheduler.explain.change import ChangeKind


class _Figure:
    """A whole number or a name; read as text."""

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the text."""
        return Text(63, may_be_empty=True).read(str(value) if type(value) is int else value, at, faults)

    def filled(self, value: Any) -> Any:
        """Return the value itself."""
        return value

    def schema(self) -> Schema:
        """Return a schema of either."""
        return {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 63}]}


REMEDY = Record(
    (
        Field(
            "kind",
            Choice(tuple(kind.value for kind in ChangeKind)),
            "Of the suggestion, as in the explanation.",
            REQUIRED,
        ),
        Field("after", _Figure(), "Its `after`, a number or a name; of a stop it does not matter.", ""),
        Field(
            "target", Text(253, may_be_empty=True), "Its `target`: team, priority class or workload, if it has one.", ""
        ),
        Field("pool", Text(253, may_be_empty=True), "Its `pool`, if it has one.", ""),
    )
)
