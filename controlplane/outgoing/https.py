"""One POST to a webhook: to an address that was looked at, within 5 seconds, without redirects, proxies or cookies.

What comes back is not believed and not kept: the status is all that is read of an answer, and at most 64 KiB of it.
"""

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11
import structlog

from controlplane.outgoing.target import InsideError, Policy, Target, TargetError, parse

SECONDS = 5.0  # for all of it: name, connection, TLS, request and the answer's head
MAX_HEAD = 64 * 1024  # bytes of an answer's head
CHUNK = 16 * 1024
AGENT = "Weft-Webhook/1"
INSIDE = "Refused: the name leads to an address that webhooks may not reach. Ask an operator; the log has the address."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one try. `status` is the answer's, None without one; `is_final`: trying again would not help."""

    status: int | None
    error: str
    seconds: float
    is_final: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a name, by the machine's resolver. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(row[4][0]) for row in found))


def dialled(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to exactly this address. Raises OSError."""
    return socket.create_connection((address, port), timeout=seconds)


@dataclass(frozen=True)
class Sender:
    """How requests leave this process. `resolve` and `dial` are the network, which a test may play."""

    policy: Policy
    tls: ssl.SSLContext
    resolve: Callable[[str, int], list[str]] = resolved
    dial: Callable[[str, int, float], socket.socket] = dialled
    seconds: float = SECONDS

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """Send it once; whatever goes wrong is an outcome, never an exception of the network."""
        began = time.monotonic()
        until = began + self.seconds
        try:
            status = self._post(url, body, headers, until)
        except InsideError as error:  # names that only we resolve would tell how the network inside is made
            log.warning("webhook not sent", url=urlsplit(url).hostname, why=str(error))
            return Outcome(None, INSIDE, time.monotonic() - began, is_final=True)
        except TargetError as error:
            return Outcome(None, str(error), time.monotonic() - began, is_final=True)
        except (TimeoutError, _LateError):
            return Outcome(None, f"No answer within {self.seconds:g} s", time.monotonic() - began)
        except ssl.SSLError as error:
            return Outcome(None, f"TLS: {_told(error)}", time.monotonic() - began)
        except h11.ProtocolError:
            return Outcome(None, "The answer is not HTTP, or its head is too large", time.monotonic() - began)
        except (OSError, UnicodeError) as error:
            return Outcome(None, _told(error), time.monotonic() - began)
        took = time.monotonic() - began
        return Outcome(status, _meaning(status), took, is_final=status == 410)

    def _post(self, url: str, body: bytes, headers: Mapping[str, str], until: float) -> int:
        target = parse(url, self.policy)
        known = [str(target.address)] if target.address else self.resolve(target.host, target.port)
        address = self.policy.allowed(known)
        with self.dial(str(address), target.port, _left(until)) as plain:
            plain.settimeout(_left(until))
            with self.tls.wrap_socket(plain, server_hostname=target.host) as secured:
                return _exchange(secured, target, body, headers, until)


class _LateError(Exception):
    """The time is over."""


def _exchange(wire: ssl.SSLSocket, target: Target, body: bytes, headers: Mapping[str, str], until: float) -> int:
    """Send the request and read the answer's head; its body is left unread."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    shown = f"[{target.host}]" if ":" in target.host else target.host
    fixed = {
        "Host": shown if target.port == 443 else f"{shown}:{target.port}",
        "User-Agent": AGENT,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    request = h11.Request(method="POST", target=target.path, headers=list({**fixed, **headers}.items()))
    wire.settimeout(_left(until))
    wire.sendall((http.send(request) or b"") + (http.send(h11.Data(data=body)) or b""))
    http.send(h11.EndOfMessage())
    read = 0
    while True:
        event = http.next_event()
        if isinstance(event, h11.Response):
            return event.status_code
        if event is h11.NEED_DATA:
            if read > MAX_HEAD:
                raise h11.RemoteProtocolError("too much before the answer")
            wire.settimeout(_left(until))
            data = wire.recv(CHUNK)
            read += len(data)
            http.receive_data(data)
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("closed without an answer")


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise _LateError
    return left


def _meaning(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"Answered {status}; redirects are not followed. Give the final URL."
    return f"Answered {status}"


def _told(error: Exception) -> str:
    """What the machine says of it, in one line and without what a receiver could have written."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not valid: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return "The name has no address"
    return (getattr(error, "strerror", None) or type(error).__name__).partition("\n")[0]
