"""Conversations: what is said to an agent, and what it answers, over many runs.

A conversation is a tree of exchanges: a message, the run that answers it, and its reply. One exchange at a time is under way;
the others wait, or have their reply. A message is written down first, and then its run is started under a key of the
conversation and the number of the exchange: whoever does that again, after a crash or beside another, does nothing new. What an
agent is given is what was said on the way from the root, word for word: so a run that is taken up anywhere sees the same.

Never here: a clock, starting a run, what an agent is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.ids import RunId
from holdfast.core.scopes import CONVERSATION
from holdfast.errors import Conflict, InvalidInput, NotFound

OnBusy: TypeAlias = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What becomes of a message while the agent is at work: it is refused; it waits; the run is cancelled and the message follows;
the same, and the exchange is left, as if it had never been."""

ON_BUSY: Final[tuple[OnBusy, ...]] = ("reject", "enqueue", "interrupt", "rollback")
MOST_EXCHANGES: Final = 1_000
"""Each run is given all that was said before it."""
MOST_WAITING: Final = 20
MOST_CHARACTERS: Final = 4_000_000
"""Of what is said on the way to a message: more than any model reads."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message and what came of it. `status` is `waiting`, `active`, or how its run has ended; `reply` is what that returned,
    as text. `left` says that a later message began where this one had: no agent is told of it."""

    number: int
    text: str
    at_ms: int
    parent: int | None = None
    status: str = "waiting"
    on_busy: OnBusy = "enqueue"
    by: str | None = None
    key: str | None = None
    """By which whoever sent it knows it: the same again is the same message."""
    run: RunId | None = None
    reply: str | None = None
    left: bool = False
    problem: str | None = None
    """Why it could not be answered."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of them, without its exchanges."""

    id: str
    tenant: str
    workflow: str
    made_at_ms: int
    on_busy: OnBusy = "enqueue"
    team: str | None = None
    by: str | None = None
    said: int = 0
    """How many exchanges there are; they are numbered from 1."""
    active: int | None = None
    """The one under way, until its reply is written down."""
    run: RunId | None = None
    """Of the active one, once it is started."""
    waiting: tuple[int, ...] = ()
    tip: int | None = None
    """After which exchange the next message comes."""
    cancelling: bool = False
    """The active run is to be cancelled in favour of what waits, and has not been told so yet."""
    revision: int = 0
    """Counts its changes, so that nobody overwrites what he has not seen."""

    @property
    def is_pending(self) -> bool:
        """Whether somebody has something to do with it now, whatever its run does."""
        return (self.active is not None and self.run is None) or self.cancelling


class Change(msgspec.Struct, frozen=True):
    """A conversation as it is from now on, and the exchanges that are new or other."""

    conversation: Conversation
    exchanges: tuple[Exchange, ...]


Exchanges: TypeAlias = Mapping[int, Exchange]


def scope_of(tenant: str, conversation: str) -> str:
    """The scope in which the money of all its runs counts."""
    return f"{CONVERSATION}/{quote(tenant, safe='')}/{quote(conversation, safe='')}"


def named_by(scopes: Iterable[str]) -> tuple[str, str] | None:
    """The tenant and the name of the conversation whose scope is among these."""
    for scope in scopes:
        kind, *rest = scope.split("/")
        if kind == CONVERSATION and len(rest) == 2:
            return unquote(rest[0]), unquote(rest[1])
    return None


def key_of(conversation: Conversation, number: int) -> str:
    """The start key of the run that answers a message."""
    return f"conversation/{conversation.id}/{number}"


def say(
    conversation: Conversation,
    exchanges: Exchanges,
    message: Exchange,
    *,
    after: int | None,
    cannot_be_undone: Sequence[str],
) -> Change:
    """Take a message: it is answered now, or waits. `message` has its text, sender and what is to be done while the agent is at
    work; `after` is the exchange that it follows, the latest unless said. `cannot_be_undone` names what the active run has
    done to the world for good. Raises Conflict where it is refused."""
    if conversation.said >= MOST_EXCHANGES:
        raise Conflict(
            f"The conversation {conversation.id} has {MOST_EXCHANGES} messages, as many as one can have. Nothing was said:"
            " begin another."
        )
    number = conversation.said + 1
    message = msgspec.structs.replace(message, number=number)
    said = msgspec.structs.replace(conversation, said=number)
    if conversation.active is None:
        if after is not None:
            _expect_answered(conversation, exchanges, after)
            said = msgspec.structs.replace(said, tip=after)
        return _begin(said, exchanges, message)
    active = conversation.active
    if after not in (None, active):
        raise Conflict(
            f"The agent is at message {active} of conversation {conversation.id}; a branch begins when it is done. Nothing was"
            " said."
        )
    if message.on_busy == "reject":
        raise Conflict(
            f"The agent is at message {active} of conversation {conversation.id}. Nothing was said: wait for its reply, or say"
            " what is to become of that (enqueue, interrupt, rollback)."
        )
    if message.on_busy == "rollback" and cannot_be_undone:
        raise Conflict(
            f"Message {active} of conversation {conversation.id} cannot be rolled back: {', '.join(cannot_be_undone)} did what"
            " cannot be undone. Nothing was said: interrupt it, or let it finish."
        )
    if len(conversation.waiting) >= MOST_WAITING:
        raise Conflict(
            f"{MOST_WAITING} messages of conversation {conversation.id} wait already. Nothing was said: wait for a reply."
        )
    at_once = message.on_busy != "enqueue"
    waiting = (number, *conversation.waiting) if at_once else (*conversation.waiting, number)
    said = msgspec.structs.replace(said, waiting=waiting, cancelling=conversation.cancelling or at_once)
    return Change(said, (message,))


def _expect_answered(conversation: Conversation, exchanges: Exchanges, after: int) -> None:
    if after not in exchanges:
        raise NotFound(f"Conversation {conversation.id} has no message {after}. Nothing was said.")


def _begin(conversation: Conversation, exchanges: Exchanges, message: Exchange) -> Change:
    """Its turn has come: it follows what was said last."""
    begun = msgspec.structs.replace(message, parent=conversation.tip, status="active")
    if sum(len(text) for _, text in spoken({**exchanges, begun.number: begun}, begun.number)) > MOST_CHARACTERS:
        raise InvalidInput(
            f"With this message conversation {conversation.id} would have more than {MOST_CHARACTERS} characters, which no"
            " model reads. Nothing was said: begin another."
        )
    number = begun.number
    after = msgspec.structs.replace(conversation, active=number, run=None, tip=number, cancelling=False)
    return Change(after, (begun,))


def started(conversation: Conversation, exchanges: Exchanges, run: RunId) -> Change:
    """The run of the active message is there."""
    assert conversation.active is not None
    begun = msgspec.structs.replace(exchanges[conversation.active], run=run)
    return Change(msgspec.structs.replace(conversation, run=run), (begun,))


def ended(
    conversation: Conversation, exchanges: Exchanges, status: str, reply: str | None, problem: str | None,
    cannot_be_undone: Sequence[str] = (),
) -> Change:  # fmt: skip
    """The active message has been answered, or not. What waits first is next. One that rolls it back begins where it began,
    unless its run has meanwhile done what cannot be undone: then nothing is hidden from the agent."""
    assert conversation.active is not None
    done = msgspec.structs.replace(exchanges[conversation.active], status=status, reply=reply, problem=problem)
    idle = msgspec.structs.replace(conversation, active=None, run=None, cancelling=False)
    if not conversation.waiting:
        return Change(idle, (done,))
    following = exchanges[conversation.waiting[0]]
    idle = msgspec.structs.replace(idle, waiting=conversation.waiting[1:])
    if following.on_busy == "rollback" and not cannot_be_undone:
        done = msgspec.structs.replace(done, left=True)
        idle = msgspec.structs.replace(idle, tip=done.parent)
    known = {**exchanges, done.number: done}
    try:
        change = _begin(idle, known, following)
    except InvalidInput as refused:
        return _given_up(idle, known, done, following, refused.message)
    return Change(change.conversation, (done, *change.exchanges))


def _given_up(
    conversation: Conversation, exchanges: Exchanges, done: Exchange, following: Exchange, why: str
) -> Change:
    """A message that cannot be answered any more; those that wait behind it cannot be either."""
    lost = [following, *(exchanges[number] for number in conversation.waiting)]
    told = (msgspec.structs.replace(each, status="failed", problem=why) for each in lost)
    return Change(msgspec.structs.replace(conversation, waiting=()), (done, *told))


def path(exchanges: Exchanges, number: int | None) -> list[Exchange]:
    """The exchanges from the root to that one."""
    found: list[Exchange] = []
    while number is not None and len(found) <= MOST_EXCHANGES:
        found.append(exchanges[number])
        number = found[-1].parent
    return found[::-1]


def spoken(exchanges: Exchanges, number: int) -> Iterable[tuple[str, str]]:
    """What was said on the way to a message, itself the last: (`user` or `assistant`, the text)."""
    for each in path(exchanges, number):
        yield "user", each.text
        if each.number != number and each.reply is not None:
            yield "assistant", each.reply


def input_of(conversation: Conversation, exchanges: Exchanges, number: int) -> dict[str, Any]:
    """What the run that answers a message is given (authoring.chat)."""
    said = spoken(exchanges, number)
    return {"conversation": conversation.id, "messages": [{"role": role, "text": text} for role, text in said]}
