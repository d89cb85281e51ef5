"""What a type checker says of an engine that blocks: the same."""

from __future__ import annotations

from typing import assert_type

from holdfast import Context, Signal, flow, sync


@flow
async def spell(ctx: Context, number: int) -> str:
    return str(number)


rated = Signal("rated", int)


def start(engine: sync.Engine) -> None:
    run = engine.start(spell, 3)
    assert_type(run.result(), str)
    engine.signal(run.id, rated, 3, key="once")
    engine.start(spell, "three")  # type: ignore[arg-type]
    engine.signal(run.id, rated, "three")  # type: ignore[misc]
