"""Buttons that people press in Slack: a signed request with a person, a gate, and the hash of what the message showed.

The person is the one that the hook declares for the ids of team and user; Slack's signature vouches for these, and the decision
is recorded as claimed by the hook. Reviewers and four eyes hold as for anyone. What Slack shows then goes to the address that
came with the request, after the answer: Slack waits for three seconds. Never here: a signature (hook), how a button looks
(notify.slack).
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Response
from starlette.background import BackgroundTask

from holdfast.core.values.access import Access
from holdfast.errors import AlreadyDecided, HoldfastError, InvalidInput, StoreError, UsageError
from holdfast.http.hook import Delivery, Hook
from holdfast.http.problem import neutral
from holdfast.notify.posting import Address
from holdfast.notify.slack import ACTION, BUTTONS, ButtonValue, escaped, plain
from holdfast.ports.channel import MAX_BODY_BYTES, Sent
from holdfast.service.declarations.command import Decide
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.service.text import decoded
from holdfast.settings import HookPerson

log = logging.getLogger("holdfast")

_DECIDING_S: Final = 2.0
"""Time for a decision. Slack waits for three seconds, and then tells the person that it failed."""


class _User(msgspec.Struct, frozen=True):
    id: str
    team_id: str = ""


class _Team(msgspec.Struct, frozen=True):
    id: str = ""


class _Action(msgspec.Struct, frozen=True):
    action_id: str = ""
    value: str = ""


class _Payload(msgspec.Struct, frozen=True):
    """The parts of Slack's payload that are read."""

    type: str
    user: _User
    team: _Team | None = None
    actions: tuple[_Action, ...] = ()
    response_url: str = ""
    message: dict[str, Any] | None = None

    @property
    def person(self) -> str:
        """Return the ids of team and user, as a hook declares people."""
        team = self.team.id if self.team is not None and self.team.id else self.user.team_id
        return f"{team}/{self.user.id}"


def challenge(body: Any) -> str | None:
    """Return the word by which Slack knows a new address; None for any other request."""
    if isinstance(body, dict) and body.get("type") == "url_verification" and isinstance(body.get("challenge"), str):
        return str(body["challenge"])[:1_000]
    return None


async def decided(service: Service, hook: Hook, delivery: Delivery, origin: str, trace_id: str) -> Response:
    """Take the decision of a person who has pressed a button. Raises InvalidInput for what Slack does not send."""
    payload = _payload(delivery.body)
    action = next((each for each in payload.actions if each.action_id.startswith(ACTION)), None)
    if payload.type != "block_actions" or action is None:
        return Response(status_code=HTTPStatus.OK)
    person = hook.rules.people.get(payload.person)
    if person is None:
        await service.failed_log_ins.note(
            origin, f"a decision in Slack by {payload.person!r:.100}, whom {hook.client} does not know"
        )
        message = _only_for_them(
            f"Nothing was decided: Holdfast does not know you here ({payload.person}). Its operator can add you to"
            f" [hooks.{hook.name}.people]."
        )
    else:
        message = await _decided(service, hook, payload, action, _principal(hook, person, origin, trace_id))
    return Response(status_code=HTTPStatus.OK, background=BackgroundTask(_show, hook, payload.response_url, message))


async def _decided(service: Service, hook: Hook, payload: _Payload, action: _Action, principal: Principal) -> dict[str, Any]:
    """Decide, and return what Slack is to show."""
    decision, button = action.action_id.removeprefix(ACTION), _button(action)
    try:
        async with asyncio.timeout(_DECIDING_S):
            await service.execute(principal, Decide(button.gate, decision, shown_hash=button.shown_hash))
    except TimeoutError:
        return _only_for_them("It is not known yet whether this was decided. Look in Holdfast, or press the button again.")
    except StoreError as problem:
        log.warning("holdfast's store kept it from deciding, trace %s: %s", principal.trace_id, problem.message)
        return _only_for_them("This could not be decided just now. Press the button again.")
    except AlreadyDecided as first:
        return _only_for_them(neutral(first.message))
    except HoldfastError as refused:
        return _only_for_them(f"Nothing was decided. {neutral(refused.message)}")
    return _instead(payload, f"{BUTTONS[decision][0] if decision in BUTTONS else decision}: {principal.name}")


def _principal(hook: Hook, person: HookPerson, origin: str, trace_id: str) -> Principal:
    return Principal(
        person.name,
        hook.rules.tenant,
        person.roles,
        client=hook.client,
        trace_id=trace_id,
        teams=person.teams,
        access=Access(("reviewer",)),
        origin=origin,
        vouches=False,
    )


def _payload(body: Any) -> _Payload:
    text = body.get("payload") if isinstance(body, dict) else None
    if not isinstance(text, str):
        raise InvalidInput("The body has no field payload, in which Slack says what was pressed. Nothing was done.")
    try:
        return msgspec.convert(decoded(text, "payload"), _Payload)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"Invalid payload: {problem}. Nothing was done.") from None


def _button(action: _Action) -> ButtonValue:
    try:
        return msgspec.json.decode(action.value, type=ButtonValue)
    except msgspec.DecodeError as problem:
        raise InvalidInput(f"The button has no value of ours: {problem}. Nothing was done.") from None


def _only_for_them(text: str) -> dict[str, Any]:
    """Return a message that only the person sees who pressed the button."""
    return {"response_type": "ephemeral", "replace_original": False, "text": escaped(text), "mrkdwn": False}


def _instead(payload: _Payload, outcome: str) -> dict[str, Any]:
    """Return the message with the outcome in the place of its buttons."""
    before = payload.message or {}
    blocks = [each for each in before.get("blocks", []) if isinstance(each, dict) and each.get("type") != "actions"]
    shown = {"type": "context", "elements": [plain(outcome)]}
    said = {"replace_original": True, "text": escaped(outcome), "mrkdwn": False}
    made = {**said, "blocks": [*blocks, shown]}
    return made if len(msgspec.json.encode(made)) <= MAX_BODY_BYTES else said


async def _show(hook: Hook, url: str, message: dict[str, Any]) -> None:
    """Have Slack show what became of it, once: where that fails, the button tells it when it is pressed again."""
    try:
        result = await Address(url, allow_private=hook.rules.allow_private).post(msgspec.json.encode(message), {})
    except UsageError as problem:
        log.warning("%s has no address to which to answer: %s.", hook.client, problem.message)
        return
    if not isinstance(result, Sent):
        log.warning("%s could not show in Slack what became of a decision: %s", hook.client, result.text)
