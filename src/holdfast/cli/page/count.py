"""A number with its noun, in the singular or plural. Never here: what is counted."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """`1 run`, `2 runs`, `0 runs`."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"
