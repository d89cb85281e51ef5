"""Channels: the ways on which a notification leaves the house (a webhook, mail, Slack), one method each.

Never here: which notifications exist, when one is sent again (core.nouns.notifications), an implementation.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

import msgspec

MAX_BODY_BYTES: Final = 20_000
"""Of one message, as Standard Webhooks asks: receivers may refuse a larger one."""
MAX_RECIPIENTS: Final = 50
"""Of one message."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The one gate that a message is about, for a channel that can take the decision. A decision names `shown_hash`, which
    says what the person saw."""

    run: str
    gate: str
    shown_hash: str
    allowed: tuple[str, ...]
    needs_form: bool = False
    """True if an answer has data of its own, which a button cannot give."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A notification. Each try sends the same one, whatever has happened since.

    All texts are plain: a channel escapes them for its format, and takes line breaks out of what becomes a header.
    """

    id: str
    """Stays the same in each try and each replay. Letters, digits and "_", no dot."""
    at_ms: int
    """Time of what it tells, in Unix milliseconds."""
    tenant: str
    occasion: str
    """Kind of what it tells (`gate_opened`), or `digest` for several in one."""
    title: str
    """One line of at most 200 characters."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names and texts, in the order in which to show them."""
    link: str | None = None
    """Address of the console's page; None if the server does not know its own address."""
    body: bytes = b"{}"
    """The same as JSON, for programs, of at most `MAX_BODY_BYTES`."""
    recipients: tuple[str, ...] = ()
    """Persons or addresses in the channel's own terms (mail addresses, a Slack channel); empty: those of the channel."""
    question: Question | None = None
    """Set if it asks for one decision."""


class Sent(msgspec.Struct, frozen=True):
    """The other side has taken the message."""


class Retry(msgspec.Struct, frozen=True):
    """The message may not have arrived: send it again later, `after_s` from now at the earliest if that is given."""

    text: str
    after_s: float | None = None


class Refused(msgspec.Struct, frozen=True):
    """The other side will never take this message. `disable`: it wants no more at this address (410 Gone)."""

    text: str
    disable: bool = False


SendResult: TypeAlias = Sent | Retry | Refused


class Channel(Protocol):
    """A configured channel: one address with its secrets.

    It bounds its own time (30 s at the most). It retries nothing and keeps nothing: the outbox counts the tries. An error that
    it raises counts as `Retry`, with the error's class as text.
    """

    async def send(self, message: Message) -> SendResult:
        """Try to deliver one message."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. May be called again."""
        ...
