"""The one way to a model: bound, reserve, hold, send once, settle. What a call may cost is set aside before it leaves.

Refuse, never clamp: an unknown price, a request without a bound or unreadable usage fails closed. What the provider
limits is waited for first, so that the wait holds no money. Never here: a provider's format, a retry (each attempt is a call
of its own; only what a provider with pools refuses until later is asked again), the run's books.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.authoring.agents.router import Route
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts.commands import CallCandidate
from holdfast.core.nouns.model_estimates import Experience
from holdfast.core.nouns.routing import Quote, others_first
from holdfast.core.values.ids import CallId, Path
from holdfast.core.values.money import usd
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import CANCELLED, LOST, MODEL, RATE_LIMIT, TIMEOUT, TRANSIENT, VALIDATION, ErrorRecord
from holdfast.errors import (
    HoldfastError,
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
from holdfast.models.bounds import embedded_tokens_at_most, input_tokens_at_most
from holdfast.models.family import family_of
from holdfast.models.forwarded.requests import bought, forwarded_tokens_at_most, kept_form, lowered
from holdfast.models.prices import Price, Prices
from holdfast.models.quota import QuotaLease, Quotas
from holdfast.models.routing import quotes, routed
from holdfast.models.stream_sink import StreamSink
from holdfast.platform.border import is_cut_off, is_ours, text_of
from holdfast.ports import (
    CacheUse,
    EmbeddingReply,
    EmbeddingRequest,
    ForwardedReply,
    ForwardedRequest,
    Journal,
    Model,
    ModelReply,
    ModelRequest,
    Recall,
    ReplyWriter,
    Usage,
)

log = logging.getLogger("holdfast")

Asked: TypeAlias = ModelRequest | EmbeddingRequest | ForwardedRequest
Answered: TypeAlias = ModelReply | EmbeddingReply | ForwardedReply

GRACE_S: Final = 5.0
"""How much longer than its own time-out a request may take before it is given up from outside."""

_MAX_REFUSALS: Final = 100
"""How often in a row a provider may refuse a call until later before the call fails, and its step's retries decide."""

_NOT_NOW: Final = object()
"""The call was not made, and is to be made again."""
_ELSEWHERE: Final = object()
"""The model cannot answer for now: another one is asked."""


class _Sending(NamedTuple):
    """One way to make a call: the request, what is held for it, what it was lent, and all pools that count anything."""

    request: Asked
    price: Price
    offer: CallCandidate
    lent: QuotaLease | None
    refusals: int
    counted: Sequence[DeclaredPool]
    sink: StreamSink | None
    """Where its reply is received while it comes."""
    writer: ReplyWriter | None
    """Receives the events of a forwarded reply."""
    spare: Sequence[CallCandidate]
    """What may be asked in its place where it cannot answer for now."""
    answer: Recall | None
    """What it comes to, where it is not sent: its run is replayed."""


class _Asking(NamedTuple):
    """A step's request to a model: the model's name, and the path at which the reply is recorded."""

    path: Path
    model: str
    args_hash: str
    stream: bool
    asked: Any
    """The request as it is kept; None where it never is."""
    writer: ReplyWriter | None = None


class Gateway:
    """Sends requests of steps to models, each journaled and paid for."""

    def __init__(self, model: Model, prices: Prices, quotas: Quotas, *, names_calls: bool = True) -> None:
        """`names_calls` says that providers get the ids of calls, for their logs."""
        self._names_calls = names_calls
        self._model = model
        self._prices = prices
        self._quotas = quotas

    def quotes(self, request: ModelRequest, route: Route, experience: Experience) -> Sequence[Quote]:
        """Return the cost and duration of the request with each model of a router, estimated from earlier replies. Calls no
        model."""
        return quotes(request, route, self._prices, experience)

    def dearest(self, models: Sequence[str], input_tokens: int, output_tokens: int) -> tuple[str, int]:
        """Return the most expensive of `models` for these tokens, and the cost. Raises UnknownPrice."""
        costs = {model: self._prices.of(model).plain_nanousd(input_tokens, output_tokens) for model in models}
        return max(costs.items(), key=lambda each: each[1])

    def cost_nanousd(self, model: str, usage: Usage | None) -> int:
        """Return the cost of a reply of that model; 0 if the reply reports no usage. Raises UnknownPrice."""
        return 0 if usage is None else self._prices.of(model).cost_nanousd(usage)

    @cached_property
    def price_fingerprint(self) -> str:
        """The fingerprint of the prices, which a run records to be held to them."""
        return self._prices.fingerprint

    def encode_reply(self, output: Any) -> Any:
        """Return the journal entry for a reply that a person gives in a model's place."""
        return msgspec.to_builtins(turn.create_reply(output))

    async def call(
        self,
        journal: Journal,
        path: Path,
        request: ModelRequest,
        cheaper: Sequence[ModelRequest] = (),
        *,
        stream: bool = False,
        route: Route | None = None,
        fallbacks: Sequence[str] = (),
    ) -> ModelReply:
        """The model's reply, or the recorded one. `cheaper` requests may go out instead where money is short. With `stream`
        whoever watches hears the reply as it comes. With a `route`, whose router's name stands in the place of the model, it
        goes to the cheapest model that can answer it. Where a model cannot for now (its trouble passes, it takes too long),
        another one is asked, of the route, of those that are cheaper or of `fallbacks`: each a call of its own, and held.

        Raises OperationFailed with the recorded error; lets the engine's suspensions (money) through. A request that
        has no price or no bound is never sent.
        """
        asking, known = await self._recalled(journal, path, request, stream=stream)
        if known is not None:
            return msgspec.convert(known.value, ModelReply)
        try:
            ways = [request, *cheaper]
            if route is not None:
                ways = routed(request, route, self._prices, await journal.experience())
        except UnboundableRequest as problem:
            raise self._unasked(journal, problem) from None
        spare = [msgspec.structs.replace(ways[0], model=model) for model in fallbacks]
        return msgspec.convert(await self._send(journal, asking, ways, spare), ModelReply)

    async def embed(self, journal: Journal, path: Path, request: EmbeddingRequest) -> EmbeddingReply:
        """The vectors of the request's texts, or the recorded ones; as `call` in all else."""
        asking, known = await self._recalled(journal, path, request, stream=False)
        if known is not None:
            return msgspec.convert(known.value, EmbeddingReply)
        return msgspec.convert(await self._send(journal, asking, [request], ()), EmbeddingReply)

    async def forward(
        self, journal: Journal, path: Path, request: ForwardedRequest, writer: ReplyWriter, *, may_lower: bool = True
    ) -> ForwardedReply:
        """The reply to a program's request, as its provider sent it, or the recorded one; `writer` gets the events of a new
        one. Where the budget cannot hold its maximum of output, a lower one is bought, if it may be. As `call` in all else."""
        asking, known = await self._recalled(journal, path, request, stream=False)
        if known is not None:
            return msgspec.convert(known.value, ForwardedReply)
        ways = [request, *lowered(request)] if may_lower else [request]
        return msgspec.convert(await self._send(journal, asking._replace(writer=writer), ways, ()), ForwardedReply)

    async def _recalled(self, journal: Journal, path: Path, request: Asked, *, stream: bool) -> tuple[_Asking, Recall | None]:
        """Return a step's request and its recorded outcome, None if it has none. Raises OperationFailed if the outcome is an
        error."""
        asked = request.compared()
        args_hash = digest(asked)
        shown = kept_form(request) if isinstance(request, ForwardedRequest) else asked
        known = await journal.recall(path, "model", request.model, args_hash, shown or {})
        if known is not None and known.error is not None:
            raise journal.failure(known.error, path)
        if isinstance(request, EmbeddingRequest):
            shown = None  # texts to embed are data, and stand where they were read
        return _Asking(path, request.model, args_hash, stream, shown), known

    async def _send(self, journal: Journal, asking: _Asking, ways: Sequence[Asked], spare: Sequence[ModelRequest]) -> Any:
        """Ask one model after another, until one answers or fails for another reason than that it cannot for now."""
        if parts := ways[0].content:
            contents = await journal.contents(parts)
            ways = [way.filled(contents) if isinstance(way, ModelRequest) else way for way in ways]
            spare = [way.filled(contents) for way in spare]
        unable = {*journal.unable(asking.path)}
        if ways[0].model in unable:
            ways, spare = _others_first([*ways, *spare], unable), ()  # the step is begun again, and it failed before
        while True:
            value, failed = await self._ask(journal, asking, ways, spare)
            if failed is None:
                return value
            unable.add(failed)
            ways = [way for way in _others_first([*ways, *spare], unable) if way.model != failed]
            spare = ()

    async def _ask(
        self, journal: Journal, asking: _Asking, ways: Sequence[Asked], spare: Sequence[Asked]
    ) -> tuple[Any, str | None]:
        """Hold the first of `ways` that fits, and send it: the reply, or the model that cannot answer for now."""
        path = asking.path
        try:
            prices = [self._price_of(way) for way in ways]
            offers = [_offer(way, price) for way, price in zip(ways, prices, strict=True)]
            others = [_offer(way, self._price_of(way)) for way in spare]
            hold_nanousd = offers[0].hold_nanousd
            answer = journal.stood_in(path, "model", asking.model, asking.args_hash, hold_nanousd, asking.asked)
            for model in dict.fromkeys(way.model for way in ways) if answer is None else ():
                await self._model.prepare(model)
        except (UnknownPrice, UnboundableRequest, ModelRefused) as problem:
            raise self._unasked(journal, problem) from None
        first = refusals = 0
        while True:
            counted = await journal.counted_pools()  # once: nothing is awaited between a hold and its call
            wanted = ways[first].model
            async with self._paced(journal, wanted):
                lent = await self._reserve(journal, path, ways[first], offers[first], counted)
                try:
                    call, chosen, held = await journal.hold(path, asking.model, asking.args_hash, offers[first:], asking.asked)
                except BaseException:
                    self._return_unsent(journal, wanted, lent)
                    raise
                first += chosen
                if self._quotas.of(wanted, counted) != self._quotas.of(ways[first].model, counted):
                    self._return_unsent(journal, wanted, lent)
                    why = f"The call was not made yet. The quota of {ways[first].model} is waited for first."
                    await journal.withdraw(call, journal.error(CANCELLED, why))
                    continue
                sink = StreamSink(journal.tells(call)) if asking.stream else None
                rest = [each for each in (*offers, *others) if each.model != ways[first].model]
                request = msgspec.structs.replace(ways[first], call=call) if self._names_calls else ways[first]
                sending = _Sending(request, prices[first], held, lent, refusals, counted, sink, asking.writer, rest, answer)
                value = await journal.outside(self._conclude(journal, path, call, sending))
            if value is _ELSEWHERE:
                return None, ways[first].model
            if value is not _NOT_NOW:
                return value, None
            refusals += 1

    def _price_of(self, request: Asked) -> Price:
        embeds = isinstance(request, EmbeddingRequest) or getattr(request, "format", "") == "openai.embeddings"
        return self._prices.of(request.model, writes=not embeds)

    def _unasked(self, journal: Journal, problem: HoldfastError) -> OperationFailed:
        """A request that no model is sent."""
        error = journal.error(getattr(problem, "error_class", VALIDATION), problem.message)
        return journal.failure(error, None)

    def _pools(self, journal: Journal, model: str, pools: Sequence[DeclaredPool]) -> Sequence[DeclaredPool]:
        """The pools of which a call of the model takes: all that count for it, but for those of which its step has reserved
        something before it was placed."""
        reserved = journal.pace.pools if journal.pace is not None else ()
        return [pool for pool in self._quotas.of(model, pools) if pool.name not in reserved]

    async def _reserve(
        self, journal: Journal, path: Path, request: Asked, offer: CallCandidate, counting: Sequence[DeclaredPool]
    ) -> QuotaLease | None:
        """Wait for what the request takes of pools; None where nothing limits it."""
        pools = self._pools(journal, request.model, counting)
        if not pools:
            return None
        input_bound = offer.tokens - request.max_tokens
        try:
            amounts = self._quotas.amounts(pools, request, input_bound)
            reservation = await journal.reserve(path, request.model, amounts)
        except PoolLineFull as problem:
            error = journal.error(RATE_LIMIT, problem.message, retryable=True)
            raise journal.failure(error, None) from None
        return QuotaLease(reservation, tuple(pools), input_bound)

    def _paced(self, journal: Journal, model: str) -> AbstractAsyncContextManager[None]:
        """Inside, one call of the model may be on its way, as far as its step has reserved something for it."""
        return nullcontext() if journal.pace is None else journal.pace.call(self._quotas.names_of(model))

    def _return_unsent(self, journal: Journal, model: str, lease: QuotaLease | None) -> None:
        """Give back what a call of the model had of pools that is not made now."""
        if lease is not None:
            self._quotas.unsent(lease)
        if journal.pace is not None:
            journal.pace.unsent(self._quotas.names_of(model))

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
            # Frozen past its lease between hold and send: another process may already be at it.
            if lent is not None:
                self._quotas.unsent(lent)
            await journal.unsent(call, journal.error(LOST, "This process lost its lease before the model was called."))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        timer = asyncio.timeout(request.timeout_s + GRACE_S)
        try:
            async with timer:
                reply = await self._reply(sending)
        except ModelError as problem:
            return await self._refusal(journal, path, call, sending, problem)
        except BaseException as raised:  # noqa: BLE001 - it is raised again, or recorded
            ended = asyncio.CancelledError() if is_cut_off() and not is_ours(raised) else raised
            if issubclass(type(ended), TimeoutError) or (timer.expired() and not is_ours(ended)):
                error = journal.error(
                    TIMEOUT, f"{request.model} did not answer within {request.timeout_s:g} s.", retryable=True
                )
                return await self._try_elsewhere(journal, path, call, sending, error, doubted=True)
            if is_ours(ended):
                if isinstance(ended, asyncio.CancelledError):
                    given_up = f"The call to {request.model} was given up before its reply came."
                    error = journal.error(TIMEOUT, given_up, retryable=True)
                    await _doubt(journal, call, sending, error, reopens=True)
                raise ended from None
            # An adapter's fault is not a reply: it is unknown whether the request left.
            error = journal.error(MODEL, f"{request.model}: {text_of(ended)}", problem=ended)
            await _doubt(journal, call, sending, error)
            raise journal.failure(error, path) from ended
        took_s = loop.time() - began_s
        self._charge_usage(journal, sending, reply.usage)
        try:
            return await self._settle(journal, call, sending, reply, took_s)
        except InvalidInput as problem:  # it came, and cost something, but there is nothing that could be gone on with
            uncertain = ModelUncertain(f"The reply of {request.model} cannot be used: {problem.message}")
            raise await self._record_failure(journal, path, call, sending, uncertain) from problem

    async def _reply(self, sending: _Sending) -> Answered:
        """Return the reply that the request gets, or had where its run is replayed."""
        request = sending.request
        if sending.answer is not None:
            return _stood_in(sending.answer, request)
        if isinstance(request, EmbeddingRequest):
            return await self._model.embed(request)
        if isinstance(request, ForwardedRequest):
            return await self._model.forward(request, _telling(request, sending.writer))
        return await (self._model.request(request) if sending.sink is None else sending.sink.reply(self._model, request))

    def _charge_usage(self, journal: Journal, sending: _Sending, usage: Usage | None) -> None:
        """Charge the usage of an answered call to the pools of the model that answered."""
        model = sending.request.model
        if sending.lent is not None:
            self._quotas.used(sending.lent, model, usage)
        if usage is not None and journal.pace is not None:
            journal.pace.used(self._quotas.names_of(model), usage)

    async def _refusal(self, journal: Journal, path: Path, call: CallId, sending: _Sending, problem: ModelError) -> object:
        """Handle a call that got no reply. A call that its provider refuses until later waits for its pools again."""
        lent = sending.lent
        if isinstance(problem, ModelRateLimited):
            self._close(journal, sending, problem.retry_after_s)
        if lent is not None and isinstance(problem, ModelRefused):
            self._quotas.refused(lent)
            if isinstance(problem, ModelRateLimited) and sending.refusals < _MAX_REFUSALS:
                await journal.withdraw(call, self._error(journal, problem))
                return _NOT_NOW
        if problem.error_class in TRANSIENT:
            error, doubted = self._error(journal, problem), not isinstance(problem, ModelRefused)
            return await self._try_elsewhere(journal, path, call, sending, error, doubted=doubted)
        raise await self._record_failure(journal, path, call, sending, problem) from problem

    async def _try_elsewhere(
        self, journal: Journal, path: Path, call: CallId, sending: _Sending, error: ErrorRecord, *, doubted: bool
    ) -> object:
        """A model cannot answer for now: _ELSEWHERE where another is asked in its place. Raises OperationFailed where there is
        none, or none that what is left pays for."""
        sink = sending.sink
        if not sending.spare:
            await (_doubt(journal, call, sending, error) if doubted else journal.refuse(call, error))
        else:
            facts: dict[str, Any] = {}
            if sink is not None and doubted:
                facts = {"partial": sink.partial, "cost_nanousd": sink.cost_nanousd(sending.price)}
            if await journal.pass_on(call, error, sending.spare, doubted=doubted, **facts):
                return _ELSEWHERE
        raise journal.failure(error, path)

    def _close(self, journal: Journal, sending: _Sending, retry_after_s: float | None) -> None:
        """Close the provider's pools of the model: no call of it leaves meanwhile."""
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
            problem=problem,
        )

    async def _record_failure(
        self, journal: Journal, path: Path, call: CallId, sending: _Sending, problem: ModelError
    ) -> OperationFailed:
        """Record a call without a reply: refused costs nothing, anything else stays in doubt."""
        error = self._error(journal, problem)
        if isinstance(problem, ModelRefused):
            await journal.refuse(call, error)
        else:
            await _doubt(journal, call, sending, error)
        return journal.failure(error, path)

    async def _settle(self, journal: Journal, call: CallId, sending: _Sending, reply: Answered, took_s: float) -> Any:
        price, offer, sink = sending.price, sending.offer, sending.sink
        output = msgspec.to_builtins(reply)
        if sink is not None and sink.besides:
            output["besides"] = sink.besides  # it is at the same places there as it was while it came
        try:
            if reply.usage is None:
                raise ValueError("the reply does not say what it used")
            cost_nanousd = price.cost_nanousd(reply.usage)
        except ValueError as problem:
            error = journal.error(MODEL, f"No price can be put on the reply: {problem}. Its whole hold counts as spent.")
            return await journal.doubt(call, error, output)
        _learn(journal, sending, reply.usage, took_s, cost_nanousd)
        used = reply.usage.input_tokens + reply.usage.output_tokens
        if cost_nanousd > offer.hold_nanousd or used > offer.tokens:
            log.error(
                "holdfast: %s says that the call %s used %d tokens for $%s, more than its bound of %d tokens and $%s."
                " It is recorded as it is, and the run's further calls of this model are held at a bound that is higher by"
                " as much; until this is understood, the first call of a run may pass a limit.",
                offer.model,
                call,
                used,
                usd(cost_nanousd),
                offer.tokens,
                usd(offer.hold_nanousd),
            )
        cache: CacheUse = {
            "cache_read_tokens": reply.usage.cache_read_tokens,
            "cache_write_tokens": reply.usage.cache_write_tokens,
            "cacheable_nanousd": price.cacheable_nanousd(reply.usage),
        }
        tokens = reply.usage.input_tokens, reply.usage.output_tokens
        return await journal.settle(call, cost_nanousd, *tokens, output, **cache)


def _others_first(ways: Sequence[Asked], failed: Collection[str]) -> list[Asked]:
    """In which order they are asked after these models could not answer."""
    models = [way.model for way in ways]
    return [ways[n] for n in others_first(models, [family_of(model) for model in models], failed)]


def _telling(request: ForwardedRequest, writer: ReplyWriter | None) -> Callable[[str], None]:
    """Return what passes the events of a reply on, and before the first the maximum that was bought."""
    has_begun = False

    def tell(piece: str) -> None:
        nonlocal has_begun
        if writer is not None:
            if not has_begun:
                has_begun = True
                writer.begin(bought(request))
            writer.tell(piece)

    return tell


def _stood_in(answer: Recall, request: Asked) -> Answered:
    """Return the recorded reply of the call in the run that is replayed. Raises ModelRefused if an error was recorded."""
    if (error := answer.error) is not None:
        refused = ModelRefused(error.message)
        refused.error_class, refused.retryable = error.error_class, error.retryable
        raise refused
    if isinstance(request, EmbeddingRequest):
        return msgspec.convert(answer.value, EmbeddingReply)
    if isinstance(request, ForwardedRequest):
        return msgspec.convert(answer.value, ForwardedReply)
    return msgspec.convert(answer.value, ModelReply)


def _learn(journal: Journal, sending: _Sending, usage: Usage, took_s: float, cost_nanousd: int) -> None:
    """Record the usage, duration and cost of a reply for routers. Skips replayed runs, which call no model, and embeddings,
    which have no text."""
    request, offer = sending.request, sending.offer
    if sending.answer is None and isinstance(request, ModelRequest):
        quoted = Usage(max(0, offer.tokens - request.max_tokens), usage.output_tokens)
        journal.learn(request.model, usage, took_s, sending.price.cost_nanousd(quoted), cost_nanousd)


async def _doubt(journal: Journal, call: CallId, sending: _Sending, error: ErrorRecord, *, reopens: bool = False) -> None:
    """Record a call without a reply as in doubt. Its cost is unknown unless its provider had counted it; the part that came is
    kept."""
    sink = sending.sink
    if sink is None:
        await journal.doubt(call, error, reopens=reopens)
        return
    cost_nanousd = sink.cost_nanousd(sending.price)
    await journal.doubt(call, error, reopens=reopens, partial=sink.partial, cost_nanousd=cost_nanousd)


def _offer(request: Asked, price: Price) -> CallCandidate:
    """Return the most that a request can use and cost."""
    if isinstance(request, EmbeddingRequest):
        input_tokens = embedded_tokens_at_most(request, price.context_window_tokens)
    elif isinstance(request, ForwardedRequest):
        input_tokens = forwarded_tokens_at_most(request, price.context_window_tokens)
    else:
        input_tokens = input_tokens_at_most(request, price.context_window_tokens)
    hold_nanousd = price.worst_case_nanousd(input_tokens, request.max_tokens)
    return CallCandidate(request.model, hold_nanousd, input_tokens + request.max_tokens)
