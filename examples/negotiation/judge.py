"""What really happened, counted by the mail server, the model server and the suppliers' books, beside what Holdfast's say.

Never here: anything that a run of the demo could have told about itself without being asked by somebody else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.negotiation import market
from examples.negotiation.status import Standing
from examples.negotiation.workflow import days
from examples.show import Figures, Promise, Verdict
from holdfast import Engine
from holdfast.testing.mail_sink import MailRecord, arrived, read_mail
from holdfast.testing.model_server import read_calls

MAIL, MODELS, MARKET = "mail.jsonl", "model-calls.jsonl", "market.db"
SPOT_S = days(5 / 60 / 24)
RECOVERED_S = 30.0
_SUBJECT = re.compile(r"(\w+) (\w+) round (\d+)")


class Seen(NamedTuple):
    """What is known of one negotiation: its name in the demo, how it stands, and how long it took, in the store's time."""

    name: str
    negotiation: str
    standing: Standing
    took_s: float


class Message(NamedTuple):
    """An e-mail by the document's key: (negotiation_id, supplier_id, action, round_number)."""

    negotiation: str
    supplier: str
    action: str
    round_number: int


def messages(mails: Sequence[MailRecord]) -> Counter[Message]:
    found: Counter[Message] = Counter()
    for mail in arrived(mails):
        if (said := _SUBJECT.fullmatch(mail.subject)) is not None:
            found[Message(said[2], mail.to[0], said[1], int(said[3]))] += 1
    return found


async def account(directory: Path, engine: Engine, seen: Sequence[Seen], auction: str, kills: Sequence[float]) -> Verdict:
    """The verdict on a demo that has ended. `auction` is the negotiation whose worker was killed."""
    mails = read_mail(directory / MAIL)
    sent, calls = messages(mails), read_calls(directory / MODELS)
    with market.books() as db:
        orders = db.execute("select negotiation, bid from orders").fetchall()
        superseded = db.execute("select up_to_round, changed from superseded").fetchall()
        stale = db.execute("select count(*) from bids where status = 'SUPERSEDED'").fetchall()[0][0]
    awarded = [each for each in seen if each.standing.status == "AWARDED"]
    lines = await engine.effects(limit=1000)
    effects = {line.key for line, change in lines if line.tool == "send" and change and change.state == "completed"}
    active = [(await engine.admission(tenant)).held for tenant in (None, "acme")]
    spot = next(each for each in seen if each.standing.strategy == "spot")
    invited = [each for each in sent if each.negotiation == auction and each.action == "AUCTION_INVITATION"]
    rounds = {number: sum(each.round_number == number for each in invited) for number in range(1, 6)}
    gap_s = _gap(mails, kills)
    twice = [f"{each.action} to {each.supplier}" for each, count in sent.items() if count > 1]
    return Verdict(
        (
            Figures("messages to suppliers", str(sum(sent.values())), str(len(effects))),
            Figures("purchase orders", str(len(orders)), str(len(awarded))),
            Figures("bids superseded", str(stale), "in 1 cycle-back"),
            Figures("models asked for a quadrant", str(len(calls)), f"{len(seen)} negotiations"),
        ),
        (
            Promise(
                "No message was sent twice",
                not twice and sum(sent.values()) == len(effects),
                "; ".join(twice) or f"{len(sent)} keys (negotiation, supplier, action, round), each once in the mail log",
            ),
            Promise(
                "The auction that was killed in round three went on in round three",
                set(rounds.values()) == {max(rounds.values())} and rounds[1] > 0,
                f"invitations by round, counted by the mail server: {list(rounds.values())}",
            ),
            Promise(
                f"A killed worker's negotiation went on within {RECOVERED_S:g} s",
                gap_s <= RECOVERED_S,
                f"{gap_s:.1f} s from the kill to the next message, with two recoverers at once",
            ),
            Promise(
                "Superseding changes each bid once",
                sum(changed for _, changed in superseded) == stale > 0,
                f"asked {len(superseded)} times, {stale} bids changed",
            ),
            Promise(
                "One order for each award, none for anything else",
                len(orders) == len(awarded),
                ", ".join(f"{each.name} {each.standing}" for each in seen),
            ),
            Promise("A spot buy ends within five minutes", spot.took_s < SPOT_S, f"{spot.took_s:.0f} s of the store's time"),
            Promise("Nobody is counted as active at the end", active == [0, 0], f"global {active[0]}, tenant {active[1]}"),
            Promise(
                "A category that is known asks no model",
                len(calls) < len(seen),
                f"{len(calls)} calls for {len(seen)} negotiations",
            ),
        ),
    )


def _gap(mails: Sequence[MailRecord], kills: Sequence[float]) -> float:
    """The longest time from a kill to the next message, in seconds."""
    arrivals = [mail.at_unix_s for mail in mails]
    return max((min((at - kill for at in arrivals if at > kill), default=RECOVERED_S * 2) for kill in kills), default=0.0)
