"""A hook: a signed request that starts a run, sends a signal or decides, as `[hooks.NAME]` in holdfast.toml declares it.

The signature is the identity: a request needs no token, and acts as `hook:NAME` for the declared tenant, no further than its
action. Its bytes are verified before they are parsed. A delivery is acted on once: its id is the start key of the run, or the
key of the signal. Never here: answering (hook_port), what people press in Slack (slack_action).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from holdfast.actions.expressions import Account, Condition, ExpressionError, Names, NotQuick, Template, nearest, to_text
from holdfast.core.values.access import ANY, Access
from holdfast.core.values.actor import HOOK
from holdfast.errors import InvalidInput, MissingSecret, UsageError
from holdfast.notify.signatures import (
    AUTHORIZATION,
    SCHEMES,
    SchemeName,
    Verified,
    WrongSignature,
    keys_of,
    verify,
    verify_secret,
)
from holdfast.platform.machine import salt
from holdfast.service.declarations.command import Signal, Start
from holdfast.service.principal import Principal
from holdfast.service.text import decoded
from holdfast.settings import HookRules, Secrets, as_part

MAX_BYTES: Final = 1024 * 1024
"""Of a body: senders of webhooks stay far below."""
_CONTEXTS: Final = ("body", "headers", "delivery")
_STATUS: Final = frozenset({"success", "failure", "cancelled", "always"})
_EFFORT: Final = 8_000_000
"""Characters that all expressions of a delivery may look at: half a second at the worst."""
_MAX_ID: Final = 128
_MAX_FIELDS: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"
_HIDDEN: Final = frozenset({"authorization", "cookie", "proxy-authorization", *(each.header for each in SCHEMES.values())})
"""Headers that no mapping reads: what they say is for the check alone."""

_Value = Callable[[Mapping[str, Any]], Any]


class Delivery(NamedTuple):
    """A verified request. `id` stays the same if it is sent again."""

    id: str
    headers: Mapping[str, str]
    body: Any


class Hook:
    """A declared hook."""

    def __init__(self, name: str, rules: HookRules, secrets: Secrets) -> None:
        """Raises UsageError for an expression that cannot be, or a secret that is missing."""
        self.name = name
        self.rules = rules
        self._header = rules.header.lower()
        try:
            self._keys = keys_of(rules.scheme, [secrets.get(each) for each in rules.secrets])
            self._only_if = _condition(rules.only_if)
            self._delivery = _value(rules.delivery, "delivery", _CONTEXTS[:2])
            self._run = _value(rules.run, "run")
            self._key = _value(rules.key, "key")
            self._input = _value(rules.input, "input")
            self._data = _value(rules.data, "data")
        except (UsageError, MissingSecret) as problem:
            raise UsageError(f"holdfast.toml: [hooks.{name}]: {as_part(problem.message)}. Nothing was started.") from None

    @property
    def client(self) -> str:
        """Return the name under which it acts."""
        return f"{HOOK}{self.name}"

    def verify(self, headers: Mapping[str, str], body: bytes, now_s: float) -> Verified:
        """Check the signature of a request. Raises WrongSignature."""
        if self.rules.scheme == "secret":
            return verify_secret(self._keys, headers, self._header)
        return verify(self.rules.scheme, self._keys, headers, body, now_s)

    def read(self, verified: Verified, headers: Mapping[str, str], body: bytes) -> Delivery:
        """Return a verified request, parsed. Raises InvalidInput."""
        seen = {name: value for name, value in headers.items() if name not in _HIDDEN and name != self._header}
        value = _parsed(headers.get("content-type", ""), body)
        if self.rules.scheme == "github" and _is_form(headers.get("content-type", "")) and isinstance(value, dict):
            value = _payload(value)
        id_ = verified.id
        if self._delivery is not None:
            id_ = to_text(_evaluated(self._delivery, {"body": value, "headers": seen}))
            if not id_:
                raise InvalidInput(f"The delivery of hook {self.name} has no id where it should have one. Nothing was done.")
        elif id_ is None and self.rules.scheme == "stripe" and isinstance(value, dict) and isinstance(value.get("id"), str):
            id_ = value["id"]
        return Delivery(_short(id_) if id_ else hashlib.sha256(body).hexdigest(), seen, value)

    def wants(self, delivery: Delivery) -> bool:
        """Return True if the hook acts on this delivery. Raises InvalidInput."""
        return self._only_if is None or bool(_evaluated(self._only_if, _contexts(delivery)))

    def start(self, delivery: Delivery) -> Start:
        """Return the start that a delivery means. Raises InvalidInput."""
        rules, value = self.rules, None if self._input is None else _evaluated(self._input, _contexts(delivery))
        return Start(
            workflow=rules.workflow or "", version=rules.version, input=value, tenant=rules.tenant, key=self._once(delivery)
        )

    def signal(self, delivery: Delivery, run: str) -> Signal:
        """Return the signal that a delivery means, to that run. Raises InvalidInput."""
        data = None if self._data is None else _evaluated(self._data, _contexts(delivery))
        return Signal(run=run, name=self.rules.signal or "", data=data, key=self._once(delivery))

    def run_of(self, delivery: Delivery) -> tuple[str, str]:
        """Return the run's id or its start key, of which one is empty. Raises InvalidInput."""
        run, key = ("" if each is None else to_text(_evaluated(each, _contexts(delivery))) for each in (self._run, self._key))
        if not (run or key):
            raise InvalidInput(f"The delivery does not say for which run it is, as hook {self.name} expects. Nothing was done.")
        return run, key

    def principal(self, origin: str, trace_id: str) -> Principal:
        """Return the caller that a delivery is: the hook itself, who may do what its declaration says."""
        rules = self.rules
        access = Access(("operator",), ANY if rules.workflow is None else (rules.workflow,), unoffered=True)
        return Principal(
            self.client, rules.tenant, client=self.client, trace_id=trace_id, access=access, origin=origin, vouches=False
        )

    def _once(self, delivery: Delivery) -> str:
        return f"{self.client}:{delivery.id}"


class NoHook:
    """The check of a request to a hook that does not exist. It takes as long as that of one that does."""

    def __init__(self) -> None:
        self._key = salt() + salt()

    def verify(self, headers: Mapping[str, str], body: bytes, now_s: float) -> None:
        """Raise WrongSignature."""
        names: list[SchemeName] = [*SCHEMES]  # type: ignore[list-item]  # its keys are these names
        for scheme in names:
            with suppress(WrongSignature):
                verify(scheme, (self._key,), headers, body, now_s)
        hmac.compare_digest(self._key, headers.get(AUTHORIZATION, "").encode("utf-8", "replace"))
        raise WrongSignature("no such hook")


def _is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == _FORM


def _payload(form: Mapping[str, Any]) -> Any:
    """Return the JSON that GitHub puts in the one field of a form. Raises InvalidInput."""
    payload = form.get("payload")
    if not isinstance(payload, str):
        raise InvalidInput("The form has no field `payload`, in which GitHub sends its JSON. Nothing was done.")
    return decoded(payload, "payload")


def _parsed(content_type: str, body: bytes) -> Any:
    """Return the body as data: fields of a form, each a text or a list of them, or JSON. Raises InvalidInput."""
    try:
        text = body.decode()
        if not _is_form(content_type):
            return decoded(text, "body")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except UnicodeError:
        raise InvalidInput("The body is not text in UTF-8. Nothing was done.") from None
    except ValueError as problem:
        raise InvalidInput(f"The body cannot be read: {problem}. Nothing was done.") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _contexts(delivery: Delivery) -> dict[str, Any]:
    return {"body": delivery.body, "headers": delivery.headers, "delivery": delivery.id}


def _short(id_: str) -> str:
    """Return an id as it stands in a key: itself, or its hash where it is long or no plain text."""
    is_plain = len(id_) <= _MAX_ID and id_.isascii() and id_.isprintable()
    return id_ if is_plain else hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()


def _evaluated(value: _Value, contexts: Mapping[str, Any]) -> Any:
    try:
        with Account().open(_EFFORT):
            return value(contexts)
    except ExpressionError as problem:
        raise InvalidInput(f"The request does not fit what the hook expects: {problem.message} Nothing was done.") from None
    except NotQuick:
        raise InvalidInput("The request takes too long to be looked at. Nothing was done.") from None


def _condition(text: str | None) -> _Value | None:
    """Return the condition, which says yes or no. Raises UsageError."""
    if text is None:
        return None
    try:
        condition = Condition.parse(text)
    except ExpressionError as problem:
        raise UsageError(f"only_if cannot be read: {problem.message}") from None
    if condition.is_text:
        raise UsageError("only_if has text beside its expression, and would always hold")
    _expect_known(condition.names, "only_if", _CONTEXTS)
    return lambda contexts: condition.evaluate(contexts, {"success": lambda: True})


def _value(declared: Any, place: str, contexts: tuple[str, ...] = _CONTEXTS) -> _Value | None:
    """Return what makes a value of a delivery; None where nothing is declared. Raises UsageError."""
    if declared is None:
        return None
    if isinstance(declared, str):
        try:
            template = Template.parse(declared)
        except ExpressionError as problem:
            raise UsageError(f"{place} cannot be read: {problem.message}") from None
        _expect_known(template.names, place, contexts)
        return template.evaluate
    if isinstance(declared, Mapping):
        parts = {name: _part(each, f"{place}.{name}", contexts) for name, each in declared.items()}
        return lambda known: {name: make(known) for name, make in parts.items()}
    if isinstance(declared, list | tuple):
        items = [_part(each, f"{place}[{at}]", contexts) for at, each in enumerate(declared)]
        return lambda known: [make(known) for make in items]
    if not isinstance(declared, bool | int | float):
        raise UsageError(f"{place} is a {type(declared).__name__}; write it as a text")
    return lambda _: declared


def _part(declared: Any, place: str, contexts: tuple[str, ...]) -> _Value:
    made = _value(declared, place, contexts)
    assert made is not None  # TOML has no null
    return made


def _expect_known(names: Names, place: str, contexts: tuple[str, ...]) -> None:
    """Raise UsageError for an expression that reads or calls what a request does not have."""
    for reading in names.readings:
        if reading.context.lower() not in contexts:
            hint = nearest(reading.context, contexts)
            raise UsageError(f"{place} reads {reading.context!r:.80}, which a request does not have. {hint}".rstrip(" ."))
    if strange := sorted(names.functions & _STATUS):
        raise UsageError(f"{place} calls {strange[0]}(), which is for workflow files")
