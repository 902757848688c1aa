"""A field that takes an object or, in its place, a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.jobspec.shapes import BAD, Faults, Record, Schema


@dataclass(frozen=True)
class Named:
    """An object, or in its place only the text of its first field; reads as the object either way."""

    record: Record

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return a dict."""
        first = self.record.fields[0]
        if isinstance(value, Mapping):
            return self.record.read(value, at, faults)
        name = first.shape.read(value, at, faults)
        return BAD if name is BAD else {**dict.fromkeys(f.name for f in self.record.fields), first.name: name}

    def filled(self, value: Any) -> Any:
        """Return it as given."""
        return self.record.filled(value) if isinstance(value, Mapping) else value

    def schema(self) -> Schema:
        """Return both forms."""
        return {"anyOf": [self.record.fields[0].shape.schema(), self.record.schema()]}
