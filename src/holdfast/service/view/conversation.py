"""Conversations and what was said in them. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.values.money import usd
from holdfast.service.view.plain import iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.control.conversation import Talk
    from holdfast.core.nouns.conversations import Conversation, Exchange


def of_conversation(conversation: Conversation) -> dict[str, Any]:
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


def of_talk(talk: Talk) -> dict[str, Any]:
    """A conversation with all that was said in it, and what it has spent."""
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


def of_exchange(exchange: Exchange) -> dict[str, Any]:
    """A message and what came of it."""
    return {
        "number": exchange.number,
        "after": exchange.parent,
        "steers": exchange.steers,
        "status": exchange.status,
        "text": exchange.text,
        "parts": [msgspec.to_builtins(part) for part in exchange.parts],
        "by": exchange.by,
        "key": exchange.key,
        "said_at": iso(exchange.at_ms),
        "run": exchange.run,
        "agent": exchange.agent,
        "reply": exchange.reply,
        "summary": exchange.summary and {"text": exchange.summary.text, "covers": exchange.summary.covers},
        "left": exchange.left,
        "problem": exchange.problem,
    }
