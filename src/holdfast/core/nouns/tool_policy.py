"""The rules that say of a tool's call whether it is made, asked about or denied: by tool, arguments and tenant, the first that
matches.

Rules are data, part of the workflow, and fail closed: what they cannot compare is asked about or denied, and never let through.
A person may also say beforehand which calls need no question: a standing approval, whose uses are counted.

Never here: a call, a person's answer at a gate, keeping approvals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.core.values import proposal
from holdfast.core.values.actor import folded, is_among, suffices
from holdfast.core.values.policies import EffectPolicy
from holdfast.core.values.proposal import MAX_ACTION, Proposal, RiskLevel

RuleAction: TypeAlias = Literal["allow", "ask", "deny"]
"""The call is made without asking; a person is asked, whatever the tool says of itself; it is not made (class `denied`)."""
RULE_ACTIONS: Final[tuple[RuleAction, ...]] = ("allow", "ask", "deny")
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in", "matches"]
"""`in` a list; `matches` a text with `*` and `?`. Numbers, also in texts, are compared as decimals."""
OPERATORS: Final[tuple[Operator, ...]] = ("==", "!=", "<", "<=", ">", ">=", "in", "matches")
_MISSING: Final = object()
_MAX_S: Final = 10 * 365 * 86_400


def quorum_problems(quorum: object, reviewers: Sequence[str]) -> Iterator[str]:
    """Yield why so many of these reviewers can never approve, in words."""
    if isinstance(quorum, bool) or not isinstance(quorum, int) or quorum < 1:
        yield f"quorum={quorum!r} is no number of persons; give 1 or more"
    elif quorum > 1 and reviewers and not suffices(reviewers, (), quorum):
        yield (
            f"quorum={quorum} can never be met by the reviewers {', '.join(reviewers)}: name {quorum} persons, or write one"
            " that is a role as role:NAME"
        )


class When(msgspec.Struct, frozen=True):
    """A condition on one argument of a call."""

    argument: Annotated[str, Meta(description="Name of the argument, or a path into objects: `order.amount`.")]
    operator: Annotated[Operator, Meta(description="Comparison that must hold; numbers are compared as decimals.")]
    value: Annotated[Any, Meta(description="Value that it is compared with: for `in` a list, for `matches` a pattern.")]

    @property
    def problem(self) -> str | None:
        """Problem of the condition, as text; None if it has none."""
        if self.operator not in OPERATORS:
            return f"{self.operator!r} is no operator; use one of {', '.join(OPERATORS)}"
        wanted = None
        if self.operator == "in" and not isinstance(self.value, list | tuple):
            wanted = "a list"
        elif self.operator == "matches" and not isinstance(self.value, str):
            wanted = "a text"
        elif self.operator in ("<", "<=", ">", ">=") and _number(self.value) is None:
            wanted = "a number"
        return None if wanted is None else f"{self.argument!r} {self.operator} {self.value!r}: give {wanted}"


class ToolRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule for calls of tools, by tool, arguments and tenant. The first rule that matches decides."""

    tool: str
    """Name of the tool, or a pattern like `mail_*`."""
    action: RuleAction
    """Action: `allow` the call, `ask` a person, or `deny` it (class `denied`)."""
    when: tuple[When, ...] = ()
    """Conditions on the arguments, all of which must hold."""
    tenant: str = "*"
    """Tenant for which the rule holds; `*` for all."""
    reason: str = ""
    """Message of a denied call."""
    reviewers: tuple[str, ...] = ()
    """Persons or roles who may decide; by default anyone."""
    four_eyes: bool = False
    """True to bar the person who started the run, and all who contributed to it."""
    expires_after_s: float | None = None
    """Seconds after which the call fails without an answer (class `expired`); by default never."""
    quorum: int = 1
    """Number of different persons who must approve; one is enough to reject."""
    hash_optional: bool = False
    """True to let decisions sent to a server leave out `shown_hash`."""
    risk_level: RiskLevel | None = None
    """Risk of the call, shown in lists of questions."""
    evidence: str | None = None
    """Argument that lists the ids of the evidence, like `case.evidence_ids`."""

    def problems(self) -> Iterator[str]:
        """Yield each problem of the rule, as text."""
        if self.action not in RULE_ACTIONS:
            yield f"action={self.action!r} is none of {', '.join(RULE_ACTIONS)}"
        yield from (problem for each in self.when if (problem := each.problem) is not None)
        for name in ("reviewers", "four_eyes", "expires_after_s", "hash_optional", "risk_level", "evidence"):
            if getattr(self, name) and self.action != "ask":
                yield f"{name}= is for a rule that asks"
        if self.quorum != 1 and self.action != "ask":
            yield "quorum= is for a rule that asks"
        yield from quorum_problems(self.quorum, self.reviewers)
        yield from proposal.problems(risk_level=self.risk_level)
        if self.expires_after_s is not None and not 0 < self.expires_after_s <= _MAX_S:
            yield f"expires_after_s={self.expires_after_s:g} is no time; give seconds, up to ten years"


class ToolTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The declaration of a tool, as a question about a call of it keeps it: a process that answers may not have its code."""

    policy: EffectPolicy
    """Effect policy: what a lost outcome means."""
    undone_by: str | None = None
    """Tool that undoes the call if the run fails or is cancelled."""
    irreversible: bool = False
    """True if the tool declares that nothing can undo it."""
    price_nanousd: int = 0
    """Price of a call by the tool's declaration, in nano-dollars."""


class StandingApproval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person's decision that calls of the tools that `tool` names, whose arguments all of `when` hold for, need not be asked
    about: until `until_ms`, `max_calls` times at most, in runs of one `workflow`, or in one `run`, where that is said. It was
    granted with a key of `maker`."""

    tool: str
    by: str
    granted_at_ms: int
    until_ms: int
    max_calls: int | None = None
    when: tuple[When, ...] = ()
    workflow: str | None = None
    run: str | None = None
    roles: tuple[str, ...] = ()
    reason: str = ""
    used: int = 0
    revoked_by: str | None = None
    maker: str | None = None

    @property
    def left(self) -> int | None:
        """Return the number of calls that it still covers."""
        return None if self.max_calls is None else max(0, self.max_calls - self.used)

    def stands(self, now_ms: int) -> bool:
        """True if it is neither over, nor used up, nor revoked."""
        return self.revoked_by is None and now_ms < self.until_ms and self.left != 0

    def covers(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        workflow: str,
        run: str,
        rule: ToolRule | None,
        requester: str | None,
        contributors: Sequence[str] = (),
    ) -> bool:
        """True if it covers such a call; false if the call cannot be compared, or its grantor could not decide it, by the
        `rule` that asks, of a run that `requester` has asked for and `contributors` have a part in."""
        return (
            fnmatchcase(tool, self.tool)
            and self.workflow in (None, workflow)
            and self.run in (None, run)
            and all(_holds(each, arguments) for each in self.when)
            and (rule is None or self._may_decide(rule, requester, contributors))
        )

    def _may_decide(self, rule: ToolRule, requester: str | None, contributors: Sequence[str]) -> bool:
        if rule.quorum > 1:
            return False
        is_asked = not rule.reviewers or is_among(rule.reviewers, self.by, self.roles)
        return is_asked and (not rule.four_eyes or self._is_another(requester, contributors))

    def _is_another(self, requester: str | None, contributors: Sequence[str]) -> bool:
        """Return True if neither who granted it nor who made their key has a hand in a run."""
        involved = {*map(folded, (requester, *contributors))}
        return folded(requester) != "" and involved.isdisjoint({folded(self.by), folded(self.maker)})


def matching_rule(rules: Sequence[ToolRule], tool: str, arguments: Mapping[str, Any], tenant: str) -> ToolRule | None:
    """The rule that decides about a call; None where the tool's own word counts."""
    return next((rule for rule in rules if _matches(rule, tool, arguments, tenant)), None)


def proposed(tool: str, arguments: Mapping[str, Any], rule: ToolRule | None) -> Proposal:
    """Return what the question about a call proposes: the call, with the risk and the evidence that the rule says."""
    action = tool[:MAX_ACTION]
    if rule is None:
        return Proposal(action)
    found = _at(arguments, rule.evidence.split(".")) if rule.evidence is not None else ()
    fits = next(proposal.problems(evidence_ids=found), None) is None
    return Proposal(action, tuple(found) if fits else (), rule.risk_level)


def _matches(rule: ToolRule, tool: str, arguments: Mapping[str, Any], tenant: str) -> bool:
    if not (fnmatchcase(tool, rule.tool) and fnmatchcase(tenant, rule.tenant)):
        return False
    found = [_holds(each, arguments) for each in rule.when]
    unknown_matches = rule.action != "allow"
    return all(unknown_matches if each is None else each for each in found)


def _holds(when: When, arguments: Mapping[str, Any]) -> bool | None:
    """Return whether the condition holds; None if that cannot be known."""
    given = _at(arguments, when.argument.split("."))
    if given is _MISSING:
        return None
    if when.operator == "matches":
        return fnmatchcase(given, when.value) if isinstance(given, str) else None
    if when.operator == "in":
        return any(_same(given, each) for each in when.value)
    if when.operator in ("==", "!="):
        return _same(given, when.value) == (when.operator == "==")
    one, other = _number(given), _number(when.value)
    if one is None or other is None:
        return None
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[when.operator]


def _at(value: Any, way: Iterable[str]) -> Any:
    for name in way:
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _same(one: Any, other: Any) -> bool:
    numbers = _number(one), _number(other)
    return numbers[0] == numbers[1] if None not in numbers else one == other


def _number(value: Any) -> Decimal | None:
    """A finite number, also one in a text; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
