"""`@flow`: a workflow that is one async function, without a graph.

To everything that takes a Workflow it is one, of a single node. Never here: running it, its steps (step).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from decimal import Decimal
from types import ModuleType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, is_typeddict, overload

from pydantic import BaseModel

from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.step import Step
from holdfast.authoring.tool import Tool, find
from holdfast.authoring.workflow import Workflow
from holdfast.core.demand import NOTHING, Demand
from holdfast.core.policies import OnLimit, RetryPolicy
from holdfast.errors import UsageError

FlowFunction = Callable[..., Coroutine[Any, Any, Any]]

NODE: Final = "flow"
"""The name of a flow's node, whatever the function is called: it counts for the workflow's hash."""
_PLAIN: Final = (dict, list, str, int, float, bool, type(None))
"""What an input is that has no model."""


class FlowDefinition(NodeDefinition):
    """The node of a flow: its function is called with `ctx` and, if it takes one, the run's input."""

    is_flow = True

    def __init__(self, function: FlowFunction, model: type[BaseModel] | None, **options: Any) -> None:
        self._model = model
        self.doubles: dict[str, Tool] = {}
        """What a test has called in the place of tools, by name."""
        super().__init__(function, "task", join=None, guard=None, continue_on_error=False, **options)

    def _parameters_of(self, function: Callable[..., Any]) -> tuple[str, ...]:
        return tuple(inspect.signature(function).parameters)[:2]

    def given(self, view: Any, context: Any) -> dict[str, Any]:
        found = {self.parameters[0]: context}
        for name in self.parameters[1:]:
            found[name] = view.input if self._model is None else self._model.model_validate(view.input)
        return found

    def called(self, tool: Tool) -> Tool:
        """What is called where the flow calls `tool`."""
        return self.doubles.get(tool.name, tool)

    def undoing(self, tool: str, compensation: str) -> Tool | None:
        """The tool that undoes what a step of the flow has done; a flow lists only those that it knows by name."""
        done = self._known(tool)
        if done is not None and isinstance(done.compensation, Tool):
            return done.compensation
        return self._known(compensation) if done is None else find(compensation, done.function)

    def _known(self, tool: str) -> Tool | None:
        """The tool of that name that the flow's function can call: by its name, or as `module.name`."""
        modules = (each for each in self.handler.__globals__.values() if isinstance(each, ModuleType))
        others = (each for module in modules for each in vars(module).values() if isinstance(each, Tool))
        return find(tool, self.handler) or next((each for each in others if each.name == tool), None)


class Flow(Workflow):
    """A workflow of one function. Calling it calls the function, for tests of it."""

    def __init__(
        self,
        function: FlowFunction,
        *,
        input: type[BaseModel] | None,  # noqa: A002 - the word of the public surface
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
        runs_on: Sequence[str],
        retry: RetryPolicy | int | None,
        timeout_s: float | None,
        demand: Demand,
    ) -> None:
        self.function = function
        self._is_made = False
        super().__init__(
            name, version=version, cost_limit_usd=cost_limit_usd, input=input, max_tokens=max_tokens, max_active_s=max_active_s,
            max_lifespan_s=max_lifespan_s, max_model_calls=max_model_calls, max_tool_calls=max_tool_calls,
            max_wall_s=max_wall_s, on_limit=on_limit, on_exhausted=on_exhausted, runs_on=runs_on,
        )  # fmt: skip
        settings = {"tools": tuple(tools)}
        self.node(NODE, demand=demand)(
            FlowDefinition(function, input, retry=retry, timeout_s=timeout_s, settings=settings)
        )
        self._is_made = True
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **given: Any) -> Coroutine[Any, Any, Any]:
        return self.function(*args, **given)

    def __repr__(self) -> str:
        return f"<flow {self.name!r} version {self.version}>"

    def _change(self) -> None:
        if self._is_made:
            raise UsageError(
                f"{self!r} is one function, and has no graph that could be added to; use a Workflow for one."
            )
        super()._change()


@overload
def flow(function: FlowFunction, /) -> Flow: ...
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
    runs_on: Sequence[str] = (),
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
) -> Callable[[FlowFunction], Flow]: ...
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
    runs_on: Sequence[str] = (),
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
) -> Flow | Callable[[FlowFunction], Flow]:
    """Make `async def handle(ctx, input)` a workflow: what it awaits of `ctx` and of steps is recorded, operation by operation,
    and what it returns is the run's output.

    After a wait, a failure or a crash the function runs again from its top and gets what is recorded; so what it does
    between its steps must not depend on chance, nor change the world. `input` is a Pydantic model where the parameter's
    hint is one, which a start must fit, else plain data with objects as Fields; a flow without input takes `ctx` alone.

    `name` is the function's, unless given. `tools` are those that `ctx.tool` may call by name; they count for what the
    workflow is, a step that is called as itself does not. `retry` is for what goes wrong between steps and, where it is
    given, for a step that has used up its own. `timeout_s` bounds one attempt, without the waits. `demand` says what the
    flow asks for besides a slot. All else is as of `Workflow`.

    Raises UsageError for a function that cannot be one.
    """
    # Hints may name what is defined beside the function, inside another one.
    names = dict(sys._getframe(1).f_locals)

    def make(inner: FlowFunction) -> Flow:
        return Flow(
            inner, input=_input_of(inner, names), name=name or inner.__name__, version=version,
            cost_limit_usd=cost_limit_usd, max_tokens=max_tokens, max_active_s=max_active_s,
            max_lifespan_s=max_lifespan_s, max_model_calls=max_model_calls, max_tool_calls=max_tool_calls,
            max_wall_s=max_wall_s, on_limit=on_limit, on_exhausted=on_exhausted, tools=tools, runs_on=runs_on,
            retry=retry, timeout_s=timeout_s, demand=demand,
        )  # fmt: skip

    return make(function) if function is not None else make


def _input_of(function: Any, names: Mapping[str, Any]) -> type[BaseModel] | None:
    """The model of a flow's input, if it has one. Raises UsageError for a function that cannot be a flow."""
    label = getattr(function, "__qualname__", repr(function))
    if isinstance(function, Step | Tool | Workflow | NodeDefinition) or not inspect.iscoroutinefunction(function):
        raise UsageError(
            f"@flow stands above `async def handle(ctx, input)`; {label:.200} is none. Plain functions are its steps."
        )
    parameters = [*inspect.signature(function).parameters.values()]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if len(named) != len(parameters) or not 1 <= len(named) <= 2 or "ctx" in named[1:]:
        raise UsageError(
            f"The flow {label!r} takes ({', '.join(map(str, parameters))}); it is called with its operations and its"
            " input, as in `async def handle(ctx, input)`, or with ctx alone."
        )
    return _model(label, function, named[1], names) if len(named) == 2 else None


def _model(label: str, function: Any, name: str, names: Mapping[str, Any]) -> type[BaseModel] | None:
    try:
        hint = inspect.signature(function, locals=names, eval_str=True).parameters[name].annotation
    except NameError as problem:
        raise UsageError(
            f"The flow {label!r}: a hint names what is not there yet ({problem}); define it above the flow."
        ) from None
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    if hint is not inspect.Parameter.empty and not _is_plain(hint):
        told = hint.__name__ if isinstance(hint, type) else hint
        raise UsageError(
            f"The flow {label!r}: its input is said to be {told}. An input is a Pydantic model, or plain JSON data (a dict, a"
            " list, text, a number …)."
        )
    return None


def _is_plain(hint: Any) -> bool:
    """Whether it names nothing but what JSON data is anyway."""
    bare = get_origin(hint) or hint
    if not all(_is_plain(each) for each in get_args(hint)):
        return False
    if not isinstance(bare, type) or bare in (Any, UnionType) or is_typeddict(bare):
        return True
    return issubclass(bare, dict) or any(issubclass(each, bare) for each in _PLAIN)
