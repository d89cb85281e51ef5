"""Writes notifications into the outbox: about committed events that a rule names, and about what no event says, like a lost
process.

The event is durable, and each message is known by what it is about: what is looked at twice is written once. A tenant's rule
is held against the settings each time, so that a channel can be withdrawn. Never here: sending.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core.facts.events import RunStarted
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import current_scope, owner_of
from holdfast.core.views import notifications
from holdfast.core.views.notifications import ASKED, ENDS, OF_ALL, ON_END, Delivery, Happening, Rule
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import CorruptHistory, InvalidInput, Misfit, StoreError, UsageError
from holdfast.platform.address import parse_url
from holdfast.platform.redaction import PersonalData
from holdfast.ports import Clock, CommittedEvent, Report, SinkUnavailable, Store

log = logging.getLogger("holdfast")

_MAX_RUNS: Final = 10_000
"""Runs whose start is kept in memory."""
_MAX_RULES: Final = 10_000
"""Of all tenants."""
_PAGE: Final = 500
_MAX_GATES: Final = 1_000
_MAX_SCHEDULES: Final = 10_000
_MAX_BUDGETS: Final = 10_000
_MAX_LOST: Final = 100
_LOST_FOR_MS: Final = 3_600_000
"""Time after its death for which a process is looked at."""
_LOOKOUT_S: Final = 15.0
_NOT_HERE_S: Final = 2.0
"""Pause of a process that does not look now."""
_TIDY_S: Final = 3_600.0
_TIDIED: Final = 1_000
"""Old deliveries that go at a time."""
_SENT_FOR_MS: Final = 7 * 86_400_000
_DEAD_FOR_MS: Final = 30 * 86_400_000
_decode_report: Final = msgspec.json.Decoder(Report).decode


class DeclaredChannel(NamedTuple):
    """A channel of the settings, without its address and its secrets."""

    kind: str
    tenants: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def is_open_to(self, tenant: str) -> bool:
        """True if a tenant's own rules and starts may use it."""
        return any(fnmatchcase(tenant, each) for each in self.tenants)

    def reaches(self, address: str) -> bool:
        """True if others than the operator may name this mail address, or the address of a webhook."""
        host = address.rpartition("@")[2] if self.kind == "mail" else _host_of(address)
        return host is not None and "@" not in host and any(fnmatchcase(host, each) for each in self.hosts)


class Notifications(NamedTuple):
    """The channels and rules of the settings."""

    channels: Mapping[str, DeclaredChannel] = {}
    rules: tuple[Rule, ...] = ()
    people: Mapping[str, Mapping[str, str]] = {}
    """Addresses of persons and roles, by the kind of a channel."""
    console: str | None = None
    """Address of the console, for links."""

    def rule(self, tenant: str, name: str) -> Rule | None:
        """Return a rule of the settings. It stands in the place of one that the tenant has set under the same name."""
        return next((each for each in self.rules if (each.tenant, each.name) == (tenant, name)), None)

    def open_to(self, tenant: str) -> list[str]:
        """Return the channels that a tenant's own rules and starts may use."""
        return sorted(name for name, each in self.channels.items() if each.is_open_to(tenant))

    def at_end(self, tenant: str, on_end: str) -> tuple[str, str]:
        """Return the channel that a start names for the end of its run, and the address if it names one. Raises
        InvalidInput."""
        known = self.open_to(tenant)
        if on_end in known:
            return on_end, ""
        for name in known:
            if self.channels[name].kind == "webhook" and self.channels[name].reaches(on_end):
                return name, on_end
        raise InvalidInput(
            f"The end of a run cannot be sent to {on_end!r:.200}: tenant {tenant!r:.130} may use the channels"
            f" {', '.join(known) or '(none)'}, and addresses at the hosts that these name. Nothing was started.",
            field="on_end",
        )

    def problems(self, rule: Rule) -> Iterator[Misfit]:
        """Yield each problem of a tenant's own rule."""
        yield from notifications.problems(rule, self.open_to(rule.tenant))
        channel = self.channels.get(rule.channel)
        if rule.to and channel is not None and channel.kind != "mail":
            yield Misfit(f"channel {rule.channel!r:.130} has an address of its own, and takes no recipients", ["to"])
        if channel is None or channel.kind != "mail":
            return
        for each in rule.to:
            if each != ASKED and each not in self.people and not channel.reaches(each):
                yield Misfit(f"{each!r:.130} is no person of the settings, and no address that the channel allows", ["to"])

    def recipients(self, rule: Rule, reviewers: Sequence[str]) -> tuple[str, ...]:
        """Return to whom a message goes by mail: `@asked` are the reviewers, and names of people are their addresses. A
        tenant's own rule reaches no other addresses than the channel allows."""
        channel = self.channels[rule.channel]
        if channel.kind != "mail":
            return ()
        found = dict[str, None]()
        for name in [name for each in rule.to for name in (reviewers if each == ASKED else (each,))]:
            address = self.people.get(name, {}).get(channel.kind)
            if address is None and "@" in name and (rule.is_declared or channel.reaches(name)):
                address = name
            if address is not None:
                found[address] = None
        return tuple(found)[: notifications.MAX_RECIPIENTS]


def _host_of(url: str) -> str | None:
    """Return the host of an address that may be posted to; None for anything else."""
    try:
        return parse_url(url).origin[1] if url.startswith("https://") else None
    except UsageError:
        return None


class _Start(NamedTuple):
    """The part of a run's start that matters for rules."""

    team: str | None = None
    is_child: bool = False
    on_end: str | None = None


class Notifier:
    """Keeps ports.Sink: has each event become the messages that rules make of it."""

    name: Final = "notifications"
    begins: Final[Literal["now"]] = "now"
    batch: Final = 500

    def __init__(self, store: Store, declared: Notifications, redact: Callable[[str], str]) -> None:
        """`redact` takes the values of secrets out of a text."""
        self._store = store
        self._declared = declared
        self._redact = redact
        self._personal = PersonalData()
        self._starts: OrderedDict[RunId, _Start] = OrderedDict()

    async def take(self, events: Sequence[CommittedEvent]) -> int:
        """Write what rules make of these. Raises SinkUnavailable."""
        found = list[tuple[CommittedEvent, Happening]]()
        try:
            for each in events:
                event = each.recorded.event
                if isinstance(event, RunStarted):
                    self._keep(each.run, _start_of(event))
                if notifications.occasion_of(event) is not None:
                    start = await self._start(each.run)
                    happening = notifications.happening_of(each.tenant, each.workflow, each.run, each.recorded, start.team)
                    if happening is not None:
                        found.append((each, happening))
            if found:
                rules = await self.rules()
                await self.write([one for each, happening in found for one in await self._of(each.run, happening, rules)])
        except CorruptHistory:
            raise  # of one run: it is left out in the end
        except StoreError as problem:
            raise SinkUnavailable(problem.message) from problem
        return 0

    async def aclose(self) -> None:
        """It writes into the store alone: channels have connections of their own."""

    async def write(self, deliveries: Sequence[Delivery]) -> None:
        """Keep deliveries. Raises StoreError."""
        await self._store.outbox.add(deliveries)

    async def rules(self) -> list[Rule]:
        """Return the rules of the settings, and of tenants those whose channel they may use. Raises StoreError."""
        found, after = [*self._declared.rules], None
        while len(found) < _MAX_RULES:
            page = await self._store.notification_rules.page(None, after, _PAGE)
            found += [
                each
                for each in page
                if self._declared.rule(each.tenant, each.name) is None and not [*self._declared.problems(each)]
            ]
            if len(page) < _PAGE:
                break
            after = (page[-1].tenant, page[-1].name)
        return found

    def deliveries(
        self, happening: Happening, rules: Iterable[Rule], labels: Mapping[str, str] = {}, *, is_child: bool = False
    ) -> list[Delivery]:
        """Return what rules make of something."""
        values = {
            name: self._personal.data(cleaned) if name in notifications.DETAILS else cleaned
            for name, cleaned in ((name, self._clean(value)) for name, value in happening.values.items())
        }
        happening = happening._replace(values=values, is_redacted=values != happening.values)
        now_ms = self._store.clock.now_ms()
        return [
            notifications.delivery_of(
                rule, happening, now_ms, self._declared.console, self._declared.recipients(rule, happening.reviewers)
            )
            for rule in rules
            if notifications.matches(rule, happening, labels, is_child)
        ]

    async def _of(self, run: RunId, happening: Happening, rules: Sequence[Rule]) -> list[Delivery]:
        """Return what follows from an event of a run."""
        start = await self._start(run)
        wanted = [each for each in rules if happening.occasion in each.occasions and each.tenant in (happening.tenant, OF_ALL)]
        if wanted and happening.gate is not None and happening.question is None:
            happening = await self._with_gate(run, happening)
        labels: Mapping[str, str] = {}
        if any(each.labels for each in wanted):
            labels = {key: value for key, value in (await self._store.views.labels([run])).get(run, ()) if key}
        found = self.deliveries(happening, wanted, labels, is_child=start.is_child)
        if start.on_end is not None and happening.occasion in ENDS:
            found += self._at_end(happening, start.on_end)
        return found

    def _at_end(self, happening: Happening, on_end: str) -> list[Delivery]:
        """Return the message to the channel that the start has named; none where that is not allowed any more."""
        try:
            channel, address = self._declared.at_end(happening.tenant, on_end)
        except InvalidInput as problem:
            log.warning("holdfast does not tell the end of run %s: %s", happening.run, problem.message)
            return []
        rule = Rule(tenant=happening.tenant, name=ON_END, occasions=ENDS, channel=channel, digest_s=0, children=True)
        now_ms, to = self._store.clock.now_ms(), (address,) if address else ()
        return [notifications.delivery_of(rule, happening, now_ms, self._declared.console, to, address)]

    async def _with_gate(self, run: RunId, happening: Happening) -> Happening:
        for gate, change in await self._store.views.gates(run=run, open_only=False, limit=_MAX_GATES):
            if gate.gate == happening.gate:
                return notifications.of_gate(happening, gate, None if change is None else change.reviewers)
        return happening

    async def _start(self, run: RunId) -> _Start:
        known = self._starts.get(run)
        if known is None:
            (first,) = await self._store.log.events(run, 0, 1) or (None,)
            event = None if first is None else first.event
            known = _start_of(event) if isinstance(event, RunStarted) else _Start()
        self._keep(run, known)
        return known

    def _keep(self, run: RunId, start: _Start) -> None:
        self._starts[run] = start
        self._starts.move_to_end(run)
        if len(self._starts) > _MAX_RUNS:
            self._starts.popitem(last=False)

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return self._redact(value)
        return [self._clean(each) for each in value] if isinstance(value, list) else value


def _start_of(event: RunStarted) -> _Start:
    return _Start(event.team, event.parent is not None, event.on_end)


class Lookout:
    """Finds what no event says: budgets of tenants and teams that are nearly used, lost processes, missed schedules."""

    def __init__(self, store: Store, clock: Clock, notifier: Notifier, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` returns whether this process is one that looks now."""
        self._store = store
        self._clock = clock
        self._notifier = notifier
        self._is_wanted = is_wanted
        self._tidied_s = -math.inf
        self._loop = BackgroundLoop(
            "holdfast-lookout",
            self._turn,
            clock,
            fault="holdfast can no longer notify of budgets, workers and schedules",
            outage=Outage("holdfast cannot look for what is to be notified, and tries again: %s", 60.0),
        )

    def start(self) -> None:
        self._loop.start()

    async def aclose(self) -> None:
        await self._loop.aclose()

    async def _turn(self) -> float:
        if not self._is_wanted():
            return _NOT_HERE_S
        await self.look()
        if self._clock.monotonic_s() - self._tidied_s >= _TIDY_S:
            now_ms = self._store.clock.now_ms()
            if await self._store.outbox.forget(now_ms - _SENT_FOR_MS, now_ms - _DEAD_FOR_MS, _TIDIED) < _TIDIED:
                self._tidied_s = self._clock.monotonic_s()
        return _LOOKOUT_S

    async def look(self) -> None:
        """Look once, for what rules ask about. Raises StoreError."""
        rules = await self._notifier.rules()
        wanted = {occasion for rule in rules for occasion in rule.occasions}
        found = list[Happening]()
        if "budget" in wanted:
            found += await self._budgets()
        if "worker_lost" in wanted:
            found += await self._workers()
        if "schedule_missed" in wanted:
            found += await self._schedules()
        await self._notifier.write([one for each in found for one in self._notifier.deliveries(each, rules)])

    async def _budgets(self) -> list[Happening]:
        now_ms = self._store.clock.now_ms()
        limits = await self._store.scopes.limits("")
        families = [each for each in limits if owner_of(each) is not None][:_MAX_BUDGETS]
        found = list[Happening | None]()
        for some in (families[first : first + _PAGE] for first in range(0, len(families), _PAGE)):
            rows = await self._store.scopes.balances([current_scope(family, now_ms) for family in some])
            found += [notifications.neared(row, family, now_ms) for family, row in zip(some, rows, strict=True)]
        return [each for each in found if each is not None]

    async def _workers(self) -> list[Happening]:
        lost = await self._store.sessions.lost(self._store.clock.now_ms() - _LOST_FOR_MS, _MAX_LOST)
        reports = [(_decode_report(described), at_ms) for described, at_ms in lost]
        labels = await self._store.sessions.labels([report.worker for report, _ in reports])
        return [
            notifications.lost_worker(report.worker, labels.get(report.worker, report.worker), at_ms)
            for report, at_ms in reports
        ]

    async def _schedules(self) -> list[Happening]:
        found, after, looked = list[Happening](), None, 0
        while looked < _MAX_SCHEDULES:
            page = await self._store.schedules.page(None, after, _PAGE)
            found += [
                notifications.missed_schedule(each.name, each.tenant, each.workflow, each.missed, each.problem, each.checked_ms)
                for each, _ in page
                if each.missed or each.problem is not None
            ]
            if len(page) < _PAGE:
                break
            after, looked = (page[-1].schedule.tenant, page[-1].schedule.name), looked + len(page)
        return found
