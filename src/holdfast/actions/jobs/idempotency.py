"""A step that is never run twice: its script as a tool of its own, under the ledger.

What became of it is recorded, and every later attempt of its job gets that. A process that dies in the middle of it
leaves a question for a person, whose answer counts as what became of it. Never here: what a step is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.actions.shell import Limits, ScriptEnd
from holdfast.authoring.tool import Tool
from holdfast.errors import SchemaMismatch

_SLACK_S: Final = 600.0
"""How much longer the tool may take than its script: what looks after the script ends it well before."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a script that has ended, as far as a job needs it."""

    succeeded: bool
    said: str
    """In a sentence."""
    outputs: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    summary: str = ""


def outcome_of(ending: ScriptEnd) -> Outcome:
    return Outcome(
        succeeded=ending.succeeded,
        said=str(ending),
        outputs=ending.outputs,
        environment=ending.environment,
        path=ending.path,
        summary=ending.summary,
    )


class _VisibleScript:
    """Arguments that only tell a person, and a journal, which step it is: the script has its own."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

    def plain(self, raw: Any) -> dict[str, Any]:
        return dict(raw)

    def typed(self, plain: dict[str, Any]) -> dict[str, Any]:
        return {}


def tool_of(name: str, perform: Callable[[], Awaitable[ScriptEnd]], limits: Limits) -> Tool:
    async def run() -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(outcome_of(await perform()))
        return found

    limit_s = limits.timeout_s + limits.linger_s + limits.grace_s + _SLACK_S
    return Tool(
        run, name=name, description="A step of a workflow", policy="once", timeout_s=limit_s, arguments=_VisibleScript()
    )


def recorded(response: Any) -> Outcome:
    """Return the outcome in a recorded response: the step's own, or a person's answer in its place.

    A person may answer `{"outputs": {...}, "environment": {...}}`, or nothing: that it has happened. Raises SchemaMismatch.
    """
    given = response if isinstance(response, dict) else {}
    try:
        return msgspec.convert({"succeeded": True, "said": "A person confirmed that it happened.", **given}, Outcome)
    except msgspec.ValidationError as problem:
        raise SchemaMismatch(
            f"What is recorded of this step is no outcome of a step: {problem}. It may have 'outputs' and 'environment',"
            " objects of texts, and 'succeeded'."
        ) from None
