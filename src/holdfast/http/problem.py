"""Errors as problems (RFC 9457): a status, a code that programs can rely on, words for people, and the fields that are wrong.

Never here: when something is refused. Of an unexpected error, and of one of the store, only the public part is sent; the log
has the rest under the same trace id.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from fastapi import Response

from holdfast import errors
from holdfast.errors import HoldfastError, code_of

log = logging.getLogger("holdfast")

MEDIA_TYPE: Final = "application/problem+json"
END: Final = b"\n"
"""Of every JSON body, so that a shell's prompt stands on a line of its own."""
_RETRY_S: Final = "2"
_MAX_MISTAKES: Final = 100
"""Fields that a problem names."""

_STATUSES: Final[tuple[tuple[type[HoldfastError], HTTPStatus], ...]] = (
    (errors.InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.InvalidDecision, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.InvalidFile, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.UsageError, HTTPStatus.BAD_REQUEST),
    (errors.NotPermitted, HTTPStatus.FORBIDDEN),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.TooMuch, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.TooManyRuns, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.Conflict, HTTPStatus.CONFLICT),
    (errors.Suspended, HTTPStatus.CONFLICT),
    (errors.Unstorable, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.CursorLost, HTTPStatus.GONE),
    (errors.StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The first that fits."""
_TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "Invalid request",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid request",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Unexpected error",
}
"""Where the name of the status says little to a person."""


class Problem(Exception):
    """An HTTP-level fault of a request. `code` is for programs; `errors` name the fields that are wrong."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


class ProblemDocument(NamedTuple):
    """A problem in the form in which it is sent."""

    status: HTTPStatus
    body: Mapping[str, Any]
    headers: Mapping[str, str]


def document_of(problem: Exception, trace_id: str) -> ProblemDocument:
    """Return the problem document for an error. Unexpected errors are logged."""
    known = problem if isinstance(problem, Problem) else _classify(problem, trace_id)
    body: dict[str, Any] = {
        "type": f"urn:holdfast:problem:{known.code}",
        "title": _TITLES.get(known.status, known.status.phrase),
        "status": known.status.value,
        "detail": known.detail,
        "code": known.code,
        "errors": list(known.errors),
        "trace_id": trace_id,
    }
    return ProblemDocument(known.status, body, known.headers)


def response(problem: Exception, trace_id: str) -> Response:
    """The same as an answer."""
    status, body, headers = document_of(problem, trace_id)
    return Response(msgspec.json.encode(body) + END, status.value, dict(headers), MEDIA_TYPE)


def _classify(problem: Exception, trace_id: str) -> Problem:
    if not isinstance(problem, HoldfastError):
        log.error("holdfast could not answer a request, trace %s: %s", trace_id, problem, exc_info=problem)
        words = "This error is unexpected. The server's log has more, under the trace_id of this problem."
        return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", words)
    status = next((known for kind, known in _STATUSES if isinstance(problem, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    code, detail, headers = code_of(type(problem)), neutral(problem.message), {}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        log.warning("holdfast's store kept it from answering, trace %s: %s", trace_id, problem.message)
        unknown = isinstance(problem, errors.UnknownCommit)
        detail = (
            "The store did not say whether this was done. Look before you say it again, or say it with the same key."
            if unknown
            else "The store cannot be used just now. Nothing was done. The server's log says why, under the trace_id."
        )
        headers["Retry-After"] = _RETRY_S
    if isinstance(problem, errors.TooMuch | errors.TooManyRuns):
        headers["Retry-After"] = str(problem.retry_after_s)
    return Problem(status, code, detail, errors=[*islice(_mistakes(problem), _MAX_MISTAKES)], headers=headers)


def _mistakes(problem: HoldfastError) -> Iterator[Mapping[str, str]]:
    """Yield the fields of the request that are wrong, each with what is wrong with it."""
    if not isinstance(problem, errors.InvalidInput | errors.InvalidDecision):
        return
    if problem.field or problem.misfits:
        for each in problem.misfits or (errors.Misfit(problem.message),):
            place = _fragment([*filter(None, [problem.field]), *map(str, each.path)])
            yield {"pointer": place, "detail": neutral(str(each))}
    elif where := _PLACE.search(problem.message):
        yield {"pointer": pointer(where[1]), "detail": neutral(problem.message)}


_SYNTAX: Final = r"(?:\b\w+=(?:NAME|JSON|True|\[ROLE\])|`holdfast [^`]*`)"
_OF_OTHERS: Final = re.compile(
    rf"\ \((?:by\ a\ program,\ or\ )?[^()]*{_SYNTAX}[^()]*\)"  # in parentheses stand the words of the other interfaces
    r"|\ \(`\w+_\w+`\)"
    r"|[;:]\ `holdfast\ [^`]*`\ (?:shows|says)\b[^.;]*"
    r"|(?<=\.)\ `holdfast\ [^`]*`\ (?:shows|says)\b[^.;]*\.",
    re.VERBOSE,
)


def neutral(message: str) -> str:
    """Return an error without the arguments of Python and the commands in it: a reader of HTTP answers has neither."""
    return _OF_OTHERS.sub("", message)


def pointer(path: str) -> str:
    """A place in data as msgspec writes it, `$.limits[0]`, as the fragment of a JSON pointer (RFC 6901)."""
    return _fragment(part for part in re.split(r"[.\[\]]+", path.removeprefix("$")) if part)


def _fragment(parts: Iterable[str]) -> str:
    return "#" + "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)


_PLACE: Final = re.compile(r"at `([^`]*)`")
