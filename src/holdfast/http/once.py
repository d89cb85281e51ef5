"""The same request twice under one `Idempotency-Key`: done once, answered alike, for a day
(draft-ietf-httpapi-idempotency-key).

What was refused did nothing, so its key is free again. What broke off may have been done: its key is taken, and who comes
with it is told. Never here: a run's start key, which is the tenant's for good (core)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Response

from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.http.problem import Problem
from holdfast.ports import Pending, Replies, Reply

HEADER: Final = "idempotency-key"
KEPT_MS: Final = 24 * 3_600_000
_LOST_MS: Final = 60_000
"""One that was begun so long ago is no longer being answered: no request takes as long."""
_KEPT: Final = ("location", "content-type", "etag")


async def once(
    replies: Replies, now_ms: int, names: Sequence[Any], said: Any, answer: Callable[[], Awaitable[Response]], *,
    may_repeat: bool = False,
) -> Response:  # fmt: skip
    """What is answered to a request that `names` tell from others, which says this. One that broke off is done again where
    it `may_repeat`, which does nothing twice. Raises Problem where they were another request's, or are being answered."""
    name = _digest([*names])
    digest = _digest([msgspec.to_builtins(said)])
    pending = await replies.begin(name, digest, KEPT_MS)
    if pending is not None and not (may_repeat and pending.digest == digest and _broke_off(pending, now_ms)):
        return _again(pending, digest, now_ms)
    try:
        response = await answer()
    except (Problem, HoldfastError) as refused:
        if _did_nothing(refused):
            await replies.finish(name, None)
        raise
    headers = {name: value for name, value in response.headers.items() if name in _KEPT}
    await replies.finish(name, Reply(response.status_code, bytes(response.body), headers))
    return response


async def streamed(
    replies: Replies, names: Sequence[Any], said: Any, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """The same of what is told as it comes, which is not kept: it does nothing twice by itself, and is told again from its
    beginning, also while it goes on. Raises Problem where the names were another request's."""
    name, digest = _digest([*names]), _digest([msgspec.to_builtins(said)])
    pending = await replies.begin(name, digest, KEPT_MS)
    if pending is not None:
        _expect_same(pending, digest)
        return await answer()
    try:
        return await answer()
    except (Problem, HoldfastError) as refused:
        if _did_nothing(refused):
            await replies.finish(name, None)
        raise


def _did_nothing(refused: Problem | HoldfastError) -> bool:
    return not isinstance(refused, UnknownCommit) and (not isinstance(refused, StoreError) or refused.passes)


def _expect_same(pending: Pending, digest: str) -> None:
    if pending.digest != digest:
        words = "This Idempotency-Key, or this link, was another request's. Nothing was done: take a new one for a new request."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency_key_reused", words)


def _again(pending: Pending, digest: str, now_ms: int) -> Response:
    """What is answered to one that was begun before."""
    _expect_same(pending, digest)
    if pending.reply is not None:
        status, body, headers = pending.reply
        return Response(body, status, {**headers, "Idempotency-Replayed": "true", "Cache-Control": "no-store"})
    if not _broke_off(pending, now_ms):
        words = "The same request is being answered. Try again."
        raise Problem(HTTPStatus.CONFLICT, "in_flight", words, headers={"Retry-After": "1"})
    words = (
        "The same request broke off before, and nobody knows whether it was done. Look, and take a new Idempotency-Key or link"
        " if it is to be done again."
    )
    raise Problem(HTTPStatus.CONFLICT, "broken_off", words)


def _broke_off(pending: Pending, now_ms: int) -> bool:
    return pending.reply is None and now_ms - pending.begun_at_ms >= _LOST_MS


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
