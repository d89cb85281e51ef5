"""The thread that reads, on a connection of its own: no read waits behind a commit.

Never here: a write; its connection refuses them.
"""

from __future__ import annotations

from typing import Any

import apsw

from holdfast.stores.sqlite.connection import Place, connect, keep_log
from holdfast.stores.sqlite.thread import Job, StoreThread


class Reader(StoreThread):
    """Reads what is committed. Every job fetches all its rows: a cursor left open would read the past for ever."""

    def __init__(self, place: Place, wait_s: float) -> None:
        self._place = place
        self._wait_s = wait_s
        super().__init__("holdfast-sqlite-reader", place.path)

    def _connect(self) -> apsw.Connection:
        db = connect(self._path, wait_s=self._wait_s)
        db.execute("pragma query_only = on")
        keep_log(db, True)
        return db

    def _work(self, db: apsw.Connection, job: Job) -> Any:
        self._place.check()
        return job.work(db)
