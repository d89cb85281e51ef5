"""The one way to a model: bound, reserve, hold, send once, settle. What a call may cost is set aside before it leaves.

Refuse, never clamp: an unknown price, a request without a bound or unreadable usage fails closed. What the provider
limits is waited for first, so that the wait holds no money. Never here: a provider's format, a retry (each attempt is a call
of its own; only what a provider with pools refuses until later is asked again), the run's books.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.commands import Offer
from holdfast.core.ids import CallId, Path
from holdfast.core.lending import DeclaredPool
from holdfast.core.money import usd
from holdfast.core.payload import digest
from holdfast.core.policies import CANCELLED, LOST, MODEL, RATE_LIMIT, TIMEOUT, VALIDATION, ErrorRecord
from holdfast.errors import (
    InvalidInput,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelUncertain,
    OperationFailed,
    PoolLineFull,
    UnboundableRequest,
    UnknownPrice,
)
from holdfast.models import turn
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.hearing import Hearing
from holdfast.models.prices import Price, Prices
from holdfast.models.quota import Lent, Quotas
from holdfast.ports import Journal, Model, ModelReply, ModelRequest

log = logging.getLogger("holdfast")

GRACE_S: Final = 5.0
"""How much longer than its own time-out a request may take before it is given up from outside."""

_MOST_REFUSALS: Final = 100
"""How often in a row a provider may refuse a call until later before the call fails, and its step's retries decide."""

_NOT_NOW: Final = object()
"""The call was not made, and is to be made again."""


class _Sending(NamedTuple):
    """One way to make a call: the request, what is held for it, what it was lent, and all pools that count anything."""

    request: ModelRequest
    price: Price
    offer: Offer
    lent: Lent | None
    refusals: int
    counted: Sequence[DeclaredPool]
    hearing: Hearing | None
    """Where its reply is to be heard while it comes."""


class Gateway:
    """Sends requests of steps to models, each journaled and paid for."""

    def __init__(self, model: Model, prices: Prices, quotas: Quotas) -> None:
        self._model = model
        self._prices = prices
        self._quotas = quotas

    @cached_property
    def price_fingerprint(self) -> str:
        """What a run keeps of the prices that it was held to."""
        return self._prices.fingerprint

    def said(self, output: Any) -> Any:
        """What stands in a journal of a reply that a person gives in a model's place."""
        return msgspec.to_builtins(turn.said(output))

    async def call(
        self, journal: Journal, path: Path, request: ModelRequest, cheaper: Sequence[ModelRequest] = (), *,
        stream: bool = False,
    ) -> ModelReply:  # fmt: skip
        """The model's reply, or the recorded one. `cheaper` requests may go out instead where money is short. With `stream`
        whoever watches hears the reply as it comes.

        Raises OperationFailed with the recorded error; lets the engine's suspensions (money) through. A request that
        has no price or no bound is never sent.
        """
        asked = request.compared()
        args_hash = digest(asked)
        known = await journal.recall(path, "model", request.model, args_hash, asked)
        if known is not None and known.error is not None:
            raise OperationFailed(known.error.message, error=known.error, path=path)
        if known is not None:
            return msgspec.convert(known.value, ModelReply)
        pace, names = journal.pace, self._quotas.names_of(request.model)
        if pace is None:
            return msgspec.convert(await self._send(journal, path, (request, *cheaper), args_hash, stream), ModelReply)
        async with pace.call(names):
            reply = msgspec.convert(await self._send(journal, path, (request, *cheaper), args_hash, stream), ModelReply)
        if reply.usage is not None:
            pace.used(names, reply.usage)
        return reply

    async def _send(
        self, journal: Journal, path: Path, ways: Sequence[ModelRequest], args_hash: str, stream: bool
    ) -> Any:
        if parts := ways[0].content:
            contents = await journal.contents(parts)
            ways = [way.filled(contents) for way in ways]
        try:
            prices = [self._prices.of(way.model) for way in ways]
            offers = [_offer(way, price) for way, price in zip(ways, prices, strict=True)]
            for model in dict.fromkeys(way.model for way in ways):
                await self._model.prepare(model)
        except (UnknownPrice, UnboundableRequest, ModelRefused) as problem:
            error = journal.error(getattr(problem, "error_class", VALIDATION), problem.message)
            raise OperationFailed(error.message, error=error, path=None) from None
        first = refusals = 0
        while True:
            counted = await journal.counted_pools()  # once: nothing is awaited between a hold and its call
            lent = await self._reserve(journal, path, ways[first], offers[first], counted)
            try:
                call, chosen, held = await journal.hold(path, ways[0].model, args_hash, offers[first:])
            except BaseException:
                if lent is not None:
                    self._quotas.unsent(lent)
                raise
            wanted, first = first, first + chosen
            if self._pools(journal, ways[wanted].model, counted) != self._pools(journal, ways[first].model, counted):
                await self._let_go(journal, call, lent, f"The quota of {ways[first].model} is waited for first.")
                continue
            hearing = Hearing(journal.tells(call)) if stream else None
            sending = _Sending(ways[first], prices[first], held, lent, refusals, counted, hearing)
            value = await journal.outside(self._conclude(journal, path, call, sending))
            if value is not _NOT_NOW:
                return value
            refusals += 1

    def _pools(self, journal: Journal, model: str, counted: Sequence[DeclaredPool]) -> Sequence[DeclaredPool]:
        """The pools of which a call of the model takes: all that count for it, but for those of which its step has reserved
        something before it was placed."""
        reserved = journal.pace.pools if journal.pace is not None else ()
        return [pool for pool in self._quotas.of(model, counted) if pool.name not in reserved]

    async def _reserve(
        self, journal: Journal, path: Path, request: ModelRequest, offer: Offer, counted: Sequence[DeclaredPool]
    ) -> Lent | None:
        """Wait for what the request takes of pools; None where nothing limits it."""
        pools = self._pools(journal, request.model, counted)
        if not pools:
            return None
        input_bound = offer.tokens - request.max_tokens
        try:
            amounts = self._quotas.amounts(pools, request, input_bound)
            reservation = await journal.reserve(path, request.model, amounts)
        except PoolLineFull as problem:
            error = journal.error(RATE_LIMIT, problem.message, retryable=True)
            raise OperationFailed(error.message, error=error, path=None) from None
        return Lent(reservation, tuple(pools), input_bound)

    async def _let_go(self, journal: Journal, call: CallId, lent: Lent | None, why: str) -> None:
        """Give back what a call was lent that is not made now, and the money held for it."""
        if lent is not None:
            self._quotas.unsent(lent)
        await journal.withdraw(call, journal.error(CANCELLED, f"The call was not made yet. {why}"))

    async def _conclude(self, journal: Journal, path: Path, call: CallId, sending: _Sending) -> Any:
        """Send the request and record what became of it; _NOT_NOW where it is to be made again."""
        try:
            return await self._exchange(journal, path, call, sending)
        finally:
            if sending.lent is not None:
                self._quotas.used(sending.lent, sending.request.model, None)  # unless it was given back already

    async def _exchange(self, journal: Journal, path: Path, call: CallId, sending: _Sending) -> Any:
        request, lent = sending.request, sending.lent
        if not journal.may_send():
            # Frozen past its lease between hold and send: somebody else may already be at it.
            if lent is not None:
                self._quotas.unsent(lent)
            await journal.unsent(call, journal.error(LOST, "This process lost its lease before the model was called."))
        try:
            async with asyncio.timeout(request.timeout_s + GRACE_S):
                if sending.hearing is None:
                    reply = await self._model.request(request)
                else:
                    reply = await sending.hearing.reply(self._model, request)
        except asyncio.CancelledError:
            error = journal.error(
                TIMEOUT, f"The call to {request.model} was given up before its reply came.", retryable=True
            )
            await _doubt(journal, call, sending, error, reopens=True)
            raise
        except ModelError as problem:
            return await self._refusal(journal, path, call, sending, problem)
        except TimeoutError:
            error = journal.error(
                TIMEOUT, f"{request.model} did not answer within {request.timeout_s:g} s.", retryable=True
            )
            await _doubt(journal, call, sending, error)
            raise OperationFailed(error.message, error=error, path=path) from None
        except Exception as problem:
            # An adapter's fault is not a reply: nobody can know whether the request left.
            error = journal.error(MODEL, f"{request.model}: {type(problem).__name__}: {problem}")
            await _doubt(journal, call, sending, error)
            raise OperationFailed(error.message, error=error, path=path) from problem
        if lent is not None:
            self._quotas.used(lent, request.model, reply.usage)
        try:
            return await self._settle(journal, call, sending, reply)
        except InvalidInput as problem:  # it came, and cost something, but there is nothing that could be gone on with
            uncertain = ModelUncertain(f"The reply of {request.model} cannot be used: {problem.message}")
            raise await self._failed(journal, path, call, sending, uncertain) from problem

    async def _refusal(
        self, journal: Journal, path: Path, call: CallId, sending: _Sending, problem: ModelError
    ) -> object:
        """What to do about a call without a reply. One that its provider refuses until later waits for its pools again."""
        lent = sending.lent
        if isinstance(problem, ModelRateLimited):
            self._close(journal, sending, problem.retry_after_s)
        if lent is not None and isinstance(problem, ModelRefused):
            self._quotas.refused(lent)
            if isinstance(problem, ModelRateLimited) and sending.refusals < _MOST_REFUSALS:
                await journal.withdraw(call, self._error(journal, problem))
                return _NOT_NOW
        raise await self._failed(journal, path, call, sending, problem) from problem

    def _close(self, journal: Journal, sending: _Sending, retry_after_s: float | None) -> None:
        """The provider takes no more of the model for now: nobody's call of it leaves meanwhile."""
        model, refusals = sending.request.model, sending.refusals
        pools = self._quotas.of(model, sending.counted)
        names, for_s = self._quotas.closed(model, pools, retry_after_s, refusals)
        for name in names:
            journal.close_pool(name, for_s)

    def _error(self, journal: Journal, problem: ModelError) -> ErrorRecord:
        return journal.error(
            problem.error_class,
            problem.message,
            retryable=problem.retryable,
            retry_after_s=getattr(problem, "retry_after_s", None),
        )

    async def _failed(
        self, journal: Journal, path: Path, call: CallId, sending: _Sending, problem: ModelError
    ) -> OperationFailed:
        """Record a call without a reply: refused costs nothing, anything else stays in doubt."""
        error = self._error(journal, problem)
        if isinstance(problem, ModelRefused):
            await journal.refuse(call, error)
        else:
            await _doubt(journal, call, sending, error)
        return OperationFailed(error.message, error=error, path=path)

    async def _settle(self, journal: Journal, call: CallId, sending: _Sending, reply: ModelReply) -> Any:
        price, offer, hearing = sending.price, sending.offer, sending.hearing
        output = msgspec.to_builtins(reply)
        if hearing is not None and hearing.besides:
            output["besides"] = hearing.besides  # it is at the same places there as it was while it came
        try:
            if reply.usage is None:
                raise ValueError("the reply does not say what it used")
            cost_nanousd = price.cost_nanousd(reply.usage)
        except ValueError as problem:
            error = journal.error(
                MODEL, f"No price can be put on the reply: {problem}. Its whole hold counts as spent."
            )
            return await journal.doubt(call, error, output)
        used = reply.usage.input_tokens + reply.usage.output_tokens
        if cost_nanousd > offer.hold_nanousd or used > offer.tokens:
            log.error(
                "holdfast: %s says that the call %s used %d tokens for $%s, more than its bound of %d tokens and $%s."
                " It is recorded as it is, and the run's further calls of this model are held at a bound that is higher by"
                " as much; until this is understood, the first call of a run may pass a limit.",
                offer.model, call, used, usd(cost_nanousd), offer.tokens, usd(offer.hold_nanousd),
            )  # fmt: skip
        return await journal.settle(call, cost_nanousd, reply.usage.input_tokens, reply.usage.output_tokens, output)


async def _doubt(
    journal: Journal, call: CallId, sending: _Sending, error: ErrorRecord, *, reopens: bool = False
) -> None:
    """Nobody can know what a call without a reply cost, unless its provider had counted it; what was heard of it is kept."""
    hearing = sending.hearing
    if hearing is None:
        await journal.doubt(call, error, reopens=reopens)
        return
    cost_nanousd = hearing.cost_nanousd(sending.price)
    await journal.doubt(call, error, reopens=reopens, partial=hearing.said, cost_nanousd=cost_nanousd)


def _offer(request: ModelRequest, price: Price) -> Offer:
    """What a request can use and cost at most."""
    input_tokens = input_tokens_at_most(request, price.context_window_tokens)
    hold_nanousd = price.worst_case_nanousd(input_tokens, request.max_tokens)
    return Offer(request.model, hold_nanousd, input_tokens + request.max_tokens)
