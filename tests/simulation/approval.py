"""Standing approvals among the faults: people who grant them and take them back; and who judges each call that needs a word, be it
a person's at a gate or one that was said beforehand.

Never here: how a call finds the approval that covers it; the judge has what was granted, and counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.compose import Engine
from holdfast.core.facts import events as ev
from holdfast.core.nouns.tool_policy import RuleAction, ToolRule, When
from holdfast.core.values.payload import digest
from holdfast.core.views.projection import SharedChange
from holdfast.errors import NotFound
from tests.simulation.books import Books, Call
from tests.simulation.chance import spread_s
from tests.simulation.toolbox import APPROVED

SPACE: Final = "!approvals"
SEEN: Final = (
    "a call approved beforehand",
    "the last use of an approval",
    "a call asked about for all an approval",
    "an approval revoked",
    "answers given together",
    "answers refused together",
)
_RULED: Final = 0.5
"""How many programs have rules about tools."""
_ITEMS: Final = ("item0", "item1", "item2", "item3")
_DAY_S: Final = 86_400.0

Ask = Callable[[Callable[[Engine], Awaitable[Any]]], Awaitable[Any]]


class Rule(NamedTuple):
    """What a workflow says of the calls of a tool with one of these items."""

    tool: str
    items: tuple[str, ...]
    action: RuleAction
    reviewers: tuple[str, ...] = ()
    four_eyes: bool = False

    @property
    def told(self) -> ToolRule:
        when = (When("item", "in", list(self.items)),)
        return ToolRule(self.tool, self.action, when, reviewers=self.reviewers, four_eyes=self.four_eyes)


def draw_rules(stream: Random) -> tuple[Rule, ...]:
    """The rules of a program, the first of which counts that is about a call."""
    if stream.random() >= _RULED:
        return ()
    return tuple(_draw_rule(stream) for _ in range(stream.choice((1, 2, 3))))


def _draw_rule(stream: Random) -> Rule:
    tool, items = (stream.choice(("pay", "sign", "sign", "mail", "put")), tuple(stream.sample(_ITEMS, stream.randint(1, 3))))
    action: RuleAction = stream.choice(("ask", "ask", "ask", "ask", "allow", "deny"))
    if action != "ask":
        return Rule(tool, items[:1], action)
    return Rule(tool, items, action, stream.choice(((), ("lead",), ("lead", "ann"))), stream.random() < 0.3)


class _Grant(msgspec.Struct):
    """An approval as it stands in the store, `value` its words."""

    value: dict[str, Any]
    tenant: str
    version: int = 1

    @property
    def is_used_up(self) -> bool:
        return self.value.get("max_calls") is not None and self.value.get("used", 0) >= self.value["max_calls"]

    @property
    def is_revoked(self) -> bool:
        return self.value.get("revoked_by") is not None

    def is_about(self, books: Books, run: str, tool: str, item: str) -> bool:
        value, pattern = self.value, self.value["tool"]
        is_named = tool.startswith(pattern[:-1]) if pattern.endswith("*") else tool == pattern
        items = [each["value"] for each in value.get("when", ())]
        return (
            is_named
            and books.tenant == self.tenant
            and all(item in each for each in items)
            and value.get("workflow") in (None, books.graph.definition.name)
            and value.get("run") in (None, run)
        )

    def is_of_who_may(self, rule: Rule | None, requester: str | None) -> bool:
        if rule is None or rule.action != "ask":
            return True
        is_asked = not rule.reviewers or {self.value["by"], *self.value.get("roles", ())} & {*rule.reviewers}
        return bool(is_asked) and not (rule.four_eyes and requester in (None, self.value["by"]))


class Approvals:
    """The approvals of a program, and their books."""

    def __init__(
        self,
        stream: Random,
        tenant: str,
        workflow: str,
        rules: tuple[Rule, ...],
        runs: Mapping[str, Books],
        fault: Callable[[str, str, str], None],
    ) -> None:
        self._stream = stream
        self._tenant = tenant
        self._workflow = workflow
        self._rules = rules
        self._books = runs
        self._fault = fault
        self._terms: list[dict[str, Any]] = []
        """What somebody wanted to grant."""
        self._grants: dict[str, _Grant] = {}
        self._words: Counter[tuple[str, str, str]] = Counter()
        """How often people have said at a gate that a call of these arguments may be made, by run."""
        self._uses: dict[tuple[str, str], list[str]] = {}
        """By which approvals calls were let through, by run and digest of the call."""
        self._made: dict[tuple[str, str, str], set[str]] = {}
        """The effects that were intended of what needs a word, and have not failed, by run and call."""
        self.together: dict[str, frozenset[str]] = {}
        """The gates that somebody has decided together, by the name under which he did it once."""
        self.seen: Counter[str] = Counter()

    # --- Who grants them ----------------------------------------------------------------------------------------------

    async def live(self, ask: Ask, run: str) -> None:
        """Several people say beforehand what they would be asked, and some think better of it."""
        await asyncio.gather(*(self._grant(ask, run) for _ in range(self._stream.choice((1, 2, 4)))))

    async def _grant(self, ask: Ask, run: str) -> None:
        stream = self._stream
        await asyncio.sleep(spread_s(stream, 0.001, 30.0))
        items = stream.choice((None, None, _ITEMS[:1], _ITEMS[:2]))
        how: dict[str, Any] = {
            "by": stream.choice(("ada", "ann", "eve")),
            "max_calls": stream.choice((None, 1, 1, 2)),
            "workflow": stream.choice((None, None, None, self._workflow, "another")),
            "run_id": stream.choice((None, None, None, run)),
            "roles": stream.choice(((), ("lead",))),
            "for_s": stream.choice((5.0, 300.0, 5 * _DAY_S)),
        }
        tool = stream.choice(("pay", "sign", "s*", "*"))
        when = [] if items is None else [When("item", "in", list(items))]
        self._terms.append({"tool": tool, "items": items, **how})
        id_ = await ask(partial(Engine.grant_approval, tool=tool, when=when, tenant=self._tenant, **how))
        owner = self._tenant if how["run_id"] is None else self._books[run].tenant
        if stream.random() < 0.4:
            await asyncio.sleep(spread_s(stream, 0.1, 2_000.0))
            try:
                await ask(partial(Engine.revoke_approval, id_=id_, by="eve", tenant=owner))
            except NotFound:
                self._fault("an approval that was granted is there", run, id_)

    # --- Who judges them ----------------------------------------------------------------------------------------------

    def rule(self, books: Books, tool: str, item: Any) -> Rule | None:
        """What the workflow of a run says of a call."""
        rules = self._rules if books.graph.definition.name == self._workflow else ()
        return next((rule for rule in rules if rule.tool == tool and item in rule.items), None)

    def needs_word(self, books: Books, tool: str, item: Any) -> bool:
        """Whether nobody may make such a call unasked. What cannot be undone no rule lets through."""
        rule = self.rule(books, tool, item)
        if rule is not None and tool != "pay":
            return rule.action == "ask"
        return item in APPROVED.get(tool, ())

    def changed(self, change: SharedChange) -> None:
        """Somebody has granted one, or revoked it."""
        if change.space != SPACE:
            return
        value, known = msgspec.json.decode(change.body)["value"], self._grants.get(change.key)
        if known is None:
            if not any(_is_as_said(value, terms) for terms in self._terms):
                self._fault("an approval is what somebody said", "?", f"{value}")
            self._grants[change.key] = _Grant(value, change.tenant)
        else:
            if value != {**known.value, "revoked_by": "eve"} or change.base != known.version:
                self._fault("an approval is only used and revoked", "?", f"{value}, was {known}")
            self.seen["an approval revoked"] += 1
            self._grants[change.key] = _Grant(value, change.tenant, known.version + 1)

    def used(self, books: Books, run: str, event: ev.SharedValueWritten) -> None:
        """A call is counted that an approval lets through."""
        grant, value = self._grants.get(event.key), event.outcome.value()["value"]
        if grant is None or grant.tenant != books.tenant:
            self._fault("nothing is let through by what nobody has granted", run, f"{event}")
            return
        if grant.is_revoked:
            self._fault("an approval that was revoked lets nothing through", run, f"{event} of {grant}")
        if grant.is_used_up:
            self._fault("an approval stands for no more calls than was said", run, f"{event} of {grant}")
        if books.at_ms >= value["until_ms"]:
            self._fault("an approval ends when was said", run, f"at {books.at_ms}: {grant}")
        if value != {**grant.value, "used": grant.value.get("used", 0) + 1} or event.base != grant.version:
            self._fault("each use of an approval counts once", run, f"{event} of {grant}")
        grant.value, grant.version = value, grant.version + 1
        self._uses.setdefault((run, event.args_hash), []).append(event.key)
        self.seen["a call approved beforehand"] += 1
        self.seen["the last use of an approval"] += grant.is_used_up

    def approved(self, run: str, tool: str, arguments: Any) -> None:
        """Somebody has said at a gate that a call may be made."""
        self._words[run, tool, digest(arguments)] += 1

    def asked(self, books: Books, run: str, gate: ev.GateOpened) -> None:
        """A call is asked about."""
        call = gate.shown.value()
        item = call["arguments"].get("item")
        self.seen["a call asked about for all an approval"] += any(
            each.is_about(books, run, call["tool"], item) for each in self._grants.values()
        )

    def intended(self, books: Books, run: str, event: ev.EffectIntended) -> None:
        """A call is about to be made: a rule may deny it; else each needs a word of its own, of somebody who may say it."""
        if event.compensates is not None:
            return
        arguments = event.request.value()
        item = arguments.get("item")
        rule = self.rule(books, event.tool, item)
        if rule is not None and rule.action == "deny":
            self._fault("what a rule denies is not called", run, f"{event.call}: {rule}")
        if not self.needs_word(books, event.tool, item):
            return
        call = (run, event.tool, digest(arguments))
        made = self._made.setdefault(call, set())
        made.add(event.key)
        uses = self._uses.get((run, digest(["standing", event.tool, arguments])), [])
        if len(made) > self._words[call] + len(uses):
            self._fault("each call that needs a word has one of its own", run, f"{event.call}, {len(made)} of {uses}")
        for grant in (self._grants[key] for key in uses):
            if not (grant.is_about(books, run, event.tool, item) and grant.is_of_who_may(rule, books.requester)):
                self._fault("an approval is for the calls that it covers", run, f"{event.call} by {grant}")

    def came_to_nothing(self, run: str, call: Call) -> None:
        """A call has certainly not been made: its word is there for another try, be it under another key."""
        self._made.get((run, call.tool, digest(call.request)), set()).discard(call.key)

    def is_approved(self, run: str, tool: str, arguments: Any) -> bool:
        """Whether somebody has said, at a gate or beforehand, that exactly this call may be made."""
        uses = self._uses.get((run, digest(["standing", tool, arguments])))
        return bool(uses) or self.is_said(run, tool, arguments)

    def is_said(self, run: str, tool: str, arguments: Any) -> bool:
        """Whether somebody has said so at a gate."""
        return self._words[run, tool, digest(arguments)] > 0

    def decided(self, run: str, gates: Mapping[str, set[str]]) -> None:
        """What a commit decides, by whom."""
        for by, decided in gates.items():
            if by in self.together and decided != self.together[by]:
                told = f"{sorted(decided)} of {sorted(self.together[by])}"
                self._fault("answers that are given together are taken together, or none is", run, told)


def _is_as_said(value: Mapping[str, Any], terms: Mapping[str, Any]) -> bool:
    items = [tuple(each["value"]) for each in value.get("when", ())]
    return (
        items == ([] if terms["items"] is None else [terms["items"]])
        and value["until_ms"] - value["granted_at_ms"] == int(terms["for_s"] * 1000)
        and all(value.get(name) == terms[name] for name in ("tool", "by", "max_calls", "workflow"))
        and value.get("run") == terms["run_id"]
        and tuple(value.get("roles", ())) == terms["roles"]
        and value.get("used", 0) == 0
    )
