"""Conversations: what is said to an agent, and what it answers, over many runs.

A conversation is a tree of exchanges: a message, the run that answers it, and its reply. One exchange at a time is under way;
the others wait, or have their reply. A message is written down first, and then its run is started under a key of the
conversation and the number of the exchange: whoever does that again, after a crash or beside another, does nothing new. What an
agent is given is what was said on the way from the root, word for word, or of the older part what an earlier run on that way
has summed up: so a run that is taken up anywhere sees the same. A message that steers is part of the exchange under way, whose
run is told it; one that the run never read is an exchange.

Never here: a clock, starting a run, what an agent is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.nouns.client_tools import ClientContext, ClientTool
from holdfast.core.values.content import ContentPart
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import CONVERSATION, in_tokens
from holdfast.errors import Conflict, InvalidInput, NotFound

OnBusy: TypeAlias = Literal["reject", "enqueue", "interrupt", "rollback", "steer"]
"""What becomes of a message while the agent is at work: it is refused; it waits; the run is cancelled and the message follows;
the same, and the exchange is left, as if it had never been; the run reads it before its next model call."""

ON_BUSY: Final[tuple[OnBusy, ...]] = ("reject", "enqueue", "interrupt", "rollback", "steer")
MAX_EXCHANGES: Final = 1_000
"""Each run is given all that was said before it."""
MAX_WAITING: Final = 20
MAX_STEERING: Final = 100
"""Messages to one run while it is at work."""
MAX_CHARACTERS: Final = 4_000_000
"""Of what is said on the way to a message: more than any model reads."""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run's summary of what it was given: of the first `covers` of all messages and replies up to this one."""

    text: str
    covers: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the run that answers a message: its result as text, or why it has none; the agent it was handed over to;
    and which of the messages that were to steer it it has not read. Of the `given` messages of its input it has summed up
    the first `covers`, to `summary`. `authors` contributed to what it returned, and `makers` to keys with which a person has
    decided on the way."""

    status: str
    reply: str | None = None
    problem: str | None = None
    handed_to: str | None = None
    unread: Collection[int] = ()
    summary: str = ""
    covers: int = 0
    given: int = 0
    authors: tuple[str, ...] = ()
    makers: dict[str, tuple[str, ...]] = {}


class ConversationTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message and its result. `status` is `waiting`, `active`, or how its run has ended; `reply` is what that returned, as
    text. `left` means that a later message began where this one had: no agent gets it."""

    number: int
    text: str
    at_ms: int
    parent: int | None = None
    status: str = "waiting"
    on_busy: OnBusy = "enqueue"
    by: str | None = None
    maker: str | None = None
    """Who has made the key with which it was sent."""
    authors: tuple[str, ...] = ()
    """Those who have a hand in what its run returned, once that has ended."""
    makers: dict[str, tuple[str, ...]] = {}
    """Makers of the keys that were used for decisions in that run."""
    key: str | None = None
    """Idempotency key of its sender: repeated, it is the same message."""
    run: RunId | None = None
    reply: str | None = None
    left: bool = False
    problem: str | None = None
    """Why it could not be answered."""
    steers: int | None = None
    """The exchange that it is part of: it came while the agent was at that."""
    parts: tuple[ContentPart, ...] = ()
    """What is attached to it, each known by its hash."""
    agent: str | None = None
    """Who answers it, if not the conversation's own agent; once it is answered, who did: the next message goes there."""
    summary: Summary | None = None
    """The summary that its run has made: later runs get that instead."""
    tools: tuple[ClientTool, ...] = ()
    """The tools that the sender's front end offers to its run, and to no other."""
    context: tuple[ClientContext, ...] = ()
    """The context that the front end gives to its run, and to no other."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of them, without its exchanges."""

    id: str
    tenant: str
    workflow: str
    made_at_ms: int
    on_busy: OnBusy = "enqueue"
    team: str | None = None
    team_budget: str | None = None
    spends_as: str | None = None
    """As which agent its runs count in the team budget."""
    by: str | None = None
    is_private: bool = False
    """Only who has opened it sees it, and speaks in it, with what they came with then."""
    client: str | None = None
    """Whose token or key a private one was opened with; None where an earlier version did."""
    said: int = 0
    """How many exchanges there are; they are numbered from 1."""
    active: int | None = None
    """The one under way, until its reply is written down."""
    run: RunId | None = None
    """Of the active one, once it is started."""
    waiting: tuple[int, ...] = ()
    steering: tuple[int, ...] = ()
    """Messages that the active run is still to get."""
    tip: int | None = None
    """After which exchange the next message comes."""
    cancelling: bool = False
    """True if the active run is to be cancelled in favour of what waits, and has not been yet."""
    revision: int = 0
    """Counts its changes, so that no writer overwrites what it has not seen."""

    @property
    def is_pending(self) -> bool:
        """True if the conversation has work to do now, whatever its run does."""
        return (self.active is not None and self.run is None) or self.cancelling or bool(self.steering)


class Change(msgspec.Struct, frozen=True):
    """A conversation as it is from now on, and the exchanges that are new or other."""

    conversation: Conversation
    exchanges: tuple[ConversationTurn, ...]


Exchanges: TypeAlias = Mapping[int, ConversationTurn]


def scope_of(tenant: str, conversation: str) -> str:
    """The scope in which the money of all its runs counts."""
    return f"{CONVERSATION}/{quote(tenant, safe='')}/{quote(conversation, safe='')}"


def scopes_of(tenant: str, conversation: str) -> tuple[str, str]:
    """The scopes of its money and of its tokens."""
    money = scope_of(tenant, conversation)
    return money, in_tokens(money)


def named_by(scopes: Iterable[str]) -> tuple[str, str] | None:
    """The tenant and the name of the conversation whose scope is among these."""
    for scope in scopes:
        kind, *rest = scope.split("/")
        if kind == CONVERSATION and len(rest) == 2:
            return unquote(rest[0]), unquote(rest[1])
    return None


def key_of(conversation: Conversation, number: int) -> str:
    """The start key of the run that answers a message. A later conversation of the same name has others."""
    return f"conversation/{conversation.id}/{conversation.made_at_ms}/{number}"


def expect_idle(conversation: Conversation) -> None:
    """Raises Conflict where the agent is at something."""
    if conversation.active is not None:
        raise Conflict(
            f"The agent is at message {conversation.active} of conversation {conversation.id}. Nothing was deleted: wait for"
            " its reply, or stop it."
        )


def take_message(
    conversation: Conversation,
    exchanges: Exchanges,
    message: ConversationTurn,
    *,
    after: int | None,
    cannot_be_undone: Sequence[str],
) -> Change:
    """Take a message: it is answered now, or waits. `message` has its text, sender and what is to be done while the agent is at
    work; `after` is the exchange that it follows, the latest unless said. `cannot_be_undone` names what the active run has
    done to the world for good. Raises Conflict where it is refused."""
    if conversation.said >= MAX_EXCHANGES:
        raise Conflict(
            f"The conversation {conversation.id} has {MAX_EXCHANGES} messages, the most it can have. Nothing was sent:"
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
            " sent."
        )
    if message.on_busy == "reject":
        raise Conflict(
            f"The agent is at message {active} of conversation {conversation.id}. Nothing was sent: wait for its reply, or"
            " choose what happens to that (enqueue, interrupt, rollback)."
        )
    if message.on_busy == "rollback" and cannot_be_undone:
        raise Conflict(
            f"Message {active} of conversation {conversation.id} cannot be rolled back: {', '.join(cannot_be_undone)} did what"
            " cannot be undone. Nothing was sent: interrupt it, or let it finish."
        )
    if message.on_busy == "steer" and not conversation.cancelling:
        return _steer(said, exchanges, message, active)
    if len(conversation.waiting) >= MAX_WAITING:
        raise Conflict(
            f"{MAX_WAITING} messages of conversation {conversation.id} wait already. Nothing was sent: wait for a reply."
        )
    at_once = message.on_busy in ("interrupt", "rollback")
    waiting = (number, *conversation.waiting) if at_once else (*conversation.waiting, number)
    said = msgspec.structs.replace(said, waiting=waiting, cancelling=conversation.cancelling or at_once)
    return Change(said, (message,))


def _expect_answered(conversation: Conversation, exchanges: Exchanges, after: int) -> None:
    if after not in exchanges:
        raise NotFound(f"Conversation {conversation.id} has no message {after}. Nothing was sent.")
    if (steered := exchanges[after].steers) is not None:
        raise Conflict(
            f"Message {after} of conversation {conversation.id} is part of message {steered}, whose run it steered. Nothing was"
            f" sent: begin a branch after {steered}."
        )


def _steer(conversation: Conversation, exchanges: Exchanges, message: ConversationTurn, active: int) -> Change:
    """It is part of the exchange under way."""
    if len(steering(exchanges, active)) >= MAX_STEERING:
        raise Conflict(
            f"The run at message {active} of conversation {conversation.id} has received {MAX_STEERING} messages, the most"
            " that a run can. Nothing was sent: enqueue it, or wait for the reply."
        )
    part = msgspec.structs.replace(message, status="active", steers=active, run=conversation.run)
    _expect_readable(conversation, {**exchanges, part.number: part}, active)
    return Change(msgspec.structs.replace(conversation, steering=(*conversation.steering, part.number)), (part,))


def _expect_readable(conversation: Conversation, exchanges: Exchanges, number: int) -> None:
    told = [each.text for each in prompt_messages(exchanges, number)]
    told += [part.text for part in steering(exchanges, number)]
    if sum(map(len, told)) > MAX_CHARACTERS:
        raise InvalidInput(
            f"With this message conversation {conversation.id} would have more than {MAX_CHARACTERS} characters, which no"
            " model reads. Nothing was sent: begin another."
        )


def _begin(conversation: Conversation, exchanges: Exchanges, message: ConversationTurn) -> Change:
    """Its turn has come: it follows what was said last."""
    agent = None if conversation.tip is None else exchanges[conversation.tip].agent
    begun = msgspec.structs.replace(message, parent=conversation.tip, status="active", agent=agent)
    _expect_readable(conversation, {**exchanges, begun.number: begun}, begun.number)
    number = begun.number
    after = msgspec.structs.replace(conversation, active=number, run=None, tip=number, cancelling=False)
    return Change(after, (begun,))


def started(conversation: Conversation, exchanges: Exchanges, run: RunId) -> Change:
    """The run of the active message is there."""
    assert conversation.active is not None
    parts = [exchanges[conversation.active], *steering(exchanges, conversation.active)]
    begun = tuple(msgspec.structs.replace(each, run=run) for each in parts)
    return Change(msgspec.structs.replace(conversation, run=run), begun)


def deliver_steering(conversation: Conversation) -> Change:
    """Return the conversation after its active run got what it was still to get."""
    return Change(msgspec.structs.replace(conversation, steering=()), ())


def ended(conversation: Conversation, exchanges: Exchanges, outcome: Outcome, cannot_be_undone: Sequence[str] = ()) -> Change:
    """The active message has been answered, or not. Next are those that were to steer its run and that it has not read, then
    what waits. One that rolls it back begins where it began, unless its run has meanwhile done what cannot be undone: then
    nothing is hidden from the agent."""
    assert conversation.active is not None
    active = exchanges[conversation.active]
    agent = None if outcome.handed_to == conversation.workflow else outcome.handed_to or active.agent
    first = exchanges[conversation.waiting[0]] if conversation.waiting else None
    leaves = first is not None and first.on_busy == "rollback" and not cannot_be_undone
    answered = msgspec.structs.replace(
        active,
        status=outcome.status,
        reply=outcome.reply,
        problem=outcome.problem,
        left=leaves,
        agent=agent,
        summary=_summary(exchanges, active.number, outcome),
        authors=outcome.authors,
        makers=outcome.makers,
    )
    done = [answered]
    waiting = conversation.waiting
    for part in reversed(steering(exchanges, active.number)):
        if part.number in outcome.unread and not leaves:
            done.append(msgspec.structs.replace(part, status="waiting", steers=None, run=None))
            waiting = (part.number, *waiting)
        else:
            done.append(msgspec.structs.replace(part, status=outcome.status, left=leaves, agent=agent))
    tip = active.parent if leaves else conversation.tip
    idle = msgspec.structs.replace(
        conversation, active=None, run=None, cancelling=False, steering=(), waiting=waiting[1:], tip=tip
    )
    known = {**exchanges, **{each.number: each for each in done}}
    if not waiting:
        return Change(idle, tuple(done))
    try:
        change = _begin(idle, known, known[waiting[0]])
    except InvalidInput as refused:
        return _given_up(idle, known, done, waiting, refused.message)
    begun = {each.number: each for each in (*done, *change.exchanges)}
    return Change(change.conversation, tuple(begun.values()))


def _summary(exchanges: Exchanges, number: int, outcome: Outcome) -> Summary | None:
    """Return the summary that the run of a message has made, if it is one of what the run was given."""
    if not outcome.covers or outcome.given != len(prompt_messages(exchanges, number)):
        return None
    before = _latest(exchanges, number)
    hidden = before.covers - 1 if before is not None else 0  # it was given that as one message
    return Summary(outcome.summary, hidden + outcome.covers)


def _given_up(
    conversation: Conversation, exchanges: Exchanges, done: Iterable[ConversationTurn], lost: Iterable[int], reason: str
) -> Change:
    """A message that cannot be answered any more; those that wait behind it cannot be either."""
    ended_ = {each.number: each for each in done}
    for number in lost:
        ended_[number] = msgspec.structs.replace(exchanges[number], status="failed", problem=reason)
    return Change(msgspec.structs.replace(conversation, waiting=()), tuple(ended_.values()))


def path(exchanges: Exchanges, number: int | None) -> list[ConversationTurn]:
    """The exchanges from the root to that one."""
    found: list[ConversationTurn] = []
    while number is not None and len(found) <= MAX_EXCHANGES:
        found.append(exchanges[number])
        number = found[-1].parent
    return found[::-1]


def steering(exchanges: Exchanges, number: int) -> list[ConversationTurn]:
    """The messages that are part of an exchange, in their order."""
    return [each for each in exchanges.values() if each.steers == number]


class PromptMessage(NamedTuple):
    """A message of the `user` or the `assistant`, or the `summary` of earlier ones."""

    role: str
    text: str
    parts: tuple[ContentPart, ...] = ()


def prompt_messages(exchanges: Exchanges, number: int) -> list[PromptMessage]:
    """Return the messages that the run of a message gets, itself the last: all that led to it, or the summary of the first part
    and the rest."""
    message = exchanges[number]
    said = [] if message.parent is None else [*_messages_until(exchanges, message.parent)]
    summary = _latest(exchanges, number)
    before = said if summary is None else [PromptMessage("summary", summary.text), *said[summary.covers :]]
    return [*before, PromptMessage("user", message.text, message.parts)]


def _latest(exchanges: Exchanges, number: int) -> Summary | None:
    """Return the latest summary before a message."""
    found = (each.summary for each in reversed(path(exchanges, exchanges[number].parent)))
    return next((summary for summary in found if summary is not None), None)


def _messages_until(exchanges: Exchanges, number: int) -> Iterator[PromptMessage]:
    """All that was said on the way to a message, with what came of it."""
    parts: dict[int, list[ConversationTurn]] = {}
    for each in exchanges.values():
        if each.steers is not None:
            parts.setdefault(each.steers, []).append(each)
    for each in path(exchanges, number):
        yield from (PromptMessage("user", said.text, said.parts) for said in (each, *parts.get(each.number, ())))
        if each.reply is not None:
            yield PromptMessage("assistant", each.reply)


def input_of(conversation: Conversation, exchanges: Exchanges, number: int) -> dict[str, Any]:
    """Return the input of the run that answers a message (authoring.chat)."""
    message = exchanges[number]
    brought = {"tools": msgspec.to_builtins(message.tools), "context": msgspec.to_builtins(message.context)}
    return {
        "conversation": conversation.id,
        "messages": [_message(said) for said in prompt_messages(exchanges, number)],
        **{name: value for name, value in brought.items() if value},
    }


def authors_of(exchanges: Exchanges, number: int) -> tuple[str, ...]:
    """Return those who have said what comes before a message, who made their keys, and who has a hand in what was answered."""
    names = (name for each in _before(exchanges, number) for name in (each.by, each.maker, *each.authors))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def makers_of(exchanges: Exchanges, number: int) -> dict[str, tuple[str, ...]]:
    """Return the makers of the keys that were used for decisions in the runs before a message, by the names of those who
    decided."""
    found: dict[str, tuple[str, ...]] = {}
    for each in _before(exchanges, number):
        for name, makers in each.makers.items():
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *makers)))
    return found


def _before(exchanges: Exchanges, number: int) -> list[ConversationTurn]:
    before = {each.number for each in path(exchanges, exchanges[number].parent)}
    return [each for each in exchanges.values() if each.number in before or each.steers in before]


def message_of(message: ConversationTurn) -> dict[str, Any]:
    """Return a message as a run gets it that is under way."""
    return _message(PromptMessage("user", message.text, message.parts))


def _message(text: PromptMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": text.role, "text": text.text}
    return {**plain, "parts": msgspec.to_builtins(list(text.parts))} if text.parts else plain
