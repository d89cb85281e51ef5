"""The common base of all subjects of an engine's control, and the rules for names that callers give.

Never here: a command.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.authoring.values.adapter import Adapter
from holdfast.authoring.values.sensitive import sealed_for
from holdfast.core.facts.events import GateOpened
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.rules.limits import whole_tokens
from holdfast.core.rules.questions import EXHAUSTED
from holdfast.core.values.actor import Actor, folded
from holdfast.core.values.ids import MAX_NAME_BYTES, CallId, StepId, node_of
from holdfast.core.values.money import nanousd
from holdfast.core.values.scopes import in_tokens
from holdfast.core.values.trace import TraceContext
from holdfast.core.views.sealing import Sealing
from holdfast.engine.steps.executor import Executor
from holdfast.errors import InvalidInput, SchemaMismatch
from holdfast.platform.current_span import API, current_context
from holdfast.ports import Store
from holdfast.service.control.declared import type_of_node, type_of_response
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.control.run_reader import RunReader

OF_THE_ENGINE: Final = ("schedule/", "conversation/", "supervisor/")
"""How the start keys begin that schedules, conversations and supervisors give their runs: they take a run under such a key for
their own."""


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final[Any] = _NotGiven()
"""No value was passed, as opposed to None and to the data null."""


class ControlBase(RunReader):
    """One subject of an engine's control: commands, and the questions that may be asked besides."""

    def __init__(self, executor: Executor, trace: TraceContext | None = None, store: Store | None = None) -> None:
        """`trace`: place in a trace of all commands, unless a claim has its own; `store`: what is read here, if that is less
        than the engine's own."""
        self.runtime = executor.services.runtime
        super().__init__(store if store is not None else self.runtime.store, self.runtime.loop, self.runtime.read_models)
        self.executor = executor
        self.payloads = executor.services.payloads
        self.trace_context = trace

    async def graph_of(self, graph_hash: str) -> Graph:
        """Return a graph.

        Args:
            graph_hash: Hash of the graph.

        Raises:
            NotFound: The graph does not exist.
        """
        return await self.runtime.catalog.graph_of(graph_hash)

    async def _set_limits(self, limits: Mapping[str, int | None]) -> None:
        for family, amount in limits.items():
            await self.store.scopes.set_limit(family, amount)

    def _claim(self, by: str | Actor | None) -> Actor:
        """Return the actor as given, without the values of secrets; a name of blanks is none."""
        claim = by if isinstance(by, Actor) else Actor(by)
        name = self._clean(claim.name)
        name = name and word("name of who acts", name, "by")
        name = name if name and name.strip() else None
        roles = tuple(self.payloads.redact(role) for role in claim.roles)
        claim = claim._replace(name=name, roles=roles)
        if claim.trace_id is not None:
            return claim
        here = self.trace_context or (current_context() if API in sys.modules else None)
        return claim if here is None else claim._replace(trace_id=here.trace_id, traceparent=here.traceparent)

    def sensitive(self, tenant: str = DEFAULT_TENANT) -> AbstractContextManager[None]:
        """Let Pydantic seal and open Sensitive fields of a tenant, inside a block:
        `with engine.sensitive(tenant): Model.model_validate(output)`.

        Args:
            tenant: Tenant whose key is used.
        """
        return sealed_for(tenant, self.payloads.sealing)

    def _sealed_as(self, declared: Adapter | None, value: Any, tenant: str) -> Any:
        """Return what a person gives in the place of code, as the code would have written it. This is the one way into a
        history for a value with a declared type (None if it is unknown here). Raises InvalidInput for what does not fit, and if
        a text could be that of a sensitive field that is unknown here."""
        with self.sensitive(tenant):
            plain = self.payloads.plain(value)
            if declared is None:
                _expect_no_text(plain, self.payloads.sealing)
                return plain
            try:
                return declared.sealed(plain)
            except (SchemaMismatch, InvalidInput) as problem:
                raise InvalidInput(f"Give data as the code returns it: {problem.message} Nothing was done.") from None

    async def _answer_of(self, state: State, gate: GateOpened) -> Adapter | None:
        """Return the type of what an answer stands in the place of: a step's output, or a tool's response."""
        catalog, subject = self.runtime.catalog, gate.subject or ""
        if gate.reason == EXHAUSTED:
            return type_of_node(catalog, state.graph_hash, node_of(StepId(subject)), state.maps)
        call = state.calls.get(CallId(subject))
        tool = (await self.payloads.value(gate.shown, state.tenant))["tool"] if call is None else call.name
        return type_of_response(catalog, state.graph_hash, tool)

    def _clean(self, text: str | None) -> str | None:
        """Return a person's text, without the values of secrets."""
        return None if text is None else self.payloads.redact(text)


def _expect_no_text(plain: Any, sealing: Sealing) -> None:
    """Raise InvalidInput for data that could hold the text of a sensitive field, where texts are sealed."""
    if sealing.has_keys and b'"' in msgspec.json.encode(plain):
        raise InvalidInput(
            "This process has not the code in the place of which this stands, or the code does not declare what it returns: it"
            " is unknown which of its texts are sensitive, and they would be stored as they are. Nothing was done: give it to a"
            " process that has loaded the workflow."
        )


def limits_of(family: str, limit_usd: float | str | Decimal | None, max_tokens: int | None) -> Mapping[str, int | None]:
    """The limits that are given, for the scopes of a family and for those that count its tokens. Raises InvalidInput."""
    found: dict[str, int | None] = {}
    try:
        if limit_usd is not NOT_GIVEN:
            found[family] = None if limit_usd is None else nanousd(limit_usd)
        if max_tokens is not NOT_GIVEN:
            found[in_tokens(family)] = None if max_tokens is None else whole_tokens(max_tokens)
    except ValueError as problem:
        raise InvalidInput(f"The limit cannot be used: {problem}. Nothing was changed.") from None
    if not found:
        raise InvalidInput("Say what the limit is: limit_usd, max_tokens or both. Nothing was changed.")
    return found


def start_key(text: str) -> str:
    """Return the start key that a caller gives. Raises InvalidInput for what is no name, or could be the engine's own."""
    key = word("key", text)
    if folded(key).startswith(OF_THE_ENGINE):
        raise InvalidInput(
            f"A key that begins with {key.partition('/')[0]!r:.40} and a slash is one of the engine's own. Nothing was started:"
            " choose another key."
        )
    return key


def word(name: str, text: str, field: str = "") -> str:
    """`text`, which must be one that can be stored: what others would look for must be what was meant. `field` is the argument
    that gives it: by default that of this name, or `name` for the name of something."""
    problem = _problem_of_word(text)
    if problem is not None:
        words = f"The {name} {text[:20]!r}… {problem}" if len(text) > MAX_NAME_BYTES else f"The {name} {text!r} {problem}"
        raise InvalidInput(f"{words} Nothing was done.", field=field or (name if name.isidentifier() else "name"))
    return text


def _problem_of_word(text: str) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text."
    if "\0" in text:
        return "holds the character NUL, which no store keeps in a name."
    if size > MAX_NAME_BYTES:
        return f"has {size} bytes; a name has {MAX_NAME_BYTES} at most."
    if _UNPRINTED.search(text):
        return "holds a control character or a line break."
    return None


_UNPRINTED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line breaks: the Unicode categories Cc, Zl and Zp."""


def named_budget(name: str | None) -> str | None:
    """Return the name of a team budget, if one is given. Raises InvalidInput for what is none."""
    return None if name is None else word("team budget's name", name, "team_budget")
