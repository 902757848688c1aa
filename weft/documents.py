"""Job files: YAML (or JSON) documents read strictly, with the line of every field for error messages.

Only plain data is read: no aliases (a few lines of them can mean gigabytes), no tags, no duplicate keys, no guessing
beyond YAML 1.2's core schema, so `on` is text and 12:30 is no number.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from weft.errors import FieldError, WeftError

MAX_BYTES = 1 << 20  # 1 MiB, what the server takes as well
MAX_DEPTH = 32  # a job file has four levels
MAX_DOCUMENTS = 1000

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)$")  # 0123 is text: nobody means 83, and few 123
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$")
_MAX_DIGITS = 18  # fits 64 bits


@dataclass(frozen=True, slots=True)
class Document:
    """One document: the file it came from, its fields, and the line each field is on."""

    source: str
    fields: Mapping[str, Any]
    lines: Mapping[str, int]

    def where(self, field: str = "") -> str:
        """Return file and line of a field (`workers.min`), or of the nearest thing around it."""
        path = re.sub(r"\[(\d+)\]", r".\1", field)
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return f"{self.source}:{self.lines[path]}"


class JobFileError(WeftError):
    """A job file that cannot be read; `detail` begins with file and line."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__("The job file cannot be read", detail=f"{where}: {message}", errors=[FieldError("", message)])


def load(names: Sequence[str]) -> list[Document]:
    """Read all documents of the named files in order; `-` is standard input."""
    documents = [document for name in names for document in parse(_bytes(name), "stdin" if name == "-" else name)]
    if not documents:
        raise JobFileError(" ".join(names), "The file is empty. Begin with `type: training` and `name: NAME`.")
    if len(documents) > MAX_DOCUMENTS:
        raise JobFileError(names[0], f"{len(documents)} documents are too many. Submit at most {MAX_DOCUMENTS}.")
    return documents


def parse(content: bytes, source: str) -> Iterator[Document]:
    """Yield the documents of one file."""
    if len(content) > MAX_BYTES:
        raise JobFileError(source, f"The file has {len(content):,} bytes. A job file has at most {MAX_BYTES:,}.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobFileError(f"{source}:{line}", "The file is not UTF-8 text. Save it as UTF-8.") from None
    # libyaml where the wheel has it: the same events, thirty times faster.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from _Reader(yaml.parse(text, Loader=loader), source).documents()
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f"{source}:{mark.line + 1}" if mark else source
        said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
        raise JobFileError(where, f"This is not YAML: {said}.{_hint(said)}") from None


class _Reader:
    """Builds values from YAML events, and notes lines."""

    def __init__(self, events: Iterator[Any], source: str) -> None:
        self.events = events
        self.source = source
        self.lines: dict[str, int] = {}

    def documents(self) -> Iterator[Document]:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                first: Any = next(self.events)
                self.lines = {"": self._line(first)}
                value = self._value(first, "", 0)
                if isinstance(value, dict):
                    yield Document(self.source, value, self.lines)
                elif value is not None:  # `---` with nothing after it is no document
                    raise self._error(first, "A job is written as `field: value` lines, and this is none.")

    def _value(self, event: Any, path: str, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"*{event.anchor} is an alias. Write the value out; job files have no aliases.")
        if event.tag and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise self._error(event, f"The tag {event.tag} is not allowed. Write plain values.")
        if depth > MAX_DEPTH:
            raise self._error(event, f"The file is nested more than {MAX_DEPTH} levels deep. Flatten it.")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._plain(event) if event.implicit[0] else event.value

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        seen: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "A field's name must be text.")
            key, line = event.value, self._line(event)
            if key in seen:
                raise self._error(event, f"{key} is given twice, first in line {seen[key]}. Remove one.")
            seen[key] = line
            child = f"{path}.{key}" if path else key
            self.lines[child] = line
            fields[key] = self._value(next(self.events), child, depth + 1)
        return fields

    def _sequence(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            child = f"{path}.{len(items)}"
            self.lines[child] = self._line(event)
            items.append(self._value(event, child, depth + 1))
        return items

    def _plain(self, event: Any) -> Any:
        """Return the value of an unquoted scalar by the core schema; whatever is no word or number is text."""
        text: str = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.match(text):
            if len(text) > _MAX_DIGITS:
                raise self._error(event, f"{text[:20]}... is too large for a number. Quote it if it is text.")
            return int(text)
        return float(text) if _FLOAT.match(text) else text

    def _line(self, event: Any) -> int:
        return int(event.start_mark.line) + 1

    def _error(self, event: Any, message: str) -> JobFileError:
        return JobFileError(f"{self.source}:{self._line(event)}", message)


def _bytes(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobFileError(name, f"The file cannot be read: {error.strerror}.") from None


def _hint(said: str) -> str:
    if "cannot start any token" in said:
        return " Indent with spaces, not tabs, and quote text that begins with a sign."
    if "mapping values are not allowed" in said:
        return " Quote text that holds a colon followed by a space."
    return ""
