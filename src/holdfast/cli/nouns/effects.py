"""`holdfast effects`: lists tool calls, and records the outcome of a call of unknown outcome.

Never here: calling a tool.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.noun import MANY, ArgumentSpec, Caller, Noun, SignedInRoles
from holdfast.cli.nouns.gates import show_first
from holdfast.cli.option import Reason
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.event_format import tell_run
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import json_value
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.ids import CallId, run_of
from holdfast.errors import UsageError
from holdfast.service.declarations import query
from holdfast.service.declarations.command import Resolve

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend


class EffectState(StrEnum):
    """The state of a call, as far as it is known."""

    INTENDED = "intended"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    IN_DOUBT = "in_doubt"
    REPEATED = "repeated"
    ORPHANED = "orphaned"


EFFECTS: Final = Noun("effects")
app = EFFECTS.app
EFFECTS.list(
    query.Effects,
    Column("call", ID),
    Column("tool", 8),
    Column("state"),
    Column("age", of=lambda row: moment.age(row["intended_at"])),
    Column("policy", goes=1),
    Column("by", 6, goes=2),
    words={
        "run": "--run RUN",
        "tenant": "",
        "state": ArgumentSpec("--state", kind=EffectState, read=str, help="Only calls in this state."),
        "cursor": ArgumentSpec("--after CALL", help="Only calls intended after this one."),
        "limit": MANY,
    },
)


@app.command()
def resolve(
    call: Annotated[
        str,
        typer.Argument(metavar="CALL", help="Id of the call, as `effects list` shows it. The beginning of an id is enough."),
    ],
    happened: Annotated[
        str | None, typer.Option("--happened", metavar="JSON", help="The call took effect, with this response: JSON or @FILE.")
    ] = None,
    did_not: Annotated[bool, typer.Option("--did-not", help="The call did not take effect; its step gets an error.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Make the call again, with the same key.")] = False,
    reason: Reason = None,
    shown_hash: Annotated[
        str | None,
        typer.Option("--shown", metavar="HASH", help="Decide only if the gate about the call still shows this hash."),
    ] = None,
    *,
    caller: SignedInRoles,
) -> None:
    """Record the outcome of a tool call whose outcome is unknown. Its run continues."""
    if (happened is not None) + did_not + again != 1:
        raise UsageError("Pass one of --happened JSON (the response), --did-not and --again.")
    response = json_value(happened, "--happened") if happened is not None else msgspec.UNSET
    decision: Literal["answer", "reject", "retry"] = "answer" if happened is not None else "reject" if did_not else "retry"
    wish = Resolve(call, decision, response=response, reason=reason, shown_hash=shown_hash)
    tell_run(asyncio.run(_resolve(wish, caller)), caller.as_json)


async def _resolve(wish: Resolve, caller: Caller) -> dict[str, Any]:
    from holdfast.cli.backend import LocalBackend
    from holdfast.cli.next_steps import with_next

    async with backend(caller.store, caller.by) as service:
        call, shown = await reference.call(service, wish.call), wish.shown_hash
        gate = None if shown is not None else await _asking(service, call)
        made = ""
        if gate is not None:
            shown = await show_first(service, gate, True, caller.store)
            made = _describe_call((await service.row(query.Gate(gate)))["shown"])
        run = await service.execute(msgspec.structs.replace(wish, call=call, shown_hash=shown))
        assert run is not None
        if not caller.as_json:
            terminal.say(f"Call {call}{made}: {_OUTCOMES[wish.decision]}.")
        if wish.response is not msgspec.UNSET and isinstance(service, LocalBackend):
            terminal.say(
                "Check the response yourself: it was recorded unchecked, because the tool's code is not loaded here. A step"
                " that reads a response which does not fit its tool fails."
            )
        return await with_next(service, run, caller.as_json, caller.store)


def _describe_call(content: Any) -> str:
    """Return the tool of a call and what it was called with, as its gate shows them."""
    request = terminal.as_json(content["request"])
    return f" of {content['tool']} with {request if len(request) <= _MAX_SHOWN else f'{request[:_MAX_SHOWN]}…'}"


_MAX_SHOWN: Final = 200
_OUTCOMES: Final = {"answer": "it happened", "reject": "it did not happen", "retry": "it is made again"}


async def _asking(asking: QueryBackend, call: str) -> str | None:
    """Return the open gate that asks what became of a call; None where none does."""
    rows = await asking.rows(query.Gates(run=run_of(CallId(call))), reference.MAX_OF_A_RUN)
    return next((row["gate_id"] for row in rows if (row["reason"], row["subject"]) == (EFFECT_UNKNOWN, call)), None)


EXAMPLES: Final = {"list": "--run 019aa8b2", "resolve": "019aa8b2:pay#1:0:1 --did-not"}
