"""The results of asking for a child, a run of another workflow.

Never here: asking for it (engine.operations.child), the node that is one (node).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, ModuleType
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, overload

from typing_extensions import TypeVar

ASKING: Final = frozenset({"child", "agent"})
"""The operations that have another workflow do something."""


Output_co = TypeVar("Output_co", covariant=True, default=Any)


class ChildOutcome(NamedTuple, Generic[Output_co]):
    """The end of a child, as `on_failure="return"` returns it."""

    run_id: str
    """Id of the child's run."""
    status: Literal["completed", "failed", "cancelled"]
    """The end of the child."""
    output: Output_co | None
    """Result of the child; None if it did not complete."""
    error: str | None
    """Reason why the child did not complete."""


class ChildHandle(Protocol[Output_co]):
    """A child that runs in the background."""

    run_id: str
    """Id of the child's run."""

    @overload
    async def result(self, *, on_failure: Literal["raise"] = "raise") -> Output_co: ...

    @overload
    async def result(self, *, on_failure: Literal["return"]) -> ChildOutcome[Output_co]: ...

    async def result(self, *, on_failure: Literal["raise", "return"] = "raise") -> Any:
        """Wait for the child's end and return its result.

        Args:
            on_failure: `raise` raises OperationFailed if the child does not complete; `return` returns a ChildOutcome in any
                case.

        Raises:
            OperationFailed: Class `child_failed` or `cancelled`: the child did not complete.
        """
        ...


def mentioned(function: Callable[..., Any], asking: frozenset[str] = ASKING) -> Iterator[Any]:
    """Yield what a function names that asks for children, or for an agent that may: variables of its module and of functions
    around it, what it takes out of modules, and what lists and dicts of these have. Nothing where it has none of the operations
    `asking`."""
    for each in _mentioned(function, asking):
        yield from each.values() if isinstance(each, dict) else each if isinstance(each, list | tuple) else (each,)


def _mentioned(function: Callable[..., Any], asking: frozenset[str]) -> Iterator[Any]:
    code = getattr(function, "__code__", None)
    names = {*_names(code)} if code is not None else set()
    if names.isdisjoint(asking):
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
