"""Has a list done item by item: hands its items out as steps, and gathers what they came to.

The list goes to the store in pages, of which an item reads its own (item); the results are read from the history.
Never here: which items begin, and when they have done enough (core.rules.mapping).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.authoring.mapping import (
    ONE,
    DemandSource,
    MapDefinition,
    Mappable,
    Terms,
    check_known,
    item_dumped,
    key_of,
    name_of,
    retry_of,
)
from holdfast.authoring.node import retry_policy
from holdfast.authoring.step import EffectStep, Step
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.signature import signature_of
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import MAP, Map
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import INLINE_BYTES, Payload
from holdfast.core.values.policies import DEFAULT_RETRY, RetryPolicy
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.runs.payloads import Payloads
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.ports import Recall

_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of a list: then its pages, of which an event names each, are two thousand at most."""
_PAGE_ITEMS: Final = 256
"""An item's step goes through its page."""
_PAGE_EVENTS: Final = 1000


async def over(
    journal: StepJournal,
    path: Path,
    function: Mappable,
    items: Sequence[Any],
    terms: Terms,
    demand: DemandSource,
    retry: RetryPolicy | int | None,
    *,
    fail_fast: bool = False,
) -> list[Any]:
    """Return the result of `function` for each item; None in the place of one that failed and might, or was not needed.
    With `fail_fast` one that tells of a failure is enough.

    Raises OperationFailed where more failed than may, InvalidInput for what is no such list; lets suspensions through.
    """
    definition = journal.attempt.definition
    assert definition is not None
    check_known(function, definition)
    own = function.demand if isinstance(function, Step | EffectStep) else NOTHING
    asked = own if demand == NOTHING else demand
    policy = retry_of(function) if retry is None else retry_policy(retry)
    listed = _listed(journal, items, terms, lambda item: item_dumped(function, item, is_call=False))
    demands = _demands(asked, items)
    results = await _done(journal, path, name_of(function), listed, terms, policy, demands, fail_fast=fail_fast)
    load = function.returns.load if isinstance(function, Step | Tool) else signature_of(function).returns.load
    return [None if each is None else load(each) for each in results]


async def alone(
    journal: StepJournal, path: Path, step: Step[Any, Any] | EffectStep[Any, Any], arguments: Mapping[str, Any]
) -> Any:
    """Return the result of a step that asks for a place of its own: a map whose one item is its arguments. Raises and lets
    through as `over`, and OperationFailed with the step's own error."""
    definition = journal.attempt.definition
    assert definition is not None
    check_known(step, definition)
    listed = _listed(journal, [dict(arguments)], ONE, lambda item: item_dumped(step, item, is_call=True))
    retry, demands = retry_of(step), _demands(step.demand, ())
    (found,) = await _done(journal, path, step.name, listed, ONE, retry, demands, is_call=True)
    return step.returns.load(found)


async def of_node(journal: StepJournal, definition: MapDefinition, items: Callable[[], Awaitable[Any]]) -> list[Any]:
    """The same of a map node. Its list is asked for once: what is known of the run may be more the next time."""
    path, name = Path("0"), journal.attempt.name
    op = journal.before.journal.get(path)
    if op is None:
        listed = _listed(journal, await items(), definition.terms, definition.each.item.dump)
        return await _done(journal, path, name, listed, definition.terms, DEFAULT_RETRY, _Demands())
    return await _outcome(journal, path, name, op.args_hash, None)


# --- The list ------------------------------------------------------------------------------------------------------------


class _List:
    """A list as it is handed out: each item as JSON, and what it is called, where it has a name."""

    def __init__(self, items: Sequence[bytes], keys: tuple[str, ...]) -> None:
        self.items = items
        self.keys = keys

    def digest(self, name: str) -> str:
        told = hashlib.sha256(msgspec.json.encode([name, self.keys]))
        for each in self.items:
            told.update(b"%d:" % len(each))
            told.update(each)
        return told.hexdigest()

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Parts of it that an item's step reads quickly, each with the number of its first item."""
        first, size = 0, 0
        for index, each in enumerate(self.items):
            if index - first == _PAGE_ITEMS or (size and size + len(each) >= INLINE_BYTES):
                yield first, b"[" + b",".join(self.items[first:index]) + b"]"
                first, size = index, 0
            size += len(each) + 1
        if size:
            yield first, b"[" + b",".join(self.items[first:]) + b"]"


def _listed(journal: StepJournal, items: Any, terms: Terms, dump: Callable[[Any], Any]) -> _List:
    """Return a list of items as it is handed out, those that are no plain data by way of `dump`. Raises InvalidInput for what
    is no list, or none that can be done."""
    if not isinstance(items, list | tuple):
        raise InvalidInput(
            f"What is to be mapped is {type(items).__name__}, and no list; nothing was begun. Give a list or a tuple of items,"
            " as in list(...)."
        )
    terms.figures(len(items))
    encoded = [_encoded(journal.attempt.services.payloads, each, dump) for each in items]
    if (size := sum(map(len, encoded))) > _MAX_BYTES:
        raise InvalidInput(
            f"The items of this list are {size} bytes as JSON, and a map takes {_MAX_BYTES} at most. Nothing was begun: put"
            " what is large into files, and map over their names."
        )
    if terms.key is None:
        return _List(encoded, ())
    keys = tuple(journal.redact(key_of(terms, each, index)) for index, each in enumerate(items))
    if len(set(keys)) < len(keys):
        seen: set[str] = set()
        twice = next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput(f"Two items of this list are called {twice!r}; a key names one. Nothing was begun.")
    return _List(encoded, keys)


def _encoded(payloads: Payloads, item: Any, dump: Callable[[Any], Any]) -> bytes:
    """Return an item as JSON; what is not plain data as the hint of its parameter says. Raises InvalidInput."""
    try:
        return payloads.clean(item)
    except InvalidInput:
        dumped = dump(item)
        if dumped is item:
            raise
        return payloads.clean(dumped)


# --- The steps -----------------------------------------------------------------------------------------------------------


class _Demands(NamedTuple):
    """Return the demand of all items, or of each of them."""

    all: Demand | None = None
    each: tuple[Demand, ...] = ()


def _demands(demand: DemandSource, items: Sequence[Any]) -> _Demands:
    """Raises InvalidInput for what is no demand, or one that cannot be."""
    each = tuple([demand(item) for item in items]) if callable(demand) else (demand,)
    for one in each:
        told: Any = one
        why = one.problems() if isinstance(told, Demand) else [f"it has the type {type(told).__name__}, not Demand"]
        for wrong in why:
            raise InvalidInput(f"The demand of an item is invalid: {wrong}. Nothing was begun.")
    if callable(demand):
        return _Demands(None, each if any(one != NOTHING for one in each) else ())
    return _Demands(demand if demand != NOTHING else None)


async def _done(
    journal: StepJournal,
    path: Path,
    name: str,
    listed: _List,
    terms: Terms,
    retry: RetryPolicy,
    demands: _Demands,
    *,
    is_call: bool = False,
    fail_fast: bool = False,
) -> list[Any]:
    args_hash = listed.digest(name)
    count = len(listed.items)
    if journal.find(path, MAP, name, args_hash, {"items": count}) is None:
        pages = [*listed.pages()]
        is_small = sum(len(page) for _, page in pages) <= INLINE_BYTES
        kept = [await _store_page(journal.attempt, page, is_small=is_small) for _, page in pages]
        await journal.send(
            cmd.MapItems(
                journal.step,
                journal.number,
                path,
                name,
                args_hash,
                count,
                *terms.figures(count),
                retry,
                demands.all,
                listed.keys,
                tuple(kept),
                tuple(start for start, _ in pages),
                is_call,
                demands.each,
                journal.take(),
                fail_fast,
            )
        )
    return await _outcome(journal, path, name, args_hash, {"items": count})


async def _store_page(attempt: Attempt, page: bytes, *, is_small: bool) -> Payload:
    """A page, in the event itself where all of them together are small enough."""
    payloads = attempt.services.payloads
    if is_small and (inline := payloads.inline(page, attempt.storage)) is not None:
        return inline
    now_ms = attempt.keeping_ms
    return await attempt.patiently(lambda: payloads.put(page, attempt.tenant, now_ms, attempt.storage))


async def _outcome(journal: StepJournal, path: Path, name: str, args_hash: str, request: Any) -> list[Any]:
    """The results, gathered if they are there; leaves the step while they are not."""
    known: Recall | None = await journal.recall(path, MAP, name, args_hash, request)
    if known is None:
        state = await journal.attempt.state()
        map_ = next(state.maps[each] for each in state.steps[journal.attempt.name].maps if state.maps[each].opened.path == path)
        if map_.ended != "met":
            raise Suspension
        payload = await journal.attempt.store_value(await _gathered(journal.attempt, map_))
        await journal.record(cmd.Value(path, MAP, None, payload, name, args_hash))
        known = await journal.recall(path, MAP, name, args_hash, request)
        assert known is not None
    if known.error is not None:
        raise journal.failure(known.error, path)
    found: list[Any] = known.value
    return found


async def _gathered(attempt: Attempt, map_: Map) -> list[Any]:
    """Return the results of the items, in their order."""
    results: list[Any] = [None] * map_.opened.count
    place = {seq: index for index, seq in enumerate(map_.results) if seq > 0}
    log, after = attempt.services.runtime.store.log, map_.seq
    last = max(place, default=0)
    while after < last:
        page = await attempt.patiently(partial(log.events, attempt.run, after, _PAGE_EVENTS))
        for each in page:
            if each.seq in place and isinstance(each.event, ev.StepCompleted):
                results[place[each.seq]] = await attempt.value(each.event.output)
        after = page[-1].seq
    return results
