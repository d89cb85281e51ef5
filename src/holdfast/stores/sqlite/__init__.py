"""The store in one SQLite file: for one process, or for a few on one machine.

    store       the face: opening, closing            thread, writer, reader the threads and what they do at once
    log         histories                             append                 how a commit is written
    session     leases                                lock, turnstile        files that exist to be locked
    view        lists                                 connection, database   SQLite's settings, errors and tables
    tail        other processes' commits              clock                  the store's time
    retention   months that leave the tables          administration         what a person does to the store as a whole
    context     what these stand on

Its SQL is in ../sql/sqlite, and in ../sql/queries.sql what both stores say; the nouns on that are in ../nouns.

Never here: another database's ways. What every store promises is in holdfast.ports.
"""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
