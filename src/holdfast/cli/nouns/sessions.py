"""`holdfast sessions`: browsers that are signed in.

Never here: whose a session is (service.handlers.sessions).
"""

from __future__ import annotations

from typing import Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import moment
from holdfast.cli.page.table import Column
from holdfast.service.declarations import command, query

SESSIONS: Final = Noun("sessions")
app = SESSIONS.app

SESSIONS.list(
    query.Sessions,
    Column("session", 16),
    Column("name", 10),
    Column("tenant", 8, goes=3, of=lambda row: row["tenant"] or "everybody"),
    Column("way", goes=2),
    Column("from", goes=1, of=lambda row: row["origin"] or ""),
    Column("began", of=lambda row: moment.second(row["began_at"])),
    words={
        "name": ArgumentSpec("--of NAME", help="Only sessions of this person, token or key, or `*` for all. Requires admin.")
    },
)
SESSIONS.verb("end", command.EndSession, says="Ended the session {session} of {name}.", signed=True)
SESSIONS.verb(
    "end-all",
    command.EndSessions,
    words={"tenant": ArgumentSpec("--tenant NAME", help="Only sessions for this tenant.")},
    says="Ended {ended} sessions of {name}.",
    signed=True,
)


EXAMPLES: Final = {"list": "--of ann", "end": "9f2c51d07ab3e418", "end-all": "ann"}
