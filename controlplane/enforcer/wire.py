"""Messages between the daemon and the library in a container: 24 bytes each (`weft_message` in library/weft.h)."""

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
_FORM = struct.Struct("<IIqq")
SIZE = _FORM.size


class Kind(IntEnum):
    """What a message says. Those below 100 come from the library, the others from the daemon."""

    HELLO = 1  # flag: its slot of the page; one: its version of this protocol
    ASK = 2
    MORE = 3  # its quota is used up, once what is queued has run: one, us
    GIVE = 4  # flag: it asks again at once; one: how long what is queued still runs, us
    PING = 5
    WELCOME = 101
    GRANT = 102  # flag: whether another waits; one: the quota, two: the most (0: no end), us
    REVOKE = 103
    CONTENDED = 104  # flag: whether another waits from now on
    PONG = 105


@dataclass(frozen=True, slots=True)
class Message:
    """One of them."""

    kind: Kind
    flag: int = 0
    one: int = 0
    two: int = 0

    def packed(self) -> bytes:
        """As it is sent."""
        return _FORM.pack(self.kind, self.flag, self.one, self.two)


def unpacked(data: bytes) -> Message:
    """What was received. Raises ValueError if it is no message."""
    if len(data) != SIZE:
        raise ValueError(f"a message of {len(data)} bytes, not {SIZE}")
    kind, flag, one, two = _FORM.unpack(data)
    return Message(Kind(kind), flag, one, two)
