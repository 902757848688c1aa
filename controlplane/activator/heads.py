"""What a head may say, and what of it is passed on: the rules of RFC 9110 and 9112 for an intermediary.

Each head is written anew from what the parser found; no byte of a line is copied with its end. So the replica reads the
same request that was looked at here, and nothing in a value can begin another header or request.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

Headers = list[tuple[bytes, bytes]]  # names in lower case
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_HEAD = 32 * 2**10  # bytes of a request's head
MAX_TARGET = 8 * 2**10  # bytes
MAX_HEADERS = 100
HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
))  # fmt: skip
FORWARDED = frozenset((b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip"))
# What `Connection` may not take away: it would change what the request is, or who is said to have sent it.
KEPT = frozenset((b"host", b"content-length", b"authorization", b"cookie")) | FORWARDED
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
VIA = b"via: 1.1 weft\r\n"


class BadRequestError(Exception):
    """What was sent cannot be passed on; the message says what to send instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Head:
    """A request's head as it was read and found good. length None: the body is in chunks."""

    method: bytes
    target: bytes
    version: str
    headers: Headers
    length: int | None
    expects_continue: bool
    is_websocket: bool
    keeps_alive: bool


def read(method: bytes, target: bytes, version: str, headers: Headers, keeps_alive: bool) -> Head:
    """Look at a head. Raises BadRequestError."""
    if version not in ("1.0", "1.1"):
        raise BadRequestError(505, "Only HTTP/1.1 is spoken here. Send the request as HTTP/1.1.")
    if method == b"CONNECT":
        raise BadRequestError(405, "This is no proxy for CONNECT. Ask for a path of the service.")
    if any(byte in value for _, value in headers for byte in (b"\r", b"\n", b"\0")):
        raise BadRequestError(400, "A header goes on over a second line. Write each header on one line.")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        raise BadRequestError(400, "Send exactly one Host header.")
    target = _origin(method, target, headers)
    connection = {word for value in _all(headers, b"connection") for word in _words(value)}
    protocols = [value.lower() for value in _all(headers, b"upgrade")]
    websocket = b"upgrade" in connection and method == b"GET" and b"websocket" in protocols
    expected = [value.lower() for value in _all(headers, b"expect")]
    if expected not in ([], [b"100-continue"]):
        raise BadRequestError(417, "Only Expect: 100-continue is known. Leave other expectations out.")
    return Head(
        method, target, version, headers, _length(version, headers), bool(expected) and version == "1.1", websocket,
        keeps_alive,
    )  # fmt: skip


def request(head: Head, length: int | None, peer: str, is_trusted: bool) -> bytes:
    """The head that a replica gets. length None: the body follows in chunks; -1: there is none."""
    lines = [b"%s %s HTTP/1.1\r\n" % (head.method, head.target)]
    named = {word for value in _all(head.headers, b"connection") for word in _words(value)} - KEPT
    for name, value in head.headers:
        if name in HOP or name in named or name in (b"content-length", b"expect"):
            continue
        if name.replace(b"_", b"-") in FORWARDED:  # a CGI-like program reads both spellings as one
            continue
        lines.append(b"%s: %s\r\n" % (name, value))
    lines.append(_forwarded(head.headers, peer.encode(), is_trusted))
    lines.append(VIA)
    if head.is_websocket:
        lines.append(b"connection: upgrade\r\nupgrade: websocket\r\n")
    if length is None:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length >= 0:
        lines.append(b"content-length: %d\r\n" % length)
    lines.append(b"\r\n")
    return b"".join(lines)


def response(status: int, reason: bytes, headers: Iterable[tuple[bytes, bytes]], framing: bytes) -> bytes:
    """The head of a replica's answer as the client gets it; framing is what we say of its length and connection."""
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, reason or REASONS.get(status, b""))]
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(_words(value))
    for name, value in headers:
        if name in HOP or (name in named and name not in KEPT) or name == b"content-length":
            continue
        lines.append(b"%s: %s\r\n" % (name, value))
    return b"".join((*lines, VIA, framing, b"\r\n"))


def problem(status: int, message: str, more: bytes = b"", *, keeps_alive: bool = False) -> bytes:
    """A whole answer of our own, in words."""
    body = message.encode() + b"\n"
    end = b"" if keeps_alive else b"connection: close\r\n"
    return b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n%s%s\r\n%s" % (
        status, REASONS.get(status, b""), len(body), more, end, body,
    )  # fmt: skip


def is_among(peer: str, networks: Sequence[Network]) -> bool:
    """Whether this address is in one of the networks."""
    if not networks:
        return False
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return any(address in network for network in networks)


def _origin(method: bytes, target: bytes, headers: Headers) -> bytes:
    """The target as a path; what is asked for by a whole address names its own host."""
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    scheme, found, rest = target.partition(b"://")
    if not found or scheme.lower() not in (b"http", b"https"):
        raise BadRequestError(400, "The target is no path. Ask for a path that begins with /.")
    cut = min((place for place in (rest.find(b"/"), rest.find(b"?")) if place >= 0), default=len(rest))
    authority, path = rest[:cut], rest[cut:]
    if not authority or b"@" in authority:
        raise BadRequestError(400, "The target has no host, or a user in it. Ask for a path that begins with /.")
    headers[:] = [(b"host", authority), *(pair for pair in headers if pair[0] != b"host")]
    return path if path.startswith(b"/") else b"/" + path


def _length(version: str, headers: Headers) -> int | None:
    """How long the body is; None: it comes in chunks. Two ways to read one body are how requests are smuggled."""
    codings = [word for value in _all(headers, b"transfer-encoding") for word in _words(value)]
    lengths = _all(headers, b"content-length")
    if codings:
        if version == "1.0" or lengths:
            raise BadRequestError(400, "Send either Content-Length or Transfer-Encoding: chunked (HTTP/1.1), not both.")
        if codings != [b"chunked"]:
            raise BadRequestError(501, "The only Transfer-Encoding known is chunked. Send the body uncoded.")
        return None
    if len(lengths) > 1 or (lengths and not lengths[0].isdigit()):
        raise BadRequestError(400, "Content-Length is to be one whole number.")
    return int(lengths[0]) if lengths else 0


def _forwarded(headers: Headers, peer: bytes, is_trusted: bool) -> bytes:
    """Who sent it: what a trusted peer says of those before it is kept, with its own address at the end."""
    before, proto, host = b"", b"http", next((value for name, value in headers if name == b"host"), b"")
    if is_trusted:
        said = dict(headers)
        before = b", ".join(_all(headers, b"x-forwarded-for"))
        proto, host = said.get(b"x-forwarded-proto", proto), said.get(b"x-forwarded-host", host)
    through = b"%s, %s" % (before, peer) if before else peer
    lines = b"x-forwarded-for: %s\r\nx-forwarded-proto: %s\r\n" % (through, proto)
    return lines + b"x-forwarded-host: %s\r\n" % host if host else lines


def _all(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _words(value: bytes) -> list[bytes]:
    return [word.strip().lower() for word in value.split(b",") if word.strip()]
