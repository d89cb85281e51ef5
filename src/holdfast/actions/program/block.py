"""The workflow `budget`: a graph of one step, which lasts as long as a block of code that a program has open.

Every process with such blocks knows this one workflow. A run whose process has died is taken up by the next of them, and ended:
its calls under way are in doubt, and count as spent. Never here: an engine, the block's own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.actions.program.workflow import CALLS, Attempt
from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.values.view import StateView
from holdfast.authoring.workflow import Workflow
from holdfast.errors import StepError

NAME: Final = "budget"
_STEP: Final = "block"


class Block:
    """A block of code in this process, as its run's step sees it."""

    def __init__(self, on_open: Callable[[Mapping[str, str | None]], None]) -> None:
        """`on_open` gets the variables that lead model clients to the gateway, in the engine's thread."""
        self._on_open = on_open
        self._has_begun = False
        self._ended = asyncio.Event()
        self._left = asyncio.Event()
        self._raised: str | None = None

    async def end(self, raised: str | None) -> None:
        """Let the step end, and wait for it. `raised` is the class of the error with which the block was left."""
        self._raised = raised
        self._ended.set()
        await self._left.wait()

    async def last(self, ctx: Attempt) -> dict[str, Any]:
        """Let the block make model calls until it has ended."""
        if self._has_begun:  # its token was revoked, and it has no other
            raise StepError("Another attempt has ended before its block, whose calls are refused since.")
        self._has_begun = True
        try:
            async with ctx.program_variables(CALLS, on_change="live") as variables:
                self._on_open(variables)
                await self._ended.wait()
        finally:
            self._left.set()
        return {"raised": self._raised}


class Blocks:
    """The open blocks of one process, by the names in the inputs of their runs."""

    def __init__(self) -> None:
        self.open: dict[str, Block] = {}
        self.workflow = Workflow(NAME)
        self.workflow.node(_STEP)(
            NodeDefinition(
                self._last, "task", retry=None, timeout_s=None, join=None, guard=None, continue_on_error=False, settings={}
            )
        )

    async def _last(self, state: StateView, ctx: Attempt) -> dict[str, Any]:
        block = self.open.get(state.input["block"])
        if block is None:
            raise StepError("The process that had its block open has ended.")
        return await block.last(ctx)
