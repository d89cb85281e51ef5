"""The negotiation holds what its README says: every status that can be reached, nothing sent twice, whoever is killed when."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.negotiation import business_days, market
from examples.negotiation.judge import Message, messages
from examples.negotiation.rehearsal import Answer, Rehearsal
from examples.negotiation.status import POSITIONS, TRIGGERS, Standing, standing
from examples.negotiation.workflow import COMPLIANCE, Item, Purchase, begin, days, hours, negotiation_id, wf
from holdfast import Engine
from holdfast.models.providers import Providers
from holdfast.ports import EventsCommitted, Observation
from holdfast.testing import VirtualTime
from holdfast.testing.mail_sink import MailSink
from holdfast.testing.model_server import ModelServer, Rule

ROOT = Path(__file__).parents[2]
EVERYTHING = os.environ.get("HOLDFAST_WORKFLOWS") == "all"
complete = pytest.mark.skipif(not EVERYTHING, reason="takes minutes: make workflows")
QUADRANTS = {"pencils": "ROUTINE", "laptops": "LEVERAGE", "chips": "BOTTLENECK", "turbines": "STRATEGIC"}
WITHIN_S = 150

pytestmark = pytest.mark.timeout(WITHIN_S + 60)


class World:
    """The other side: who answers prompts and takes mail."""

    def __init__(self, folder: Path, models: ModelServer, mails: MailSink) -> None:
        self.folder = folder
        self.models = models
        self.mails = mails
        self._before = 0
        self.environment = {
            **models.environment,
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(mails.port),
            "MAIL_LOG": str(folder / "mail.jsonl"),
        }

    def begin_again(self, folder: Path) -> None:
        """Another world, with the same people in it."""
        folder.mkdir()
        self.folder, self._before = folder, len(self.mails.messages)
        os.environ[market.VARIABLE] = str(folder / "market.db")

    def sent(self) -> dict[Message, int]:
        return dict(messages(self.mails.messages[self._before :]))

    def orders(self) -> int:
        with market.books() as db:
            return int(db.execute("select count(*) from orders").fetchall()[0][0])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ModelServer(journal=tmp_path / "calls.jsonl") as models, MailSink(journal=tmp_path / "mail.jsonl") as mails:
        models.script.add(*(Rule(user=word, output={"quadrant": name}) for word, name in QUADRANTS.items()))
        found = World(tmp_path, models, mails)
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv(market.VARIABLE, str(tmp_path / "market.db"))
        yield found


# --- Every status -----------------------------------------------------------------------------------------------------


def every_standing() -> set[tuple[str, str | None]]:
    """What a negotiation may be called outside, with why: its positions, why somebody is summoned, how it ends."""
    return (
        {(position, None) for position in ("QUEUED", "ACTIVE", *POSITIONS.values(), "AWARDED")}
        | {("REQUIRES_ATTENTION", trigger) for trigger in TRIGGERS}
        | {("FAILED", "No supplier delivers within 1 days.")}
        | {("CANCELLED", why) for why in ("rejected", "approval_stale_7day_limit_exceeded", "nobody wants it any more")}
    )


CASES: dict[str, tuple[str, int, tuple[Answer, ...]]] = {
    "spot": ("pencils", 50, ()),
    "spot above the threshold": ("pencils", 400, (Answer(hours(40), "approve"),)),
    "auction, another bid": ("laptops", 301, (Answer(hours(1), "approve", "the second"),)),
    "auction, rejected": ("laptops", 302, (Answer(hours(1), "reject"),)),
    "auction, once more": ("laptops", 303, (Answer(hours(1), "retry"), Answer(hours(1), "approve"))),
    "bottleneck, late": ("chips", 10, (Answer(hours(100), "approve", None, COMPLIANCE, "rhea"),)),
    "strategic, nobody": ("turbines", 10, ()),
    "too soon": ("pencils", 51, ()),
    "called off": ("chips", 11, ()),
}
"""What is bought, how much of it, and what people say."""
ENDS = {
    "spot": "AWARDED",
    "spot above the threshold": "AWARDED",
    "auction, another bid": "AWARDED",
    "auction, rejected": "CANCELLED rejected",
    "auction, once more": "AWARDED",
    "bottleneck, late": "AWARDED",
    "strategic, nobody": "CANCELLED approval_stale_7day_limit_exceeded",
    "too soon": "FAILED No supplier delivers within 1 days.",
    "called off": "CANCELLED nobody wants it any more",
}


async def test_every_status_is_reached_and_no_other(world: World) -> None:
    seen: set[Standing] = set()

    def look(observation: Observation, /) -> None:
        if isinstance(observation, EventsCommitted):
            seen.add(standing(observation.state))

    time = VirtualTime(world.folder / "time")
    async with (
        time.store(world.folder / "runs.db") as store,
        Engine.open(store, workflows=[wf], observers=[look], model=Providers(environment=world.models.environment)) as engine,
    ):
        await engine.set_admission(len(CASES) - 1, tenant="acme")
        today = datetime.datetime.fromtimestamp(time() / 1000, datetime.UTC).date()
        runs = {}
        for name, (category, pieces, _) in CASES.items():
            deadline = today + datetime.timedelta(days=1 if name == "too soon" else 50)
            purchase = Purchase(category=category, items=[Item(sku=name, pieces=pieces)], deadline=deadline)
            runs[name] = await begin(engine, "acme", purchase)
            assert (await begin(engine, "acme", purchase)).id == runs[name].id
        names = {run.id: name for name, run in runs.items()}

        def people(run: str, reason: str, number: int) -> Answer | None:
            if reason == "lifespan" and names[run] != "strategic, nobody":
                return Answer(hours(1), "answer", {"lifespan": int(days(60))}, "operator", "olaf")
            said = CASES[names[run]][2] if reason == "approval" else ()
            answer = said[number] if number < len(said) else None
            if answer is not None and answer.data == "the second":
                bids = market.standing(negotiation_of(names[run], today))
                last = sorted((bid for bid in bids if bid["round"] == 5), key=lambda bid: bid["price_usd"])
                answer = answer._replace(data={"alternative_bid_id": last[-1]["bid"]})
            return answer

        async def over() -> bool:
            called_off = await runs["called off"].state()
            if not called_off.ended and standing(called_off).status == "NEGOTIATING":
                await engine.cancel(called_off.run, reason="nobody wants it any more")
            return all([bool((await run.state()).ended) for run in runs.values()])

        await Rehearsal(engine, time, people).until(over)
        ends = {name: str(standing(await run.state())) for name, run in runs.items()}
        spot = await runs["spot"].state()
        admitted = [(await engine.admission(tenant)).held for tenant in (None, "acme")]
        second = await runs["auction, another bid"].result()
    assert ends == ENDS
    assert {(each.status, each.entry_trigger or each.reason) for each in seen} == every_standing()
    assert spot.ended_at_ms is not None
    assert spot.ended_at_ms - spot.started_at_ms < 1000 * days(5 / 60 / 24)
    assert admitted == [0, 0]
    assert second["supplier"] != "halden"
    assert set(world.sent().values()) == {1}
    assert len(world.models.calls) < len(CASES)
    with market.books() as db:
        assert db.execute("select changed from superseded").fetchall() == [(15,)]
        assert db.execute("select count(*) from bids where status = 'SUPERSEDED'").fetchall() == [(15,)]
        assert db.execute("select count(*) from orders").fetchall() == [(5,)]


def negotiation_of(name: str, today: datetime.date) -> str:
    category, pieces, _ = CASES[name]
    deadline = today + datetime.timedelta(days=50)
    return negotiation_id("acme", Purchase(category=category, items=[Item(sku=name, pieces=pieces)], deadline=deadline))


# --- Killed -----------------------------------------------------------------------------------------------------------

ONCE_MORE = {"name": "auction", "category": "laptops", "pieces": 300, "answers": [[1, "retry"], [1, "approve"]]}
"""Two auctions of five rounds, with what was bid in the first superseded."""


def negotiator(world: World, store: str, commits: int, *, day_s: float = 86_400) -> subprocess.Popen[str]:
    words = (sys.executable, "-m", "tests.examples.negotiator", str(world.folder), store, str(commits), json.dumps(ONCE_MORE))
    environment = os.environ | world.environment | {"NEGOTIATION_DAY_S": str(day_s)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(said)
    return found


def expect_kept(world: World) -> None:
    sent = world.sent()
    assert set(sent.values()) == {1}, [each for each, count in sent.items() if count > 1]
    invited = [each.round_number for each in sent if each.action == "AUCTION_INVITATION"]
    assert {number: invited.count(number) for number in range(1, 11)} == dict.fromkeys(range(1, 11), len(invited) // 10)
    assert world.orders() == 1
    with market.books() as db:
        changed = [row[0] for row in db.execute("select changed from superseded").fetchall()]
        assert changed[0] > 0
        assert not any(changed[1:])  # asked again, it changes nothing


def killed_after(commits: int, world: World, recoverers: int = 1) -> bool:
    """One life that ends after so many commits, and what takes its run up; False where it lived to its end."""
    if negotiator(world, "runs.db", commits).wait(WITHIN_S) == 0:
        return False
    for each in [negotiator(world, "runs.db", 0) for _ in range(recoverers)]:
        assert ended(each)["standing"] == {"auction": "AWARDED"}
    expect_kept(world)
    return True


@pytest.mark.long
def test_who_is_killed_in_an_auction_sends_nothing_again(world: World) -> None:
    """In round three of the first, and two go on at the same moment."""
    assert killed_after(45, world, recoverers=2)


@complete
@pytest.mark.timeout(3600)
def test_a_process_killed_at_every_other_commit_sends_nothing_again(tmp_path: Path, world: World) -> None:
    commits, lives = 1, True
    while lives:
        world.begin_again(tmp_path / str(commits))
        lives = killed_after(commits, world, recoverers=1 + commits % 3 // 2)
        commits += 2
    assert commits > 150


@complete
def test_the_demo_keeps_its_promises() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.negotiation.demo"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "BROKEN" not in done.stdout


@complete
def test_on_postgresql_days_are_shorter(world: World, database: str) -> None:
    assert ended(negotiator(world, database, 0, day_s=0.5))["standing"] == {"auction": "AWARDED"}
    expect_kept(world)


# --- Business days ----------------------------------------------------------------------------------------------------


def at(day: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(f"{day}T15:00:00+00:00")


@pytest.mark.parametrize(
    ("begins", "number", "ends"),
    [
        ("2026-11-23", 1, "2026-11-24"),
        ("2026-11-27", 1, "2026-11-30"),  # Friday to Monday
        ("2026-11-28", 1, "2026-12-01"),  # begun on Saturday, it begins on Monday
        ("2026-11-23", 5, "2026-11-30"),
        ("2026-12-24", 1, "2026-12-28"),  # Christmas is a Friday and a Saturday
        ("2026-12-31", 1, "2027-01-04"),
    ],
)
def test_business_days_leave_out_weekends_and_holidays(begins: str, number: int, ends: str) -> None:
    assert business_days.after(at(begins), number) == at(ends)
