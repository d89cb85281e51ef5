"""The same request twice under one `Idempotency-Key`: done once, answered alike, for a day
(draft-ietf-httpapi-idempotency-key).

What was refused did nothing, so its key is free again. What broke off, because the store or the process was away, may have been
done: the same request is done again where that does nothing twice (service.declaration), and refused elsewhere. Never here: a
run's start key, which is the tenant's for good (core)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Response

from holdfast.errors import HoldfastError, StoreError
from holdfast.http.problem import Problem
from holdfast.ports import OF_NONE, PendingRequest, Replies, Reply
from holdfast.service.declarations.declaration import declaration_of

HEADER: Final = "idempotency-key"
KEPT_MS: Final = 24 * 3_600_000
_LOST_MS: Final = 60_000
"""One that was begun so long ago is no longer being answered: no request takes as long."""
_KEPT: Final = ("location", "content-type", "etag")


async def once(
    replies: Replies,
    tenant: str | None,
    now_ms: int,
    names: Sequence[Any],
    message: Any,
    answer: Callable[[Any], Awaitable[Response]],
    check: Callable[[], Awaitable[object]],
) -> Response:
    """Answer a request of a tenant once, where `names` distinguish the request from others and `message` is its content.

    An earlier answer is returned again if its sender may still make the request; `check` raises if not. A request that broke
    off is done again if its command may be repeated. With a key of the engine's, which this adds, the repeat does nothing
    twice. Raises Problem if the names were another request's, and if a command that may not be repeated is in progress or broke
    off.
    """
    name = _digest([*names])
    digest = _digest([msgspec.to_builtins(message)])
    pending = await replies.begin(name, digest, KEPT_MS, tenant or OF_NONE)
    _expect_same(pending, digest)
    if pending.reply is not None:
        await check()
        return _again(pending.reply)
    declared = declaration_of(type(message))
    if not pending.is_new and not declared.repeats:
        raise _unknown(pending, now_ms)
    if declared.key and getattr(message, declared.key) is None:
        message = msgspec.structs.replace(message, **{declared.key: f"http:{_digest([name, pending.begun_at_ms])[:32]}"})
    try:
        response = await answer(message)
    except (Problem, HoldfastError) as refused:
        if not _did_nothing(refused):
            raise
        # Refused because it was done, maybe: by one that is being answered, or has been meanwhile.
        now = await replies.begin(name, digest, KEPT_MS, tenant or OF_NONE)
        if now.reply is not None:
            await check()
            return _again(now.reply)
        if pending.is_new:
            await replies.finish(name, None)
        if pending.is_new or _is_lost(pending, now_ms):
            raise
        raise _unknown(pending, now_ms) from refused
    headers = {name: value for name, value in response.headers.items() if name in _KEPT}
    reply = Reply(response.status_code, bytes(response.body), headers)
    if not await replies.finish(name, reply, tenant or OF_NONE):  # the same request was refused meanwhile, by what this one did
        await replies.begin(name, digest, KEPT_MS, tenant or OF_NONE)
        await replies.finish(name, reply, tenant or OF_NONE)
    return response


async def streamed(
    replies: Replies, tenant: str | None, names: Sequence[Any], message: Any, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """Answer a streamed request once. Its answer is not kept: the request does nothing twice by itself, and is answered again
    from the beginning, also while it goes on. Raises Problem if the names were another request's."""
    name, digest = _digest([*names]), _digest([msgspec.to_builtins(message)])
    pending = await replies.begin(name, digest, KEPT_MS, tenant or OF_NONE)
    _expect_same(pending, digest)
    if not pending.is_new:
        return await answer()
    try:
        return await answer()
    except (Problem, HoldfastError) as refused:
        if _did_nothing(refused):
            await replies.finish(name, None)
        raise


def _did_nothing(refused: Problem | HoldfastError) -> bool:
    """Return True where that is certain. A store that cannot be reached may have failed at what came after the command."""
    return not isinstance(refused, StoreError)


def _expect_same(pending: PendingRequest, digest: str) -> None:
    if pending.digest != digest:
        words = "This Idempotency-Key, or this link, was another request's. Nothing was done: take a new one for a new request."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency_key_reused", words)


def _again(reply: Reply) -> Response:
    """Return the answer of before."""
    status, body, headers = reply
    return Response(body, status, {**headers, "Idempotency-Replayed": "true", "Cache-Control": "no-store"})


def _unknown(pending: PendingRequest, now_ms: int) -> Problem:
    """Make the refusal of a request that was begun and has no answer yet."""
    if not _is_lost(pending, now_ms):
        words = "The same request is being answered. Try again."
        return Problem(HTTPStatus.CONFLICT, "in_flight", words, headers={"Retry-After": "1"})
    words = (
        "The same request broke off before, and it is not known whether it was done. Look, and take a new Idempotency-Key if"
        " it is to be done again."
    )
    return Problem(HTTPStatus.CONFLICT, "broken_off", words)


def _is_lost(pending: PendingRequest, now_ms: int) -> bool:
    return now_ms - pending.begun_at_ms >= _LOST_MS


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
