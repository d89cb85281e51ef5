"""`POST /hooks/{name}`: signed requests of other systems, each verified over its bytes, acted on once, and answered.

The answer comes when what was asked for is durable; a delivery that comes again has the same answer. An unknown hook and a
wrong signature are answered alike. Never here: what a hook is (hook), who decides in Slack (slack_action).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Request, Response

from holdfast.core.values.ids import RunId
from holdfast.errors import NotFound
from holdfast.http import problem, request, slack_action
from holdfast.http.hook import MAX_BYTES, Delivery, Hook, NoHook
from holdfast.http.problem import END, Problem
from holdfast.notify.signatures import WrongSignature
from holdfast.service.service import Service

PATH: Final = "/hooks/{name}"


class HookPort:
    """The hooks of an HTTP port."""

    def __init__(self, hooks: Mapping[str, Hook], service: Callable[[], Service], new_trace: Callable[[], str]) -> None:
        """`service` returns the service while there is one, or raises Problem."""
        self._hooks = hooks
        self._service = service
        self._new_trace = new_trace
        self._no_hook = NoHook()

    async def answer(self, incoming: Request) -> Response:
        """Answer a request. It may come under any host name: the page of another site cannot sign."""
        trace_id = request.trace_id_of(incoming) or self._new_trace()
        try:
            service, origin = self._service(), request.origin_of(incoming)
            turns = service.turns
            reading: Callable[[], Awaitable[bytes]] = partial(request.bytes_of, incoming, turns.bounds.body_s, MAX_BYTES)
            async with turns.asking(("hooks", origin), reading) as body:
                hook, delivery = await self._verified(service, incoming, body, origin)
                return await _acted(service, hook, delivery, origin, trace_id)
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the sender gets it
            return problem.response(wrong, trace_id)

    async def _verified(self, service: Service, incoming: Request, body: bytes, origin: str) -> tuple[Hook, Delivery]:
        """Return the hook of a request, and what it delivers. Raises Problem, TooMuch, InvalidInput."""
        name, headers = incoming.path_params["name"], _headers(incoming)
        hook, now_s = self._hooks.get(name), service.control.now_ms() / 1000
        try:
            if hook is None:
                self._no_hook.verify(headers, body, now_s)
            assert hook is not None
            verified = hook.verify(headers, body, now_s)
        except WrongSignature as wrong:
            await service.failed_log_ins.note(origin, f"a request to the hook {name!r:.80}: {wrong}")
            service.turns.refuse(origin)
            words = "There is no such hook, or the signature is wrong. Nothing was done."
            raise Problem(HTTPStatus.NOT_FOUND, "not_found", words) from None
        return hook, hook.read(verified, headers, body)


async def _acted(service: Service, hook: Hook, delivery: Delivery, origin: str, trace_id: str) -> Response:
    """Do what a delivery means. Raises what the engine raises."""
    if hook.rules.scheme == "slack" and (challenge := slack_action.challenge(delivery.body)) is not None:
        return Response(challenge, media_type="text/plain")
    if hook.rules.action == "decide":
        return await slack_action.decided(service, hook, delivery, origin, trace_id)
    if not hook.wants(delivery):
        return _json({"run_id": None})
    who = hook.principal(origin, trace_id)
    if hook.rules.action == "start":
        return _json({"run_id": await service.execute(who, hook.start(delivery))})
    run = await _run_of(service, hook, delivery)
    await service.execute(who, hook.signal(delivery, run))
    return _json({"run_id": run})


async def _run_of(service: Service, hook: Hook, delivery: Delivery) -> RunId | str:
    """Return the run that a delivery is for. Raises NotFound."""
    run, key = hook.run_of(delivery)
    if run:
        return run
    found = await service.control.store.log.run_of_key(hook.rules.tenant, key)
    if found is None:
        raise NotFound(f"No run was started under the key {key!r:.200}. Nothing was sent.")
    return found[0]


def _headers(incoming: Request) -> dict[str, str]:
    """Return the headers by their names in lower case; those that come more than once with commas between."""
    found: dict[str, str] = {}
    for name, value in incoming.headers.items():
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data) + END, headers={"Cache-Control": "no-store"}, media_type="application/json")
