"""A command to a run as the question what it would do: its name and its fields, and back.

Never here: the answer (service.preview).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations.field import RunAction
from holdfast.service.declarations.query import RunQuote

Decided: TypeAlias = cmd.Cancel | cmd.Pause | cmd.Resume | cmd.Retry | cmd.Extend | cmd.RaiseBudget | cmd.Signal
"""Commands that the run itself decides."""
Quoted: TypeAlias = Decided | cmd.Fork

QUOTED: Final[Mapping[RunAction, type[Quoted]]] = {
    "cancel": cmd.Cancel,
    "pause": cmd.Pause,
    "resume": cmd.Resume,
    "retry": cmd.Retry,
    "extend": cmd.Extend,
    "raise_budget": cmd.RaiseBudget,
    "signal": cmd.Signal,
    "fork": cmd.Fork,
}
"""The commands of which a quote is given, by their names."""
_NAMES: Final = {kind: action for action, kind in QUOTED.items()}


def quote_of(command: Quoted) -> RunQuote:
    """Return the query for the quote of a command."""
    given = {name: getattr(command, name) for name in command.__struct_fields__ if name != "run"}
    fields = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    return RunQuote(run=command.run, action=_NAMES[type(command)], fields=fields)


def command_of(query: RunQuote) -> Quoted:
    """Return the command of which a query wants the quote. Raises InvalidInput for fields that the command does not take."""
    kind = QUOTED[query.action]
    taken = [name for name in kind.__struct_fields__ if name != "run"]
    if wrong := sorted(query.fields.keys() - {*taken}):
        may = ", ".join(taken) or "none at all"
        raise InvalidInput(f"{query.action} has no field {wrong[0]!r:.80}; it takes: {may}. Nothing was done.", field="fields")
    try:
        return msgspec.convert({**query.fields, "run": query.run}, kind)
    except msgspec.ValidationError as problem:
        words = f"These are not the fields of {query.action}: {problem}. Nothing was done."
        raise InvalidInput(words, field="fields") from None
