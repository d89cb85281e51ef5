"""The suppliers' side: who they are, what they bid, and what was ordered. It keeps its own books, in its own file, and Holdfast
has no part in them: what is counted there is what happened.

A bid belongs to a negotiation, a supplier and a round, and an order to a negotiation: whoever asks again gets what is there.
Never here: which strategy, which supplier wins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

VARIABLE = "NEGOTIATION_MARKET"
"""Where the books are."""
_TABLES = """
create table if not exists bids (
    bid text primary key, negotiation text, supplier text, round int, price_usd real, lead_days int, status text);
create table if not exists orders (negotiation text primary key, bid text, key text, asked int);
create table if not exists superseded (negotiation text, up_to_round int, changed int);
"""


class Supplier(NamedTuple):
    id: str
    email: str
    price: float
    """Of one piece, at first."""
    lead_days: int
    gives_way: float
    """By so much from round to round."""


SUPPLIERS = (
    Supplier("northwind", "bids@northwind.example", 104.0, 10, 0.010),
    Supplier("acme", "bids@acme.example", 101.0, 14, 0.020),
    Supplier("tundra", "bids@tundra.example", 99.0, 60, 0.005),
    Supplier("halden", "bids@halden.example", 107.0, 7, 0.035),
)


@contextmanager
def books() -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(os.environ[VARIABLE])) as opened:
        opened.set_busy_timeout(10_000)
        opened.execute(_TABLES)
        yield opened


def bids_of(negotiation: str, round_number: int, invited: Sequence[str], pieces: int) -> list[dict[str, Any]]:
    """What the suppliers bid in a round, cheapest first. They bid once."""
    with books() as db:
        for supplier in (each for each in SUPPLIERS if each.id in invited):
            price = supplier.price * (1 - supplier.gives_way) ** (round_number - 1) * pieces
            bid = hashlib.sha256(f"{negotiation} {supplier.id} {round_number}".encode()).hexdigest()[:10]
            row = (bid, negotiation, supplier.id, round_number, round(price, 2), supplier.lead_days)
            db.execute("insert or ignore into bids values (?, ?, ?, ?, ?, ?, 'SUBMITTED')", row)
        return _rows(db, "negotiation = ? and round = ?", negotiation, round_number)


def standing(negotiation: str) -> list[dict[str, Any]]:
    """The bids that are not superseded, cheapest first."""
    with books() as db:
        return _rows(db, "negotiation = ? and status != 'SUPERSEDED'", negotiation)


def supersede(negotiation: str, up_to_round: int) -> int:
    """Mark the bids of rounds that no longer count; how many were changed. A second time it is none."""
    with books() as db:
        db.execute(
            "update bids set status = 'SUPERSEDED' where negotiation = ? and round <= ? and status != 'SUPERSEDED'",
            (negotiation, up_to_round),
        )
        changed = db.changes()
        db.execute("insert into superseded values (?, ?, ?)", (negotiation, up_to_round, changed))
        return changed


def order(negotiation: str, bid: str, key: str) -> dict[str, Any]:
    """The purchase order of a negotiation: there is one, whoever asks how often."""
    with books() as db:
        db.execute(
            "insert into orders values (?, ?, ?, 1) on conflict do update set asked = asked + 1", (negotiation, bid, key)
        )
        found = db.execute("select bid from orders where negotiation = ?", (negotiation,)).fetchall()
        return {"order": f"PO-{negotiation[:8]}", "bid": found[0][0]}


def _rows(db: apsw.Connection, where: str, *values: Any) -> list[dict[str, Any]]:
    names = ("bid", "supplier", "round", "price_usd", "lead_days", "status")
    found = db.execute(f"select {', '.join(names)} from bids where {where} order by price_usd, bid", values)
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def open_at(path: Path) -> None:
    os.environ[VARIABLE] = str(path)
