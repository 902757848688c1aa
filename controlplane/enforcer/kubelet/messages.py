"""Just enough of protobuf's wire format for the kubelet's two small APIs: texts, messages and numbers, by field."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

VARINT, TEXT = 0, 2  # wire types
Value: TypeAlias = "str | int | Sequence[tuple[int, Value]]"


def encode(parts: Sequence[tuple[int, Value]]) -> bytes:
    """A message of these fields, each a number and its text, number or message."""
    out = b""
    for field, value in parts:
        if isinstance(value, int):
            out += _varint(field << 3 | VARINT) + _varint(value)
        else:
            content = value.encode() if isinstance(value, str) else encode(value)
            out += _varint(field << 3 | TEXT) + _varint(len(content)) + content
    return out


def fields(message: bytes, wanted: int) -> list[bytes]:
    """The texts or messages of this field, as they come."""
    return [value for number, value in _read(message) if number == wanted and isinstance(value, bytes)]


def texts(message: bytes, wanted: int) -> list[str]:
    """The texts of this field."""
    return [value.decode() for value in fields(message, wanted)]


def number(message: bytes, wanted: int) -> int:
    """The number in this field; 0 without it."""
    return next((value for at, value in _read(message) if at == wanted and isinstance(value, int)), 0)


def _read(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(message):
        key, at = _number_at(message, at)
        value, at = _number_at(message, at)
        if key & 7 == TEXT:
            yield key >> 3, message[at : at + value]
            at += value
        elif key & 7 == VARINT:
            yield key >> 3, value
        else:
            raise ValueError(f"wire type {key & 7}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _number_at(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
