"""JSON read strictly, before any view sees it (docs/rest.md#what-is-refused)."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn

from rest_framework.parsers import BaseParser

from controlplane.api.refusals import BadBody, TooLarge
from controlplane.jobspec.shapes import FORBIDDEN
from controlplane.security.bounds import KIB, MAX_JSON

MAX_DEPTH = 20
MAX_KEYS = 2_000
MAX_VALUES = 20_000
MAX_TEXT = 64 * 1024
MAX_WHOLE = 2**53  # beyond it, JSON numbers differ between languages
# A text, or the rest of the body where its end is missing: possessive, so that nothing is ever looked at twice.
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NEITHER_BRACKET_NOR_COMMA = re.compile(r"[^\[\]{},]+")
_ROUND = str.maketrans("[{]}", "(())")


class StrictJSONParser(BaseParser):
    """Application/json in UTF-8, of limited size and depth, without anything two readers could read differently."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the decoded body; raises BadBody (400) or TooLarge (413)."""
        raw = stream.read(MAX_JSON + 1)
        if len(raw) > MAX_JSON:
            raise TooLarge(f"The body is larger than {MAX_JSON // KIB} KiB. Send less at once.")
        return loads(raw)


def loads(raw: bytes) -> Any:
    """Decode a body; raises BadBody, which names the field where it can."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadBody("", f"The body is not UTF-8 (byte {error.start}). Encode it as UTF-8.") from None
    if text.startswith("\ufeff"):
        raise BadBody("", "The body begins with a byte order mark. Remove it.")
    _check_frame(text)
    reader = _Reader()
    try:
        value = json.loads(
            text, object_pairs_hook=reader.pairs, parse_constant=reader.constant, parse_int=reader.whole,
            parse_float=reader.decimal,
        )  # fmt: skip
    except json.JSONDecodeError as error:
        message = f"The body is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        raise BadBody("", message) from None
    for at, one in _texts(value, ""):
        if FORBIDDEN.search(one):
            raise BadBody(at, f"{at or 'The body'} holds a control character. Remove it.")
        if len(one) > MAX_TEXT:
            raise BadBody(at, f"{at or 'The body'} is a text of {len(one)} characters. Send at most {MAX_TEXT}.")
    return value


class _Reader:
    """What json.loads asks back while it reads."""

    def __init__(self) -> None:
        self.keys = 0

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.keys += len(pairs)
        if self.keys > MAX_KEYS:
            raise BadBody("", f"The body has more than {MAX_KEYS} fields. Send less at once.")
        out = dict(pairs)
        if len(out) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            name = FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", twice)[:60]
            raise BadBody(name, f"{name} is given twice in one object. Keep one.")
        return out

    def constant(self, name: str) -> NoReturn:
        raise BadBody("", f"The body holds {name}, which is not a JSON number. Give a number.")

    def whole(self, digits: str) -> int:
        if len(digits) > 17 or abs(int(digits)) > MAX_WHOLE:
            raise BadBody("", f"The body holds the number {digits[:20]}, which is too large. Keep it below 2^53.")
        return int(digits)

    def decimal(self, digits: str) -> float:
        value = float(digits) if len(digits) <= 30 else MAX_WHOLE
        if len(digits) > 30 or abs(value) > MAX_WHOLE:
            raise BadBody("", f"The body holds the number {digits[:20]}, which is too large or too long. Shorten it.")
        return value


def _check_frame(text: str) -> None:
    """Refuse what would be deep or long to read, before it is read. Raises BadBody.

    Of the body only brackets and commas are looked at, so a hostile one exhausts neither the stack nor the processor.
    """
    frame = _NEITHER_BRACKET_NOR_COMMA.sub("", _TEXT.sub("", text))
    if frame.count(",") + frame.count("[") + frame.count("{") > MAX_VALUES:
        raise BadBody("", f"The body has more than {MAX_VALUES} values. Send less at once.")
    inner = frame.replace(",", "").translate(_ROUND)
    for _ in range(MAX_DEPTH):
        inner = inner.replace("()", "")  # takes the innermost level away
    if "()" in inner or inner.count("(") > MAX_DEPTH:
        raise BadBody("", f"The body is nested more than {MAX_DEPTH} deep. Flatten it.")


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """Every text in a value with its path, names of fields included."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for name, one in value.items():
            inner = FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", name)[:60]
            inner = f"{at}.{inner}" if at else inner
            yield inner, name
            yield from _texts(one, inner)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _texts(one, f"{at}.{i}" if at else str(i))
