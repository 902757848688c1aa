"""Whom an address is counted as: one network of IPv6 is one person's, with 2^64 addresses to choose from."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

HOST_BITS = 64  # what a provider gives to one home or machine at least (RFC 6177)


@lru_cache(4096)
def network_of(address: str) -> str:
    """The key to count an address by: an IPv4 one itself, of an IPv6 one its /64; what is no address as it is."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((int(found) >> HOST_BITS << HOST_BITS, 128 - HOST_BITS)))
