"""A command from outside and the engine's method of it take the same: names, defaults and types, but for what is listed here
with its reason."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, Union, Unpack, get_args, get_origin, get_type_hints

import msgspec
import pytest

from holdfast import Engine
from holdfast.service import service  # noqa: F401 - declares all of them
from holdfast.service.control.base import NOT_GIVEN
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.declarations.declaration import declared

METHODS: Final = {"GiveScore": "score", "Resolve": "resolve_effect", "Backfill": "backfill_schedule", "Say": "send_message"}
"""Methods that are not called as their command; the others are called `pause_schedule` for PauseSchedule."""
NAMES: Final = {"run": "run_id", "gate": "gate_id", "approval": "id_", "conversation": "name", "cursor": "after"}
"""Parameters that are not called as their field; the others are."""
ACTORS: Final = {"self", "by", "roles"}
"""A request says who acts; a field would let a caller be another."""
WITHOUT: Final = {
    "ExportRun": "A record is a file of holdfast.evaluation, which stands above an engine.",
    "MakeKey": "A key is for callers from outside.",
    "RotateKey": "As MakeKey.",
    "RevokeKey": "As MakeKey.",
    "EndSession": "Browsers sign in at a port.",
    "EndSessions": "As EndSession.",
    "MakeLink": "A link is a key.",
    "MakeGateLink": "A link is a key.",
}
"""Commands without a method."""
CODE: Final = "In a process the code itself may be named, and not only its name."
FILTER: Final = "The engine filters runs by RunFilter, in nano-dollars; `listing.sought` makes one of the fields."
DEVIATIONS: Final[dict[str, dict[str, str]]] = {
    "Start": {
        "workflow": CODE,
        "version": "0 is the highest in a request, where a number is always there.",
        "yaml": "Only a server takes files: what they may do is its affair.",
    },
    "Migrate": {"workflow": CODE, "version": "The code has its version; a request names one of those that are known."},
    "SetSchedule": {"workflow": CODE},
    "OpenConversation": {"workflow": CODE, "private": "A transport decides it (AG-UI), and not a caller."},
    "Say": {
        "name": "In a process the conversation itself may be named, which is then not read again.",
        "text": "In a process contents are objects.",
        "parts": "They are in `text` there.",
        "tools": "A transport brings them (AG-UI).",
        "context": "A transport brings it (AG-UI).",
    },
    "Signal": {"name": "In a process a Signal has the type of its data."},
    "GiveScore": {
        "value": "True is a number in Python.",
        "source": "Who calls a method is code; a request comes from a person.",
    },
    "DecideTogether": {"gate_id": "It says in the path which run it is about; the decisions name their gates."},
    "SetBudget": {
        "in_tokens": "It says which limit is meant: a field of JSON that is left out would be null.",
        "limit_usd": "As in_tokens: the method tells None, no limit, from what is left out.",
        "max_tokens": "As limit_usd.",
    },
    "SetAdmission": {"runs": "A method is not to lift a limit because an argument was forgotten; a request says so by null."},
    "WriteSharedValue": {"value": "As SetAdmission: null is a value."},
    "Backfill": {"until_ms": "By default it is the time of the server."},
    "RollUpCosts": {"within_s": "A request is not kept waiting for longer than the server says."},
    "Bulk": {
        **dict.fromkeys(
            (
                "min_cost_usd",
                "max_cost_usd",
                "cost_from_nanousd",
                "cost_to_nanousd",
                "min_score",
                "max_score",
                "score_from",
                "score_to",
                "tag",
                "label",
                "labels",
            ),
            FILTER,
        ),
        **dict.fromkeys(("prefix", "parent", "root", "in_doubt"), "Runs of a tree, or in doubt, are not changed as a whole."),
        "ids": "Of a list in line; a command to several runs names them one by one.",
        "after": "Newest first: the engine calls it `before`.",
        "before": "As after.",
        "limit": "A page of the API has 100 rows; the engine has no pages here.",
    },
    "BulkDeadLetters": {"limit": "As Bulk."},
    **{
        key: {"letter": "In a process the dead letter itself may be named."}
        for key in ("EditDeadLetter", "RetryDeadLetter", "ResolveDeadLetter")
    },
    "Extend": {"limit": "The rule refuses a name that there is not; a request is refused by its type."},
    "Resolve": {"decision": "As Extend."},
}
"""Fields and parameters that differ, and why."""


COMMANDS: Final = [kind for kind, takes in declared().items() if takes.is_command and kind.__name__ not in WITHOUT]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_a_command_and_its_method_take_the_same(command: type[msgspec.Struct]) -> None:
    assert differences(command).keys() == DEVIATIONS.get(command.__name__, {}).keys(), differences(command)


def test_each_exception_is_of_a_command() -> None:
    names = {kind.__name__ for kind, takes in declared().items() if takes.is_command}
    assert {*METHODS, *WITHOUT, *DEVIATIONS} <= names
    assert [name for name in WITHOUT if hasattr(Engine, method_of(name))] == []


def method_of(name: str) -> str:
    """Return the name of a command's method."""
    return METHODS.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def differences(command: type[msgspec.Struct]) -> dict[str, tuple[Any, Any]]:
    """Return the fields and parameters that differ, each with what the one and the other says."""
    hints = get_type_hints(command)
    fields = {
        NAMES.get(each.name, each.name): (
            default_of(each.name, each.default, each.default_factory),
            values_of(hints[each.name]),
        )
        for each in msgspec.structs.fields(command)
    }
    taken = parameters(getattr(Engine, method_of(command.__name__)))
    return {
        name: (fields.get(name), taken.get(name))
        for name in fields.keys() | taken.keys()
        if fields.get(name) != taken.get(name)
    }


def parameters(method: Any) -> dict[str, tuple[str, frozenset[Any]]]:
    """Return the default and the type of each parameter, those of a TypedDict that is unpacked too."""
    hints, found = get_type_hints(method), {}
    for name, each in inspect.signature(method).parameters.items():
        if get_origin(hints.get(name)) is Unpack:
            (options,) = get_args(hints[name])
            found |= {key: ("None", values_of(hint)) for key, hint in get_type_hints(options).items()}
        elif name not in ACTORS:
            default = msgspec.NODEFAULT if each.default is inspect.Parameter.empty else each.default
            found[name] = (default_of(name, default), values_of(hints[name]))
    return found


def default_of(name: str, default: Any, factory: Any = msgspec.NODEFAULT) -> str:
    """Return a default as both write it: a tenant is the caller's own, and left out is UNSET or NOT_GIVEN."""
    if name == "tenant" and default == DEFAULT_TENANT:
        return "None"
    if default is msgspec.UNSET or default is NOT_GIVEN:
        return "left out"
    if default is msgspec.NODEFAULT:
        return "required" if factory is msgspec.NODEFAULT else "None"
    return "None" if default in (None, (), "") else repr(default)


def values_of(hint: Any) -> frozenset[Any]:
    """Return the kinds of values that a type takes, as both write them: a list is any sequence, and numbers are one kind."""
    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        return frozenset().union(*map(values_of, get_args(hint)))
    if get_origin(hint) is Literal:
        return frozenset(get_args(hint))
    kind = get_origin(hint) or hint
    if hint in (None, type(None), msgspec.UnsetType):
        return frozenset()
    if isinstance(kind, type) and kind in (float, int, Decimal):
        return frozenset({"number"})
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return frozenset({Mapping})
    if isinstance(kind, type) and issubclass(kind, Sequence) and kind is not str:
        return frozenset({Sequence, *(get_args(hint)[:1])})
    return frozenset({kind})
