"""The addresses outside that a process may connect to: of HTTP tools, content parts, and receivers of notifications.

A name is resolved once for a call, and the call goes to the address that was checked. A second look-up could return a
private address after a public one was checked. Never here: a connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.core.values.policies import DENIED, NETWORK
from holdfast.errors import ToolFailed, UsageError

log = logging.getLogger("holdfast")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))

MAX_ADDRESSES: Final = 4
"""A name's other addresses are tried when one cannot be reached; a name with many must not eat the whole time."""

_GIVEN_OUT: Final = ip_network("2000::/3")
"""All of IPv6 that IANA assigns (iana.org/assignments/ipv6-address-space); the rest is for special purposes, or
unassigned."""

_SPECIAL: Final[tuple[Network, ...]] = (
    # iana.org/assignments/iana-ipv4-special-registry. Those of its lines that can be reached from everywhere are anycast
    # for machines, and no place of a service either.
    ip_network("0.0.0.0/8"),  # this network (RFC 791)
    ip_network("10.0.0.0/8"),  # private (RFC 1918)
    ip_network("100.64.0.0/10"),  # shared by the customers of a carrier, or of a cloud (RFC 6598)
    ip_network("127.0.0.0/8"),  # this machine (RFC 1122)
    ip_network("169.254.0.0/16"),  # this link (RFC 3927)
    ip_network("172.16.0.0/12"),  # private (RFC 1918)
    ip_network("192.0.0.0/24"),  # protocols (RFC 6890), and what gives machines of a cloud their secrets
    ip_network("192.0.2.0/24"),  # documentation (RFC 5737)
    ip_network("192.31.196.0/24"),  # AS112 (RFC 7535)
    ip_network("192.52.193.0/24"),  # multicast tunnels (RFC 7450)
    ip_network("192.88.99.0/24"),  # relays of 6to4, withdrawn (RFC 7526)
    ip_network("192.168.0.0/16"),  # private (RFC 1918)
    ip_network("192.175.48.0/24"),  # AS112 (RFC 7534)
    ip_network("198.18.0.0/15"),  # benchmarks (RFC 2544)
    ip_network("198.51.100.0/24"),  # documentation (RFC 5737)
    ip_network("203.0.113.0/24"),  # documentation (RFC 5737)
    ip_network("224.0.0.0/4"),  # groups (RFC 5771), from another registry
    ip_network("240.0.0.0/4"),  # kept for later (RFC 1112); the last of them means all hosts here (RFC 919)
    ip_network("168.63.129.16/32"),  # what gives Azure's machines their secrets; from Azure's documentation
    # iana.org/assignments/iana-ipv6-special-registry, as far as it is within what is given out.
    ip_network("2001::/23"),  # protocols (RFC 2928), Teredo (RFC 4380), benchmarks, anycast, ids that are no places
    ip_network("2001:db8::/32"),  # documentation (RFC 3849)
    ip_network("2620:4f:8000::/48"),  # AS112 (RFC 7534)
    ip_network("3fff::/20"),  # documentation (RFC 9637)
)
"""Networks that are no public place. It is written out here because the standard library knows what was registered when it was
made: Python 3.11 calls the first line of protocols public, and the last of documentation."""

_TRANSLATED: Final = ip_network("64:ff9b::/96")


PORTS: Final = {"http": 80, "https": 443}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Url(NamedTuple):
    """The parts of a URL of http or https. `origin` is (scheme, host, port), `authority` host and port as they are written."""

    origin: tuple[str, str, int]
    authority: str
    path: str
    query: str

    @property
    def target(self) -> str:
        """Path and query, as a request names them."""
        return self.path + (f"?{self.query}" if self.query else "")


def parse_url(text: str) -> Url:
    """Return the parts of a URL. Raises UsageError for one that no request can be made of."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as problem:
        raise UsageError(f"{text!r} is no URL: {problem}") from None
    wrong = _problem(text, parts.scheme, parts.hostname, parts.username is not None, bool(parts.fragment))
    if wrong is None and port == 0:
        wrong = "there is no port 0"
    if wrong is not None:
        raise UsageError(f"the URL {text!r} cannot be used: {wrong}")
    origin = (parts.scheme, parts.hostname or "", port or PORTS[parts.scheme])
    return Url(origin, parts.netloc, parts.path or "/", parts.query)


def _problem(text: str, scheme: str, host: str | None, has_user: bool, has_fragment: bool) -> str | None:
    if not text.isascii() or re.search(r"[\s\\]", text) or _CONTROL.search(text):
        return "write it in ASCII without spaces and backslashes, other characters as %XX, a host's as xn--…"
    if scheme not in PORTS:
        return "it must begin with https:// or http://"
    if not host:
        return "it names no host"
    if has_user:
        return "it holds a user or a password; put them into headers={...: secret(NAME)}"
    return "what follows # is never sent" if has_fragment else None


def networks(setting: bool | Sequence[str]) -> tuple[Network, ...]:
    """`allow_private` as networks. Raises UsageError for what is none."""
    if isinstance(setting, bool):
        return EVERYWHERE if setting else ()
    if isinstance(setting, str):
        raise UsageError(f'allow_private={setting!r} is one string; give a list of networks, as ["10.0.0.0/8"]')
    try:
        return tuple(ip_network(each) for each in setting)
    except ValueError as problem:
        raise UsageError(f"allow_private names no network: {problem}") from None


async def resolve(host: str, port: int, allowlist: Sequence[Network]) -> list[str]:
    """Return the addresses of `host` that may be connected to, the system's favourite first, at most MAX_ADDRESSES.

    Raises ToolFailed with `no_address`, for nothing was sent, if the name cannot be resolved or if any of its addresses is
    refused: a name that means a public and a private address is a trick.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise ToolFailed(
            f"The name {host!r} cannot be resolved ({problem}). Nothing was sent.", error_class=NETWORK, no_address=True
        ) from None
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    for each in addresses:
        if not may_be_called(ip_address(each), allowlist):
            log.warning("holdfast calls nothing at %s: %s is no public address.", host, each)
            raise ToolFailed(
                f"{host!r} is at no public address. Nothing was sent. If it is meant to be called, declare its address, or a"
                " network around it, in allow_private=[…]: of the tool, of the channel or the hook in holdfast.toml, or under"
                " [fetch] there for what messages name. The log has the address.",
                error_class=DENIED,
                no_address=True,
            )
    return addresses[:MAX_ADDRESSES]


def is_number(host: str) -> bool:
    """True if a host is an address as it is written down, and no name."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def may_be_called(address: Address, allowlist: Sequence[Network] = ()) -> bool:
    """Return True if `address` is public, or in an allowed network. IPv4 inside IPv6 counts as the IPv4 address that it is."""
    meant = _effective(address)
    if any(each in network for each in {address, meant} for network in allowlist):
        return True
    if isinstance(meant, IPv6Address) and meant not in _GIVEN_OUT:
        return False
    return not any(meant in network for network in _SPECIAL)


def _effective(address: Address) -> Address:
    """The address that packets go to in the end."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
