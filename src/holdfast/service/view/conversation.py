"""The rows of conversations and their messages. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypeAlias, TypedDict, cast

import msgspec

from holdfast.core.nouns.conversations import OnBusy
from holdfast.core.values import content
from holdfast.core.values.money import usd
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.nouns.conversations import Conversation, ConversationTurn
    from holdfast.service.control.conversation import Thread


MessageStatus: TypeAlias = Literal["waiting", "active", "completed", "failed", "cancelled"]


class ConversationRow(TypedDict):
    """A conversation with an agent."""

    name: Annotated[str, doc("Name of the conversation.")]
    tenant: field.Tenant
    agent: Annotated[str, doc("The workflow that answers its messages.")]
    on_busy: Annotated[OnBusy, doc("Action on a message that comes while the agent is at work.")]
    team_budget: Annotated[str | None, doc("The team budget that its runs are charged to.")]
    spends_as: Annotated[str | None, doc("The agent of the team budget that its runs are charged to.")]
    messages: Annotated[int, doc("Number of messages.")]
    active: Annotated[int | None, doc("The number of the message that is being answered.")]
    run: Annotated[str | None, doc("The id of the run that answers it.")]
    waiting: Annotated[list[int], doc("The numbers of the messages that wait.")]
    latest: Annotated[int | None, doc("The number of the message that the next one follows.")]
    by: Annotated[str | None, doc("The person who opened it.")]
    private: Annotated[bool, doc("True if only the person who opened it can read it and write in it.")]
    client: Annotated[str | None, doc("The token or key with which a private one was opened.")]
    begun_at: Annotated[Time, doc("Time at which it was opened.")]


class AttachmentRow(TypedDict):
    """An image, a recording or a document of a message, without its bytes."""

    type: Annotated[content.Kind, doc("Kind of content.")]
    media_type: Annotated[str, doc("Media type of the content: `image/png`.")]
    sha256: Annotated[str, doc("SHA-256 of its bytes, in hexadecimal digits.")]
    size_bytes: Annotated[int, doc("Size of the content in bytes.")]
    month: NotRequired[Annotated[str, doc("The month whose archive keeps its bytes: `2026-03`.")]]


class SummaryRow(TypedDict):
    """A summary of the beginning of a conversation."""

    text: Annotated[str, doc("Text of the summary, which agents read in place of the messages.")]
    covers: Annotated[int, doc("Number of messages and replies that it stands for.")]


class ExchangeRow(TypedDict):
    """A message and its reply."""

    number: Annotated[int, doc("Its number in the conversation; the first message has 1.")]
    after: Annotated[int | None, doc("The number of the message that it follows.")]
    steers: Annotated[int | None, doc("The message whose answer it changed, because it came meanwhile.")]
    status: Annotated[MessageStatus, doc("`waiting`, `active`, or how its run ended: `completed`, `failed`, `cancelled`.")]
    text: Annotated[str, doc("Text of the message.")]
    parts: Annotated[list[AttachmentRow], doc("Its attachments.")]
    by: Annotated[str | None, doc("The person who sent it.")]
    key: Annotated[str | None, doc("Its idempotency key: a message with the same key is the same message.")]
    sent_at: Annotated[Time, doc("When it was sent.")]
    run: Annotated[str | None, doc("The id of the run that answers it.")]
    agent: Annotated[str | None, doc("The agent that answers it, if it is not the conversation's own.")]
    reply: Annotated[str | None, doc("The reply, as text.")]
    summary: Annotated[SummaryRow | None, doc("Summary of what comes before this message; null if agents read it in full.")]
    left: Annotated[bool, doc("True if a later message replaced it, so that agents do not see it any more.")]
    problem: Annotated[str | None, doc("Reason why it has no reply.")]


class ConversationWhole(ConversationRow):
    """A conversation with its messages and its costs."""

    limit_usd: Annotated[Dollars | None, doc("The most that its runs may spend together.")]
    spent_usd: Annotated[Dollars, doc("Dollars that its runs have spent; calls of unknown cost count with their maximum.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    max_tokens: Annotated[int | None, doc("The most tokens that its runs may use together.")]
    spent_tokens: Annotated[int, doc("Tokens that its runs have used; calls of unknown use count with their maximum.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for calls in flight.")]
    exchanges: Annotated[list[ExchangeRow], doc("Messages with their replies, oldest first.")]


def of_conversation(conversation: Conversation) -> ConversationRow:
    """A conversation as lists show it."""
    return {
        "name": conversation.id,
        "tenant": conversation.tenant,
        "agent": conversation.workflow,
        "on_busy": conversation.on_busy,
        "team_budget": conversation.team_budget,
        "spends_as": conversation.spends_as,
        "messages": conversation.said,
        "active": conversation.active,
        "run": conversation.run,
        "waiting": list(conversation.waiting),
        "latest": conversation.tip,
        "by": conversation.by,
        "private": conversation.is_private,
        "client": conversation.client,
        "begun_at": iso(conversation.made_at_ms),
    }


def of_talk(talk: Thread) -> ConversationWhole:
    """Return the row of a conversation with all its messages, and its spending."""
    return {
        **of_conversation(talk.conversation),
        "limit_usd": maybe_usd(talk.books.limit),
        "spent_usd": usd(talk.books.settled + talk.books.in_doubt),
        "held_usd": usd(talk.books.held),
        "max_tokens": talk.tokens.limit,
        "spent_tokens": talk.tokens.settled + talk.tokens.in_doubt,
        "held_tokens": talk.tokens.held,
        "exchanges": [of_exchange(each) for each in talk.exchanges.values()],
    }


def of_exchange(exchange: ConversationTurn) -> ExchangeRow:
    """A message and what came of it."""
    return {
        "number": exchange.number,
        "after": exchange.parent,
        "steers": exchange.steers,
        "status": cast("MessageStatus", exchange.status),
        "text": exchange.text,
        "parts": [msgspec.to_builtins(part) for part in exchange.parts],
        "by": exchange.by,
        "key": exchange.key,
        "sent_at": iso(exchange.at_ms),
        "run": exchange.run,
        "agent": exchange.agent,
        "reply": exchange.reply,
        "summary": None if exchange.summary is None else {"text": exchange.summary.text, "covers": exchange.summary.covers},
        "left": exchange.left,
        "problem": exchange.problem,
    }
