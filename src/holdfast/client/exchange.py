"""The requests of commands and queries, and the answers or errors in their replies, without a connection.

    execute, query, me  → Call    a generator: it yields a Request and is sent the Reply, or the reason why there is none

`holdfast.http.route` has the path of each command and query. Never here: a connection, waiting, a thread.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote

import msgspec

from holdfast.errors import HoldfastError, RunFailed, Unreachable, UsageError
from holdfast.http.code import error_of
from holdfast.http.route import ROUTES, Route
from holdfast.service.declarations.declaration import Answer, Command, Query, Result, Row, Rows, declaration_of

if TYPE_CHECKING:
    from holdfast.service.view import CallerRow, RunWhole

_PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0)
"""Longest pauses between attempts; each is at least half as long, so that clients do not come back together."""


class Request(NamedTuple):
    """A request, and the pause before it. One that `may_repeat` has no effect the second time."""

    method: str
    path: str
    params: Mapping[str, Any] = {}
    body: bytes | None = None
    headers: Mapping[str, str | bytes] = {}
    may_repeat: bool = True
    after_s: float = 0.0


class Reply(NamedTuple):
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


T = TypeVar("T")
Call: TypeAlias = Generator[Request, Reply | Unreachable, T]


def execute(command: Command[Result], wait_s: int = 0) -> Call[Result]:
    """Return the answer of a command."""
    response: Any = yield from _send(request_of(command, wait_s))
    is_page = declaration_of(type(command)).answers is Answer.PAGE
    answer: Result = cast("Any", _page(response)) if is_page else response
    return answer


def query(query: Query[Row], wait_s: int = 0) -> Call[Rows[Row]]:
    """Return a page of a list; a single row is a page of one."""
    response = yield from _send(request_of(query, wait_s))
    return Rows([response], None) if declaration_of(type(query)).answers is Answer.ROW else _page(response)


def me() -> Call[CallerRow]:
    """Return the holder of the token."""
    holder: CallerRow = yield from _send(Request("GET", "/me"))
    return holder


def output_of(run: RunWhole | None) -> Any:
    """Return the output of a run that has ended. Raises RunFailed."""
    assert run is not None
    if run["status"] == "completed":
        return run["output"]
    reason = f": {run['error']['message']}" if run["error"] else ""
    raise RunFailed(f"Run {run['run_id']} {run['status']}{reason}", run=run)


def _page(response: Any) -> Rows[Any]:
    return Rows(response["rows"], response["cursor"])


# --- Requests ---------------------------------------------------------------------------------------------------------


def route_of(message: msgspec.Struct) -> Route:
    """Return the first route whose path has all of its names. Raises UsageError."""
    for route in ROUTES:
        if route.what is type(message) and all(getattr(message, name) for name in route.in_path):
            return route
    raise UsageError(f"{type(message).__name__} names nothing in its path: a name is empty. Nothing was sent; give the name.")


def request_of(message: msgspec.Struct, wait_s: int = 0) -> Request:
    """Return the request of a command or query. Raises UsageError for a value that JSON does not have."""
    route = route_of(message)
    path = route.path.format_map({name: quote(getattr(message, name), safe="") for name in route.in_path})
    fields = {each.name: each for each in msgspec.structs.fields(message)}
    try:
        values = {
            name: msgspec.to_builtins(value, enc_hook=_plain)
            for name in route.elsewhere
            if (value := getattr(message, name)) is not fields[name].default and value != ()
        }
        body = msgspec.json.encode(values) if route.method == "POST" else None
    except (TypeError, ValueError) as problem:
        raise UsageError(f"{type(message).__name__} has a value that is not JSON: {problem}. Nothing was sent.") from None
    headers = {"Content-Type": "application/json"} if body is not None else {}
    takes = route.takes
    may_repeat = not takes.is_command or bool(takes.key and getattr(message, takes.key) is not None)
    return Request(
        route.method,
        path,
        {} if body is not None else {name: _in_query(value) for name, value in values.items()},
        body,
        headers | ({"Prefer": f"wait={wait_s}"} if wait_s else {}),
        may_repeat,
    )


def _plain(value: Any) -> Any:
    """Return a Pydantic model as JSON data. Raises TypeError for anything else."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"the type {type(value).__name__} does not exist in JSON")


def _in_query(value: Any) -> Any:
    return value if isinstance(value, str | list | tuple) else msgspec.json.encode(value).decode()


# --- Replies ----------------------------------------------------------------------------------------------------------


class _Problem(msgspec.Struct):
    """The fields of a problem (RFC 9457) that a client reads."""

    status: int
    code: str = ""
    detail: str = ""
    trace_id: str = ""


def _send(request: Request) -> Call[Any]:
    """Send a request until it is answered, or once if it must not be repeated. Raises the server's error, Unreachable."""
    reply = yield request
    for number in range(len(_PAUSES_S) if request.may_repeat else 0):
        if isinstance(reply, Reply) and reply.status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        reply = yield request._replace(after_s=pause_s(number))
    if isinstance(reply, Unreachable):
        raise reply
    if not 200 <= reply.status < 300:
        raise refusal(reply)
    if not reply.body:
        return None
    try:
        return msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        raise Unreachable(
            "The server answers, but not with JSON: it is not the HTTP API of Holdfast. Check the address."
        ) from None


def pause_s(number: int) -> float:
    """Return the pause before the next attempt, after this number of failed ones."""
    longest_s = _PAUSES_S[min(number, len(_PAUSES_S) - 1)]
    return random.uniform(longest_s / 2, longest_s)


def refusal(reply: Reply) -> HoldfastError:
    """Return the error of a reply. One that is not Holdfast's own, as of a proxy on the way, has the error of its status."""
    try:
        problem = msgspec.json.decode(reply.body, type=_Problem)
    except msgspec.DecodeError:
        phrase = next((f" {each.phrase}" for each in HTTPStatus if each == reply.status), "")
        return error_of("", reply.status, f"The server answered {reply.status}{phrase} without a reason.")
    return _error(problem, {name.lower(): value for name, value in reply.headers.items()}.get("retry-after", ""))


def problem_of(data: str) -> HoldfastError:
    """Return the error that a stream ended with."""
    return _error(msgspec.json.decode(data, type=_Problem))


def _error(problem: _Problem, retry_after: str = "") -> HoldfastError:
    facts: dict[str, Any] = {"trace_id": problem.trace_id}
    if retry_after.isdecimal():
        facts["retry_after_s"] = int(retry_after)
    return error_of(problem.code, problem.status, problem.detail, **facts)
