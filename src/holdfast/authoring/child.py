"""What a step gets that asks for a child, a run of another workflow.

Never here: asking for it (engine.child), the node that is one (node).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, ModuleType
from typing import Any, Literal, NamedTuple, Protocol


class ChildOutcome(NamedTuple):
    """How a child ended, where its failure is not to raise."""

    run_id: str
    status: Literal["completed", "failed", "cancelled"]
    output: Any
    """What it returned; None where it did not complete."""
    error: str | None
    """Why it did not."""


class ChildHandle(Protocol):
    """A child that goes on in the background."""

    run_id: str

    async def result(self, *, on_failure: Literal["raise", "return"] = "raise") -> Any:
        """What the child returned, once it has ended. Raises OperationFailed (class `child_failed` or `cancelled`) where it did
        not complete; with `on_failure="return"` it is a ChildOutcome either way."""
        ...


def mentioned(function: Callable[..., Any]) -> Iterator[Any]:
    """What a function names that asks for children: variables of its module and of functions around it, and what it takes
    out of modules. Nothing where it asks for none."""
    code = getattr(function, "__code__", None)
    names = {*_names(code)} if code is not None else set()
    if "child" not in names:
        return
    here = getattr(function, "__globals__", {})
    for name in sorted(names & here.keys()):
        yield here[name]
        if isinstance(here[name], ModuleType):
            yield from (vars(here[name])[each] for each in sorted(names & vars(here[name]).keys()))
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
