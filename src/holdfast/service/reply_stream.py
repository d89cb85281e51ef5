"""An agent's answer while it is written: in its run, and in the runs to which that hands the conversation over.

Never here: a protocol's words, what becomes of a message (core.nouns.conversations).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any, Final

from holdfast.core.facts.state import State
from holdfast.core.facts.streams import StreamEvent
from holdfast.core.values.ids import GateId, RunId
from holdfast.service.control.control import Control
from holdfast.service.control.handle import Run
from holdfast.service.control.stream import START

_BEGUN_S: Final = 0.25
"""A run to which the conversation was handed over may wait in line."""


class ReplyStream:
    """The text of a run, and how far one listener has it."""

    def __init__(self, control: Control, run: RunId) -> None:
        self.run = run
        self._control = control
        self._heard: dict[RunId, str] = {}
        """After what each run goes on for this listener."""

    async def so_far(self) -> list[StreamEvent]:
        """Return all events so far, which count as received."""
        said: list[StreamEvent] = []
        async for state in self._speakers():
            async with aclosing(self._control.watch_stream(state.run, follow=False)) as telling:
                async for told in telling:
                    self._heard[state.run] = told.cursor
                    said.append(told)
        return said

    async def more(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the text from there on, until the run goes no further by itself: it has ended, or waits."""
        async for told in self._events_of(self.run):
            yield told

    async def gates(self) -> list[GateId]:
        """The open gates of the run and of those below it that have not ended."""
        found: list[GateId] = []
        runs = [self.run]
        while runs:
            if not await self._has_begun(run := runs.pop()):
                continue
            state = await self._control.run(run).state()
            found += state.gates
            runs += [name for name, _ in state.open_children()]
        return found

    async def _speakers(self) -> AsyncIterator[State]:
        run: RunId | None = self.run
        while run is not None and await self._has_begun(run):
            state = await self._control.run(run).state()
            yield state
            run = _handed_to(state)

    async def _has_begun(self, run: RunId) -> bool:
        return await self._control.store.views.run(run) is not None

    async def _events_of(self, run: RunId) -> AsyncGenerator[StreamEvent, None]:
        while True:
            if await self._has_begun(run):
                break
            await asyncio.sleep(_BEGUN_S)
        handle, followed = self._control.run(run), None
        while True:
            async with aclosing(self._until(run, _rests(handle, followed))) as telling:
                async for told in telling:
                    yield told
            child = _handed_to(await handle.state())
            if child in (None, followed):
                return
            followed = child
            async with aclosing(self._events_of(child)) as telling:
                async for told in telling:
                    yield told

    async def _until(self, run: RunId, stop: Coroutine[Any, Any, None]) -> AsyncGenerator[StreamEvent, None]:
        """Yield a run's text until then, and the text up to then."""
        stopped, coming = asyncio.ensure_future(stop), None
        try:
            async with aclosing(self._control.watch_stream(run, since=self._heard.get(run, START))) as telling:
                while not stopped.done():
                    coming = asyncio.ensure_future(anext(telling, None))
                    await asyncio.wait((coming, stopped), return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done():
                        await _cancelled(coming)
                        break
                    if (told := coming.result()) is None:
                        break
                    self._heard[run] = told.cursor
                    yield told
            await stopped
            async with aclosing(self._control.watch_stream(run, since=self._heard.get(run, START), follow=False)) as telling:
                async for told in telling:
                    self._heard[run] = told.cursor
                    yield told
        finally:
            await _cancelled(stopped, *([] if coming is None else [coming]))


async def _rests(handle: Run, followed: RunId | None) -> None:
    """Wait until the run goes no further by itself, or has handed the conversation over to one that was not followed."""
    waits = [
        asyncio.ensure_future(handle.settled()),
        asyncio.ensure_future(handle.until(lambda state: _handed_to(state) not in (None, followed))),
    ]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        await _cancelled(*waits)


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    for each in futures:
        each.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def _handed_to(state: State) -> RunId | None:
    """Also where that has answered by now."""
    answered = None if state.handed_to is None else state.handed_to[0]
    return next((name for name, child in state.open_children() if child.handoff), answered)
