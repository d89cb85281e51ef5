"""A file of the project of `desk` that is imported while a flow runs."""

from __future__ import annotations

from holdfast import Context, flow


@flow
async def late(ctx: Context, n: int) -> int:
    return n
