"""Notifications: the events that people want to hear of, their messages, and the times of the next tries.

The event is the durable fact. Each message follows from it by rules, with an id that is computed: to work through an event once
more leads to the same messages. Templates only put values in the place of names. What users store (titles of gates, texts
of errors) is in a message only if its rule asks for `details`. Never here: a channel, an address, a clock.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import quote

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import step_of
from holdfast.core.values.money import usd
from holdfast.core.values.policies import REJECTED, ErrorRecord
from holdfast.core.values.scopes import ScopeRow, counts_tokens, in_words, owner_of
from holdfast.core.views.gate_title import title_of
from holdfast.core.views.projection import GateRow
from holdfast.errors import Misfit

Occasion: TypeAlias = Literal[
    "gate_opened",
    "gate_reminder",
    "gate_escalated",
    "gate_expired",
    "run_completed",
    "run_failed",
    "run_cancelled",
    "run_budget_blocked",
    "budget",
    "dead_letter",
    "doubt",
    "worker_lost",
    "schedule_missed",
]
"""Occasions of rules.

- `gate_opened`: A person is asked
- `gate_reminder`: A gate has no answer yet
- `gate_escalated`: The deadline of a gate passed, by default after 96 h
- `gate_expired`: No answer of a gate counts any more
- `run_completed`, `run_failed`, `run_cancelled`: A run ended
- `run_budget_blocked`: A call of a run waits for money or tokens that only a person can allow
- `budget`: 50, 80 or 100 % of a limit is used: a run's, a tenant's or a team's
- `dead_letter`: A step failed for good, and nothing handles that
- `doubt`: The cost or the outcome of a call is unknown
- `worker_lost`: A process died without handing over its work
- `schedule_missed`: A schedule missed times, or could not start its run
"""
OCCASIONS: Final[tuple[Occasion, ...]] = get_args(Occasion)
OF_RUNS: Final = frozenset(OCCASIONS) - {"worker_lost", "schedule_missed"}
ENDS: Final[tuple[Occasion, ...]] = ("run_completed", "run_failed", "run_cancelled")
OF_ALL: Final = "*"
"""Tenant of a rule that is about all of them."""
ON_END: Final = "on_end"
"""The rule of a run whose start named a channel for its end."""
TEST: Final = "test"
DIGEST: Final = "digest"

MAX_RULES: Final = 1_000
"""Of a tenant, and in the settings: each is looked at for each event that is an occasion."""
MAX_TITLE: Final = 200
MAX_BODY_BYTES: Final = 20_000
"""Of one message, as Standard Webhooks asks: receivers may refuse a larger one."""
MAX_RECIPIENTS: Final = 50
MAX_BUNDLED: Final = 100
"""Messages that become one."""
LONGEST_DIGEST_S: Final = 3_600.0
_MAX_NAME: Final = 128
_MAX_TEXT: Final = 300
"""Characters of one fact."""
ASKED: Final = "@asked"
"""Recipient that stands for the reviewers of the gate."""

RETRIES_S: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Before each try, after the one before: 75 hours in all, the times that Standard Webhooks gives."""
_JITTER: Final = 0.1
"""Part of a pause by which it may be longer."""

_NAME: Final = re.compile(r"\{(\w+)\}")
WORDS: Final = (
    "run",
    "workflow",
    "tenant",
    "team",
    "occasion",
    "step",
    "gate",
    "reason",
    "title",
    "time",
    "rule",
    "percent",
    "subject",
)
"""Names that a template may contain. One that an occasion does not have is put in as nothing."""

_TITLES: Final[Mapping[str, str]] = {
    "gate_opened": "{workflow} asks for a decision",
    "gate_reminder": "{workflow} still asks for a decision",
    "gate_escalated": "{workflow}: the deadline of a question passed",
    "gate_expired": "{workflow}: a question expired",
    "run_completed": "{workflow} completed",
    "run_failed": "{workflow} failed",
    "run_cancelled": "{workflow} was cancelled",
    "run_budget_blocked": "{workflow} waits for budget",
    "budget": "{percent} % used: {subject}",
    "dead_letter": "{workflow}: step {step} failed for good",
    "doubt": "{workflow}: the outcome of a call is unknown",
    "worker_lost": "Worker {subject} was lost",
    "schedule_missed": "Schedule {subject} missed a time",
    TEST: "Test of the notification rule {rule}",
}
NEXT_CALL: Final = "next_call"
"""Reason of a limit that is reached by what the next call needs, however little is used."""
_NEXT_CALL_TITLE: Final = "Limit reached: {subject} (the next call needs more than is left)"
_ALL: Final = 100
_LABELS: Final[Mapping[str, str]] = {
    "workflow": "Workflow",
    "subject": "About",
    "percent": "Used, %",
    "limit": "Limit",
    "used": "Used",
    "reason": "Reason",
    "error_class": "Error",
    "title": "Question",
    "error": "Message",
    "step": "Step",
    "reviewers": "Asked",
    "due": "Answer by",
    "team": "Team",
    "tenant": "Tenant",
    "run": "Run",
    "time": "Time",
}
"""Facts that people are shown, in this order."""
DETAILS: Final = frozenset({"title", "error"})
"""Texts of users, which a message has only if its rule says so."""


# --- Rules ------------------------------------------------------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant's wish to be notified of `occasions` by a channel. A filter that is empty lets everything through."""

    tenant: str
    name: str
    occasions: tuple[Occasion, ...]
    channel: str
    to: tuple[str, ...] = ()
    """Recipients in the channel's terms, or names of people in the settings; `@asked` are the reviewers of the gate."""
    workflows: tuple[str, ...] = ()
    """Names of workflows, or patterns like `order*`."""
    labels: Mapping[str, str] = {}
    """Labels that the run has, all of them."""
    teams: tuple[str, ...] = ()
    children: bool = False
    """True to hear of the ends of child runs too."""
    digest_s: float = 10.0
    """Seconds for which messages are gathered, to become one; 0 for a message each."""
    title: str | None = None
    """Template in the place of the occasion's own."""
    details: bool = False
    """True to have titles of gates and texts of errors in it, without secrets."""
    by: str | None = None
    set_at_ms: int = 0
    revision: int = 0

    @property
    def is_declared(self) -> bool:
        """True for a rule of the settings; each rule that was set has a revision."""
        return self.revision == 0


def problems(rule: Rule, channels: Collection[str]) -> Iterator[Misfit]:
    """Yield each problem of a rule, with what to do; `channels` are those that its tenant may use."""
    if not 0 < len(rule.name.encode()) <= _MAX_NAME or rule.name != rule.name.strip() or not rule.name.isprintable():
        yield Misfit(f"a name has 1 to {_MAX_NAME} bytes and no space at its ends", ["name"])
    if rule.name.startswith("!"):
        yield Misfit("a name does not begin with `!`", ["name"])
    if not rule.occasions:
        yield Misfit(f"name at least one occasion of {', '.join(OCCASIONS)}", ["occasions"])
    for unknown in sorted({*map(str, rule.occasions)} - {*OCCASIONS}):
        yield Misfit(f"unknown occasion {unknown!r:.60}; use {', '.join(OCCASIONS)}", ["occasions"])
    if "worker_lost" in rule.occasions and rule.tenant != OF_ALL:
        yield Misfit("worker_lost is about all tenants: set it in a rule of the tenant `*`", ["occasions"])
    if rule.channel not in channels:
        known = ", ".join(sorted(channels)) or "none"
        yield Misfit(f"there is no channel {rule.channel!r:.130} for tenant {rule.tenant!r:.130}; known: {known}", ["channel"])
    if len(rule.to) > MAX_RECIPIENTS:
        yield Misfit(f"name at most {MAX_RECIPIENTS} recipients", ["to"])
    for each in rule.to:
        if not each or not each.isprintable() or len(each) > MAX_TITLE:
            yield Misfit(f"{each!r:.60} is no recipient: one line of 1 to {MAX_TITLE} characters", ["to"])
    if not 0 <= rule.digest_s <= LONGEST_DIGEST_S:
        yield Misfit(f"digest_s is {rule.digest_s}; it is 0 to {LONGEST_DIGEST_S:g} seconds", ["digest_s"])
    if rule.title is not None and (wrong := problem_of_template(rule.title)) is not None:
        yield Misfit(wrong, ["title"])


def problem_of_template(template: str) -> str | None:
    """Return what is wrong with a template."""
    if not 0 < len(template) <= MAX_TITLE or not template.isprintable():
        return f"a template is one line of 1 to {MAX_TITLE} characters"
    if unknown := [name for name in _NAME.findall(template) if name not in WORDS]:
        return f"{{{unknown[0]}}} cannot be used in a template; use {', '.join(WORDS)}"
    if any(mark in _NAME.sub("", template) for mark in "{}"):
        return "braces stand around a name only, like {run}"
    return None


# --- Occasions --------------------------------------------------------------------------------------------------------


class Happening(NamedTuple):
    """Something that rules may be about. `key` tells it from others of its event or, without a run, from all others."""

    occasion: Occasion
    key: str
    tenant: str
    at_ms: int
    values: Mapping[str, Any]
    workflow: str | None = None
    team: str | None = None
    run: str | None = None
    seq: int = 0
    gate: str | None = None
    reviewers: tuple[str, ...] = ()
    question: tuple[str, tuple[str, ...], bool] | None = None
    """Of an open gate: the hash of what it shows, its decisions, and whether an answer has data of its own."""
    is_redacted: bool = False
    """True if its texts are not those that a person was asked about."""


_FACTS: Final[Mapping[type[ev.Event], Occasion]] = {
    ev.GateOpened: "gate_opened",
    ev.GateReminded: "gate_reminder",
    ev.GateEscalated: "gate_escalated",
    ev.GateExpired: "gate_expired",
    ev.RunCompleted: "run_completed",
    ev.RunFailed: "run_failed",
    ev.RunCancelled: "run_cancelled",
    ev.ScopeExceeded: "run_budget_blocked",
    ev.HoldDeferred: "run_budget_blocked",
    ev.LimitNeared: "budget",
    ev.StepFailed: "dead_letter",
    ev.ModelCallInDoubt: "doubt",
    ev.EffectInDoubt: "doubt",
}


def occasion_of(event: ev.Event) -> Occasion | None:
    """Return the occasion that an event is, if any."""
    happening = _FACTS.get(type(event))
    match event:
        case ev.StepFailed() if event.absorbed or event.error.error_class == REJECTED:
            return None
        case ev.ScopeExceeded() | ev.HoldDeferred() if not event.blocked:
            return None
        case _:
            return happening


def happening_of(tenant: str, workflow: str, run: str, recorded: Recorded, team: str | None = None) -> Happening | None:
    """Return what an event of a run means for rules, if anything."""
    event: Any = recorded.event
    occasion = occasion_of(event)
    if occasion is None:
        return None
    values: dict[str, Any] = {}
    if (error := getattr(event, "error", None)) is not None:
        values |= _of_error(error)
    if (step := getattr(event, "step", None) or (step_of(event.call) if hasattr(event, "call") else None)) is not None:
        values["step"] = step
    happening = Happening(occasion, "", tenant, recorded.at_ms, values, workflow, team, run, recorded.seq)
    match event:
        case ev.GateOpened():
            return of_gate(happening, event)
        case ev.GateReminded() | ev.GateEscalated() | ev.GateExpired():
            return happening._replace(gate=event.gate)
        case ev.RunCancelled():
            values["error"] = event.reason
        case ev.LimitNeared():
            values |= {"subject": f"limit {event.limit} of the run", "limit": event.limit, "percent": event.percent}
            values |= {"used": _amount(event.limit, event.used), "most": _amount(event.limit, event.most)}
            if event.percent == _ALL and 0 <= event.used < event.most:  # a call that did not fit reached it
                values |= {"percent": event.used * _ALL // event.most, "reason": NEXT_CALL}
        case ev.ScopeExceeded():
            values |= {"subject": in_words(event.scope), "reason": "scope_exceeded"}
        case ev.HoldDeferred():
            values |= {"subject": "the run", "reason": "budget"}
        case _:
            pass
    return happening


def of_gate(happening: Happening, opened: ev.GateOpened | GateRow, reviewers: tuple[str, ...] | None = None) -> Happening:
    """Return a happening with what is known of its gate, and whom that asks by now."""
    asked = opened.reviewers if reviewers is None else reviewers
    values = {**happening.values, "reason": opened.reason, "reviewers": list(asked)}
    title = title_of(opened) if isinstance(opened, ev.GateOpened) else opened.title
    due = None if opened.due_at_ms is None else stamp(opened.due_at_ms)
    values |= {name: value for name, value in (("title", title), ("step", opened.step), ("due", due)) if value is not None}
    question = None
    if isinstance(opened, ev.GateOpened):  # what it shows may be another by the time of a reminder
        question = (opened.shown_hash, opened.allowed, opened.form is not None)
    return happening._replace(values=values, gate=opened.gate, reviewers=asked, question=question)


def neared(row: ScopeRow, family: str, at_ms: int) -> Happening | None:
    """Return the highest threshold that a tenant's or team's day or month has reached, if any. Reserved amounts do not count.
    `family` is whose limit it is."""
    owner = owner_of(family)
    if owner is None or row.limit is None or row.limit <= 0:
        return None
    used = row.settled + row.in_doubt
    percent = next((each for each in (100, 80, 50) if used * 100 >= each * row.limit), None)
    if percent is None:
        return None
    unit = "tokens" if counts_tokens(family) else "cost"
    values = {
        "subject": in_words(row.scope),
        "percent": percent,
        "limit": f"{unit} of each {owner.period}",
        "used": _amount(unit, used),
        "most": _amount(unit, row.limit),
    }
    return Happening("budget", f"{row.scope}/{percent}/{row.limit}", owner.tenant, at_ms, values, team=owner.team)


def lost_worker(session: str, label: str, at_ms: int) -> Happening:
    """Return that a process was found dead. It is the fleet's, so only rules for all tenants hear of it."""
    return Happening("worker_lost", session, OF_ALL, at_ms, {"subject": label})


def missed_schedule(name: str, tenant: str, workflow: str, missed: int, problem: str | None, at_ms: int) -> Happening:
    """Return that a schedule missed times (`missed` in all), or could not start its run."""
    values = {"subject": name, "reason": "missed" if problem is None else "not_started"}
    if problem is not None:
        values["error"] = problem
    return Happening("schedule_missed", f"{name}/{missed}/{problem or ''}", tenant, at_ms, values, workflow=workflow)


def matches(rule: Rule, happening: Happening, labels: Mapping[str, str], is_child: bool) -> bool:
    """True if a rule wants to hear of something. `labels` are those of its run."""
    if happening.occasion not in rule.occasions or rule.tenant not in (happening.tenant, OF_ALL):
        return False
    if is_child and happening.occasion in ENDS and not rule.children:
        return False
    if rule.workflows and not any(fnmatchcase(happening.workflow or "", each) for each in rule.workflows):
        return False
    if rule.teams and happening.team not in rule.teams:
        return False
    return all(labels.get(key) == value for key, value in rule.labels.items())


def _of_error(error: ErrorRecord) -> dict[str, Any]:
    return {"error_class": error.error_class, "error": error.message}


def _amount(limit: str, amount: int) -> str:
    if limit == "cost":
        return f"${usd(amount)}"
    return f"{amount / 1000:g} s" if limit in ("active", "wall", "lifespan") else str(amount)


# --- Messages ---------------------------------------------------------------------------------------------------------


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The one gate that a message is about, for a channel that can take the decision. A decision names `shown_hash`, which
    says what the person saw."""

    run: str
    gate: str
    shown_hash: str
    allowed: tuple[str, ...]
    needs_form: bool = False
    """True if an answer has data of its own, which a button cannot give."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notification. Each try sends the same one, whatever has happened since.

    All texts are plain: a channel escapes them for its format, and takes line breaks out of what becomes a header.
    """

    id: str
    """Stays the same in each try and each replay. Letters, digits and "_", no dot."""
    at_ms: int
    """Time of what it tells, in Unix milliseconds."""
    tenant: str
    occasion: str
    """Kind of what it tells (`gate_opened`), or `digest` for several in one."""
    title: str
    """One line of at most 200 characters."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names and texts, in the order in which to show them."""
    link: str | None = None
    """Address of the console's page; None if the server does not know its own address."""
    body: bytes = b"{}"
    """The same as JSON, for programs, of at most `MAX_BODY_BYTES`."""
    recipients: tuple[str, ...] = ()
    """Persons or addresses in the channel's own terms (mail addresses, a Slack channel); empty: those of the channel."""
    question: Question | None = None
    """Set if it asks for one decision."""


DeliveryState: TypeAlias = Literal["waiting", "sent", "dead"]
"""State of a delivery.

- `waiting`: It is to be sent, or sent again
- `sent`: The other side has taken it
- `dead`: It was given up: refused, tried too often, or its address is disabled
"""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way to a channel. Those of one `line` are sent in the order of their places; those of one `bundle` that
    are due together become one message, that of the first, and the others are part of it."""

    id: str
    tenant: str
    run: str
    line: str
    place: int
    occasion: str
    rule: str
    channel: str
    address: str
    bundle: str
    created_at_ms: int
    due_at_ms: int
    message: Message
    state: DeliveryState = "waiting"
    part_of: str | None = None
    attempts: int = 0
    ended_at_ms: int | None = None
    problem: str | None = None


def delivery_of(
    rule: Rule, happening: Happening, now_ms: int, base: str | None, recipients: tuple[str, ...], address: str = ""
) -> Delivery:
    """Return the delivery that a rule makes of something, due once others like it can have come. `base` is the address of the
    console, `address` one at which the channel delivers instead of its own."""
    id_ = delivery_id(rule, happening)
    line = f"{happening.run or happening.tenant}/{rule.channel}"
    bundle = f"{happening.tenant}/{rule.name}/{rule.channel}/{' '.join(recipients)}" if rule.digest_s else ""
    return Delivery(
        id=id_,
        tenant=happening.tenant,
        run=happening.run or "",
        line=line,
        place=happening.seq or happening.at_ms,
        occasion=happening.occasion,
        rule=rule.name,
        channel=rule.channel,
        address=address,
        bundle=bundle and digest_of(bundle),
        created_at_ms=now_ms,
        due_at_ms=now_ms + int(rule.digest_s * 1000),
        message=message_of(id_, rule, happening, base, recipients),
    )


def delivery_id(rule: Rule, happening: Happening) -> str:
    """Return the id of the message that a rule makes of something: always the same."""
    said = (rule.tenant, rule.name, rule.channel, happening.tenant, happening.run or "", happening.seq, happening.occasion)
    return f"msg_{digest_of(msgspec.json.encode((*said, happening.key)).decode())}"


def digest_of(text: str) -> str:
    """Return a short name for a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def test_of(rule: Rule, salt: str, at_ms: int) -> Happening:
    """Return something for which a rule's message can be sent to try its channel."""
    return Happening(TEST, salt, rule.tenant, at_ms, {"reason": "test"})  # type: ignore[arg-type]  # no rule is about it


def message_of(id_: str, rule: Rule, happening: Happening, base: str | None, recipients: tuple[str, ...]) -> Message:
    """Return the message about something, as a rule wants it."""
    values = {name: value for name, value in happening.values.items() if rule.details or name not in DETAILS}
    known = {
        **values,
        "run": happening.run,
        "workflow": happening.workflow,
        "tenant": happening.tenant,
        "team": happening.team,
        "occasion": happening.occasion,
        "gate": happening.gate,
        "time": stamp(happening.at_ms),
        "rule": rule.name,
    }
    known = {name: value for name, value in known.items() if value not in (None, "", [])}
    own = (
        _NEXT_CALL_TITLE if happening.occasion == "budget" and known.get("reason") == NEXT_CALL else _TITLES[happening.occasion]
    )
    title = filled(rule.title or own, _with_reason(known))
    facts = tuple((label, _text(known[name])) for name, label in _LABELS.items() if name in known)
    link = None if base is None else _link(base, happening)
    question = None  # without details a button would decide about something unseen
    shows_all = rule.details and not happening.is_redacted
    if shows_all and happening.question is not None and happening.run is not None and happening.gate is not None:
        shown_hash, allowed, needs_form = happening.question
        question = Question(
            run=happening.run, gate=happening.gate, shown_hash=shown_hash, allowed=allowed, needs_form=needs_form
        )
    data = {"id": id_, **known, "title": title, "seq": happening.seq or None, "link": link}
    if happening.question is not None:
        data |= {"shown_hash": happening.question[0], "allowed": list(happening.question[1])}
    return Message(
        id=id_,
        at_ms=happening.at_ms,
        tenant=happening.tenant,
        occasion=happening.occasion,
        title=title,
        facts=facts,
        link=link,
        body=_body(happening.occasion, happening.at_ms, {name: _bounded(value) for name, value in data.items()}),
        recipients=recipients,
        question=question,
    )


def _with_reason(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a template: the reason of a failure is its message, or the class of the error without details."""
    reason = values.get("reason") or values.get("error") or values.get("error_class")
    return values if reason is None else {**values, "reason": reason}


_OPEN_GATES: Final = frozenset({"gate_opened", "gate_reminder", "gate_escalated"})
"""Occasions at which a question waits in the inbox."""


def merged(messages: Sequence[Message], count: int | None = None) -> Message:
    """Return one message in the place of several of one rule, under the id of the first. `count` says of how many, if those
    are not all."""
    if len(messages) == 1:
        return messages[0]
    first, count = messages[0], len(messages) if count is None else count
    title = _line(f"{count} notifications: {first.title}" if _alike(messages) else f"{count} notifications")
    entries = [_entry(each) for each in messages]
    body, shown = b"", len(entries)
    while shown:
        data = {"id": first.id, "title": title, "count": count, "notifications": entries[:shown], "more": count - shown or None}
        if len(body := _body(DIGEST, first.at_ms, data)) <= MAX_BODY_BYTES:
            break
        shown -= 1 + shown // 20
    return Message(
        id=first.id,
        at_ms=first.at_ms,
        tenant=first.tenant,
        occasion=DIGEST,
        title=title,
        facts=tuple((each.title, _in_one_line(each)) for each in messages),
        link=_inbox(first.link) if all(each.occasion in _OPEN_GATES for each in messages) else None,
        body=body,
        recipients=first.recipients,
    )


_OF_ENTRIES: Final = ("run", "workflow", "seq", "gate", "step")
_SHORT_ID: Final = 8


def _entry(message: Message) -> dict[str, Any]:
    """Return what a digest says of one message, for programs."""
    data = msgspec.json.decode(message.body).get("data", {})
    own = {"id": message.id, "title": message.title, "link": message.link, "occasion": message.occasion}
    return {
        name: value for name, value in (*own.items(), *((each, data.get(each)) for each in _OF_ENTRIES)) if value is not None
    }


def _in_one_line(message: Message) -> str:
    """Return what distinguishes one message of a digest from the others, for people. Ids of runs differ at their ends."""
    facts = dict(message.facts)
    words = [facts[name] for name in ("Question", "Message", "Workflow", "About", "Step") if name in facts]
    if run := facts.get("Run"):
        words.append(f"run …{run[-_SHORT_ID:]}")
    return " · ".join([*words, *([message.link] if message.link else [])])


def after_lost(message: Message, lost: int) -> Message:
    """Return a message that says how many earlier ones of its run were not delivered."""
    body = msgspec.json.decode(message.body)
    body["data"]["earlier_lost"] = lost
    facts = (*message.facts, ("Not delivered before", str(lost)))
    return msgspec.structs.replace(message, facts=facts, body=msgspec.json.encode(body))


def next_try_ms(id_: str, attempts: int, now_ms: int, after_s: float | None = None) -> int | None:
    """Return when a message is sent again after `attempts` tries; None if it has had them all. `after_s` is what the other
    side asked for. The jitter of a try is the same in each process."""
    if attempts >= len(RETRIES_S):
        return None
    chance = zlib.crc32(f"{id_}/{attempts}".encode()) / 2**32
    pause_s = RETRIES_S[attempts] * (1 + _JITTER * chance)
    return now_ms + int(1000 * max(pause_s, min(after_s or 0.0, float(RETRIES_S[-1]))))


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with values in the place of names, as one line. Nothing in a value is a name again."""
    return _line(_NAME.sub(lambda happening: _text(values.get(happening[1], "")), template))


def stamp(at_ms: int) -> str:
    """A time as text: `2026-11-23T02:30:00Z`."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _body(occasion: str, at_ms: int, data: Mapping[str, Any]) -> bytes:
    said = {name: value for name, value in data.items() if value is not None}
    return msgspec.json.encode({"type": f"holdfast.{occasion}", "timestamp": stamp(at_ms), "data": said})


def _link(base: str, happening: Happening) -> str | None:
    if happening.gate is not None:
        return f"{base}/inbox/{quote(happening.gate, safe='')}"
    if happening.run is not None:
        return f"{base}/runs/{happening.run}"
    return base


def _inbox(link: str | None) -> str | None:
    return None if link is None else link.rpartition("/")[0]


def _alike(messages: Sequence[Message]) -> bool:
    return len({each.title for each in messages}) == 1


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, _MAX_TEXT)
    return [_bounded(each) for each in value[:MAX_RECIPIENTS]] if isinstance(value, list | tuple) else value


def _text(value: Any) -> str:
    text = ", ".join(map(str, value[:MAX_RECIPIENTS])) if isinstance(value, list | tuple) else str(value)
    return _cut(" ".join(text.split()), _MAX_TEXT)


def _line(text: str) -> str:
    return _cut(" ".join(text.split()), MAX_TITLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
