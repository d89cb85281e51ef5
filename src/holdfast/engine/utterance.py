"""What the model calls of one attempt say while they go on: masked, and on its way to whoever watches.

The place of a piece is counted in what is told, so that the reply in the history goes on where the pieces end. Never here: the
way to the store (stream_writer), what a reply is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.ids import CallId, RunId
from holdfast.core.streams import source_of
from holdfast.engine.step_services import StepServices
from holdfast.ports import StreamName


class Utterances:
    """Those of one attempt."""

    def __init__(self, services: StepServices, run: RunId) -> None:
        self._writer = services.streams
        self._masking = services.payloads.masking
        self._run = run
        self._open: set[CallId] = set()

    def begin(self, call: CallId) -> Callable[[str], None]:
        """What takes the words of a call."""
        self._open.add(call)
        name, masking, told = StreamName(self._run, source_of(call)), self._masking(), 0

        def tell(text: str) -> None:
            nonlocal told
            if call in self._open and (more := masking.feed(text.encode("utf-8", "replace")).decode()):
                self._writer.say(name, told, more)
                told += len(more)

        return tell

    def end(self, call: CallId, told: asyncio.Future[Any] | None) -> None:
        """The outcome of a call is in the history; or will be when `told` says so."""
        if call not in self._open:
            return
        self._open.remove(call)
        name = StreamName(self._run, source_of(call))
        if told is None:
            self._writer.forget(name)
            return

        def heard(_: asyncio.Future[Any]) -> None:
            if not told.cancelled() and told.exception() is None:
                self._writer.forget(name)

        told.add_done_callback(heard)
