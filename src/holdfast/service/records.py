"""The records of runs that leave a server. Never here: how one is made (evaluation)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.errors import UsageError
from holdfast.service.control.control import Control
from holdfast.service.declarations.command import ExportRun

Recorder: TypeAlias = Callable[[Control, ExportRun], Awaitable[Callable[[], bytes]]]
"""Reads a run; what comes of it makes the record, as JSON, and takes a while. Raises NotPermitted, and UsageError for a run
that has not ended."""


class Records:
    """Makes one at a time: a large one takes 64 MiB and more."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._recording = asyncio.Lock()

    async def record(self, control: Control, command: ExportRun) -> bytes:
        """Return the record of a run, as JSON. Raises UsageError where none are made."""
        if self._recorder is None:
            raise UsageError("No records of runs are made here (`holdfast serve` makes them). Nothing was exported.")
        async with self._recording:
            make = await self._recorder(control, command)
            return await asyncio.to_thread(make)
