"""A request to a model and its reply as one reads a conversation: who speaks, and what. And where two requests part.

Never here: what is kept of a request, printing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.values.content import labelled

Spoken: TypeAlias = tuple[str, str]
"""Role of the speaker and, for a tool, its name: `user`, `assistant`, `tool look_up`."""
_OPTIONS: Final = ("max_tokens", "temperature", "timeout_s", "answer")


class TurnChange(msgspec.Struct, frozen=True):
    """A part of a request that differs.

    Args:
        role: Author of the part: `system`, `user`, `assistant`, `tool NAME`, `offers TOOL`; or an option, such as
            `max_tokens`.
        recorded: The recorded text; None where the record has no such part.
        now: The text that the code asks now; None where it has no such part.
    """

    role: str
    recorded: str | None
    now: str | None


def spoken(turn: Mapping[str, Any]) -> Iterator[Spoken]:
    """Yield what a turn of a request says."""
    match turn["type"]:
        case "user":
            parts = [each if isinstance(each, str) else text_of(each) for each in turn.get("parts", ())]
            yield "user", " ".join([turn["text"], *parts]).strip()
        case "tools":
            for reply in turn["replies"]:
                yield f"tool {reply['name']}{' failed' if reply['is_error'] else ''}", reply["content"]
        case "forwarded":
            yield turn["role"], text_of(turn["replay"])
        case _:
            yield "assistant, earlier", text_of(turn.get("replay"))


def text_of(value: Any) -> str:
    """Return data as a text, with content parts as their labels."""
    return value if isinstance(value, str) else json.dumps(labelled(value), ensure_ascii=False)


def changes(recorded: Mapping[str, Any], now: Mapping[str, Any], blank: Callable[[Any], Any]) -> tuple[TurnChange, ...]:
    """Return the parts in which two requests differ, in their order.

    What is personal may have been replaced in the record: `blank` takes it out of both, and they are compared as they are only
    where nothing else differs.
    """
    return _changes(blank(recorded), blank(now)) or _changes(recorded, now)


def _changes(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[TurnChange, ...]:
    one, two = list(_parts(recorded)), list(_parts(now))
    found: list[TurnChange] = []
    for how, begin, end, other_begin, other_end in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if how != "equal":
            found += _paired(one[begin:end], two[other_begin:other_end])
    return tuple(found)


def _paired(one: Sequence[Spoken], two: Sequence[Spoken]) -> Iterator[TurnChange]:
    """Yield the parts beside one another: those at the same place, if the same speaks."""
    for place in range(max(len(one), len(two))):
        first, second = (parts[place] if place < len(parts) else None for parts in (one, two))
        if first is not None and second is not None and first[0] == second[0]:
            yield TurnChange(first[0], first[1], second[1])
            continue
        if first is not None:
            yield TurnChange(first[0], first[1], None)
        if second is not None:
            yield TurnChange(second[0], None, second[1])


def _parts(request: Mapping[str, Any]) -> Iterator[Spoken]:
    """Yield all that a whole request says, its system prompt, tools and options first."""
    if request.get("system"):
        yield "system", request["system"]
    for tool in request.get("tools") or ():
        yield f"offers {tool['name']}", text_of({name: each for name, each in tool.items() if name != "name"})
    for name in _OPTIONS:
        if request.get(name) is not None:
            yield name, text_of(request[name])
    for turn in request.get("turns") or ():
        yield from spoken(turn)
