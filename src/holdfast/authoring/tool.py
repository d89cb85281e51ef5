"""`@tool`: a function that touches the world, with what must be known to call it safely.

Never here: calling it (tools.executor), deciding who may (tools.access).
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, overload

from pydantic import BaseModel, ConfigDict, create_model

from holdfast.authoring.values.arguments import Arguments, ObjectArguments
from holdfast.authoring.values.hint import rewritten
from holdfast.authoring.values.round_trip import expect_kept
from holdfast.authoring.values.signature import Signature
from holdfast.core.values.money import nanousd
from holdfast.core.values.policies import EffectPolicy
from holdfast.errors import SchemaMismatch, UsageError

POLICIES: Final = ("read", "idempotent", "verify", "once")
"""The meaning of a lost outcome of a tool.

- `read`: call again; nothing was changed
- `idempotent`: call again under the same key; the other side drops repeats
- `verify`: ask the tool's own lookup
- `once`: ask a person; the default
"""

GIVEN: Final = frozenset({"key", "ctx"})
"""Parameters that Holdfast fills in; no model and no caller sees them."""

Verify = Callable[..., Any]
Approval = bool | Callable[[dict[str, Any]], bool]

_defined: weakref.WeakSet[Tool] = weakref.WeakSet()


class Tool:
    """A named function with its effect policy and the schema of its arguments, made by `@tool`. Calling it calls the
    function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        policy: EffectPolicy,
        approval: Approval = False,
        verify: Verify | None = None,
        settles_within_s: float | None = None,
        compensation: str | Tool | None = None,
        timeout_s: float | None = None,
        secrets: tuple[str, ...] = (),
        price_usd: float | str | Decimal = 0,
        irreversible: bool = False,
        names: Mapping[str, Any] | None = None,
        arguments: Arguments | None = None,
    ) -> None:
        """`arguments` are what it may be called with; undeclared, what the function's hints say, looked up in `names`."""
        self.function = function
        self.name = name
        self.description = description
        self.policy = policy
        self.approval = irreversible or approval
        self.irreversible = irreversible
        self.verify = verify
        self.settles_within_s = settles_within_s
        self.compensation = compensation
        self.timeout_s = timeout_s
        self.secrets = secrets
        try:
            self.price_nanousd = nanousd(price_usd)
        except ValueError as problem:
            raise UsageError(f"Tool {name!r}: price_usd: {problem}") from None
        signature = inspect.signature(function, eval_str=arguments is None, locals=names)
        self.signature = Signature(function, names, f"The tool {name!r}")
        self.returns = self.signature.returns
        self.given = GIVEN & set(signature.parameters)
        self._arguments = arguments if arguments is not None else ObjectArguments(_model(name, signature))
        _defined.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r} effect={self.policy!r}>"

    @property
    def scope(self) -> tuple[str, ...]:
        """Place where the function was defined: its module, then the functions around it."""
        return scope_of(self.function)

    @property
    def compensation_name(self) -> str | None:
        """Name of the tool that undoes it."""
        return self.compensation.name if isinstance(self.compensation, Tool) else self.compensation

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments, as a model sees it."""
        return self._arguments.schema

    def arguments(self, raw: Any) -> dict[str, Any]:
        """Return validated arguments as plain JSON data.

        Args:
            raw: Arguments by name.

        Raises:
            SchemaMismatch: The arguments do not fit; the message names each problem.
        """
        try:
            return self._arguments.plain(raw)
        except SchemaMismatch as problem:
            raise SchemaMismatch(
                f"The arguments of {self.name!r} do not fit its schema: {problem.message}. It was not called."
            ) from None

    def typed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return validated arguments as the objects that the function's hints ask for.

        Args:
            arguments: Plain data, as `arguments` returns it.
        """
        return self._arguments.typed(arguments)


def returned(tool: Tool | None, answer: Any) -> Any:
    """Return the answer of a tool as its hint says, where that is known and fits."""
    return answer if tool is None or tool.returns.is_plain else tool.returns.load_if_fits(answer)


def scope_of(function: Callable[..., Any]) -> tuple[str, ...]:
    names = [part for part in getattr(function, "__qualname__", "").split(".") if part != "<locals>"]
    return (getattr(function, "__module__", "") or "", *names[:-1])


def _model(name: str, signature: inspect.Signature) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.name in GIVEN:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"Tool {name!r}: parameter {parameter.name!r} cannot be named in a call; give every parameter a name."
            )
        hint = Any if parameter.annotation is parameter.empty else rewritten(parameter.annotation)
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    model = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
    try:
        expect_kept(model)
    except UsageError as problem:
        raise UsageError(f"Tool {name!r} cannot take its arguments: {problem.message}") from None
    return model


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    effect: EffectPolicy = "once",
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    verify: Verify | None = None,
    settles_within_s: float | None = None,
    compensation: str | Tool | None = None,
    timeout_s: float | None = None,
    secrets: tuple[str, ...] | list[str] = (),
    price_usd: float | str | Decimal = 0,
    irreversible: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectPolicy = "once",
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    verify: Verify | None = None,
    settles_within_s: float | None = None,
    compensation: str | Tool | None = None,
    timeout_s: float | None = None,
    secrets: tuple[str, ...] | list[str] = (),
    price_usd: float | str | Decimal = 0,
    irreversible: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool, async or plain. Its argument schema comes from its type hints.

    A parameter named `key` receives the effect's key; send it as an idempotency key. A parameter named `ctx` receives a
    ToolContext.

    Args:
        effect: Effect policy: what a lost outcome means. `read` and `idempotent` are called again, `verify` is looked up,
            `once` asks a person.
        name: Name of the tool; by default the function's.
        description: Description for the model; by default the function's docstring.
        approval: True to have a person approve each call, or a function of the arguments that picks the calls.
        verify: Lookup of the policy `verify`: `verify(key, **arguments)` returns the response, or None for not found. A
            parameter `ctx` receives a ToolContext.
        settles_within_s: Seconds after the call before which a lookup that finds nothing does not count.
        compensation: Tool that undoes the effect, or its name. It gets those original arguments that it names, and `response`.
        timeout_s: Time limit of a call, in seconds.
        secrets: Names that `ctx.secret` may ask for; by default any.
        price_usd: Price of each call in dollars, reserved before the call under the same limits as model calls.
        irreversible: True for an effect that nothing can undo: each call needs a person's approval. Source: "Agent Workflow
            Orchestration", section 20, "If compensation is impossible, require approval before action".

    Raises:
        UsageError: The policy lacks what it needs, the price is no price, or an irreversible tool has a compensation, only
            reads, or picks its approvals.
    """

    # Hints may name what is defined beside the function, inside another one.
    names = dict(sys._getframe(1).f_locals)

    def make(inner: Callable[..., Any]) -> Tool:
        label = name or inner.__name__
        check_policy(label, effect, verify)
        if irreversible:
            _check_irreversible(label, effect, approval, compensation)
        return Tool(
            inner,
            name=label,
            description=description or inspect.getdoc(inner) or "",
            policy=effect,
            approval=approval,
            verify=verify,
            settles_within_s=settles_within_s,
            compensation=compensation,
            timeout_s=timeout_s,
            secrets=tuple(secrets),
            price_usd=price_usd,
            irreversible=irreversible,
            names=names,
        )

    return make(function) if function is not None else make


def check_policy(name: str, effect: str, verify: Verify | None) -> None:
    """Raises UsageError for a policy that is none, or without what it needs."""
    if effect not in POLICIES:
        raise UsageError(f"Tool {name!r}: effect={effect!r} is none of {', '.join(POLICIES)}.")
    if (effect == "verify") != (verify is not None):
        raise UsageError(f"Tool {name!r}: effect='verify' and verify=<lookup> belong together.")


def _check_irreversible(name: str, effect: str, approval: Approval, compensation: str | Tool | None) -> None:
    """Raises UsageError for what says that it is irreversible, and something else that cannot be true then."""
    if effect == "read":
        raise UsageError(f"Tool {name!r}: effect='read' changes nothing, so it cannot be irreversible; leave one of them out.")
    if compensation is not None:
        raise UsageError(f"Tool {name!r}: what has a compensation= is not irreversible; leave one of them out.")
    if callable(approval):
        raise UsageError(
            f"Tool {name!r}: what is irreversible waits for a person at each call; an approval= that picks some would let"
            " others through. Leave it out."
        )


def find(name: str, near: Callable[..., Any]) -> Tool | None:
    """Find the tool called `name` as a reader of the function `near` would understand it.

    It is the one in a variable of a function around it, or the one defined in the closest scope around it, or imported into its
    module, or else anywhere in its module. None if none exists; a tool of another module that `near` does not import does not
    count.
    """
    held = [known for known in variables(near) if isinstance(known, Tool) and known.name == name]
    if held:
        return held[0]
    here = scope_of(near)
    imported = getattr(near, "__globals__", {}).values()
    named = [known for known in _defined if known.name == name]
    around = [known for known in named if known.scope[1:] and known.scope == here[: len(known.scope)]]
    reachable = [known for known in imported if isinstance(known, Tool) and known.name == name]
    beside = [known for known in named if known.scope[0] == here[0]]
    return max(around or reachable or beside, key=lambda known: len(known.scope), default=None)


def variables(function: Callable[..., Any]) -> Iterator[Any]:
    """Return the variables that a function has of the functions around it."""
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents
