"""Parts of the tables of holdfast.toml: their configuration, private networks, addresses that are encrypted or local.

Never here: a table.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict

TABLE: Final = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
"""A table of holdfast.toml: a setting that nothing here knows is an error."""


def _are_networks(value: bool | tuple[str, ...]) -> bool | tuple[str, ...]:
    if not isinstance(value, bool):
        for each in value:
            ip_network(each)  # ValueError says which is none
    return value


Networks = Annotated[bool | tuple[str, ...], AfterValidator(_are_networks)]
"""Private networks to allow: all of them, none, or these."""


def is_private(url: str) -> bool:
    """Return True for an address whose answer cannot be changed on the way: of https, or of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost") and parts.username is None
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))
