"""The settings of a list that is done item by item: `@map_node`, the terms of a map, what a flow may have done for an item.

Never here: doing any of it (engine.operations.mapping), which items begin (core.rules.mapping).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.authoring.node import Handler, NodeDefinition, join_of, task
from holdfast.authoring.step import EffectStep, Step
from holdfast.authoring.tool import Tool, variables
from holdfast.authoring.values.adapter import PLAIN
from holdfast.authoring.values.signature import Signature, signature_of
from holdfast.core.facts.graph import MAPPABLE, MAX_ITEMS, MAX_PARALLEL, Join
from holdfast.core.values.demand import Demand
from holdfast.core.values.policies import DEFAULT_RETRY, RetryPolicy
from holdfast.errors import InvalidInput, SchemaMismatch, UsageError

Mappable: TypeAlias = Step[Any, Any] | Tool | Callable[..., Awaitable[Any]]
"""The code that a flow may have done for an item: a step, a tool, or a function `async def f(ctx, item)` with operations of its
own."""

DemandSource: TypeAlias = Demand | Callable[[Any], Demand]
"""The demand of each item besides a slot, or a function of the item that says it."""

PARALLEL: Final = 100
"""Default number of items under way at once: as many as a worker has slots."""
MAX_KEY: Final = 120
"""Characters of an item's key: it is part of the names of all that the item does."""


class Figures(NamedTuple):
    """The terms of a map for a list of a certain length, as ItemsMapped has them."""

    max_parallel: int
    enough: int
    tolerated: int
    timeout_ms: int | None
    settles: bool


class Terms(NamedTuple):
    """The way in which a list is done; see map_node."""

    key: str | Callable[[Any], Any] | None
    max_parallel: int
    min_successful: int | None
    tolerated_failures: int | float | None
    collect: Join

    def figures(self, count: int) -> Figures:
        """Return the bounds of a map of `count` items. Raises InvalidInput for more than it takes."""
        if count > MAX_ITEMS:
            raise InvalidInput(
                f"This list has {count} items; a map takes {MAX_ITEMS} at most, for its run keeps a line for each. Nothing was"
                " begun: map over parts of it."
            )
        mode, least = self.collect.mode, self.min_successful
        if mode in ("any", "quorum"):
            least = self.collect.count if mode == "quorum" else 1
        if least is not None and least > count:
            raise InvalidInput(
                f"{least} items are to succeed, and the list has {count}. Nothing was begun: it could never be done."
            )
        may_fail = self._may_fail(count)
        if mode == "best_effort":
            may_fail = count
        elif least is not None:
            may_fail = min(count - least, count if self.tolerated_failures is None else may_fail)
        timeout_ms = None if self.collect.timeout_s is None else math.ceil(self.collect.timeout_s * 1000)
        return Figures(self.max_parallel, count if least is None else least, may_fail, timeout_ms, mode == "best_effort")

    def _may_fail(self, count: int) -> int:
        given = self.tolerated_failures or 0
        return int(count * given) if isinstance(given, float) else min(count, given)


def terms(
    key: str | Callable[[Any], Any] | None,
    max_parallel: int,
    min_successful: int | None,
    tolerated_failures: int | float | None,
    collect: Join | str,
) -> Terms:
    """Raises UsageError for terms that say nothing."""
    if not _is_number(max_parallel) or not 1 <= max_parallel <= MAX_PARALLEL:
        raise UsageError(
            f"max_parallel={max_parallel!r}: give the number of items that may run at once, from 1 to {MAX_PARALLEL}."
        )
    if min_successful is not None and not (_is_number(min_successful) and min_successful >= 1):
        raise UsageError(f"min_successful={min_successful!r}: give the number of items that suffice, a whole number from 1.")
    if tolerated_failures is not None:
        is_share = isinstance(tolerated_failures, float) and 0 <= tolerated_failures <= 1
        if not is_share and not (_is_number(tolerated_failures) and tolerated_failures >= 0):
            raise UsageError(
                f"tolerated_failures={tolerated_failures!r}: how many items may fail, as a whole number, or as a share of"
                " them between 0.0 and 1.0."
            )
    if not (key is None or isinstance(key, str) or callable(key)):
        raise UsageError(f"key={key!r:.100}: a field of each item, or a function that names the item it is given.")
    join = join_of(collect, "collect")
    if join.mode in ("any", "quorum", "best_effort") and (min_successful, tolerated_failures) != (None, None):
        raise UsageError(
            f"collect={join.mode!r} says already how many items must succeed; drop min_successful and tolerated_failures."
        )
    if join.mode == "quorum" and join.count < 1:
        raise UsageError("collect: a quorum needs the number of items it waits for, at least 1.")
    if join.timeout_s is not None and not 0 < join.timeout_s < math.inf:
        raise UsageError(f"collect: its timeout_s={join.timeout_s!r} must be above zero, and finite.")
    return Terms(key, max_parallel, min_successful, tolerated_failures, join)


ONE: Final = Terms(None, 1, None, None, Join())
"""Of a map that is one call."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def key_of(terms: Terms, item: Any, index: int) -> str:
    """Return the name of an item. Raises InvalidInput for what is no name."""
    assert terms.key is not None
    try:
        key = _field(item, terms.key) if isinstance(terms.key, str) else terms.key(item)
    except (LookupError, TypeError, AttributeError):
        raise InvalidInput(
            f"Item {index} has no {terms.key!r}, by which the items are to be called. Nothing was begun."
        ) from None
    if _is_number(key):
        key = str(key)
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise InvalidInput(
            f"Item {index} would be called {key!r:.200}; a key is a text of 1 to {MAX_KEY} characters, or a whole number."
            " Nothing was begun."
        )
    return key


def _field(item: Any, name: str) -> Any:
    return item[name] if isinstance(item, Mapping) else getattr(item, name)


# --- A node --------------------------------------------------------------------------------------------------------------


class MapDefinition(NodeDefinition):
    """A map node: its function returns the list, and `each` is what is done for an item."""

    def __init__(self, items: Handler, each: NodeDefinition, terms: Terms) -> None:
        self.each: NodeDefinition = each
        self.terms = terms
        super().__init__(
            items,
            "map",
            retry=None,
            timeout_s=None,
            join=each.join,
            guard=each.guard,
            continue_on_error=each.continue_on_error,
            settings={},
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.each(*args, **kwargs)

    def resolve(self, tools: dict[str, Tool] | None = None) -> list[str]:
        missing = self.each.resolve(tools)
        self.tools = self.each.tools
        return missing

    @property
    def compensations(self) -> dict[str, Tool]:
        return self.each.compensations

    def options(self) -> dict[str, Any]:
        key, parallel, least, may_fail, collect = self.terms
        named = key if key is None or isinstance(key, str) else getattr(key, "__qualname__", "function")
        said = {
            "key": named,
            "max_parallel": None if parallel == PARALLEL else parallel,
            "min_successful": least,
            "tolerated_failures": may_fail,
            "collect": None if collect == Join() else [collect.mode, collect.count, collect.timeout_s],
        }
        return {name: value for name, value in said.items() if value is not None}


def map_node(
    items: Handler,
    *,
    key: str | Callable[[Any], Any] | None = None,
    max_parallel: int = PARALLEL,
    min_successful: int | None = None,
    tolerated_failures: int | float | None = None,
    collect: Join | str = "all",
) -> Callable[[Any], MapDefinition]:
    """Define a map: each item of a list is processed as a step of its own, with its own attempts and journal. Put it above the
    node that processes an item, whose function takes `item` beside `state` and `ctx`. A bare function is a task.

    The output is the list of results in the order of the items; it has null for an item that was tolerated or not needed.
    `retry`, `timeout_s` and the demand of the node are those of each item. `join`, `guard` and `continue_on_error` are the
    map's.

    Args:
        items: Function of the state that returns the list.
        min_successful: Number of items after which the rest is cancelled; by default all must succeed.
        tolerated_failures: Items that may fail, as a number or a share like 0.1.
        collect: Condition for the end: "all", "any", "best_effort" or `Join("quorum", 3)`, each also as a Join with a
            `timeout_s`.

    Raises:
        UsageError: The node cannot be mapped, or an option cannot be used.
    """
    if isinstance(items, NodeDefinition | list | tuple):
        raise UsageError(
            "@map_node(items) is given a function of the state that returns the list, as in"
            " @map_node(lambda state: state.input.documents)."
        )
    said = terms(key, max_parallel, min_successful, tolerated_failures, collect)

    if "ctx" in inspect.signature(items).parameters:
        raise UsageError("@map_node(items): the function of the list takes the state alone; operations belong into its items.")

    def make(inner: Any) -> MapDefinition:
        each: NodeDefinition = inner if isinstance(inner, NodeDefinition) else task(inner)
        label = getattr(each.handler, "__qualname__", "the function")
        if isinstance(each, MapDefinition) or each.kind not in MAPPABLE:
            raise UsageError(f"@map_node over {label}: an item cannot be a {each.kind}; {', '.join(sorted(MAPPABLE))} can.")
        if "item" not in each.parameters:
            raise UsageError(f"@map_node over {label}: its function must take `item`, as in `def {label}(state, item)`.")
        return MapDefinition(items, each, said)

    return make


# --- In a flow -----------------------------------------------------------------------------------------------------------


class ItemDefinition(NodeDefinition):
    """Return what is done for an item of a map that the code of a step asked for."""

    def __init__(self, mapped: Mappable, around: NodeDefinition, *, is_call: bool) -> None:
        """`around` is the step that has asked, whose tools it may call. `is_call`: the item is the arguments by their names."""
        self.mapped = mapped
        self.is_call = is_call
        self.handler = mapped.function if isinstance(mapped, Step | Tool) else mapped
        self.kind, self.settings, self.tools = "task", around.settings, around.tools
        self.retry, self.timeout_s = retry_of(mapped), getattr(mapped, "timeout_s", None)
        self.signature = mapped.signature if isinstance(mapped, Step | Tool) else signature_of(mapped)
        self.returns = PLAIN if _is_bare(mapped) else self.signature.returns
        self.around = around
        self.is_flow = around.is_flow

    def called(self, tool: Tool) -> Tool:
        return self.around.called(tool)

    def loaded(self, item: Any) -> Any:
        """Return an item as what the hint of its parameter says; of a call, each argument. Raises SchemaMismatch."""
        if _is_bare(self.mapped) or (self.is_call and isinstance(self.mapped, Tool)):
            return item  # its arguments are validated where it is called
        if self.is_call:
            return {name: self._load(name, each) for name, each in item.items()}
        return self._load(item_parameter(self.mapped, self.signature), item)

    def _load(self, name: str | None, value: Any) -> Any:
        try:
            return value if name is None else self.signature.parameter(name).load(value)
        except SchemaMismatch:
            if isinstance(self.mapped, Tool):
                return value  # its call says what does not fit, and is not made
            raise
        except UsageError:  # a type that nothing can make of JSON, as a Protocol: it gets the data
            return value


def item_dumped(mapped: Mappable, item: Any, *, is_call: bool) -> Any:
    """Return an item as data, by the hint of its parameter; itself where that says nothing. Raises InvalidInput."""
    if isinstance(mapped, Tool) and (is_call or _is_bare(mapped)):
        try:
            return mapped.arguments(item)
        except SchemaMismatch:
            return item
    signature = mapped.signature if isinstance(mapped, Step | Tool) else signature_of(mapped)
    try:
        if is_call:
            return {name: signature.parameter(name).dump(each) for name, each in item.items()}
        name = item_parameter(mapped, signature)
        return item if name is None else signature.parameter(name).dump(item)
    except UsageError as problem:
        raise InvalidInput(f"{problem.message} Nothing was begun.") from None


def item_parameter(mapped: Mappable, signature: Signature) -> str | None:
    """Return the parameter that takes the item."""
    filled_in = {"self", "ctx"} | (mapped.given if isinstance(mapped, Tool) else set())
    return next((name for name in signature.names if name not in filled_in), None)


def _is_bare(mapped: Mappable) -> bool:
    """True for a tool that is no step: its item is its arguments, and its answer is loaded where the list is gathered."""
    return isinstance(mapped, Tool) and not isinstance(mapped, EffectStep)


def name_of(mapped: Any) -> str:
    """Return the code that does the items of a map. Raises UsageError for what cannot do them."""
    if isinstance(mapped, Step | Tool):
        return mapped.name
    if inspect.iscoroutinefunction(mapped) and [*inspect.signature(mapped).parameters][:1] == ["ctx"]:
        return str(mapped.__name__)
    label = getattr(mapped, "__qualname__", repr(mapped))
    raise UsageError(
        f"ctx.map({label:.200}): each item is done by a step (@step), a tool, or a function `async def f(ctx, item)`."
    )


def retry_of(mapped: Mappable) -> RetryPolicy:
    """Return the number of tries of an item; a tool is tried by the policy of its call."""
    return mapped.retry if isinstance(mapped, Step) else DEFAULT_RETRY


def item_definition(name: str, around: NodeDefinition, *, is_call: bool) -> ItemDefinition:
    """Return the code that does an item, which the code around calls `name`. Raises UsageError where there is none any more."""
    mapped = around.item_functions.get(name) or find_mapped(name, around.handler)
    if mapped is None:
        raise UsageError(
            f"The items of this map are done by {name!r}, which the code does not have any more. Bring it back; until then"
            " none of them can go on."
        )
    return ItemDefinition(mapped, around, is_call=is_call)


def check_known(mapped: Mappable, near: NodeDefinition) -> None:
    """Raises UsageError for what another process, or this one later, would not find by its name."""
    name = name_of(mapped)
    if (near.item_functions.get(name) or find_mapped(name, near.handler)) != mapped:
        raise UsageError(
            f"{name}: whichever process does an item has to find {name!r} by its name, and from"
            f" {getattr(near.handler, '__qualname__', 'the handler')!r} that leads to something else, or to nothing. Define it"
            " in the same module, or import it there, under one name; what it needs besides the item belongs into the items."
        )


@lru_cache(1024)
def find_mapped(name: str, near: Callable[..., Any]) -> Mappable | None:
    """Return the meaning of that name in the code of `near`: a step or a tool that is called so, or such a function."""
    return next((each for each in _around(near) if _is_called(each, name)), None)


def _is_called(each: Any, name: str) -> bool:
    if isinstance(each, Step | EffectStep | Tool):
        return each.name == name
    return getattr(each, "__name__", None) == name and inspect.iscoroutinefunction(each)


def _around(near: Callable[..., Any]) -> Iterator[Any]:
    yield from variables(near)
    beside = [*getattr(near, "__globals__", {}).values()]
    yield from beside
    for module in beside:
        if isinstance(module, ModuleType):
            yield from vars(module).values()


__all__ = ["MapDefinition", "map_node"]
