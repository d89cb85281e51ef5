"""The sink that writes events to ClickHouse: in batches, by asynchronous inserts that are waited for.

A batch that is given again has the same rows and the same token, so ClickHouse drops it while it remembers the token; after
that, and where a batch was cut elsewhere, the tables make one row of an event that came twice. Never here: what a row has
(row), when events come (engine.background.follower).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from holdfast.analytics.row import COLUMNS, EventRow, row_of
from holdfast.errors import MissingSecret
from holdfast.platform.extra import needs
from holdfast.ports import CommittedEvent, SinkUnavailable

with needs("analytics", "exporting events to ClickHouse"):
    import clickhouse_connect
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.exceptions import Error

log = logging.getLogger("holdfast")

ANSWERS_S: Final = 30
"""A request that takes longer has failed: less than a follower waits for a batch."""
CONNECTS_S: Final = 10
_OF_INSERTS: Final = {"async_insert": 1, "wait_for_async_insert": 1, "async_insert_deduplicate": 1, "insert_deduplicate": 1}
"""The server gathers small inserts of many, and answers when they are written; servers have other defaults for each."""
_VERSIONS: Final = "create table if not exists migrations (version UInt32) engine = ReplacingMergeTree order by version"


class Address(NamedTuple):
    """The server, the database and the account. The password is asked for at each connection: it may come later, or change."""

    url: str
    database: str
    user: str
    password: Callable[[], str]


class ClickHouse:
    """A sink of all events. `redact` takes secrets out of payloads; without it rows have none."""

    begins: Literal["now", "oldest"] = "oldest"

    def __init__(self, name: str, address: Address, batch: int, redact: Callable[[bytes], bytes] | None = None) -> None:
        self.name = name
        self.batch = batch
        self._address = address
        self._redact = redact
        self._client: Client | None = None
        self._turn = threading.Lock()
        """An abandoned request may still be under way."""

    async def aclose(self) -> None:
        """Close the connection, unless an abandoned request is still under way."""
        if self._client is not None and self._turn.acquire(blocking=False):
            self._client.close()
            self._client = None
            self._turn.release()

    async def take(self, events: Sequence[CommittedEvent]) -> int:
        """See ports.Sink."""
        rows: list[EventRow] = []
        for each in events:
            try:
                rows.append(row_of(each, self._redact))
            except (OverflowError, ValueError) as problem:
                log.warning("holdfast leaves out event %s of run %s for ClickHouse: %s", each.recorded.seq, each.run, problem)
        if rows:
            await asyncio.to_thread(self._insert, rows)
        return len(events) - len(rows)

    def _insert(self, rows: Sequence[EventRow]) -> None:
        with self._turn:
            self._ask(
                lambda client: client.insert(
                    "events",
                    rows,
                    column_names=COLUMNS,
                    database=self._address.database,
                    settings={**_OF_INSERTS, "insert_deduplication_token": token_of(rows)},
                )
            )

    def _ask(self, question: Callable[[Client], Any]) -> Any:
        """Ask the server; raises SinkUnavailable for whatever it or the way to it answers with: our rows fit their columns, so
        an error is of the server, its settings or its account, and passes when that is mended."""
        try:
            if self._client is None:
                self._client = self._connected()
            return question(self._client)
        except (Error, OSError, MissingSecret) as problem:
            client, self._client = self._client, None
            if client is not None:
                client.close()
            raise SinkUnavailable(f"ClickHouse: {_first_line(problem)}") from problem

    def _connected(self) -> Client:
        """Connect, and make what tables are missing."""
        address, url = self._address, urlsplit(self._address.url)
        client = clickhouse_connect.get_client(
            host=url.hostname,
            port=url.port or (8443 if url.scheme == "https" else 8123),
            interface=url.scheme,
            username=address.user,
            password=address.password(),
            connect_timeout=CONNECTS_S,
            send_receive_timeout=ANSWERS_S,
            compress=False,  # as it is tested
            query_retries=0,
            autogenerate_session_id=False,
            client_name="holdfast",
        )
        if not client.command(f"exists database {address.database}"):  # an account may have the rights in one only
            client.command(f"create database if not exists {address.database}")
        client.database = address.database
        client.command(_VERSIONS)
        known = {version for (version,) in client.query("select version from migrations").result_rows}
        for version, statements in migrations():
            if version not in known:
                for statement in statements:
                    client.command(statement)
                client.insert("migrations", [[version]], column_names=["version"])
        return client


def migrations() -> list[tuple[int, list[str]]]:
    """Return the statements of each numbered file beside this module, in order. Each may be repeated."""
    files = sorted((resources.files(__package__) / "sql").iterdir(), key=lambda file: file.name)
    return [(int(file.name[:4]), statements_of(file.read_text())) for file in files if file.name.endswith(".sql")]


def statements_of(text: str) -> list[str]:
    """Return the statements of a file, each of which ends with a semicolon at the end of a line."""
    return [each.strip() for each in f"{text}\n".split(";\n") if each.strip()]


def token_of(rows: Sequence[EventRow]) -> str:
    """Return the token of a batch: the same for the same events, and for no others."""
    ids = ",".join(f"{row.run.hex}{row.seq}" for row in rows)
    return hashlib.sha256(ids.encode()).hexdigest()


def _first_line(problem: BaseException) -> str:
    return next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)[:400]
