"""What the model calls of one attempt say while they go on: masked, and on its way to whoever watches.

The place of a piece is counted in what is told, so that the reply in the history goes on where the pieces end. Never here: the
way to the store (stream_writer), what a reply is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.facts.streams import source_of
from holdfast.core.values.ids import CallId, RunId
from holdfast.engine.attempts.step_services import StepServices
from holdfast.platform.masking import Masking
from holdfast.ports import StreamName


class _Part:
    """Of what is said in a call: its text, or something besides."""

    def __init__(self, name: StreamName, masking: Masking) -> None:
        self.name = name
        self.masking = masking
        self.told = 0


class Utterances:
    """Those of one attempt."""

    def __init__(self, services: StepServices, run: RunId, tenant: str) -> None:
        self._writer = services.streams
        self._masking = services.payloads.masking
        self._run = run
        self._tenant = tenant
        self._open: dict[CallId, dict[str, _Part]] = {}

    def begin(self, call: CallId) -> Callable[[str, str], None]:
        """What takes the words of a call: of which part, and more of it."""
        parts = self._open[call] = {}

        def tell(part: str, text: str) -> None:
            if call not in self._open:
                return
            known = parts.get(part)
            if known is None:
                known = parts[part] = _Part(StreamName(self._run, source_of(call, part)), self._masking())
            if more := known.masking.feed(text.encode("utf-8", "replace")).decode():
                self._writer.say(known.name, known.told, more, self._tenant)
                known.told += len(more)

        return tell

    def end(self, call: CallId, told: asyncio.Future[Any] | None) -> None:
        """The outcome of a call is in the history; or will be when `told` says so."""
        if call not in self._open:
            return
        names = [part.name for part in self._open.pop(call).values()]

        def forget() -> None:
            for name in names:
                self._writer.forget(name)

        if told is None:
            forget()
            return

        def heard(_: asyncio.Future[Any]) -> None:
            if not told.cancelled() and told.exception() is None:
                forget()

        told.add_done_callback(heard)
