"""`holdfast keys`: keys with which services come to a port.

Never here: what a key may be (service.access).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import terminal
from holdfast.cli.page.table import Column
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

_DAY_S: Final = 86_400


def _state(row: View) -> str:
    return "revoked" if row["revoked_at"] else f"until {row['expires_at'][:10]}" if row["expires_at"] else "open"


def _secret(row: View) -> None:
    terminal.say(f"Key {row['name']}. It is shown only once; the store keeps its hash:")
    terminal.show(row["key"])


KEYS: Final = Noun("keys")
app = KEYS.app

KEYS.verb(
    "create",
    command.MakeKey,
    words={
        "tenant": ArgumentSpec("--tenant NAME", help="Tenant for which the key acts; by default all tenants."),
        "may": "--may GRANT",
        "roles": "--role ROLE",
        "teams": "--team TEAM",
        "workflows": "--workflow PATTERN",
        "tools": "--tool PATTERN",
        "life_s": ArgumentSpec(
            "--days N", 1, 3650, int, lambda days: days * _DAY_S, "Lifetime in days; by default the key does not expire."
        ),
    },
    says=_secret,
    signed=True,
    make=True,
)
KEYS.list(
    query.Keys,
    Column("name", 10),
    Column("tenant", 8, of=lambda row: row["tenant"] or "everybody"),
    Column("may", 8, of=lambda row: ", ".join(row["may"])),
    Column("workflows", 10, goes=2, of=lambda row: ", ".join(row["workflows"])),
    Column("made", goes=1, of=lambda row: row["made_at"][:10]),
    Column("state", of=_state),
)
KEYS.verb("rotate", command.RotateKey, says=_secret, signed=True)
KEYS.verb("revoke", command.RevokeKey, says="Revoked key {name}. Requests with it are refused.", signed=True)


EXAMPLES: Final = {"create": "billing --may operator --days 90", "list": "", "rotate": "billing", "revoke": "billing"}
