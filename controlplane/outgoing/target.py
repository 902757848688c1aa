"""Where a webhook may be: which URLs are taken, and to which addresses we connect.

The rules are in docs/notifications.md#where-a-webhook-may-go.

A name is resolved by us, once, and the connection goes to an address that was looked at: whoever owns the name cannot
answer with another one in between. Every address of a name must be allowed, not just one of them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = (443, 8443)
MAX_LENGTH = 2000
_HOST = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PATH = re.compile(r"[\x21-\x7e]*")

# Where clouds answer their machines with credentials. Never, whatever an operator allows.
_METADATA = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
    )
)  # fmt: skip
# Addresses that carry an IPv4 address which a gateway would connect to: 6to4, NAT64 (with its local form), Teredo,
# IPv4-compatible. They are global by their own registry entry, whatever they carry.
_CARRIERS = tuple(ip_network(text) for text in ("2002::/16", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "::/96"))
# All public IPv6 is in here, and these are in use for other things than hosts: Python's tables grow with its versions.
_PUBLIC_V6 = ip_network("2000::/3")
_SPECIAL = tuple(ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))


class TargetError(Exception):
    """A URL or an address that we do not send to; the sentence says why and what to do."""


class InsideError(TargetError):
    """A name leads to an address that we do not connect to. The sentence names it, so it is for the operator alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts. `address` is set when the host is one and not a name."""

    host: str
    port: int
    path: str
    address: Address | None


@dataclass(frozen=True, slots=True)
class Policy:
    """What is allowed besides public addresses, and on which ports."""

    private: tuple[Network, ...] = ()
    ports: tuple[int, ...] = PORTS

    @classmethod
    def of(cls, networks: Iterable[str]) -> "Policy":
        """From the setting. Raises ValueError for what is no network."""
        return cls(tuple(ip_network(text.strip()) for text in networks if text.strip()))

    def refusal(self, address: Address) -> str:
        """Why we do not connect to this address; empty if we do."""
        address = _plain(address)
        if any(_in(one, network) for one in (address, _carried(address)) for network in _METADATA):
            return f"{address} is an address of the machine's own network, which is never allowed"
        if any(_in(address, network) for network in self.private):
            return ""
        if not _is_public(address):
            return f"{address} is not a public address; an operator may allow it with WEFT_WEBHOOK_PRIVATE"
        return ""

    def allowed(self, addresses: Sequence[str]) -> Address:
        """The address to connect to, of those that a name has. Raises InsideError if any of them is not allowed."""
        found = [ip_address(text.partition("%")[0]) for text in addresses]
        if not found:
            raise TargetError("The name has no address")
        for address in found:
            if why := self.refusal(address):
                raise InsideError(f"Refused: {why}")
        return _plain(found[0])


def parse(url: str, policy: Policy) -> Target:
    """The parts of a URL that may be sent to as far as can be told without asking for its name. Raises TargetError."""
    parts, port = _parts(url)
    if port not in policy.ports:
        raise TargetError(f"Use port {' or '.join(map(str, policy.ports))}")
    host = (parts.hostname or "").removesuffix(".")
    address = _literal(host)
    if address is not None:
        if why := policy.refusal(address):
            raise TargetError(f"Give another address: {why}")
    elif not _HOST.fullmatch(host) or _ends_in_a_number(host):
        raise TargetError("Give a host name in ASCII (xn-- for others), or a usual IP address")
    path = parts.path or "/"
    return Target(host, port, f"{path}?{parts.query}" if parts.query else path, address)


def _parts(url: str) -> tuple[SplitResult, int]:
    """The URL split, and its port. Raises TargetError for what is no plain https URL."""
    if len(url) > MAX_LENGTH or not _PATH.fullmatch(url):
        raise TargetError(f"Give a URL of at most {MAX_LENGTH} ASCII characters, without spaces")
    try:
        parts = urlsplit(url)
        port = 443 if parts.port is None else parts.port
    except ValueError as error:
        raise TargetError("Give a URL such as https://hooks.example.com/weft") from error
    if parts.scheme != "https":
        raise TargetError("Use https://")
    if "@" in parts.netloc or "\\" in url or "#" in url:
        raise TargetError("Give a URL without a user, a backslash and a fragment")
    return parts, port


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host) if "%" not in host else None
    except ValueError:
        return None


def _ends_in_a_number(host: str) -> bool:
    """Whether resolvers may take it for an IPv4 address in an odd form: 127.1, 0x7f000001, 2130706433."""
    last = host.rpartition(".")[2]
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


def _plain(address: Address) -> Address:
    """An IPv4 address that is written as IPv6 as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _is_public(address: Address) -> bool:
    """Whether it is a host's on the Internet."""
    if any(_in(address, network) for network in (*_CARRIERS, *_SPECIAL)):
        return False
    if address.version == 6 and not _in(address, _PUBLIC_V6):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _carried(address: Address) -> Address:
    """The IPv4 address in the last 32 bits of one for a gateway; else itself."""
    is_for_gateway = any(_in(address, network) for network in _CARRIERS)
    return IPv4Address(int(address) & 0xFFFFFFFF) if is_for_gateway else address


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
