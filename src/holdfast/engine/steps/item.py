"""One item of a map: what it is, and what is done for it.

Never here: which items there are (mapping), what a map node does with each (nodes).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.authoring.mapping import ItemDefinition
from holdfast.authoring.step import EffectStep, Step, enter
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.view import fields
from holdfast.core.values.payload import INLINE_BYTES
from holdfast.engine.attempts import cursor
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.time_limit import within
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.engine.operations.context import StepContext

_raw: Final = msgspec.json.Decoder(list[msgspec.Raw])


async def value(attempt: Attempt) -> Any:
    """The item that the step is about."""
    assert attempt.item is not None
    opened, number, _ = attempt.item
    page = bisect_right(opened.starts, number) - 1
    payload = opened.pages[page]
    if payload.blob is None:
        raw = _raw.decode(payload.json)
    else:
        blobs = await attempt.patiently(lambda: attempt.services.payloads.fetch([payload], attempt.tenant))
        raw = _raw.decode(blobs[payload.blob])
    mine = raw[number - opened.starts[page]]
    attempt.sees_large |= len(bytes(mine)) > INLINE_BYTES
    return fields(msgspec.json.decode(mine))


async def do(attempt: Attempt, context: StepContext, definition: ItemDefinition) -> Any:
    """Return the result of an item that the code of a step maps."""
    given, mapped = definition.loaded(await value(attempt)), definition.mapped
    args, named = ((), given) if definition.is_call else ((given,), {})
    if isinstance(mapped, EffectStep):
        return await context.effect(mapped, mapped.bound(args, named))
    if isinstance(mapped, Tool):
        if not isinstance(given, dict):
            raise InvalidInput(
                f"The tool {mapped.name!r} is called with its arguments as an object, and this item is"
                f" {type(given).__name__}. Nothing was called."
            )
        return await context.call_tool(mapped.name, given, allowed={mapped.name: definition.called(mapped)})
    if not isinstance(mapped, Step):
        return await mapped(context, given)
    here, inner = cursor.inside(mapped.name)
    inner.run(enter, None)
    async with within(mapped.timeout_s, f"the step {mapped.name!r}"):
        result = await attempt.services.threads.run(partial(mapped.function, *args, **named), {}, inner)
    if here.misuse is not None:
        raise here.misuse  # also where the function has caught it
    return result
