"""What really happened: counted from the journals of the other side, and from Holdfast's own books beside them.

The model server and the mail sink wrote down every request before they answered it, in processes that were never
killed; nothing here asks Holdfast what they saw. Never here: anything that changes anything.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

from examples.journals import JUST_AFTER_S, JUST_BEFORE_S, ModelJournal, cost_nanousd
from examples.show import Figures, Promise, Verdict
from examples.support_triage.workflow import HERE
from holdfast import Engine, settings
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import CallId, StepId
from holdfast.models.prices import DeclaredPrice, Prices
from holdfast.testing.mail_sink import MailRecord, arrived, duplicates, read_mail
from holdfast.testing.model_server import CallRecord

STORE, MODELS, MAIL, KILLS = "holdfast.db", "models.jsonl", "mail.jsonl", "kills.json"
"""What lies in the demo's directory. Real models leave no journal there."""

Ticket = Mapping[str, str]
Bill = Callable[[CallRecord], int]
"""What a call costs by the usage that was reported, in nano-dollars."""


# --- The other side ---------------------------------------------------------------------------------------------------


class MailJournal:
    """The mail sink's journal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = -1
        self._records: list[MailRecord] = []

    def records(self) -> list[MailRecord]:
        size = self._path.stat().st_size
        if size != self._size:
            self._size = size
            self._records = read_mail(self._path)
        return self._records

    def taken_within(self, seconds: float, at_unix_s: float) -> list[MailRecord]:
        """What arrived that short a time before."""
        return [mail for mail in self.records() if mail.at_unix_s <= at_unix_s < mail.at_unix_s + seconds]

    def by_key(self, key: str) -> MailRecord | None:
        return next((mail for mail in arrived(self.records()) if mail.key == key), None)


# --- Holdfast's books -------------------------------------------------------------------------------------------------


@dataclass
class Books:
    """One run, as its own history tells it. Money in nano-dollars."""

    ticket: Ticket
    ended: str = ""
    limit: int = 0
    steps: int = 0
    attempts: int = 0
    attempts_lost: int = 0
    calls_settled: int = 0
    calls_in_doubt: int = 0
    calls_repeated: int = 0
    replayed: int = 0
    settled: int = 0
    held: int = 0
    in_doubt: int = 0
    over_limit: bool = False
    blocked: int = 0
    emails_reported: int = 0
    emails_vouched_for: int = 0
    emails_repeated: int = 0
    email_keys: set[str] = field(default_factory=set)
    approved_body: str = ""

    @property
    def committed(self) -> int:
        return self.settled + self.held + self.in_doubt


class _Reader:
    """Reads one history from the beginning."""

    def __init__(self, ticket: Ticket) -> None:
        self.books = Books(ticket)
        self._holds: dict[CallId, int] = {}
        self._emails: set[CallId] = set()
        self._answered: Counter[StepId] = Counter()

    def read(self, event: ev.Event) -> None:
        self._run(event)
        self._model(event)
        self._email(event)
        self.books.over_limit |= self.books.committed > self.books.limit

    def _run(self, event: ev.Event) -> None:
        books = self.books
        match event:
            case ev.RunStarted():
                books.limit = event.limit_nanousd or 0
            case ev.LimitRaised(limit="cost"):
                books.limit = int(event.value)
            case ev.GateOpened(reason="budget"):
                books.blocked += 1
            case ev.GateDecided(gate=gate, decision="approve" | "edit") if ":approval#" in gate:
                books.approved_body = event.data.value()["edited_body"]
            case ev.StepStarted():
                books.attempts += 1
                books.replayed += self._answered[event.step]
            case ev.AttemptLost():
                books.attempts_lost += 1
            case ev.StepCompleted():
                books.steps += 1
            case ev.RunCompleted() | ev.RunFailed() | ev.RunCancelled():
                books.ended = type(event).__name__.removeprefix("Run").lower()
            case _:
                pass

    def _model(self, event: ev.Event) -> None:
        books = self.books
        match event:
            case ev.ModelCallHeld():
                self._holds[event.call] = event.hold_nanousd
                books.held += event.hold_nanousd
                books.calls_repeated += not event.call.endswith(":1")
            case ev.ModelCallSettled():
                books.held -= self._holds[event.call]
                books.settled += event.cost_nanousd
                books.calls_settled += 1
                self._answered[StepId(event.call.split(":")[1])] += 1
            case ev.ModelCallFailed():
                books.held -= self._holds[event.call]
            case ev.ModelCallInDoubt():
                books.held -= self._holds[event.call]
                books.in_doubt += self._holds[event.call]
                books.calls_in_doubt += 1
            case ev.ModelCallReconciled():
                books.in_doubt -= self._holds[event.call]
                books.settled += event.cost_nanousd
            case _:
                pass

    def _email(self, event: ev.Event) -> None:
        books = self.books
        match event:
            case ev.EffectIntended(tool="send_email"):
                self._emails.add(event.call)
                books.email_keys.add(event.key)
            case ev.EffectCompleted() if event.call in self._emails:
                books.emails_reported += event.by is None
                books.emails_vouched_for += event.by is not None
            case ev.EffectReopened() if event.call in self._emails:
                books.emails_repeated += 1
            case _:
                pass


def read_books(ticket: Ticket, history: Iterable[Recorded]) -> Books:
    reader = _Reader(ticket)
    for recorded in history:
        reader.read(recorded.event)
    return reader.books


# --- The verdict ------------------------------------------------------------------------------------------------------


async def account(directory: Path, tickets: Sequence[Ticket]) -> Verdict:
    """The verdict on a demo that has ended, from nothing but what lies in its directory."""
    async with Engine.open(directory / STORE, execute=False, settings=settings.load(HERE)) as engine:
        runs = {row.key: row.run for row in await engine.runs()}
        books = [read_books(each, await engine.run(runs[each["id"]]).events()) for each in tickets]
    kills = json.loads((directory / KILLS).read_text()) if (directory / KILLS).exists() else []
    models = ModelJournal(directory / MODELS) if (directory / MODELS).exists() else None
    return judge(books, kills, MailJournal(directory / MAIL), models, bill())


def bill() -> Bill:
    """The price of what a model server reported, by the same price list that Holdfast was told."""
    declared = {
        name: DeclaredPrice(input_usd_per_mtok=each.input_usd_per_mtok, output_usd_per_mtok=each.output_usd_per_mtok)
        for name, each in settings.load(HERE).models.items()
    }
    return partial(cost_nanousd, Prices(declared))


def judge(
    books: Sequence[Books], kills: Sequence[float], mails: MailJournal, models: ModelJournal | None, bill: Bill
) -> Verdict:
    """`kills` are their times in Unix seconds. Without a journal of the models', nobody but Holdfast counted calls."""
    calls = models.calls() if models is not None else None
    figures = [
        Figures("tickets", f"{len(books)} given", f"{_count(books, 'completed')} runs completed"),
        Figures("steps", "", f"{_sum(books, 'steps')} completed in {_sum(books, 'attempts')} attempts"),
    ]
    promises = [_all_answered(books)]
    repeated = _repeated(books, calls) if calls is not None else Counter[str]()
    figures += _model_figures(books, calls, repeated)
    if calls is not None and models is not None:
        promises.append(_nothing_asked_again(books, models, kills, repeated))
    arrived_ = arrived(mails.records())
    twice = duplicates(mails.records())
    reported, vouched = _sum(books, "emails_reported"), _sum(books, "emails_vouched_for")
    person = f", {vouched} confirmed by a person" if vouched else ""
    figures += [
        Figures("e-mails sent", f"{len(arrived_)} arrived", f"{reported} reported by the tool{person}"),
        Figures("duplicates", f"{len(twice)}", f"{_sum(books, 'emails_repeated')} sent again after a person had looked"),
    ]
    promises += [_one_email_each(books, arrived_, twice), _within_the_limit(books, calls, bill)]
    figures += _money_figures(books, calls, bill)
    return Verdict(tuple(figures), tuple(promises))


def _all_answered(books: Sequence[Books]) -> Promise:
    done = _count(books, "completed")
    return Promise("Every ticket was answered.", done == len(books), f"{done} of {len(books)} runs completed.")


def _repeated(books: Sequence[Books], calls: Sequence[CallRecord]) -> Counter[str]:
    """How often each request, by its hash, was made more often than there are tickets that make it.

    The writer is told only the class of a ticket, so all tickets of a class make the same requests.
    """
    askers: Counter[str] = Counter()
    for each in books:
        askers[each.ticket["ticket_text"][:200]] += 1
        askers[each.ticket["expected_class"]] += 1
    asked = {call.request_sha256: call.user for call in calls}
    times = Counter(call.request_sha256 for call in calls)
    return Counter({hash_: n - askers[asked[hash_]] for hash_, n in times.items() if n > askers[asked[hash_]]})


def _nothing_asked_again(
    books: Sequence[Books], models: ModelJournal, kills: Sequence[float], repeated: Counter[str]
) -> Promise:
    flights = [models.in_flight(at, just_before_s=JUST_BEFORE_S, just_after_s=JUST_AFTER_S) for at in kills]
    lost = Counter(call.request_sha256 for calls in flights for call in calls)
    innocent = all(times <= lost[hash_] for hash_, times in repeated.items())
    known = repeated.total() <= _sum(books, "calls_repeated")  # one may have been killed before it left
    return Promise(
        "No completed model call was made again.",
        innocent and known,
        f"By the hashes of the requests, {repeated.total()} were made again; each of those was in flight at a kill."
        if innocent
        else f"Requests made twice though answered: {', '.join(hash_[:12] for hash_ in repeated - lost)}.",
    )


def _model_figures(books: Sequence[Books], calls: Sequence[CallRecord] | None, repeated: Counter[str]) -> list[Figures]:
    settled, doubt, replayed = (_sum(books, name) for name in ("calls_settled", "calls_in_doubt", "replayed"))
    seen = calls is not None
    return [
        Figures(
            "model calls made",
            f"{len(calls)} received" if calls is not None else "",
            f"{settled} answered, {doubt} lost in flight",
        ),
        Figures(
            "  made again",
            f"{repeated.total()} in flight at a kill" if seen else "",
            f"{_sum(books, 'calls_repeated')} lost in flight, or before they left",
        ),
        Figures("  replayed", "none of them seen again" if seen else "", f"{replayed} answers read back, not asked for"),
    ]


def _one_email_each(books: Sequence[Books], mails: Sequence[MailRecord], twice: Sequence[MailRecord]) -> Promise:
    by_customer: defaultdict[str, list[MailRecord]] = defaultdict(list)
    for mail in mails:
        by_customer[",".join(mail.to)].append(mail)
    right = 0
    for each in books:
        got = by_customer.pop(each.ticket["customer_email"], [])
        right += len(got) == 1 and {got[0].key} == each.email_keys and got[0].body_sha256 == _body_sha256(each.approved_body)
    return Promise(
        "No e-mail was sent twice.",
        right == len(books) and not twice and not by_customer,
        f"{right} of {len(books)} customers got exactly one, with the words that a person approved; {len(twice)} duplicates.",
    )


def _body_sha256(body: str) -> str:
    """As the mail sink hashes the decoded content of a plain message."""
    return sha256(b"text/plain\n%s\n" % body.replace("\r\n", "\n").rstrip().encode()).hexdigest()


def _within_the_limit(books: Sequence[Books], calls: Sequence[CallRecord] | None, bill: Bill) -> Promise:
    over = [each.ticket["id"] for each in books if each.over_limit]
    covered = calls is None or _billed(calls, bill) <= _sum(books, "settled") + _sum(books, "in_doubt")
    held = [each.ticket["id"] for each in books if each.held]
    evidence = f"Above it at any moment, with holds and doubts: {', '.join(over) or 'no run'}."
    if blocked := _sum(books, "blocked"):
        evidence += f" Stopped before a call that might not have fitted: {blocked}."
    if not covered:
        evidence += " The bill is higher than the books."
    if held:
        evidence += f" Money still held after the end: {', '.join(held)}."
    return Promise("No cent was spent above a limit.", not over and not held and covered, evidence)


def _money_figures(books: Sequence[Books], calls: Sequence[CallRecord] | None, bill: Bill) -> list[Figures]:
    settled, in_doubt = _sum(books, "settled"), _sum(books, "in_doubt")
    dearest = max(books, key=lambda each: each.committed)
    return [
        Figures(
            "cost",
            f"{usd(_billed(calls, bill))} for the usage reported" if calls is not None else "see your provider's bill",
            f"{usd(settled)} settled + {usd(in_doubt)} in doubt",
        ),
        Figures("  against limit", "", f"dearest run {usd(dearest.committed)} of {usd(dearest.limit)}, doubt included"),
    ]


def _billed(calls: Sequence[CallRecord], bill: Bill) -> int:
    return sum(map(bill, calls))


def usd(nanousd: int) -> str:
    return f"${nanousd / 1e9:,.4f}"


def _sum(books: Sequence[Books], name: str) -> int:
    return sum(int(getattr(each, name)) for each in books)


def _count(books: Sequence[Books], ended: str) -> int:
    return sum(each.ended == ended for each in books)
