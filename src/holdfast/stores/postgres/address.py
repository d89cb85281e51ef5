"""The address of a store: a PostgreSQL URL, with a few parameters of Holdfast's own.

Never here: a connection.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import UsageError
from holdfast.platform.masking import IN_A_URL, without_passwords

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "holdfast"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}\Z")
_ROLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_OURS: Final = ("schema", "pooler", "read_role")
_POOLERS: Final = ("transaction", "session")
_TAKES_WRITES: Final = ("target_session_attrs", "read-write")


class Address(NamedTuple):
    """`dsns` are what the driver is given, one for each server. `pooled`: connections are lent by a pooler for one
    transaction at a time."""

    dsns: tuple[str, ...]
    schema: str
    pooled: bool
    shown: str
    """The same without a password, for messages."""
    read_role: str | None = None
    """In which role the rows of one tenant are read; None: in that of the connection."""

    @classmethod
    def of(cls, url: str) -> Address:
        """`postgresql://USER@HOST:PORT,HOST:PORT/DATABASE?schema=NAME&pooler=transaction&read_role=NAME`, all words
        optional. Of several servers the one is used that takes writes. Raises UsageError."""
        # One server at a time: newer Pythons take a list with an address like [::1] in it for a spoilt URL.
        front, user, place, back = _parts(url)
        try:
            servers = [urlsplit(f"{front}{user}{server}{back}") for server in place.split(",")]
            ports = [server.port for server in servers]
            parts = servers[0]
            words = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            raise UsageError(
                f"The store's URL {without_passwords(url)!r} cannot be read. {IN_A_URL} Nothing was opened."
            ) from None
        ours = {name: value for name, value in words if name in _OURS}
        schema, pooler = ours.get("schema", DEFAULT_SCHEMA), ours.get("pooler", "session")
        if not _SCHEMA.match(schema):
            raise UsageError(
                f"schema={schema!r} in the store's URL: a schema's name is made of small letters, digits and _, at most 41."
                " Nothing was opened."
            )
        if pooler not in _POOLERS:
            raise UsageError(f"pooler={pooler!r} in the store's URL: it is one of {', '.join(_POOLERS)}. Nothing was opened.")
        if (read_role := ours.get("read_role")) is not None:
            expect_role(read_role)
        theirs = {name: value for name, value in words if name not in _OURS}
        if len(servers) > 1:
            theirs.setdefault(*_TAKES_WRITES)
        dsns = tuple(urlunsplit(server._replace(query=urlencode(theirs))) for server in servers)
        shown = ",".join(
            f"{server.hostname or 'localhost'}{f':{port}' if port else ''}" for server, port in zip(servers, ports, strict=True)
        )
        return cls(dsns, schema, pooler == "transaction", shown + parts.path, read_role)

    def localized(self, sql: str) -> str:
        """`sql`, written for the usual schema, for this store's."""
        return sql if self.schema == DEFAULT_SCHEMA else sql.replace(f"{DEFAULT_SCHEMA}.", f"{self.schema}.")


def expect_role(name: str) -> None:
    """Raises UsageError for what is no name of a role that goes into a statement as it is."""
    if not _ROLE.match(name):
        raise UsageError(
            f"{name!r:.80} is no name of a role: it is made of small letters, digits and _, at most 63. Nothing was done."
        )


def _parts(url: str) -> tuple[str, str, str, str]:
    """A URL as `postgresql://`, `user:password@`, its servers, and the rest."""
    scheme, mark, rest = url.partition("://")
    end = min((at for at in (rest.find(sign) for sign in "/?#") if at >= 0), default=len(rest))
    user, at, place = rest[:end].rpartition("@")
    return scheme + mark, user + at, place, rest[end:]
