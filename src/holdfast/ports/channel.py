"""Channels on which notifications leave the house (a webhook, mail, Slack), and the outbox in which they wait for them.

Never here: which messages exist, when one is sent again (core.views.notifications), an implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypedDict, Unpack

import msgspec

from holdfast.core.views.notifications import MAX_BODY_BYTES, MAX_RECIPIENTS, Delivery, DeliveryState, Message, Question, Rule

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_RECIPIENTS",
    "Channel",
    "ChannelFigures",
    "Claimed",
    "DeliveryFilter",
    "Message",
    "NotificationRules",
    "Outbox",
    "Question",
    "Refused",
    "Retry",
    "SendResult",
    "Sent",
]


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


# --- The outbox -------------------------------------------------------------------------------------------------------


class DeliveryFilter(TypedDict, total=False):
    """The criteria by which deliveries are selected. A criterion that is missing or None matches any."""

    tenant: str | None
    run: str | None
    channel: str | None
    state: DeliveryState | None
    prefix: str | None
    """The beginning of their ids."""
    after: str | None
    """Only those after the one of this id, in the order of the list."""
    limit: int


class Claimed(NamedTuple):
    """A delivery that this process is to send now. `attempt` counts this try already, and no later claim has the same."""

    id: str
    attempt: int
    address: str
    message: Message


class ChannelFigures(msgspec.Struct, frozen=True):
    """The state of an address of a channel. An empty address is the channel's own."""

    channel: str
    address: str
    sent: int
    failed: int
    """Number of tries that failed, also of messages that were sent later."""
    dead: int
    waiting: int
    oldest_at_ms: int | None
    """Time of the oldest waiting message."""
    disabled_at_ms: int | None
    """Time at which the receiver refused further messages."""
    problem: str | None


class Outbox(Protocol):
    """The deliveries of the store. A message is written once, by any process; then it is sent, or given up."""

    async def add(self, deliveries: Sequence[Delivery]) -> int:
        """Keep deliveries, in one transaction, and return how many are new. One that is there stays as it is."""
        ...

    async def claim(
        self, channel: str, limit: int, lease_ms: int, rooms: Mapping[str, int] | None = None, most: int | None = None
    ) -> Sequence[Claimed]:
        """Return messages of a channel that are due, to be sent by this process within `lease_ms`; later another takes them
        up. Only the first of a line is, and its attempt counts from here on. Those of one bundle come as one. Those to one
        address are no more than its number in `rooms`, or than `most`. Given up without an attempt are those whose address is
        disabled, and those whose sender died in the last try."""
        ...

    async def sent(self, claimed: Claimed, channel: str) -> bool:
        """Note that a message was taken. False, and nothing is noted, if another has claimed it since."""
        ...

    async def failed(self, claimed: Claimed, channel: str, problem: str, again_at_ms: int | None, *, disable: bool) -> bool:
        """Note that a try failed: it is due again then or, with None, given up. `disable`: its address wants no more. False as
        for `sent`."""
        ...

    async def replay(self, id_: str) -> bool:
        """Have a dead delivery sent again, as the same message, with all its tries. False if it is not dead."""
        ...

    async def enable(self, channel: str, address: str) -> bool:
        """Use a disabled address again. False if it is not disabled."""
        ...

    async def find(self, id_: str) -> Delivery | None: ...

    async def listed(self, **filters: Unpack[DeliveryFilter]) -> Sequence[Delivery]:
        """Return deliveries by the time at which they were made, the latest first."""
        ...

    async def figures(self) -> Sequence[ChannelFigures]:
        """Return the figures of each channel and address, as of now."""
        ...

    async def last_problem(self, channel: str, address: str, state: DeliveryState) -> str | None:
        """Return why the latest of the deliveries to an address in a state could not be sent. Reads all of them that are
        kept."""
        ...

    async def forget(self, sent_before_ms: int, dead_before_ms: int, limit: int) -> int:
        """Remove up to `limit` deliveries that ended before, and return how many."""
        ...


class NotificationRules(Protocol):
    """The rules that tenants have set, each known by its tenant and its name."""

    async def put(self, rule: Rule) -> bool:
        """Keep a rule in the place of the one of its revision (0: there is none); it has the next revision afterwards. False,
        and nothing is changed, where another stands there."""
        ...

    async def remove(self, tenant: str, name: str) -> bool:
        """False if there was none."""
        ...

    async def find(self, tenant: str, name: str) -> Rule | None: ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Rule]:
        """By tenant and name; `after` are those of the last one before."""
        ...
