"""The part of a provider's wire format that a forwarded call depends on, as one value.

Never here: a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from holdfast.errors import InvalidInput, UnboundableRequest
from holdfast.models.family import ProviderName
from holdfast.ports import Usage

MIN_TOKENS: Final = 1_024
"""The floor below which no maximum is lowered: shorter replies end in the middle of a tool call."""


class Media(NamedTuple):
    """An image, a recording or a document in a request: the object that has its bytes, and its bytes as Base64.

    `data` is None where only the provider knows the content, which then counts as the model's whole context.
    """

    type: Literal["image", "audio", "document"]
    media_type: str
    holder: dict[str, Any]
    field: str
    data: str | None


class StreamReport(Protocol):
    """The facts about a streamed reply, read off its events."""

    is_complete: bool
    """True if the provider has marked the reply as complete."""
    may_end: bool
    """True if the stream may end here without such a mark."""
    error: str | None
    """The error in which the provider has ended the stream."""

    def add(self, data: bytes) -> bool:
        """Take an event's data. Returns False for an event that the program did not ask for. Raises UnusableReply."""
        ...

    @property
    def usage(self) -> Usage | None: ...


class WireFormat(NamedTuple):
    """One of ports.ForwardedFormat."""

    provider: ProviderName
    check: Callable[[dict[str, Any]], None]
    """Raises UnboundableRequest for a body whose cost has no upper bound."""
    maximum: Callable[[dict[str, Any]], int | None]
    """The output tokens that a body asks for at most, over all of its replies; None if it sets no maximum."""
    limited: Callable[[str, dict[str, Any], int], dict[str, Any]]
    """The body to send to a model for a maximum of output."""
    media: Callable[[dict[str, Any]], Iterator[Media]]
    usage: Callable[[Any], Usage | None]
    """The usage of a whole reply; None if it reports none that can be read."""
    report: Callable[[dict[str, Any]], StreamReport]
    tools: Callable[[dict[str, Any]], int]
    """The number of tools that a body offers."""
    turns: str = ""
    """The field with the conversation, of which each call repeats what was before."""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def field(body: Any, *names: str) -> Any:
    """The value that these fields lead to; None where one is missing."""
    for name in names:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def whole(body: dict[str, Any], *names: str) -> int | None:
    """The whole number above 0 that these fields lead to. Raises InvalidInput for anything else than that or null."""
    value = field(body, *names)
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidInput(f"{'.'.join(names)} is {value!r}; it is a whole number above 0. Nothing was called.")
    return value


def refusal(part: str, advice: str = "Leave it out.") -> UnboundableRequest:
    return UnboundableRequest(
        f"The request has {part}. Its cost has no upper bound, so no limit can be kept for it. Nothing was called. {advice}"
    )


def parsed(data: bytes) -> Any:
    """An event's JSON; None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def error_in(event: Any) -> str:
    """The message of an event that ends a stream in an error."""
    error = field(event, "error")
    message = field(error, "message")
    return message if isinstance(message, str) else str(error)


class NoStream:
    """Keeps StreamReport for formats without streams."""

    is_complete = may_end = True
    error: str | None = None
    usage: Usage | None = None

    def __init__(self, body: dict[str, Any]) -> None:
        """Nothing is asked of it."""

    def add(self, data: bytes) -> bool:
        """Every event passes."""
        return True
