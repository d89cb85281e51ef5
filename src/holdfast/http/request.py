"""A request, read: who sends it, in which trace, what it says as a command or query, and how long it may be waited for.

Who sends it is known before any of its body is read. Never here: what is done about it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect

from holdfast.core.values import trace
from holdfast.errors import InvalidInput, Misfit
from holdfast.http.problem import Problem, pointer
from holdfast.http.route import Route, several_of, words_of
from holdfast.ports import SignIn
from holdfast.service.access.identity import Holder
from holdfast.service.principal import Principal
from holdfast.service.text import decoded

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a body. Large data goes by reference."""
MAX_READ: Final = 4 * MAX_BYTES
"""Bytes that are read and dropped of a body that is too long: a sender who still sends receives no answer."""
MAX_WAIT_S: Final = 30
"""For what comes of a run: connections that say nothing for longer are cut by many that stand between."""
AS: Final = "holdfast-as"
ROLES: Final = "holdfast-roles"
_JSON: Final = "application/json"
_OTHER_WORD: Final = re.compile(r"Invalid enum value (.+) - at `\$\.(\w+)`", re.DOTALL)
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,9})(?:$|[,;\s])")


class Caller(NamedTuple):
    """The holder of a request's token, the principal that acts, and the sign-in of a browser that came with a cookie."""

    holder: Holder
    who: Principal
    sign_in: SignIn | None = None


def caller(holder: Holder | None, request: Request, trace_id: str, sign_in: SignIn | None = None) -> Caller:
    """Return the caller of the request of that holder. `Holdfast-As` and `Holdfast-Roles` are claims, which are not verified.
    Raises Problem."""
    headers = request.headers
    if holder is None:
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            "The token is missing or wrong: send the header `Authorization: Bearer TOKEN`. Nothing was done.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if not holder.asks:
        words = f"The token {holder.name!r} is a worker's: it asks and decides nothing. Nothing was done."
        raise Problem(HTTPStatus.FORBIDDEN, "not_permitted", words)
    roles = tuple(each.strip() for each in headers.get(ROLES, "").split(",") if each.strip())
    principal = holder.principal(
        headers.get(AS, ""), roles, origin=origin_of(request), trace_id=trace_id, traceparent=_traceparent_of(request)
    )
    if sign_in is not None:
        principal = principal._replace(session=sign_in.id)
    return Caller(holder, principal, sign_in)


def origin_of(request: Request) -> str:
    """Return the address that a request comes from."""
    return request.client.host if request.client is not None else ""


def trace_id_of(request: Request) -> str | None:
    """Return the trace that the sender names; None if none or several are named."""
    found = _trace_of(request)
    return None if found is None else found.trace_id


def _traceparent_of(request: Request) -> str:
    found = _trace_of(request)
    return "" if found is None else found.traceparent


def _trace_of(request: Request) -> trace.TraceContext | None:
    said = request.headers.getlist(trace.HEADER)
    return trace.trace_context_of(said[0]) if len(said) == 1 else None


def has_tag(value: str, tag: str) -> bool:
    """Return True if a list of entity tags, or `*`, contains this one. A proxy that compresses marks a tag as weak, and it
    counts as the same (RFC 9110, section 8.8.3.2)."""
    return any(each == "*" or each.removeprefix("W/") == tag for each in map(str.strip, value.split(",")))


def wait_s(request: Request) -> int:
    """Return the seconds that the sender wants to wait for a run's result (RFC 7240): `Prefer: wait=20`."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return 0 if found is None else min(int(found[1]), MAX_WAIT_S)


async def parse_request(route: Route, request: Request, body: str) -> Any:
    """The command or query that a request with that body says. Raises Problem, InvalidInput."""
    if b"\0" in unquote_to_bytes(request.scope["raw_path"] + b"?" + request.scope["query_string"]):
        raise InvalidInput("The address holds the character NUL, which no store keeps in a name. Nothing was done.")
    posts = request.method == "POST"
    said = await body_of(request, body) if posts else _query_fields(route, request)
    if wrong := sorted(said.keys() - {*route.elsewhere}):
        may = ", ".join(route.elsewhere) or "none at all"
        mistakes = [{"pointer": pointer(f"$.{name}"), "detail": "There is no such field here."} for name in wrong]
        words = f"There is no field {wrong[0]!r:.80} here; there are: {may}. Nothing was done."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", words, errors=mistakes)
    try:
        return msgspec.convert({**said, **in_path(request)}, route.what, strict=posts)
    except msgspec.ValidationError as problem:
        if (refused := _no_such_word(route, f"{problem}")) is not None:
            raise refused from None
        raise InvalidInput(f"Invalid request: {problem}. Nothing was done.") from None


def _no_such_word(route: Route, problem: str) -> InvalidInput | None:
    """Return the refusal of a word that its field does not take, with those that it takes; None for any other problem."""
    if (found := _OTHER_WORD.fullmatch(problem)) is None or not (words := words_of(route.what, found[2])):
        return None
    allowed = f"is one of {', '.join(words)}"
    return InvalidInput(
        f"{found[2]} is {found[1]:.80}; it {allowed}. Nothing was done.", field=found[2], misfits=[Misfit(f"{allowed}.")]
    )


def in_path(request: Request) -> dict[str, str]:
    """The fields that stand in the path. Raises InvalidInput for one that is no text."""
    try:
        return {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
    except UnicodeDecodeError:
        raise InvalidInput("The address holds what is no UTF-8. Nothing was done.") from None


def _query_fields(route: Route, request: Request) -> dict[str, Any]:
    """Return the fields of the query string. A field with several values is repeated in it."""
    query, several = request.query_params, several_of(route.what)
    found: dict[str, Any] = {}
    for name in query:
        values = query.getlist(name)
        if name in several:
            found[name] = values
        elif len(values) > 1:
            raise InvalidInput(f"{name} is given {len(values)} times, and takes one value. Nothing was done.")
        else:
            found[name] = values[0]
    return found


async def body_of(request: Request, text: str) -> Mapping[str, Any]:
    """Return the fields of the body; none if it is empty. Raises Problem, InvalidInput."""
    if not text:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        words = f"A body is {_JSON}, and the Content-Type of this one is {kind or 'nothing'!r:.80}. Nothing was done."
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", words)
    said = decoded(text, "body")
    if not isinstance(said, dict):
        raise InvalidInput("The body is no JSON object. Nothing was done.")
    return said


async def text_of(request: Request, within_s: float) -> str:
    """Return the body of a POST, at most 4 MiB of it. Raises Problem, InvalidInput."""
    try:
        return (await bytes_of(request, within_s)).decode()
    except UnicodeDecodeError:
        raise InvalidInput("The body is no UTF-8. Nothing was done.") from None


async def bytes_of(request: Request, within_s: float, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the body of a POST as it was sent. Raises Problem."""
    if request.method != "POST":
        return b""
    parts, size = [], 0
    try:
        async with asyncio.timeout(within_s):
            async for part in request.stream():
                if (size := size + len(part)) > MAX_READ:
                    break
                if size <= max_bytes:
                    parts.append(part)
    except TimeoutError:
        words = f"The body was not there within {within_s:g} s. Nothing was done."
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "too_slow", words, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        words = "The connection broke off before the end of the body. Nothing was done."
        raise Problem(HTTPStatus.BAD_REQUEST, "broken_off", words) from None
    if size > max_bytes:
        words = f"A body has at most {max_bytes} bytes. Nothing was done: hand over where the data is instead."
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", words, headers={"Connection": "close"})
    return b"".join(parts)
