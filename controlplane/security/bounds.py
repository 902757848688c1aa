"""How much of a request is read, and how long it may take to come (docs/security.md#limits)."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

KIB = 1024
MAX_HEAD = 32 * KIB  # bytes of the request line and the headers together
MAX_BODY = 1024 * KIB  # bytes; what a form of the pages may have
MAX_JSON = 256 * KIB  # bytes; what any address of the API takes: a job file, a batch of them (docs/rest.md)
MAX_ESCAPES = 16  # backslashes in cookies; ours have none, and Python's reader takes the square of their number
MAX_MEDIA = KIB  # bytes of Content-Type, and of Accept; their readers take the square of their semicolons
MEDIA = {b"content-type": "Content-Type", b"accept": "Accept"}
MAX_MORE = 64 * KIB  # bytes that are still read, and thrown away, of a request that was refused
MIN_TAKEN = 16 * KIB  # bytes of an answer; a client that takes fewer holds memory for nothing
MIN_GROWTH = KIB  # bytes by which a body that is not whole has to grow while it is waited for


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for which a client is waited for."""

    head: float = 10.0  # from the connection, or the first byte after the request before, to the end of the head
    body: float = 30.0  # in which a body that is not whole has to grow
    answer: float = 30.0  # in which MIN_TAKEN of an answer that waits for its reader has to be taken
    end: float = 2.0  # in which a client that was refused may read the answer


def max_body(path: bytes) -> int:
    """The most bytes of a body that is sent to this address, as the request line has it: escaped, or with a host."""
    plain = unquote_to_bytes(path)
    if not plain.startswith(b"/"):
        plain = b"/" + plain.partition(b"://")[2].partition(b"/")[2]
    return MAX_JSON if plain.startswith(b"/api/") else MAX_BODY


def is_dear_cookie(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the cookies have too many escapes to be read; all lines of them together, because they are joined."""
    return sum(value.count(b"\\") for name, value in headers if name == b"cookie") > MAX_ESCAPES


def too_long(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The name of a header that is too long to be read, all its lines together; "" if there is none."""
    sizes = dict.fromkeys(MEDIA, 0)
    for name, value in headers:
        if name in sizes:
            sizes[name] += len(value) + 1  # the comma between two lines
    return next((MEDIA[name] for name, size in sizes.items() if size > MAX_MEDIA), "")
