"""Slack: messages to an incoming webhook, with buttons for a question that a button can answer.

A button names the gate and the hash of what the message showed. Neither is a secret: who has pressed it is known by Slack's
signature on the request that follows. Never here: that request (http.slack), a decision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.notify.posting import Address
from holdfast.ports.channel import Message, Question, Refused, SendResult

ACTION: Final = "holdfast:"
"""Beginning of the ids of our buttons; the decision follows."""
BUTTONS: Final = {"approve": ("Approve", "primary"), "reject": ("Reject", "danger")}
"""The decisions that take no data of their own, with their text and style."""
_BAD_REQUEST: Final = 400
_MAX_HEADER: Final = 150
_MAX_FIELD: Final = 1_000
_MAX_FACTS: Final = 20
_MAX_VALUE: Final = 2_000
"""Characters that Slack takes in a header (150), a field (2,000) and a button's value (2,000)."""
_MAX_TEXTS: Final = 12_000
"""Bytes of all fields together, as JSON: a body stays below 20 kB."""
_UNSEEN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class ButtonValue(msgspec.Struct, frozen=True):
    """The value of a button: the gate, and the hash of what the message showed."""

    gate: str
    shown_hash: str


class SlackChannel:
    """An incoming webhook of Slack, whose address is a secret."""

    def __init__(self, url: str, *, allow_private: bool | Sequence[str] = False, ca_file: str | None = None) -> None:
        """Raises UsageError."""
        self._address = Address(url, allow_private=allow_private, ca_file=ca_file)

    async def send(self, message: Message) -> SendResult:
        """Try to deliver one message."""
        result, reply = await self._address.exchange(msgspec.json.encode(blocks_of(message)), {})
        if reply is not None and reply.status == _BAD_REQUEST:
            return Refused("Slack refuses the form of this message (HTTP 400).")
        return result

    async def aclose(self) -> None:
        """Each request has a connection of its own."""


def blocks_of(message: Message) -> dict[str, Any]:
    """Return a message in Slack's form. It has buttons only if it fits as a whole."""
    title = _line(message.title)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": plain(_cut(title, _MAX_HEADER) or "–")}]
    is_whole, left = len(title) <= _MAX_HEADER, _MAX_TEXTS
    for number, (name, text) in enumerate(message.facts):
        words = f"{_line(name)}\n{_UNSEEN.sub(' ', text)}"
        shown = _cut(words, _MAX_FIELD)
        left -= len(msgspec.json.encode(shown))
        is_whole = is_whole and shown == words and left >= 0 and number < _MAX_FACTS
        if left < 0 or number >= _MAX_FACTS:
            blocks.append({"type": "context", "elements": [plain(f"{len(message.facts) - number} more are not shown.")]})
            break
        blocks.append({"type": "section", "text": plain(shown)})
    if message.link is not None:
        link = escaped(message.link).replace("|", "%7C")
        shown_link = {"type": "mrkdwn", "text": f"<{link}|Open in Holdfast>", "verbatim": True}
        blocks.append({"type": "context", "elements": [shown_link]})
    if is_whole and message.question is not None and (buttons := _buttons(message.question)):
        blocks.append({"type": "actions", "block_id": message.id, "elements": buttons})
    return {"text": escaped(title), "mrkdwn": False, "blocks": blocks}


def plain(text: str) -> dict[str, Any]:
    """Return a text that Slack shows sign by sign: none is markup, a link, a mention or the name of an emoji."""
    return {"type": "plain_text", "text": text, "emoji": False}


def escaped(text: str) -> str:
    """Return the text of a message without links and mentions. Other markup is off where the message has `mrkdwn` false."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _buttons(question: Question) -> list[dict[str, Any]]:
    """Return the buttons of a question; none where an answer needs data that a button cannot give."""
    value = msgspec.json.encode(ButtonValue(question.gate, question.shown_hash)).decode()
    if question.needs_form or len(value) > _MAX_VALUE:
        return []
    return [
        {
            "type": "button",
            "action_id": f"{ACTION}{decision}",
            "text": {"type": "plain_text", "text": words},
            "style": style,
            "value": value,
        }
        for decision, (words, style) in BUTTONS.items()
        if decision in question.allowed
    ]


def _line(text: str) -> str:
    return " ".join(_UNSEEN.sub(" ", text).split())


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text of at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: max(limit - 1, 0)]}…"
