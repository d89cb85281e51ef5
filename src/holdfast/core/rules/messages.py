"""The rules of messages that reach a run while it is at work: kept until its model is asked next, and read there once.

Never here: conversations (conversations), what a model makes of a message.
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import MESSAGE
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends
from holdfast.core.values.ids import message_at


def send_message(d: Decision, c: commands.SendMessage) -> None:
    """They come in the order of their numbers, so a repeated one is recognized by its own."""
    if c.number > d.state.told:
        d.emit(ev.MessageReceived(c.number, c.message, *c.by.event_fields))


def read_messages(d: Decision, c: commands.ReadMessages) -> None:
    """Of a call that has been begun it stands what it was asked: it reads nothing more."""
    step = intends(d, c, message_at(c.path, 0), MESSAGE, MESSAGE, "")
    if c.path in step.journal or message_at(c.path, 0) in step.journal:
        return
    d.record(c.step, c.values)
    for index, message in enumerate(list(d.state.messages)):
        d.emit(ev.MessageRead(c.step, c.attempt, message_at(c.path, index), message.number))
