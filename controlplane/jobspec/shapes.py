"""Shapes of values from outside: each reads a value strictly, names every fault, and knows its JSON schema.

`read` returns what the value means (numbers with one unit); `filled` returns it as given, with defaults. A fault says
which field, what is wrong and what to do; reading goes on after one, so that all are named at once.

Why not DRF's serializers: job files are also read where there is no request and no Django (the simulator, presets, the
replay of traces); one table gives the reader, the REST schema, the help and docs/job-file.md; no value is coerced
("1" is not 1), an unknown field is a fault with the nearest name, and what was given is kept beside what it means.
DRF's serializers describe answers only (controlplane/api/serializers).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from controlplane.jobspec import oldnames

# Characters that may stand nowhere: controls (but tab and line feed), bidirectional controls, lone surrogates.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LINE_BREAK = re.compile("[\t\n]")
SHOWN = 60  # characters of a value in a message
REQUIRED: Any = object()
BAD: Any = object()  # what `read` returns after a fault

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: the dotted field (empty = the whole document) and a sentence with the fix."""

    field: str
    message: str


@dataclass
class Faults:
    """The faults found so far."""

    errors: list[FieldError] = field(default_factory=list)

    def add(self, at: str, message: str) -> Any:
        """Note a fault of the field `at`; return BAD."""
        self.errors.append(FieldError(at, message))
        return BAD


class Shape(Protocol):
    """One kind of value."""

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """What the value means, or BAD with at least one fault noted."""

    def filled(self, value: Any) -> Any:
        """A value without fault as it was given, with defaults."""

    def schema(self) -> Schema:
        """The JSON schema (2020-12)."""


def shown(value: object) -> str:
    """A value in a sentence: short, and without characters that could mislead."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        text = FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
        text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        return f'"{text}"'.replace("\n", " ")
    if isinstance(value, Sequence):
        return "a list"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of more than 18 digits"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value)[:SHOWN])


def below(at: str, name: str) -> str:
    """The dotted path of a field inside `at`."""
    name = shown(name)[1:-1]
    return f"{at}.{name}" if at else name


class _AsGiven:
    """Shapes without parts: nothing to fill in."""

    def filled(self, value: Any) -> Any:
        """Return the value itself."""
        return value


@dataclass(frozen=True, slots=True)
class Text(_AsGiven):
    """Text of 1 to `most` characters on one line (or on several) that matches a pattern; `rule` says which."""

    most: int
    pattern: str = ""
    rule: str = ""
    has_lines: bool = False
    may_be_empty: bool = False
    check: Callable[[str], str] | None = None  # returns what is wrong and what to do, or ""

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the text."""
        if not isinstance(value, str):
            quoted = f' Write it in quotes: "{value}".' if type(value) in (int, float) else " Give text."
            return faults.add(at, f"{at} is {shown(value)}, which is not text.{quoted}")
        fault = self.fault(value)
        return faults.add(at, f"{at} is {shown(value)}{fault}") if fault else value

    def schema(self) -> Schema:
        """Return a string schema."""
        out: Schema = {"type": "string", "minLength": 0 if self.may_be_empty else 1, "maxLength": self.most}
        return {**out, "pattern": f"^{self.pattern}$"} if self.pattern else out

    def fault(self, value: str) -> str:
        """What is wrong and what to do, to follow the value in a sentence; empty if nothing is."""
        if FORBIDDEN.search(value) or (not self.has_lines and LINE_BREAK.search(value)):
            return ", which holds a control character. Remove it."
        if not value and not self.may_be_empty:
            return f", which is empty. {self.rule or 'Give a text or leave the field out.'}"
        if len(value) > self.most:
            return f", which has {len(value)} characters. Shorten it to at most {self.most}."
        if self.pattern and not re.fullmatch(self.pattern, value):
            return f". {self.rule}"
        return self.check(value) if self.check else ""


@dataclass(frozen=True, slots=True)
class Choice(_AsGiven):
    """One of some words; names_all: a fault lists them all, also where one is near."""

    words: tuple[str, ...]
    names_all: bool = False

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the word."""
        if isinstance(value, str) and value in self.words:
            return value
        near = get_close_matches(value, self.words, 1) if isinstance(value, str) and not self.names_all else []
        fix = f"Did you mean {near[0]}?" if near else f"Use {_listed(self.words, 'or')}."
        return faults.add(at, f"{at} is {shown(value)}. {fix}")

    def schema(self) -> Schema:
        """Return an enumeration."""
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Flag(_AsGiven):
    """True or false."""

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the boolean."""
        return value if isinstance(value, bool) else faults.add(at, f"{at} is {shown(value)}. Use true or false.")

    def schema(self) -> Schema:
        """Return a boolean schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole(_AsGiven):
    """A whole number in a range."""

    least: int
    most: int
    may_be_null: bool = False

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the integer, or None where that is allowed."""
        if value is None and self.may_be_null:
            return None
        if type(value) is not int:
            return faults.add(at, f"{at} is {shown(value)}. Write a whole number{self._how(value)}.")
        if self.least <= value <= self.most:
            return value
        fix = f"at least {self.least}" if value < self.least else f"at most {self.most}"
        return faults.add(at, f"{at} is {shown(value)}. Set it to {fix}.")

    def schema(self) -> Schema:
        """Return an integer schema."""
        kind: Any = ["integer", "null"] if self.may_be_null else "integer"
        return {"type": kind, "minimum": self.least, "maximum": self.most}

    def _how(self, value: object) -> str:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < SHOWN:
            return f" without quotes: {int(value)}"
        if isinstance(value, float) and value.is_integer():
            return f" without a decimal point: {int(value)}"
        return ""


@dataclass(frozen=True, slots=True)
class WholeOrWord(_AsGiven):
    """A whole number in a range, or one word in its place."""

    number: Whole
    word: str

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the integer, or the word."""
        if value == self.word or type(value) is int:
            return value if value == self.word else self.number.read(value, at, faults)
        return faults.add(at, f"{at} is {shown(value)}. Write a whole number, or {self.word}.")

    def schema(self) -> Schema:
        """Return either schema."""
        return {"anyOf": [self.number.schema(), {"type": "string", "enum": [self.word]}]}


@dataclass(frozen=True, slots=True)
class Quantity(_AsGiven):
    """Text with a unit (or also a plain number) that `parse` turns into a number in [least, most] of `unit`."""

    parse: Callable[[str], float]
    least: float
    most: float
    example: str
    limits: tuple[str, str]  # least and most, as the user would write them
    takes_numbers: bool = False
    takes_text: bool = True

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return the number in the unit of `parse`."""
        if not self._is_kind(value):
            return faults.add(at, f"{at} is {shown(value)}. Write for example {self.example}.")
        try:
            number = self.parse(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            return faults.add(at, f"{at}: {error}.")
        if self.least <= number <= self.most:
            return number
        fix = f"at least {self.limits[0]}" if number < self.least else f"at most {self.limits[1]}"
        return faults.add(at, f"{at} is {shown(value)}. Set it to {fix}.")

    def schema(self) -> Schema:
        """Return a string or number schema with an example."""
        kinds = ["string"] * self.takes_text + ["number"] * self.takes_numbers
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "examples": [self.example.strip('"')], "maxLength": 32}

    def _is_kind(self, value: object) -> bool:
        if isinstance(value, str):
            return self.takes_text and len(value) <= 32
        return self.takes_numbers and type(value) in (int, float)


@dataclass(frozen=True, slots=True)
class Document(_AsGiven):
    """An object, or a list, that another table reads later; `about` is its JSON schema."""

    kind: type[dict[str, Any]] | type[list[Any]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return it as it is if it is of the right kind."""
        what = "an object" if self.kind is dict else "a list"
        return value if isinstance(value, self.kind) else faults.add(at, f"{at} is {shown(value)}. Give {what}.")

    def schema(self) -> Schema:
        """Return the schema that was given."""
        return {"type": "object" if self.kind is dict else "array", **self.about}


@dataclass(frozen=True, slots=True)
class Items:
    """A list of at most `most` values of one shape; `takes_one` also reads a single value."""

    each: Shape
    most: int
    is_unique: bool = False
    takes_one: bool = False

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return a tuple."""
        if self.takes_one and isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple):
            return faults.add(at, f"{at} is {shown(value)}. Give a list.")
        if len(value) > self.most:
            return faults.add(at, f"{at} has {len(value)} entries. Give at most {self.most}.")
        read = tuple(self.each.read(one, f"{at}.{i}", faults) for i, one in enumerate(value))
        if any(one is BAD for one in read):
            return BAD
        twice = self.is_unique and next((one for i, one in enumerate(read) if one in read[:i]), None)
        return faults.add(at, f"{at} names {shown(twice)} twice. Remove one.") if twice else read

    def filled(self, value: Any) -> Any:
        """Return a list of filled values."""
        return [self.each.filled(one) for one in ([value] if isinstance(value, str) else value)]

    def schema(self) -> Schema:
        """Return an array schema."""
        array: Schema = {"type": "array", "items": self.each.schema(), "maxItems": self.most}
        array |= {"uniqueItems": True} if self.is_unique else {}
        return {"anyOf": [array, self.each.schema()]} if self.takes_one else array


@dataclass(frozen=True, slots=True)
class Pairs(_AsGiven):
    """An object with free keys of one shape and values of another."""

    key: Text
    each: Shape
    most: int

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return a dict."""
        if not isinstance(value, Mapping):
            return faults.add(at, f"{at} is {shown(value)}. Give an object of names and values.")
        if len(value) > self.most:
            return faults.add(at, f"{at} has {len(value)} entries. Give at most {self.most}.")
        out = {}
        for name, one in value.items():
            inner = below(at, str(name))
            if fault := self.key.fault(str(name)):
                faults.add(inner, f"{at} has the name {shown(str(name))}{fault}")
            out[name] = self.each.read(one, inner, faults)
        return out

    def schema(self) -> Schema:
        """Return an object schema with free keys."""
        return {
            "type": "object",
            "propertyNames": self.key.schema(),
            "additionalProperties": self.each.schema(),
            "maxProperties": self.most,
        }


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record. default is as a user would write it; None = absent. was: its old name, read as well."""

    name: str
    shape: Shape
    about: str
    default: Any = None
    was: str = ""


@dataclass(frozen=True)
class Record:
    """An object with known fields; anything else is refused. `hints` answers names that people try."""

    fields: tuple[Field, ...]
    hints: Mapping[str, str] = field(default_factory=dict)

    def read(self, value: Any, at: str, faults: Faults) -> Any:
        """Return a dict with every field; absent ones without default are None."""
        if not isinstance(value, Mapping):
            return faults.add(at, f"{at or 'The document'} is {shown(value)}. Give an object.")
        for name in sorted(map(str, value.keys() - {name for f in self.fields for name in (f.name, f.was)})):
            self._unknown(name, at, faults)
        out = {}
        for one in self.fields:
            given = one.was if one.was in value else one.name
            inner = f"{at}.{given}" if at else given
            if fault := one.was and oldnames.clash(value, one.was, one.name):
                out[one.name] = faults.add(inner, f"{inner} {fault}")
            elif given in value:
                out[one.name] = one.shape.read(value[given], inner, faults)
            elif one.default is REQUIRED:
                out[one.name] = faults.add(inner, f"{inner} is missing. Add it: {_inside(one.about)}")
            else:
                out[one.name] = None if one.default is None else one.shape.read(one.default, inner, faults)
        return out

    def filled(self, value: Any) -> Any:
        """Return the object in the order of the table, with defaults."""
        given = ((f, value.get(f.name, value.get(f.was, f.default))) for f in self.fields)
        return {f.name: f.shape.filled(one) for f, one in given if one is not None}

    def schema(self) -> Schema:
        """Return an object schema without further properties."""
        properties = {}
        for one in self.fields:
            properties[one.name] = {**one.shape.schema(), "description": one.about}
            if one.default not in (None, REQUIRED):
                properties[one.name]["default"] = one.default
            if one.was:
                properties[one.was] = oldnames.deprecated(one.shape.schema(), one.name)
        needed = [(f.name, f.was) for f in self.fields if f.default is REQUIRED]
        return {"type": "object", "properties": properties, "additionalProperties": False, **oldnames.required(needed)}

    def _unknown(self, name: str, at: str, faults: Faults) -> None:
        known = [f.name for f in self.fields]
        inner = below(at, name)
        near = get_close_matches(name[:SHOWN], known, 1)
        fix = self.hints.get(name) or (f"Did you mean {near[0]}?" if near else f"Fields here: {', '.join(known)}.")
        faults.add(inner, f"{inner} is not a field of {at or 'the job file'}. {fix}")


def _inside(sentence: str) -> str:
    """A sentence as it stands after a colon."""
    return sentence if sentence[1:2].isupper() else sentence[0].lower() + sentence[1:]


def _listed(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
