"""Which addresses belong to the public internet, and which to this machine, its network or nobody."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an IP address is one of the public internet; an IPv4 address inside an IPv6 one is looked at, too."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = _embedded(address)
    if inner is not None:
        return is_public(str(inner))
    return address.is_global and not address.is_multicast


def _embedded(address: Address) -> Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, 6to4, Teredo or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
