"""`holdfast conversations`: what was said to agents, and what they answered.

Never here: what becomes of a message.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import moment, table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, ListLimit, Store, Tenant, Who
from holdfast.cli.table import Column
from holdfast.errors import UsageError
from holdfast.service import query

if TYPE_CHECKING:
    from holdfast.authoring.content import Audio, Document, Image
    from holdfast.core.nouns import conversations as rule

app = typer.Typer(help="See what was said to agents, and say something.", no_args_is_help=True)

COLUMNS: Final = (
    Column("conversation", 12),
    Column("agent", 8),
    Column("messages", goes=2),
    Column("at work", goes=1),
    Column("begun", goes=3),
)


class OnBusy(StrEnum):
    REJECT = "reject"
    ENQUEUE = "enqueue"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"


def meant(on_busy: OnBusy | None) -> rule.OnBusy | None:
    """The same as the engine takes it."""
    return None if on_busy is None else on_busy.value


Name = Annotated[str, typer.Argument(metavar="NAME", help="The conversation's name.")]


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Those of one tenant.")] = None,
    limit: ListLimit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List conversations: with which agent, how many messages, and at which the agent is now."""
    rows, now_ms = asyncio.run(_list(tenant, limit, store))
    if as_json:
        terminal.emit(rows)
        return
    table.show(
        COLUMNS,
        [
            (
                row["name"],
                row["agent"],
                str(row["messages"]),
                str(row["active"] or "-"),
                moment.ago(moment.ms(row["begun_at"]), now_ms),
            )
            for row in rows
        ],
    )
    if len(rows) == limit:
        terminal.say("There may be more: say --limit.")


@app.command()
def show(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Show what was said in a conversation, with its branches, and what it has cost."""
    found = asyncio.run(_show(name, tenant, store))
    if as_json:
        terminal.emit(found)
        return
    spent = f"${found['spent_usd']}" + (f" of ${found['limit_usd']}" if found["limit_usd"] is not None else "")
    tokens = str(found["spent_tokens"]) + (f" of {found['max_tokens']}" if found["max_tokens"] is not None else "")
    terminal.sheet(
        [
            ("Conversation", found["name"]),
            ("Agent", found["agent"]),
            ("While at work", found["on_busy"]),
            ("Spent", spent),
            ("Tokens", tokens),
        ]
    )
    for each in found["exchanges"]:
        branch = "" if each["after"] in (None, each["number"] - 1) else f", after {each['after']}"
        branch = branch if each["steers"] is None else f", while the agent was at {each['steers']}"
        left = ", left" if each["left"] else ""
        terminal.show(f"\n{each['number']} ({each['status']}{branch}{left}) {each['by'] or ''}: {each['text']}{labels(each)}")
        if each["reply"] is not None:
            terminal.show(f"  {'' if each['agent'] is None else each['agent'] + ': '}{each['reply']}")
        elif each["problem"]:
            terminal.show(f"  {each['problem']}")
        if each["summary"] is not None:
            terminal.show("  (What comes after this is told a summary of what came before, not the words.)")


@app.command()
def say(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    after: Annotated[
        int | None, typer.Option("--after", metavar="N", min=1, help="Begin a branch after an earlier message.")
    ] = None,
    on_busy: Annotated[OnBusy | None, typer.Option("--on-busy", help="What becomes of it while the agent is at work.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="The same key is the same message.")] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option("--attach", metavar="FILE", help="An image, a recording or a document; may be said several times."),
    ] = None,
    tenant: Tenant = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Say something in a conversation. Whoever runs its agent answers; `show` has the reply."""
    parts = [attachment(file) for file in attach or ()]
    found = asyncio.run(_say(name, text, parts, after, on_busy, key, tenant, by, store))
    if as_json:
        terminal.emit(found)
    else:
        terminal.show(f"{found['number']} {found['status']}")


def attachment(file: Path) -> Image | Audio | Document:
    """A file as a part of a message. Raises UsageError."""
    from pydantic import ValidationError

    from holdfast.authoring.arguments import describe
    from holdfast.authoring.content import attached

    try:
        return attached(file)
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}. Nothing was said.") from None
    except ValidationError as problem:
        raise UsageError(f"{file} cannot be attached: {describe(problem)}. Nothing was said.") from None


def labels(exchange: dict[str, Any]) -> str:
    """What is attached to a message, a line each."""
    from holdfast.core.values.content import ContentPart

    return "".join(f"\n  {ContentPart(**part)}" for part in exchange["parts"])


@app.command()
def delete(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Delete a conversation with all that was said in it, for good. Histories of its runs stay until their months go."""
    asyncio.run(_delete(name, tenant, store))
    if as_json:
        terminal.emit({"name": name, "deleted": True})
    else:
        terminal.say(f"There is no conversation {name} any more.")


async def _list(tenant: str | None, limit: int, store: str | None) -> tuple[list[dict[str, Any]], int]:
    async with backend(store, who(None)) as service:
        return await service.rows(query.Conversations(tenant=tenant), limit), service.now_ms()


async def _show(name: str, tenant: str | None, store: str | None) -> dict[str, Any]:
    async with backend(store, who(None)) as service:
        return await service.row(query.Conversation(name, tenant))


async def _delete(name: str, tenant: str | None, store: str | None) -> None:
    from holdfast.service.command import DeleteConversation

    async with backend(store, who(None)) as service:
        await service.tell(DeleteConversation(name, tenant))


async def _say(
    name: str,
    text: str,
    parts: list[Any],
    after: int | None,
    on_busy: OnBusy | None,
    key: str | None,
    tenant: str | None,
    by: str | None,
    store: str | None,
) -> dict[str, Any]:
    from holdfast.service.command import Say

    async with backend(store, who(by)) as service:
        command = Say(conversation=name, text=text, parts=parts, after=after, on_busy=meant(on_busy), key=key, tenant=tenant)
        said = await service.tell(command)
        assert said is not None
        return said
