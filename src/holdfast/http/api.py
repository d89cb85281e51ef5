"""The application: each route as an endpoint, and what stands before all of them: the host, the token, the bounds.

It answers while there is a service, and can be mounted in another FastAPI application. Never here: a port (compose).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.values.ids import RunId
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.http import hook_port, idempotency, openapi, problem, request, sse
from holdfast.http.console import Console
from holdfast.http.hook import Hook
from holdfast.http.hook_port import HookPort
from holdfast.http.problem import END, Problem
from holdfast.http.request import Caller
from holdfast.http.route import BASE, ROUTES, Route, methods_for, methods_of
from holdfast.http.session import SIGN_IN, Sessions
from holdfast.http.single_flight import SingleFlight
from holdfast.ports import ApiKey, RequestAnswered
from holdfast.service.access.identity import Holder, Identity
from holdfast.service.access.key import told_by
from holdfast.service.access.sign_in import SignedIn
from holdfast.service.declarations import query
from holdfast.service.declarations.command import Decide, Signal
from holdfast.service.declarations.declaration import Answer, Declaration, Query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.service.subscription import AGAIN_S, Ending
from holdfast.service.view import of_caller, of_ways

if TYPE_CHECKING:
    from holdfast.http.provider_sign_in import ProviderSignIn

_JSON: Final = "application/json"
AGENTS: Final = "/mcp"
"""Address of the Model Context Protocol, for agents."""
_Checking: TypeAlias = Callable[[Any], Callable[[], Awaitable[None]]]
"""Makes what looks again whether the sender of a request may still hear something."""


class Api:
    """The HTTP API: requests that a service answers while it exists."""

    def __init__(
        self,
        identity: Identity,
        new_trace: Callable[[], str],
        *,
        hosts: Collection[str] | None = None,
        sessions: Sessions | None = None,
        provider: ProviderSignIn | None = None,
        console: Console | None = None,
        hooks: Mapping[str, Hook] = {},
        agents: Callable[[Service, Principal, str, Callable[[], None]], Response] | None = None,
    ) -> None:
        """`hosts` are the names under which it may be asked, None for any: a page that a browser was told lives here could
        speak to a port on loopback (DNS rebinding). `new_trace` names the trace of one who names none. `sessions` are those
        of browsers, which come with a cookie in the place of the token. `console` answers where no route does. `hooks` take
        signed requests, by their names. `agents` answers a caller's request of the Model Context Protocol, which has that body,
        and says when it is answered."""
        self.service: Service | None = None
        self._identity = identity
        self._new_trace = new_trace
        self._hosts = hosts
        self._reads = SingleFlight()
        self.ending = Ending()
        """Of all streams, when the port stops: they have no end of their own."""
        self._sessions = sessions
        self._provider = provider
        self._console = console
        self._hooks = hooks
        self._agents = agents

    def application(self) -> FastAPI:
        """The same as an ASGI application."""
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        for route in ROUTES:
            methods = [*methods_for(route.method)]
            app.add_api_route(f"{BASE}{route.path}", self._endpoint(route), methods=methods, response_model=None)
        app.add_api_route(f"{BASE}/me", self._guarded(self._me), methods=[*methods_for("GET")], response_model=None)
        app.add_api_route(f"{BASE}/links/{{token}}", self._linked, methods=["POST"], response_model=None)
        app.add_api_route(f"{BASE}/agui/{{workflow}}", self._guarded(self._agui), methods=["POST"], response_model=None)
        if self._sessions is not None:
            if self._sessions.takes_code:
                app.add_api_route("/", self._stranger(self._hand_over), methods=["GET"], response_model=None)
            app.add_api_route(f"{BASE}/session", self._sign_in, methods=["POST"], response_model=None)
            app.add_api_route(f"{BASE}/session", self._stranger(self._sign_out), methods=["DELETE"], response_model=None)
            ways = self._stranger(self._ways)
            app.add_api_route(f"{BASE}/sign-in", ways, methods=[*methods_for("GET")], response_model=None)
        if self._provider is not None:
            begin, end = self._at_provider(self._begin), self._at_provider(self._end)
            app.add_api_route(f"{BASE}/sign-in/oidc", begin, methods=["GET"], response_model=None)
            app.add_api_route(f"{BASE}/sign-in/oidc/callback", end, methods=["GET"], response_model=None)
        if self._hooks:
            hooks = HookPort(self._hooks, self._expect_service, self._new_trace)
            app.add_api_route(hook_port.PATH, hooks.answer, methods=["POST"], response_model=None)
        if self._agents is not None:
            app.add_api_route(AGENTS, self._guarded(self._agent), methods=["POST"], response_model=None)
        described = self._described
        app.add_api_route(f"{BASE}/openapi.json", described, methods=[*methods_for("GET")], response_model=None)
        app.add_exception_handler(HTTPException, self._refused)
        app.add_middleware(_AsSent)
        return app

    # --- Before anything is read --------------------------------------------------------------------------------------

    def _guarded(
        self, answer: Callable[[Service, Caller, Request, str], Awaitable[Response]], *, is_command: bool = False
    ) -> Callable[..., Any]:
        """The endpoint that answers a caller who may ask, in its turn, from the request and its body, and tells all others why
        not. Observers get its outcome."""
        guarded = self._unobserved(answer)

        async def endpoint(http_request: Request) -> Response:
            clock_s = asyncio.get_running_loop().time
            began_s = clock_s()
            response = await guarded(http_request)
            if self.service is not None and (observers := self.service.control.runtime.runs.observers).are_any:
                waits = bool(request.wait_s(http_request))
                took_s = clock_s() - began_s
                observers.notify(RequestAnswered(is_command, response.status_code, took_s, waits))
            return response

        return endpoint

    def _unobserved(
        self, answer: Callable[[Service, Caller, Request, str], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(http_request: Request) -> Response:
            trace_id = request.trace_id_of(http_request) or self._new_trace()
            try:
                self._expect_host(http_request)
                service = self._expect_service()
                turns = service.turns
                async with turns.of_stranger(request.origin_of(http_request)):
                    caller = await self._caller(http_request, trace_id)
                reading = partial(request.text_of, http_request, turns.bounds.body_s)
                async with turns.asking(caller.holder.share, reading) as body:
                    return await answer(service, caller, http_request, body)
            except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
                return problem.response(wrong, trace_id)

        return endpoint

    async def _caller(self, incoming: Request, trace_id: str) -> Caller:
        """Return who sends a request: by its token, or else by its cookie. Raises Problem."""
        several = incoming.headers.getlist("authorization")
        if len(several) > 1:
            words = "The request has two Authorization headers, and one token is enough. Nothing was done."
            raise Problem(HTTPStatus.BAD_REQUEST, "two_tokens", words)
        sessions = self._sessions
        if several or sessions is None:
            return request.caller(await self._holder(incoming, *several[:1]), incoming, trace_id)
        has_cookie = sessions.has_cookie(incoming)
        found = await sessions.find(incoming) if has_cookie else None
        if found is not None:
            return request.caller(found.holder, incoming, trace_id, found.sign_in)
        if has_cookie and not self._identity.is_open:
            words = "This session is over: sign in again. Nothing was done."
            raise Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", words, headers={"WWW-Authenticate": "Bearer"})
        if self._identity.is_open:
            sessions.expect_own_page(incoming, is_browser=False)
        return request.caller(await self._holder(incoming), incoming, trace_id)

    async def _holder(self, incoming: Request, authorization: str = "") -> Holder | None:
        return await self._identity.holder(authorization, request.origin_of(incoming))

    # --- Before anyone is known: how a browser signs in ---------------------------------------------------------------

    def _stranger(self, answer: Callable[[Service, Sessions, Request, str], Awaitable[Response]]) -> Callable[..., Any]:
        """The endpoint that answers a browser that need not be known, in the turn of its address."""

        async def endpoint(incoming: Request) -> Response:
            trace_id = request.trace_id_of(incoming) or self._new_trace()
            try:
                self._expect_host(incoming)
                assert self._sessions is not None
                service = self._expect_service()
                async with service.turns.of_stranger(request.origin_of(incoming)):
                    return await answer(service, self._sessions, incoming, trace_id)
            except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
                return problem.response(wrong, trace_id)

        return endpoint

    async def _sign_in(self, incoming: Request) -> Response:
        """A browser brings a token. What it says is read in the turn of its address too: until then it is a stranger."""
        trace_id, origin = request.trace_id_of(incoming) or self._new_trace(), request.origin_of(incoming)
        try:
            self._expect_host(incoming)
            assert self._sessions is not None
            self._sessions.expect_own_page(incoming)
            service = self._expect_service()
            if self._identity.is_open:
                raise Conflict("This port asks for no token, so there is nothing to sign in to. Nothing was done.")
            turns = service.turns
            async with (
                turns.asking(("sign-in", origin), partial(request.text_of, incoming, turns.bounds.body_s)) as body,
                turns.of_stranger(origin),
            ):
                found, cookie = await self._sessions.sign_in(incoming, body, origin)
            return await self._signed_in(service, found, incoming, trace_id, {"Set-Cookie": cookie})
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
            return problem.response(wrong, trace_id)

    async def _signed_in(
        self, service: Service, signed_in: SignedIn, incoming: Request, trace_id: str, headers: Mapping[str, str]
    ) -> Response:
        caller = request.caller(signed_in.holder, incoming, trace_id, signed_in.sign_in)
        await service.note_sign_in(caller.who, signed_in.sign_in)
        return _json(of_caller(caller.who, signed_in.sign_in), HTTPStatus.CREATED, headers)

    async def _sign_out(self, service: Service, sessions: Sessions, incoming: Request, trace_id: str) -> Response:
        sessions.expect_own_page(incoming)
        found = await sessions.find(incoming)
        cookie = await sessions.sign_out(incoming)
        address = None
        if found is not None:
            await service.note_sign_out(request.caller(found.holder, incoming, trace_id, found.sign_in).who, found.sign_in)
            if self._provider is not None and found.sign_in.way == "oidc":
                address = await self._provider.provider.sign_out_address()
        return _json({"continue_at": address}, headers={"Set-Cookie": cookie})

    async def _hand_over(self, service: Service, sessions: Sessions, incoming: Request, trace_id: str) -> Response:
        """A browser comes with the code that was printed, or later without it."""
        if "code" not in incoming.query_params:
            return await self._refused(incoming, HTTPException(HTTPStatus.NOT_FOUND))
        try:
            found, answer = await sessions.handed_over(incoming)
        except Problem as wrong:
            # A person's browser gets the page of the sign-in, which says why, or finds it signed in.
            if self._console is None or not self._console.is_built or not self._console.answers(incoming):
                raise
            return sessions.leading_to(f"{SIGN_IN}?error={wrong.code}")
        await service.note_sign_in(request.caller(found.holder, incoming, trace_id, found.sign_in).who, found.sign_in)
        return answer

    async def _ways(self, service: Service, sessions: Sessions, incoming: Request, trace_id: str) -> Response:
        is_open = self._identity.is_open
        signed_in = is_open or await sessions.find(incoming) is not None
        if self._provider is None:
            return _json(of_ways(is_open=is_open, signed_in=signed_in, errors=sessions.code_errors))
        return _json(self._provider.ways(signed_in=signed_in))

    def _at_provider(
        self, answer: Callable[[Service, ProviderSignIn, Request, str], Awaitable[Response]]
    ) -> Callable[..., Any]:
        """The endpoint that sends a browser to the provider, or takes it back. Each address has a pace, and a share."""

        async def endpoint(incoming: Request) -> Response:
            trace_id, origin = request.trace_id_of(incoming) or self._new_trace(), request.origin_of(incoming)
            try:
                self._expect_host(incoming)
                assert self._provider is not None
                service = self._expect_service()
                async with service.turns.asking(("sign-in", origin), partial(request.text_of, incoming, 0)):
                    return await answer(service, self._provider, incoming, trace_id)
            except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
                return problem.response(wrong, trace_id)

        return endpoint

    async def _begin(self, service: Service, provider: ProviderSignIn, incoming: Request, trace_id: str) -> Response:
        return await provider.begin(incoming)

    async def _end(self, service: Service, provider: ProviderSignIn, incoming: Request, trace_id: str) -> Response:
        found, answer = await provider.end(incoming)
        if found is None:
            await service.failed_log_ins.note(request.origin_of(incoming), "a sign-in at the provider that failed")
        else:
            await service.note_sign_in(request.caller(found.holder, incoming, trace_id, found.sign_in).who, found.sign_in)
        return answer

    def _expect_service(self) -> Service:
        if self.service is None:
            words = "This server is starting or stopping. Try again."
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", words, headers={"Retry-After": "1"})
        return self.service

    def _expect_host(self, http_request: Request) -> None:
        host = http_request.headers.get("host", "").rpartition(":")[0] or http_request.headers.get("host", "")
        if self._hosts is not None and host.strip("[]").lower() not in self._hosts:
            words = f"This port is not called {host!r:.80}. Nothing was done."
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", words)

    async def _refused(self, http_request: Request, wrong: Exception) -> Response:
        """Answer for FastAPI's own refusals: no such path, or not with this method."""
        assert isinstance(wrong, HTTPException)
        trace_id = request.trace_id_of(http_request) or self._new_trace()
        status = HTTPStatus(wrong.status_code)
        if status is HTTPStatus.NOT_FOUND and self._console is not None and self._console.answers(http_request):
            try:
                self._expect_host(http_request)
            except Problem as problem_:
                return problem.response(problem_, trace_id)
            if (file := self._console.answer(http_request)) is not None:
                return file
        path = http_request.scope["path"].partition(BASE)[2]
        allowed = methods_of(path) or _OF_SESSION.get(path, [])
        headers = {"Allow": ", ".join(allowed)} if status is HTTPStatus.METHOD_NOT_ALLOWED and allowed else wrong.headers
        code = {HTTPStatus.NOT_FOUND: "no_route", HTTPStatus.METHOD_NOT_ALLOWED: "no_method"}.get(status, "refused")
        words = f"No such route: {http_request.method} {http_request.scope['path']:.200}. See {BASE}/openapi.json."
        return problem.response(Problem(status, code, words, headers=headers), trace_id)

    # --- What is asked ------------------------------------------------------------------------------------------------

    def _endpoint(self, route: Route) -> Callable[..., Any]:
        takes = route.takes

        async def answered(service: Service, caller: Caller, http_request: Request, body: str) -> Response:
            said = await request.parse_request(route, http_request, body)
            if isinstance(said, query.Events | query.Streams | query.Tail) and sse.is_wanted(http_request):
                return await self._listening(service, caller, said, http_request)

            async def answer(message: Any) -> Response:
                if takes.tag and (tag := http_request.headers.get("if-match")) is not None:
                    message = await _expect_tag(service, caller.who, takes.tag, message, tag)
                return await _answered(
                    service, caller.who, takes, message, http_request, partial(self._checking, service, http_request)
                )

            if http_request.method != "POST" or idempotency.HEADER not in http_request.headers:
                return await answer(said)
            if not takes.keeps:
                words = "What is answered here is not kept, so it takes no Idempotency-Key. Nothing was done."
                raise Problem(HTTPStatus.BAD_REQUEST, "invalid_idempotency_key", words)
            control = service.control
            replies, tenant = control.store.replies, caller.who.tenant
            check = partial(service.expect, caller.who, said)
            return await idempotency.once(
                replies, tenant, control.now_ms(), _under_key(caller, http_request), said, answer, check
            )

        return self._guarded(answered, is_command=takes.is_command)

    async def _listening(
        self, service: Service, caller: Caller, message: query.Events | query.Streams | query.Tail, http_request: Request
    ) -> Response:
        with ExitStack() as counted:
            counted.enter_context(service.turns.listening(caller.holder.share))
            last = http_request.headers.get(sse.LAST)
            told: AsyncGenerator[bytes, None] | None
            if isinstance(message, query.Events):
                told = await sse.history(service, caller.who, message, last, self._reads)
            elif isinstance(message, query.Tail):
                told = await sse.tail(service, caller.who, message, last)
            else:
                told = await sse.stream(service, caller.who, message, last)
            if told is None:  # a browser's EventSource comes back for ever, but for this status (HTML Standard, 9.2)
                return Response(status_code=HTTPStatus.NO_CONTENT)
            check, over = self._checking(service, http_request, message), counted.pop_all().close
            return sse.response(told, caller.who.trace_id or "", check, over, self.ending)

    def _checking(self, service: Service, http_request: Request, message: Any) -> Callable[[], Awaitable[None]]:
        """Return a check that the sender of a request is still known and may still read the answer. The check raises if not."""

        async def check() -> None:
            trace_id = request.trace_id_of(http_request) or self._new_trace()
            caller = await self._caller(http_request, trace_id)
            await service.expect(caller.who, message)

        return check

    async def _me(self, service: Service, caller: Caller, http_request: Request, _: str) -> Response:
        return _json(of_caller(caller.who, caller.sign_in))

    async def _agui(self, service: Service, caller: Caller, http_request: Request, body: str) -> Response:
        from holdfast.http import agui  # noqa: PLC0415 - 100 ms for those who speak it

        workflow, said = request.in_path(http_request)["workflow"], await request.body_of(http_request, body)

        async def answered() -> Response:
            with ExitStack() as counted:
                counted.enter_context(service.turns.listening(caller.holder.share))
                told = await agui.answer(service, caller.who, workflow, said)
                talk = query.Conversation(str(said.get("threadId", "")))
                check, over = self._checking(service, http_request, talk), counted.pop_all().close
                return sse.response(told, caller.who.trace_id or "", check, over, self.ending)

        if idempotency.HEADER not in http_request.headers:
            return await answered()
        return await idempotency.streamed(
            service.control.store.replies, caller.who.tenant, _under_key(caller, http_request), said, answered
        )

    async def _agent(self, service: Service, caller: Caller, http_request: Request, body: str) -> Response:
        assert self._agents is not None
        with ExitStack() as counted:
            counted.enter_context(service.turns.listening(caller.holder.share))
            return self._agents(service, caller.who, body, counted.pop_all().close)

    async def _linked(self, http_request: Request) -> Response:
        """One who has no token does what a link is for. The same body again is answered alike."""
        trace_id = request.trace_id_of(http_request) or self._new_trace()
        try:
            self._expect_host(http_request)
            return await _by_link(self._expect_service(), http_request, trace_id)
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
            return problem.response(wrong, trace_id)

    async def _described(self, http_request: Request) -> Response:
        try:
            self._expect_host(http_request)
            return _json(openapi.document())
        except Problem as wrong:
            return problem.response(wrong, request.trace_id_of(http_request) or self._new_trace())


_OF_SESSION: Final = {"/session": ["DELETE", "POST"]}
"""Methods of a path that is two routes beside those of commands and queries: the framework names those of the first."""


class _AsSent:
    """Has paths compared as they were sent: an id's own `/` is percent-encoded, and no part of the path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace")}
        await self._app(scope, receive, send)


class NoSniff:
    """Has no browser guess what an answer is, where another server than ours answers (observe.listening)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], _NOSNIFF]}
            await send(message)

        await self._app(scope, receive, answer)


_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")


# --- Answers ----------------------------------------------------------------------------------------------------------


async def _answered(
    service: Service, principal: Principal, takes: Declaration, message: Any, http_request: Request, checking: _Checking
) -> Response:
    if not takes.is_command:
        if isinstance(message, query.Run) and (wait_s := request.wait_s(http_request)):
            await service.expect(principal, message)
            await _settled(service, message, wait_s, checking)
        return await (_row if takes.answers is Answer.ROW else _page)(service, principal, message, http_request)
    made, status = await service.execute(principal, message), HTTPStatus.CREATED if takes.creates else HTTPStatus.OK
    if takes.answers is Answer.RUN:
        return await _standing(service, principal, made, http_request, status, checking)
    if takes.answers is Answer.PAGE:
        return _json({"rows": made.rows, "cursor": made.cursor})
    return Response(status_code=HTTPStatus.NO_CONTENT) if takes.answers is Answer.NOTHING else _json(made, status)


async def _page(service: Service, principal: Principal, message: Query, http_request: Request) -> Response:
    page = await service.query(principal, message)
    return _json({"rows": page.rows, "cursor": page.cursor})


async def _row(service: Service, principal: Principal, message: Any, http_request: Request) -> Response:
    row = await _one(service, principal, message)
    body, tag = msgspec.json.encode(row), _tag(row)
    kept = {"ETag": tag, "Cache-Control": "private, no-cache"}  # a browser keeps it, and asks whether it still stands
    if request.has_tag(http_request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=kept)
    return Response(body + END, media_type=_JSON, headers=kept)


async def _one(service: Service, principal: Principal, message: Query) -> query.View:
    """The row that is asked for. Raises NotFound where it is not there for this caller."""
    rows = (await service.query(principal, message)).rows
    if not rows:
        raise NotFound("Not found, or not visible to this token.")
    return rows[0]


async def _standing(
    service: Service, principal: Principal, run: RunId, http_request: Request, status: HTTPStatus, checking: _Checking
) -> Response:
    """Return a run's row after a command, once the run has settled or the requested wait is over."""
    headers = {"Location": f"{BASE}/runs/{run}"} if status is HTTPStatus.CREATED else {}
    if wait_s := request.wait_s(http_request):
        await _settled(service, query.Run(run), wait_s, checking)
        headers["Preference-Applied"] = f"wait={wait_s}"
    return _json(await service.run(principal, run), status, headers)


async def _settled(service: Service, message: query.Run, wait_s: float, checking: _Checking) -> None:
    """Wait until the run has ended or waits for a person, at most `wait_s` seconds, and no longer than the sender may see it:
    after a key is revoked, nothing more is answered."""
    check = checking(message)
    while wait_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, AGAIN_S)):
                await service.control.run(message.run).settled()
                return
        wait_s -= AGAIN_S
        try:
            await check()
        except (HoldfastError, Problem):
            return


def _json(data: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(data) + END, status.value, {"Cache-Control": "no-store", **(headers or {})}, _JSON)


def _under_key(caller: Caller, http_request: Request) -> list[Any]:
    """Return the names that distinguish a request with an idempotency key: its sender, method, path and key. Raises Problem."""
    key, who = http_request.headers[idempotency.HEADER], caller.who
    if not 0 < len(key) <= _MAX_KEY or not key.isprintable():
        words = f"An Idempotency-Key has 1 to {_MAX_KEY} printable characters. Nothing was done."
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid_idempotency_key", words)
    return [caller.holder.name, who.tenant, who.name, http_request.method, http_request.url.path, key]


_MAX_KEY: Final = 255


async def _by_link(service: Service, http_request: Request, trace_id: str) -> Response:
    token, origin, turns = http_request.path_params["token"], request.origin_of(http_request), service.turns
    async with turns.of_stranger(origin):
        key = await service.keys.opened(token)
    if key is None:
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", "This link does not exist, or has expired. Nothing was done.")
    share = (key.tenant or "", f"links.{key.name}")
    async with turns.asking(share, partial(request.text_of, http_request, turns.bounds.body_s)) as body:
        return await _through_link(service, key, http_request, body, trace_id)


async def _through_link(service: Service, key: ApiKey, http_request: Request, body: str, trace_id: str) -> Response:
    assert key.opens is not None
    told, origin = told_by(key.opens, await request.body_of(http_request, body)), request.origin_of(http_request)

    async def answer(command: Decide | Signal) -> Response:
        if key.revoked_at_ms is not None:
            raise Problem(HTTPStatus.GONE, "used", "This link was used, or taken back. Nothing was done.")
        return _json(await service.execute_by_link(key, command, origin, trace_id))

    async def check() -> None:
        """A link is for one thing, and is over by having done it."""

    control = service.control
    return await idempotency.once(control.store.replies, key.tenant, control.now_ms(), [key.hash], told, answer, check)


# --- Preconditions (RFC 9110, section 13) -----------------------------------------------------------------------------


async def _expect_tag(service: Service, principal: Principal, path: str, message: Any, tag: str) -> Any:
    """Return what is said, of a decision with the hash of what its sender saw. Raise Problem if the row at `path`, which the
    command is about, is not as they saw it."""
    kind: Any = next(each.what for each in ROUTES if each.method == "GET" and each.path == path)
    row = await _one(service, principal, kind(**{name: getattr(message, name, None) for name in kind.__struct_fields__}))
    now = _tag(row)
    tags = {_subject(each.strip()) for each in tag.split(",")}
    if tags.isdisjoint({"*", _subject(now)}):
        words = "It is not as it was when you looked: GET it again. Nothing was done."
        raise Problem(HTTPStatus.PRECONDITION_FAILED, "changed", words, headers={"ETag": now})
    if _subject(now) in tags and isinstance(message, Decide) and message.shown_hash is None:
        return msgspec.structs.replace(message, shown_hash=row["shown_hash"])
    return message


_OF_CALLER: Final = frozenset({"refusal", "spendable_usd", "remind_at", "cancel_at"})
"""Fields of a gate's row that differ by caller or change by themselves: no precondition holds a row to them."""


def _tag(row: query.View) -> str:
    """Return the entity tag of a row. Of one with fields that no precondition is about it has two parts."""
    lasting = {name: value for name, value in row.items() if name not in _OF_CALLER}
    parts = [lasting] if len(lasting) == len(row) else [lasting, row]
    return f'"{"-".join(hashlib.sha256(msgspec.json.encode(part)).hexdigest()[:32] for part in parts)}"'


def _subject(tag: str) -> str:
    """Return the part of an entity tag that a precondition is about."""
    return tag.partition("-")[0].removesuffix('"')
