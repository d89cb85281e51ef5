"""`holdfast notifications`: who is notified of what, and what became of the messages.

Never here: which messages a rule makes, sending one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.table import ID, Column
from holdfast.core.nouns.labels import pair
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View


def _sheet(row: View) -> None:
    filters = [*row["workflows"], *(f"team {each}" for each in row["teams"])]
    filters += [f"{key}={value}" for key, value in row["labels"].items()]
    terminal.sheet(
        [
            ("Rule", row["name"]),
            ("Tenant", row["tenant"]),
            ("Source", "holdfast.toml" if row["source"] == "file" else f"set by {row['by'] or 'an unnamed person'}"),
            ("Occasions", ", ".join(row["occasions"])),
            ("Channel", row["channel"]),
            *([("To", ", ".join(row["to"]))] if row["to"] else []),
            *([("Only", ", ".join(filters))] if filters else []),
            ("Child runs", "their ends too" if row["children"] else "not their ends"),
            ("Gathers for", f"{row['digest_s']:g} s"),
            *([("Title", row["title"])] if row["title"] else []),
            ("Details", "titles of gates and texts of errors" if row["details"] else "none"),
        ]
    )


def _delivery(row: View) -> None:
    terminal.sheet(
        [
            ("Delivery", row["id"]),
            ("Tenant", row["tenant"]),
            *([("Run", row["run_id"])] if row["run_id"] else []),
            ("Occasion", row["occasion"]),
            ("Rule", row["rule"]),
            ("Channel", row["channel"]),
            ("State", row["state"]),
            ("Attempts", str(row["attempts"])),
            ("Made", moment.second(row["created_at"])),
            (("Next try" if row["state"] == "waiting" else "Ended"), moment.second(row["ended_at"] or row["due_at"])),
            *([("Problem", row["problem"])] if row["problem"] else []),
            *([("Part of", row["part_of"])] if row["part_of"] else []),
            ("Title", row["title"]),
            *([("Link", row["link"])] if row.get("link") else []),
        ]
    )


NOTIFICATIONS: Final = Noun("notifications", query.NotificationRule, _sheet)
app = NOTIFICATIONS.app

NOTIFICATIONS.verb(
    "set",
    command.SetNotificationRule,
    words={
        "occasions": ArgumentSpec("--on OCCASION", needed=True),
        "channel": "--channel NAME",
        "to": "--to WHOM",
        "workflows": "--workflow NAME",
        "labels": ArgumentSpec("--run-label KEY=VALUE", read=pair),
        "teams": "--team NAME",
        "digest_s": ArgumentSpec("--digest-s SECONDS", least=0),
        "title": "--title TEMPLATE",
    },
    signed=True,
    make=True,
)
NOTIFICATIONS.list(
    query.NotificationRules,
    Column("rule", 12, of="name"),
    Column("tenant", 8, goes=1),
    Column("source", goes=3),
    Column("occasions", 16, of=lambda row: ", ".join(row["occasions"])),
    Column("channel", 8),
    Column("to", 8, goes=2, of=lambda row: ", ".join(row["to"])),
)
NOTIFICATIONS.show()
NOTIFICATIONS.verb("remove", command.RemoveNotificationRule, done="removed", says="Removed rule {name}.")
NOTIFICATIONS.verb("test", command.TestNotificationRule, says="Sending {id}; `holdfast notifications delivery {id}` shows it.")
NOTIFICATIONS.list(
    query.Deliveries,
    Column("delivery", ID, of="id"),
    Column("made", of=lambda row: moment.second(row["created_at"])),
    Column("state", 8),
    Column("tries", of="attempts", goes=2),
    Column("channel", 8, goes=1),
    Column("run", ID, goes=3, of="run_id"),
    Column("title", 16),
    name="deliveries",
)
NOTIFICATIONS.show("delivery", query.Delivery, _delivery)
NOTIFICATIONS.verb("replay", command.ReplayDelivery, says="Sending {id} again.")
NOTIFICATIONS.list(
    query.Channels,
    Column("channel", 8),
    Column("kind", 8, goes=2),
    Column("address", 12, goes=1),
    Column("sent"),
    Column("failed"),
    Column("dead"),
    Column("waiting"),
    Column("oldest", goes=3, of=lambda row: moment.second(row["oldest_at"])),
    Column("disabled", of=lambda row: moment.second(row["disabled_at"])),
    name="channels",
    every=True,
)
NOTIFICATIONS.verb("enable", command.EnableChannel, done="enabled", says="Channel {channel} is used again.")


EXAMPLES: Final = {
    "set": "failures --on run_failed --channel ops",
    "list": "",
    "show": "failures",
    "test": "failures",
    "remove": "failures",
    "deliveries": "--state dead",
    "delivery": "msg_0a1b2c",
    "replay": "msg_0a1b2c",
    "channels": "",
    "enable": "ops",
}
