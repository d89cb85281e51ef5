"""Where a process can die: right before and right after everything that lasts, found by counting as it happens.

A victim crosses a boundary before and after each commit and each checkpoint of its store, and each call that leaves it.
Each crossing is a line in the victim's trace before anything else happens; at the one it is meant for, the victim kills
itself. The product is met at its seams only: SQLite's connection, asyncpg's, the Model port, the functions of tools.

Never here: a workflow, a judgement.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, get_args

import apsw
import asyncpg

from holdfast.core.facts.events import AnyEvent, decode
from holdfast.core.values.payload import digest
from holdfast.models.providers import Providers
from holdfast.ports import (
    ForwardedReply,
    ForwardedRequest,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ModelTurn,
    TextDelta,
    UserTurn,
)
from holdfast.testing.journal_file import JournalFile

_CHANGED = re.compile(r"\s*(?:insert\s+(?:or\s+\w+\s+)?into|update|delete\s+from)\s+(\w+)", re.IGNORECASE)
_CHANGED_THERE = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s+(\w+(?:\.\w+)?)", re.IGNORECASE)
_EVENT_COLUMNS = 7
_EVENTS = frozenset(each.__name__ for each in get_args(AnyEvent))


class Boundaries:
    """Counts what one process crosses, and kills it at its `at`th boundary, or at the first of the kind `on`."""

    def __init__(self, trace: Path, *, at: int | None = None, on: str | None = None) -> None:
        self._journal = JournalFile(trace)
        self._at = at
        self._on = on
        self._crossed = 0
        self._times: Counter[str] = Counter()
        self._crossing = threading.Lock()
        self.on_commit: Callable[[str, int], None] | None = None
        """Told of each commit, with its side and the number of its boundary, while nothing else is committed."""

    def cross(self, side: str, names: list[str], **facts: Any) -> int:
        """`names` are what happens here, at its `side`, which is `before` or `after`."""
        with self._crossing:
            self._crossed += 1
            kinds = [f"{side} {name}" for name in names]
            self._times.update(kinds)
            self._journal.append({"n": self._crossed, "kinds": kinds, **facts})
            if self._crossed == self._at or self._on in kinds:
                os.kill(os.getpid(), signal.SIGKILL)
            return self._crossed

    def crossed(self, kind: str) -> int:
        """How often this process has crossed a boundary of that kind."""
        return self._times[kind]

    @contextmanager
    def around(self, name: str, **facts: Any) -> Iterator[None]:
        """A call that leaves the process. It is not over if it raises."""
        with self.around_all([name], **facts):
            yield

    @contextmanager
    def around_all(self, names: list[str], **facts: Any) -> Iterator[None]:
        """The same of a call that is several things."""
        self.cross("before", names, **facts)
        yield
        self.cross("after", names, **facts)

    def note(self, **facts: Any) -> None:
        """Write down what this process was told. That is no boundary."""
        self._journal.append(facts)


class CountedConnection(apsw.Connection):
    """SQLite's connection, which counts its commits: it takes the place of apsw's own before the store is opened.

    SQLite itself says when it commits, before the first byte of it is written; what returns then has committed.
    """

    boundaries: Boundaries

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tables: set[str] = set()
        self._events: list[list[Any]] = []
        self._committing: tuple[list[str], list[list[Any]]] | None = None
        self.set_commit_hook(self._before)

    def execute(self, statements: str, bindings: Any = None, **more: Any) -> Any:
        self._read(statements, bindings)
        found = super().execute(statements, bindings, **more)
        self._after()
        return found

    def executemany(self, statements: str, bindings: Any, **more: Any) -> Any:
        self._read(statements, None)
        return super().executemany(statements, bindings, **more)

    def pragma(self, *args: Any, **more: Any) -> Any:
        found = super().pragma(*args, **more)
        self._after()
        return found

    def wal_checkpoint(self, *args: Any, **more: Any) -> Any:
        self.boundaries.cross("before", ["checkpoint"])
        found = super().wal_checkpoint(*args, **more)
        self.boundaries.cross("after", ["checkpoint"])
        return found

    def _read(self, statements: str, bindings: Any) -> None:
        if statements.startswith("begin"):
            self._events, self._tables = [], set()
        if "create table" in statements:
            self._tables.add("the tables")
        changed = _CHANGED.match(statements)
        if changed is None:
            return
        self._tables.add(changed[1])
        if changed[1] == "events" and bindings is not None:
            rows = [bindings[at : at + _EVENT_COLUMNS] for at in range(0, len(bindings), _EVENT_COLUMNS)]
            self._events += [_fact(seq, kind, payload) for _, seq, _, _, kind, payload, _ in rows]

    def _before(self) -> bool:
        kinds = dict.fromkeys(kind for _, kind, _, _ in self._events)
        names = [f"commit of {name}" for name in kinds or sorted(self._tables) or ["the file's mode"]]
        self._committing = names, self._events
        number = self.boundaries.cross("before", names, events=self._events)
        if self.boundaries.on_commit is not None:
            self.boundaries.on_commit("before", number)
        return False

    def _after(self) -> None:
        if self._committing is None:
            return
        names, events = self._committing
        self._committing, self._events, self._tables = None, [], set()
        number = self.boundaries.cross("after", names, events=events)
        if self.boundaries.on_commit is not None:
            self.boundaries.on_commit("after", number)


def count_commits_of_postgres(boundaries: Boundaries) -> None:
    """Have each commit of PostgreSQL in this process be a boundary: of a transaction, or of one statement that changes something."""
    changed: dict[int, set[str]] = {}

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(db: Any, statement: str, *bound: Any, **more: Any) -> Any:
            words = statement.lstrip().lower()
            tables = changed.setdefault(id(db), set())
            if words.startswith(("begin", "start")):
                tables.clear()
            tables.update(each[each.rfind(".") + 1 :] for each in _CHANGED_THERE.findall(statement))
            tables.update(_events_in(bound))
            if not words.startswith("commit") and (db.is_in_transaction() or not tables):
                return await method(db, statement, *bound, **more)
            names = [f"commit of {each}" for each in sorted(tables)] or ["commit of nothing"]
            tables.clear()
            with boundaries.around_all(names):
                return await method(db, statement, *bound, **more)

        return call

    kind: Any = asyncpg.Connection
    for name in ("fetch", "fetchrow", "fetchval", "execute"):
        setattr(kind, name, counted(getattr(kind, name)))


def _events_in(bound: Any) -> set[str]:
    """The types of events among what a statement was given."""
    if isinstance(bound, str):
        return {bound} & _EVENTS
    return set[str]().union(*map(_events_in, bound)) if isinstance(bound, list | tuple) else set()


def _fact(seq: int, kind: str, payload: bytes) -> list[Any]:
    return [seq, kind, getattr(decode(payload), "call", None), zlib.crc32(payload)]


class CountedModel(Providers):
    """The wires of the providers, with a boundary on each side of every request."""

    def __init__(self, boundaries: Boundaries) -> None:
        super().__init__()
        self._boundaries = boundaries

    async def request(self, request: ModelRequest) -> ModelReply:
        with self._boundaries.around("model request", **_asked(request)):
            return await super().request(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """And one in the middle of each sentence."""
        with self._boundaries.around("model stream", **_asked(request)):
            async with aclosing(super().stream(request)) as pieces:
                said = 0
                async for piece in pieces:
                    yield piece
                    said += isinstance(piece, TextDelta)
                    if said == 2:
                        self._boundaries.cross("amid", ["model stream"])
                        said += 1

    async def forward(self, request: ForwardedRequest, tell: Callable[[str], None]) -> ForwardedReply:
        """And one after the second event of each stream."""
        facts = {"asked": [request.body["messages"][-1]["content"], 1], "args_hash": digest(request.compared())}
        told = 0

        def counted(piece: str) -> None:
            nonlocal told
            tell(piece)
            told += 1
            if told == 2:
                self._boundaries.cross("amid", ["model forward"])

        with self._boundaries.around("model forward", **facts):
            return await super().forward(request, counted)


def _asked(request: ModelRequest) -> dict[str, Any]:
    users = [turn.text for turn in request.turns if isinstance(turn, UserTurn)]
    turn = 1 + sum(isinstance(turn, ModelTurn) for turn in request.turns)
    return {"asked": [users[-1], turn], "args_hash": digest(request.compared())}


def read_trace(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def traces(directory: Path) -> list[dict[str, Any]]:
    """What all lives of a case have written down."""
    return [line for path in sorted(directory.glob("*.trace")) for line in read_trace(path)]


def kinds(trace: list[dict[str, Any]]) -> set[str]:
    """The kinds of boundaries that were crossed."""
    return {kind for line in trace for kind in line.get("kinds", ())}
