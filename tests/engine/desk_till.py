"""A third file of the project of `desk`, which that does not name."""

from __future__ import annotations

from holdfast import step, tool

books: list[str] = []


@tool(effect="idempotent")
def pay_back(n: int) -> None:
    books.append(f"paid back {n}")


@step(effect="once", compensation="pay_back")
def pay(n: int) -> None:
    books.append(f"paid {n}")
