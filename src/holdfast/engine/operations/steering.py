"""Messages to an agent while it was at work, as its next model call gets them.

Never here: who sends them (engine.background.dialogue), what may be read where (core.rules.messages).
"""

from __future__ import annotations

from typing import Any

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import MESSAGE
from holdfast.core.values.ids import Path, message_at
from holdfast.engine.attempts.journal import StepJournal


async def messages(journal: StepJournal, call: Path) -> list[Any]:
    """The messages that the model call at `call` is the first to be told: those that stand beside it or, where it was not begun
    yet, all that have come. They are recorded before it, so every later attempt asks the same."""
    found = await _recorded(journal, call)
    if found:
        return found
    state = await journal.attempt.state()
    if not state.messages:
        return []
    await journal.send(cmd.ReadMessages(journal.step, journal.number, call, journal.take()))
    return await _recorded(journal, call)


async def _recorded(journal: StepJournal, call: Path) -> list[Any]:
    found: list[Any] = []
    while (known := await journal.recall(message_at(call, len(found)), MESSAGE, MESSAGE, "")) is not None:
        found.append(known.value)
    return found
