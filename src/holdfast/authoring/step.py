"""`@step`: a function whose calls in a flow are recorded. Called anywhere else it is the plain function that it was.

A bare one is durable: its result is recorded, and it runs at least once. With `effect=` it is a tool, with an intent, a key
and a ledger.

A plain function that only puts together its arguments (literals, f-strings, fields of the state, conditions) runs at once, in
the event loop, and needs no thread. It has no call and no loop, and uses nothing of its module but constants: whatever the data
are, it cannot wait. A prompt mostly is one, and the way to a thread and back would take longer than all else about it. The
decision reads the function's byte code, which is what runs; an instruction that is not known here, as of a later Python, means
a thread.

Never here: recording anything (engine), the flow around it (flow).
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import lru_cache
from types import FunctionType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from holdfast.authoring.node import NodeDefinition, retry_policy
from holdfast.authoring.tool import GIVEN, Approval, Tool, Verify, check_policy
from holdfast.authoring.values.adapter import loader
from holdfast.authoring.values.signature import Signature, signature_of
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.ids import MAX_NAME_BYTES, Unique
from holdfast.core.values.policies import EffectPolicy, RetryPolicy
from holdfast.errors import UsageError

_HARMLESS: Final = frozenset(
    {
        "RESUME",
        "NOP",
        "CACHE",
        "POP_TOP",
        "COPY",
        "SWAP",
        "LOAD_CONST",
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_LOAD_FAST",
        "STORE_FAST",
        "RETURN_VALUE",
        "RETURN_CONST",
        "BINARY_SUBSCR",
        "BINARY_SLICE",
        "BUILD_SLICE",
        "BUILD_STRING",
        "FORMAT_SIMPLE",
        "CONVERT_VALUE",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
        "BUILD_LIST",
        "BUILD_TUPLE",
        "LIST_EXTEND",
        "UNARY_NOT",
        "TO_BOOL",
        "COMPARE_OP",
        "IS_OP",
        "CONTAINS_OP",
        "JUMP_FORWARD",
        "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE",
        "POP_JUMP_FORWARD_IF_NONE",
        "POP_JUMP_FORWARD_IF_NOT_NONE",
    }
)
_CONSTANTS: Final = (str, bytes, int, float, bool)
"""Not None, which mostly stands for something that is still to come."""
_WITH_SPEC: Final = 4
"""The flag of FORMAT_VALUE for a format of its own, whose width may be anything."""
_IS_ANOTHER: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MODEL: Final = "data"
"""The field of the state that runs the validators of a user's model."""


def is_immediate(function: Callable[..., Any]) -> bool:
    """Return True if it is one."""
    return isinstance(function, FunctionType) and _is_immediate(function)


@lru_cache(1024)
def _is_immediate(function: FunctionType) -> bool:
    if function.__code__.co_flags & _IS_ANOTHER:
        return False
    return all(_is_harmless(each, function) for each in dis.get_instructions(function))


def _is_harmless(each: dis.Instruction, function: FunctionType) -> bool:
    match each.opname:
        case "LOAD_GLOBAL":
            return isinstance(function.__globals__.get(each.argval), _CONSTANTS)
        case "LOAD_ATTR":
            return each.argval != _MODEL and not each.argrepr.startswith("NULL|")  # that would be a method about to be called
        case "FORMAT_VALUE":
            return not (each.arg or 0) & _WITH_SPEC
        case "BINARY_OP":
            return each.argrepr in ("+", "+=")
        case name:
            return name in _HARMLESS


P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")


class Caller(Protocol):
    """A flow that is under way, as its steps know it."""

    def call_step(self, step: Step[Any, T], args: tuple[Any, ...], arguments: Mapping[str, Any]) -> Coroutine[Any, Any, T]: ...

    def call_effect(
        self, step: EffectStep[Any, T], args: tuple[Any, ...], arguments: Mapping[str, Any]
    ) -> Coroutine[Any, Any, T]: ...


_flow: ContextVar[Caller | None] = ContextVar("holdfast_flow", default=None)


def enter(flow: Caller | None) -> None:
    """From now on, in this task's context, a step that is called is one of this flow; of none, a plain function."""
    _flow.set(flow)


@contextmanager
def outside_of_flows() -> Iterator[None]:
    """Inside, steps are plain functions."""
    token = _flow.set(None)
    try:
        yield
    finally:
        _flow.reset(token)


class Step(Generic[P, T]):
    """A function whose result is recorded where a flow calls it: `await f(...)`. Elsewhere, calling it calls the function;
    `function` always is that.

    `retry`, `timeout_s` and `demand` are those of `@step`.
    """

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        name: str,
        retry: RetryPolicy | int | None = None,
        timeout_s: float | None = None,
        demand: Demand = NOTHING,
        signature: Signature | None = None,
    ) -> None:
        """`signature` is the function's, where it is known already. Raises UsageError for a result that cannot be kept."""
        functools.update_wrapper(self, function)
        self.function = function
        self.name = _name(name)
        self.retry = _retry(name, retry)
        self.timeout_s = _limit(name, timeout_s)
        self.demand = _demand(name, demand)
        self.signature = signature or signature_of(function)
        self.returns = self.signature.returns
        self.load = loader(self.returns)

    def __call__(self, *args: P.args, **arguments: P.kwargs) -> Coroutine[object, None, T]:
        flow = _flow.get()
        if flow is None:
            called: Coroutine[object, None, T] = self.function(*args, **arguments)
            return called
        return flow.call_step(self, args, arguments)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Step[P, T]: ...
    @overload
    def __get__(self: Step[Concatenate[Any, Q], T], instance: object, owner: Any = None) -> Step[Q, T]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Step[Any, T]:
        """A method is the step of its object; only its arguments say what was asked for."""
        if instance is None:
            return self
        if self.demand is not NOTHING:
            raise _is_method(self, instance)
        bound: Any = self.function.__get__(instance, owner)
        return Step(bound, name=self.name, retry=self.retry, timeout_s=self.timeout_s, signature=self.signature)

    def __repr__(self) -> str:
        return f"<step {self.name!r}>"

    @functools.cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.function)
        except ValueError:  # some of C's say nothing of their parameters
            return None

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        """The parameters, where a call that gives each of them by its place need not be looked at any closer."""
        known = self._signature.parameters.values() if self._signature is not None else ()
        return tuple(each.name for each in known if each.kind is each.POSITIONAL_OR_KEYWORD)

    def bound(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of the parameters. Raises TypeError for a call that does not fit."""
        if self._signature is None:
            return {**{str(place): value for place, value in enumerate(args)}, **arguments}
        if not arguments and len(args) == len(self._names) == len(self._signature.parameters):
            return dict(zip(self._names, args, strict=True))
        return _bound(self.name, self._signature, args, arguments)


def _bound(name: str, signature: inspect.Signature, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name. Raises TypeError, which says how the step is called."""
    try:
        return signature.bind(*args, **arguments).arguments
    except TypeError as problem:
        taken = signature.replace(return_annotation=signature.empty)
        raise TypeError(f"Call the step as {name}{taken}: {problem}.") from None


class EffectStep(Tool, Generic[P, T]):
    """A step that touches the world: a tool that a flow calls as `await f(...)`. Elsewhere, calling it calls the function."""

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        retry: RetryPolicy | int | None,
        demand: Demand,
        key: str | None,
        unique: Unique,
        names: Mapping[str, Any],
        **of_tool: Any,
    ) -> None:
        super().__init__(function, names=names, **of_tool)
        self.retry = _retry(self.name, retry)
        self.demand = _demand(self.name, demand)
        self.key = key
        self.unique = unique
        signature = inspect.signature(function)
        self.load = loader(self.returns)
        asked = [each for each in signature.parameters.values() if each.name not in GIVEN]
        self._signature = signature.replace(parameters=asked)

    def __call__(self, *args: P.args, **arguments: P.kwargs) -> Coroutine[object, None, T]:
        flow = _flow.get()
        if flow is None:
            called: Coroutine[object, None, T] = self.function(*args, **arguments)
            return called
        return flow.call_effect(self, args, arguments)

    def __get__(self, instance: Any, owner: Any = None) -> EffectStep[P, T]:
        if instance is None:
            return self
        raise _is_method(self, instance)

    def __repr__(self) -> str:
        return f"<step {self.name!r} effect={self.policy!r}>"

    def bound(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without what Holdfast fills in. Raises TypeError for a call that does not fit."""
        return _bound(self.name, self._signature, args, arguments)

    def key_for(self, arguments: Mapping[str, Any]) -> str | None:
        """The name of the effect, where it has one."""
        return None if self.key is None else self.key.format_map(arguments)


class StepDecorator(Protocol):
    """`@step(...)` above a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Step[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Step[P, T]: ...


class EffectDecorator(Protocol):
    """`@step(effect=...)` above a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> EffectStep[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> EffectStep[P, T]: ...


@overload
def step(function: Callable[P, Coroutine[Any, Any, T]], /) -> Step[P, T]: ...
@overload
def step(function: Callable[P, T], /) -> Step[P, T]: ...
@overload
def step(
    *, name: str | None = None, retry: RetryPolicy | int | None = None, timeout_s: float | None = None, demand: Demand = NOTHING
) -> StepDecorator: ...
@overload
def step(
    *,
    effect: EffectPolicy,
    name: str | None = None,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
    description: str | None = None,
    approval: Approval = False,
    verify: Verify | None = None,
    settles_within_s: float | None = None,
    compensation: str | Tool | None = None,
    secrets: tuple[str, ...] | list[str] = (),
    price_usd: float | str | Decimal = 0,
    key: str | None = None,
    unique: Unique = "run",
) -> EffectDecorator: ...
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectPolicy | None = None,
    name: str | None = None,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    demand: Demand = NOTHING,
    description: str | None = None,
    approval: Approval = False,
    verify: Verify | None = None,
    settles_within_s: float | None = None,
    compensation: str | Tool | None = None,
    secrets: tuple[str, ...] | list[str] = (),
    price_usd: float | str | Decimal = 0,
    key: str | None = None,
    unique: Unique = "run",
) -> Any:
    """Make a function a step of the flows that call it: `await f(...)`. A plain function runs in a thread.

    A step runs at least once. If the process dies before the result is recorded, the step runs again; afterwards the flow gets
    the recorded result. So a bare step should compute or look something up. What must not happen twice is a step with an
    `effect`, which has the options of a `tool`.

    The result is JSON data, or has declared fields: a Pydantic model, a dataclass or a msgspec Struct. The flow holds no slot
    between two attempts. After the last attempt the flow sees OperationFailed with the recorded error.

    Outside of a flow, inside another step and in a tool, a call is a plain call of the function.

    Args:
        effect: Effect policy of a function that changes the world: "read", "idempotent", "verify" or "once". By default a bare
            step.
        name: Name of the step; by default the function's.
        retry: Attempts, as a number or a RetryPolicy. By default only transient errors are retried, up to three attempts.
        timeout_s: Time limit of one attempt, in seconds.
        demand: Resources besides a slot. The step then runs as a step of the run where they are free, maybe in another process;
            its arguments are JSON data.
        approval: True to have a person approve each call, or a function of the arguments that picks the calls.
        key: Name of the effect by its meaning, filled from the arguments, as of `tool_node`.

    Raises:
        UsageError: The function cannot be a step, or an option cannot be used.
    """
    of_tool: dict[str, Any] = {
        "description": description,
        "approval": approval,
        "verify": verify,
        "settles_within_s": settles_within_s,
        "compensation": compensation,
        "secrets": tuple(secrets),
        "price_usd": price_usd,
        "key": key,
        "unique": unique,
    }
    if effect is None:
        _check_bare([option for option, value in of_tool.items() if value not in (None, False, (), "run")])
    elif unique not in ("run", "tenant") or (unique == "tenant" and key is None):
        raise UsageError(f"unique={unique!r}: a key is unique in the 'run' or, where one is given, in the 'tenant'.")

    # Hints may name what is defined beside the function, inside another one.
    names = dict(sys._getframe(1).f_locals)

    def make(inner: Callable[..., Any]) -> Step[Any, Any] | EffectStep[Any, Any]:
        _check(inner)
        label = _name(name or getattr(inner, "__name__", None))
        if effect is None:
            signature = Signature(inner, names, f"The step {label!r}")
            return Step(inner, name=label, retry=retry, timeout_s=timeout_s, demand=demand, signature=signature)
        check_policy(label, effect, verify)
        told = {**of_tool, "description": description or inspect.getdoc(inner) or ""}
        return EffectStep(
            inner,
            name=label,
            policy=effect,
            retry=retry,
            timeout_s=_limit(label, timeout_s),
            demand=demand,
            names=names,
            **told,
        )

    return make(function) if function is not None else make


def _check_bare(names: Sequence[str]) -> None:
    if names:
        raise UsageError(
            f"@step({names[0]}=...) is of a step that touches the world; say of which kind: effect='read', 'idempotent',"
            " 'verify' or 'once'."
        )


_NO_STEPS: Final = (
    (inspect.isgeneratorfunction, "a generator function has no one result; return a list"),
    (inspect.isasyncgenfunction, "an async generator has no one result; return a list"),
    (inspect.isclass, "it is a class; make a function that uses it"),
    (lambda it: isinstance(it, Tool), "it is a tool already; say @step(effect=...) instead of @tool"),
    (lambda it: isinstance(it, Step), "it is a step already"),
    (lambda it: isinstance(it, NodeDefinition), "it is a node of a graph; a step is a function that a flow calls"),
    (lambda it: not callable(it), "it is no function"),
)


def _check(function: Any) -> None:
    """Raises UsageError for what cannot be a step."""
    for is_that, why in _NO_STEPS:
        if is_that(function):
            label = getattr(function, "__qualname__", repr(function))
            raise UsageError(f"@step cannot stand above {label:.200}: {why}.")


def step_of(name: str, function: Any) -> Step[Any, Any]:
    """`function`, whatever may be called, as a step of that name. Raises UsageError for what cannot be one."""
    if isinstance(function, EffectStep):
        raise UsageError(f"{function!r} has a name and a ledger of its own: call it as `await {function.name}(...)`.")
    if isinstance(function, Tool):
        raise UsageError(f"{function!r} is called with ctx.tool(...), which records that it is about to be.")
    if isinstance(function, Step):
        if function.demand is not NOTHING:
            raise UsageError(f"{function!r} asks for a place of its own: call it as `await {function.name}(...)`.")
        return Step(
            function.function, name=name, retry=function.retry, timeout_s=function.timeout_s, signature=function.signature
        )
    _check(function)
    return Step(function, name=name)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= MAX_NAME_BYTES or name == "<lambda>":
        raise UsageError(f"A step is called by a name of 1 to {MAX_NAME_BYTES} bytes, not {name!r:.300}; say name='...'.")
    return name


def _retry(name: str, value: Any) -> RetryPolicy:
    policy = retry_policy(value)
    if problems := policy.problems():
        raise UsageError(f"The step {name!r}: its retry policy {', '.join(problems)}.")
    return policy


def _demand(name: str, value: Any) -> Demand:
    if not isinstance(value, Demand) or (problems := list(value.problems())):
        why = f"it is {type(value).__name__}" if not isinstance(value, Demand) else "; ".join(problems)
        raise UsageError(f"The step {name!r}: demand= is a Demand that can be met; {why}.")
    return NOTHING if value == NOTHING else value


def _is_method(step: Any, instance: Any) -> UsageError:
    return UsageError(
        f"{step!r} is a method of {type(instance).__name__}, whose object no other process has: make it a function that is"
        " given what it needs."
    )


def _limit(name: str, timeout_s: float | None) -> float | None:
    if timeout_s is not None and not 0 < timeout_s < math.inf:
        raise UsageError(f"The step {name!r}: timeout_s={timeout_s!r} must be above zero, and finite.")
    return timeout_s
