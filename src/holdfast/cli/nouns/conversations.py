"""`holdfast conversations`: messages to agents, and their replies.

Never here: what becomes of a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.noun import MANY, ArgumentSpec, Noun
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.table import Column
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.authoring.values.content import Audio, Document, Image
    from holdfast.service.declarations.query import View


def attachment(text: str) -> Image | Audio | Document:
    """A file as a part of a message. Raises UsageError."""
    from pydantic import ValidationError

    from holdfast.authoring.values.arguments import describe
    from holdfast.authoring.values.content import attached

    try:
        return attached(Path(text))
    except OSError as problem:
        raise UsageError(f"{text} cannot be read: {problem.strerror}. Nothing was sent.") from None
    except ValidationError as problem:
        raise UsageError(f"{text} cannot be attached: {describe(problem)}. Nothing was sent.") from None


def labels(exchange: dict[str, Any]) -> str:
    """Return the attachments of a message, a line each."""
    from holdfast.core.values.content import ContentPart

    return "".join(f"\n  {ContentPart(**part)}" for part in exchange["parts"])


def _sheet(row: View) -> None:
    spent = f"${row['spent_usd']}" + (f" of ${row['limit_usd']}" if row["limit_usd"] is not None else "")
    tokens = str(row["spent_tokens"]) + (f" of {row['max_tokens']}" if row["max_tokens"] is not None else "")
    terminal.sheet(
        [
            ("Conversation", row["name"]),
            ("Agent", row["agent"]),
            ("While at work", row["on_busy"]),
            ("Spent", spent),
            ("Tokens", tokens),
        ]
    )
    for each in row["exchanges"]:
        branch = "" if each["after"] in (None, each["number"] - 1) else f", after {each['after']}"
        branch = branch if each["steers"] is None else f", while the agent was at {each['steers']}"
        left = ", left" if each["left"] else ""
        terminal.show(f"\n{each['number']} ({each['status']}{branch}{left}) {each['by'] or ''}: {each['text']}{labels(each)}")
        if each["reply"] is not None:
            terminal.show(f"  {'' if each['agent'] is None else each['agent'] + ': '}{each['reply']}")
        elif each["problem"]:
            terminal.show(f"  {each['problem']}")
        if each["summary"] is not None:
            terminal.show("  (Later messages are answered from a summary of the messages up to here.)")


CONVERSATIONS: Final = Noun("conversations", query.Conversation, _sheet)
app = CONVERSATIONS.app

CONVERSATIONS.list(
    query.Conversations,
    Column("conversation", 12, of="name"),
    Column("agent", 8),
    Column("messages", goes=2),
    Column("at work", goes=1, of=lambda row: row["active"] or "-"),
    Column("begun", goes=3, of=lambda row: moment.age(row["begun_at"])),
    words={"limit": MANY},
)
CONVERSATIONS.show()
CONVERSATIONS.verb(
    "say",
    command.Say,
    words={
        "conversation": "NAME",
        "parts": ArgumentSpec("--attach FILE", read=attachment, help="Image, recording or document to send with the message."),
        "after": ArgumentSpec("--after N", least=1),
        "key": "--key KEY",
    },
    says=lambda found: terminal.show(f"{found['number']} {found['status']}"),
    signed=True,
)
CONVERSATIONS.verb("delete", command.DeleteConversation, done="deleted", says="Deleted conversation {name}.")


EXAMPLES: Final = {"list": "", "show": "ada", "say": "ada 'Where is my order?'", "delete": "ada"}
