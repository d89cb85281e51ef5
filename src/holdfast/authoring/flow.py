"""`@flow`: a workflow that is one async function, without a graph.

To everything that takes a Workflow it is one, of a single node. Never here: running it, its steps (step).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, Protocol, TypeAlias, overload

from pydantic import ValidationError
from typing_extensions import TypeVar

from holdfast.authoring.flow_input import FlowInput
from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.step import Step
from holdfast.authoring.tool import Tool, find
from holdfast.authoring.values.adapter import Adapter
from holdfast.authoring.values.arguments import describe, misfits
from holdfast.authoring.values.input_schema import requires_input
from holdfast.authoring.values.plain import refusal
from holdfast.authoring.values.signature import Signature
from holdfast.authoring.workflow import Input, Output_co, Workflow
from holdfast.core.facts.graph import CLEANUP_S, FLOW
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.policies import OnLimit, RetryPolicy
from holdfast.errors import InvalidInput, SchemaMismatch, UsageError

LONGEST_CLEANUP_S: Final = 86_400
"""A run that is cancelled ends after that at the latest."""

if TYPE_CHECKING:
    from holdfast.authoring.context import Context

Owner = TypeVar("Owner")
Returned = TypeVar("Returned")

FlowFunction: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

NODE: Final = FLOW
"""The name of a flow's node."""


class FlowDefinition(NodeDefinition):
    """The node of a flow: its function is called with `ctx` and, if it takes one, the run's input."""

    is_flow = True

    def __init__(self, function: FlowFunction, signature: Signature, flow_input: FlowInput, **options: Any) -> None:
        self.signature = signature
        self._input = flow_input
        self.doubles: dict[str, Tool] = {}
        """The functions that a test has called in the place of tools, by name."""
        super().__init__(function, "task", join=None, guard=None, continue_on_error=False, **options)

    def _parameters_of(self, function: Callable[..., Any]) -> tuple[str, ...]:
        return tuple(inspect.signature(function).parameters)

    def _returns_of(self, function: Callable[..., Any]) -> Adapter:
        return self.signature.returns

    def bind_arguments(self, view: Any, context: Any) -> dict[str, Any]:
        return {self.parameters[0]: context, **self._input.bind_arguments(view.input)}

    def called(self, tool: Tool) -> Tool:
        """Return the function that is called where the flow calls `tool`."""
        return self.doubles.get(tool.name, tool)

    def undoing(self, tool: str, compensation: str) -> Tool | None:
        """The tool that undoes what a step of the flow has done; a flow lists only those that it knows by name."""
        done = self._find_tool(tool)
        if done is not None and isinstance(done.compensation, Tool):
            return done.compensation
        return self._find_tool(compensation) if done is None else find(compensation, done.function)

    def _find_tool(self, tool: str) -> Tool | None:
        """The tool of that name that the flow's function can call: by its name, or as `module.name`."""
        modules = (each for each in self.handler.__globals__.values() if isinstance(each, ModuleType))
        others = (each for module in modules for each in vars(module).values() if isinstance(each, Tool))
        return find(tool, self.handler) or next((each for each in others if each.name == tool), None)


class Flow(Workflow[Input, Output_co]):
    """A workflow of one function, made by `@flow`. Calling it calls the function, for tests of it.

    `Flow[[Order], Ticket]` takes an Order besides `ctx`, and its runs return a Ticket.
    """

    def __init__(
        self,
        function: FlowFunction,
        *,
        signature: Signature,
        name: str,
        version: int,
        cost_limit_usd: float | str | Decimal | None,
        max_tokens: int | None,
        max_active_s: float | None,
        max_lifespan_s: float | None,
        max_model_calls: int | None,
        max_tool_calls: int | None,
        max_wall_s: float | None,
        on_limit: OnLimit,
        on_exhausted: Literal["fail", "dead_letter"],
        tools: Sequence[str | Tool],
        children: Sequence[Workflow],
        runs_on: Sequence[str],
        retry: RetryPolicy | int | None,
        timeout_s: float | None,
        demand: Demand,
        cleanup_s: float,
    ) -> None:
        self.function = function
        self._is_made = False
        self._input = _input_of(function, signature)
        self.returns = signature.returns
        super().__init__(
            name,
            version=version,
            cost_limit_usd=cost_limit_usd,
            input=self._input.model,
            max_tokens=max_tokens,
            max_active_s=max_active_s,
            max_lifespan_s=max_lifespan_s,
            max_model_calls=max_model_calls,
            max_tool_calls=max_tool_calls,
            max_wall_s=max_wall_s,
            on_limit=on_limit,
            on_exhausted=on_exhausted,
            runs_on=runs_on,
            children=children,
        )
        settings = {"tools": tuple(tools), "cleanup_s": _cleanup(name, cleanup_s)}
        self.node(NODE, demand=demand)(
            FlowDefinition(function, signature, self._input, retry=retry, timeout_s=timeout_s, settings=settings)
        )
        self._is_made = True
        self.__doc__ = function.__doc__

    def __call__(self, ctx: Context, *args: Input.args, **arguments: Input.kwargs) -> Coroutine[Any, Any, Output_co]:
        try:
            return self.function(ctx, *args, **arguments)
        except TypeError as problem:
            raise UsageError(
                f"Give the flow and its input apart, as in engine.start({self.name}, input) or ctx.child({self.name}, input):"
                f" a call of the flow itself calls its function, with a context. {problem}"
            ) from None

    @property
    def input_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the input; None if any input fits."""
        return self._input.schema

    def validated_input(self, raw: Any) -> Any:
        """Return an input as the plain JSON data with which a run starts.

        Args:
            raw: Input: JSON data or a typed value.

        Raises:
            InvalidInput: The input does not fit.
        """
        if (missing := self._input.missing(raw)) is not None:
            raise requires_input(self.name, missing)
        try:
            return self._input.validated(raw)
        except ValidationError as problem:
            fits = "the parameters" if self.input_model is None else self.input_model.__name__
            alone = "Give the input without its name: the one parameter is the whole input. "
            raise InvalidInput(
                f"{alone if self._input.is_named(raw) else ''}The input does not fit {fits} of workflow {self.name!r}:"
                f" {describe(problem, self._input.name)}. No run was started.",
                field="input",
                misfits=misfits(problem, self._input.name),
            ) from None
        except (InvalidInput, SchemaMismatch) as problem:
            raise InvalidInput(
                refusal(f"The input of workflow {self.name!r}", problem.message) + " No run was started."
            ) from None

    def __repr__(self) -> str:
        return f"<flow {self.name!r} version {self.version}>"

    def _change(self) -> None:
        if self._is_made:
            raise UsageError(f"{self!r} is one function, and has no graph that could be added to; use a Workflow for one.")
        super()._change()


class FlowDecorator(Protocol):
    """`@flow(...)` above a function, or a method."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Input], Coroutine[Any, Any, Returned]], /
    ) -> Flow[Input, Returned]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Owner, Context, Input], Coroutine[Any, Any, Returned]], /
    ) -> Flow[Input, Returned]: ...


@overload
def flow(function: Callable[Concatenate[Context, Input], Coroutine[Any, Any, Returned]], /) -> Flow[Input, Returned]: ...
@overload
def flow(function: Callable[Concatenate[Owner, Context, Input], Coroutine[Any, Any, Returned]], /) -> Flow[Input, Returned]: ...
@overload
def flow(
    *,
    name: str | None = None,
    version: int = 1,
    cost_limit_usd: float | str | Decimal | None = None,
    max_tokens: int | None = None,
    max_active_s: float | None = None,
    max_lifespan_s: float | None = None,
    max_model_calls: int | None = None,
    max_tool_calls: int | None = None,
    max_wall_s: float | None = None,
    on_limit: OnLimit = "ask",
    on_exhausted: Literal["fail", "dead_letter"] = "fail",
    tools: Sequence[str | Tool] = (),
    children: Sequence[Workflow] = (),
    runs_on: Sequence[str] = (),
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
    cleanup_s: float = CLEANUP_S,
) -> FlowDecorator: ...
def flow(
    function: FlowFunction | None = None,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    cost_limit_usd: float | str | Decimal | None = None,
    max_tokens: int | None = None,
    max_active_s: float | None = None,
    max_lifespan_s: float | None = None,
    max_model_calls: int | None = None,
    max_tool_calls: int | None = None,
    max_wall_s: float | None = None,
    on_limit: OnLimit = "ask",
    on_exhausted: Literal["fail", "dead_letter"] = "fail",
    tools: Sequence[str | Tool] = (),
    children: Sequence[Workflow] = (),
    runs_on: Sequence[str] = (),
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
    cleanup_s: float = CLEANUP_S,
) -> Any:
    """Make `async def handle(ctx, input)` a workflow. Operations of `ctx` and calls of steps are recorded, and the function's
    result is the run's output.

    After a wait, a failure or a crash the function runs again from its top and gets what is recorded. So its code between steps
    must not depend on chance, nor change the world.

    The input is a Pydantic model if the parameter's hint is one; then a start must fit it. Otherwise it is plain data with
    objects as Fields. A flow without input takes `ctx` alone.

    A cancelled flow behaves like an asyncio task: the operations of its `except` and `finally` blocks are recorded.

    Args:
        name: Name of the workflow; by default the function's.
        tools: Tools that `ctx.tool` may call by name. They are part of the workflow's identity; a step that the flow calls
            directly is not.
        retry: Attempts for failures between steps, and, if you pass it, for a step that has used up its own attempts.
        timeout_s: Time limit of one attempt in seconds, without waits.
        demand: Resources of the flow besides a slot.
        cleanup_s: Time limit in seconds for the clean-up of a cancelled flow; 0 for none.

    Raises:
        UsageError: The function cannot be a flow, or an option cannot be used.
    """
    # Hints may name what is defined beside the function, inside another one.
    names = dict(sys._getframe(1).f_locals)

    def make(inner: FlowFunction, known_signature: Signature | None = None) -> Flow:
        signature = known_signature or Signature(inner, names, f"The flow {getattr(inner, '__qualname__', inner)!r}")
        return Flow(
            inner,
            signature=signature,
            name=name or inner.__name__,
            version=version,
            cost_limit_usd=cost_limit_usd,
            max_tokens=max_tokens,
            max_active_s=max_active_s,
            max_lifespan_s=max_lifespan_s,
            max_model_calls=max_model_calls,
            max_tool_calls=max_tool_calls,
            max_wall_s=max_wall_s,
            on_limit=on_limit,
            on_exhausted=on_exhausted,
            tools=tools,
            children=children,
            runs_on=runs_on,
            retry=retry,
            timeout_s=timeout_s,
            demand=demand,
            cleanup_s=cleanup_s,
        )

    def decorate(inner: FlowFunction) -> Any:
        _expect_function(inner)
        if next(iter(inspect.signature(inner).parameters), None) != "self":
            return make(inner)
        signature = Signature(inner, names, f"The flow {inner.__qualname__!r}")
        return FlowMethod(inner, lambda bound: make(bound, signature))

    return decorate(function) if function is not None else decorate


def _cleanup(name: str, cleanup_s: float) -> float | None:
    """The setting, where it says something. Raises UsageError for what is no time."""
    if isinstance(cleanup_s, bool) or not 0 <= cleanup_s <= LONGEST_CLEANUP_S:
        raise UsageError(
            f"cleanup_s of the flow {name!r} is {cleanup_s!r:.80}; it is a number of seconds from 0 to {LONGEST_CLEANUP_S}"
            " (a day)."
        )
    return None if cleanup_s == CLEANUP_S else float(cleanup_s)


def _input_of(function: Any, signature: Signature) -> FlowInput:
    """Return a flow's input. Raises UsageError for a function that cannot be a flow."""
    label = getattr(function, "__qualname__", repr(function))
    parameters = [*inspect.signature(function).parameters.values()]
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if len(named) != len(parameters) or not named or "ctx" in [each.name for each in named[1:]]:
        raise UsageError(
            f"The flow {label!r} takes ({', '.join(map(str, parameters))}); it is called with its operations and its"
            " input, as in `async def handle(ctx, input)`, or with ctx alone."
        )
    return FlowInput(f"The flow {label!r}", signature, named[1:], inspect.getdoc(function))


def _expect_function(function: Any) -> None:
    """Raise UsageError for what is no function of a flow."""
    if isinstance(function, Step | Tool | Workflow | NodeDefinition) or not inspect.iscoroutinefunction(function):
        label = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"@flow stands above `async def handle(ctx, input)`; {label:.200} is none. Plain functions are its steps."
        )


class FlowMethod:
    """A flow that is a method: of each object it is another flow, `desk.handle`, which calls that object's."""

    def __init__(self, function: FlowFunction, make: Callable[[FlowFunction], Flow]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._make = make
        self._name = function.__name__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = self._make(self.function.__get__(instance, owner))
        with suppress(AttributeError, TypeError):  # an object without room for it gets another one each time
            vars(instance)[self._name] = bound
        return bound

    def __call__(self, *args: Any, **value: Any) -> Coroutine[Any, Any, Any]:
        return self.function(*args, **value)
