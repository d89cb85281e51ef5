"""Which addresses an HTTP tool may connect to.

A name is resolved once for a call, and what was checked is what is connected to: asking again would let a name mean a
public address while it is checked and a private one while it is called. Never here: a connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from holdfast.core.policies import DENIED, NETWORK
from holdfast.errors import ToolFailed, UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))

MOST_ADDRESSES: Final = 4
"""A name's other addresses are tried when one cannot be reached; a name with many must not eat the whole time."""

_NOT_PUBLIC: Final[tuple[Network, ...]] = (
    ip_network("100.64.0.0/10"),  # shared by the customers of a carrier, or of a cloud (RFC 6598)
    ip_network("168.63.129.16/32"),  # what Azure's machines are told their secrets by
    ip_network("192.88.99.0/24"),  # relays of 6to4, withdrawn (RFC 7526)
    ip_network("64:ff9b:1::/48"),  # translated to the local network's IPv4 (RFC 8215)
    ip_network("2001::/32"),  # Teredo: an IPv4 address in disguise (RFC 4380)
    ip_network("fec0::/10"),  # site-local, withdrawn (RFC 3879)
)
"""What the standard library calls public, or calls so in some of its versions."""

_TRANSLATED: Final = ip_network("64:ff9b::/96")


def networks(allowed: bool | Sequence[str]) -> tuple[Network, ...]:
    """`allow_private` as networks. Raises UsageError for what is none."""
    if isinstance(allowed, bool):
        return EVERYWHERE if allowed else ()
    if isinstance(allowed, str):
        raise UsageError(f'allow_private={allowed!r} is one string; give a list of networks, as ["10.0.0.0/8"]')
    try:
        return tuple(ip_network(each) for each in allowed)
    except ValueError as problem:
        raise UsageError(f"allow_private names no network: {problem}") from None


async def resolve(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """The addresses of `host` that may be connected to, the system's favourite first, at most MOST_ADDRESSES.

    Raises ToolFailed, for nothing was sent, if the name cannot be resolved or if any of its addresses is refused: a name
    that means a public and a private address is somebody's trick.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise ToolFailed(
            f"The name {host!r} cannot be resolved ({problem}). Nothing was sent.", error_class=NETWORK
        ) from None
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    for each in addresses:
        if not may_be_called(ip_address(each), allowed):
            raise ToolFailed(
                f"{host!r} is at {each}, which is no public address. Nothing was sent. If this tool is meant to call"
                f' it, declare allow_private=["{ip_address(each).exploded}"], or a network around it.',
                error_class=DENIED,
            )
    return addresses[:MOST_ADDRESSES]


def may_be_called(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether `address` is public, or in an allowed network. IPv4 inside IPv6 counts as the IPv4 address that it is."""
    meant = _meant(address)
    if any(each in network for each in {address, meant} for network in allowed):
        return True
    special = (
        not meant.is_global or meant.is_multicast or meant.is_reserved or meant.is_link_local or meant.is_unspecified
    )
    return not special and not any(meant in network for network in _NOT_PUBLIC)


def _meant(address: Address) -> Address:
    """The address that packets go to in the end."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
