"""Workflows whose input is one plain value, for the form that starts them."""

from __future__ import annotations

from typing import Any, Literal

from holdfast import Context, flow


@flow
async def complain(ctx: Context, complaint: str) -> str:
    """Answer a complaint.

    Args:
        complaint: What the customer wrote.
    """
    await ctx.ask({"about": complaint}, reviewers=["support"], decisions=["approve"])
    return complaint


@flow
async def batch(ctx: Context, item_count: int = 200) -> int:
    return item_count


@flow
async def pick(ctx: Context, size: Literal["small", "large"]) -> str:
    return size


@flow
async def rate(ctx: Context, rate: float) -> float:
    return rate


@flow
async def hurry(ctx: Context, is_urgent: bool) -> bool:
    return is_urgent


@flow
async def name_all(ctx: Context, names: list[str]) -> list[str]:
    return names


@flow
async def greet(ctx: Context, name: str | None = None) -> str | None:
    return name


@flow
async def anything(ctx: Context, given) -> Any:  # type: ignore[no-untyped-def]
    return given
