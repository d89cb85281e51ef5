"""The invariants about what two stores make of the same: each has a test that bears its number.

Never here: a promise that has no number (see docs/maintainers/promises.md for what users may rely on).
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec

from holdfast import Engine, RetryPolicy, Run, Workflow, human_gate, llm_node, task, tool, tool_node
from holdfast.compose import Environment
from holdfast.core.values.ids import AppendId, RunId, SessionId
from holdfast.core.views.status import status
from holdfast.models.providers import Providers
from holdfast.ports import Model, ModelReply, ModelRequest, Store
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.model_server import ModelServer
from tests.engine.kit import Time, bounded, gate_of

BORN_MS = 1_790_000_000_000


class Counted:
    """Keeps the Ids port: the same names in the same order each time."""

    def __init__(self) -> None:
        self._number = itertools.count(1)

    def run(self, now_ms: int) -> RunId:
        return RunId(str(uuid.UUID(int=now_ms << 80 | 7 << 76 | 2 << 62 | next(self._number))))

    def session(self) -> SessionId:
        return SessionId(f"session-{next(self._number)}")

    def append(self) -> AppendId:
        return AppendId(f"append-{next(self._number)}")


class Undated:
    """The providers' replies, without the machine's time, which the library behind them writes into each."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def prepare(self, model: str) -> None:
        await self._model.prepare(model)

    async def request(self, request: ModelRequest) -> ModelReply:
        reply = await self._model.request(request)
        return msgspec.structs.replace(reply, turn={**reply.turn, "timestamp": "2026-01-01T00:00:00Z"})


def errand() -> Workflow:
    """All that a run can wait for: a failed try, a tool, a model, a person, a program, time; and a failure undone."""
    wf = Workflow("errand")
    tries = itertools.count(1)

    @tool(effect="once")
    async def unbook(what: str, key: str) -> None:
        return None

    @tool(effect="idempotent", compensation=unbook)
    async def book(what: str, key: str) -> dict[str, str]:
        return {"what": what, "under": key}

    @wf.node("think")
    @task(retry=RetryPolicy(max_attempts=2, initial_s=0, jitter=0))
    async def think(state: Any) -> str:
        if next(tries) == 1:
            raise ConnectionResetError("not yet")
        return "Ünïcode \u2028 😀"

    wf.node("book")(tool_node(name=book)(lambda state: {"what": state.events["think"].output}))
    wf.node("ask")(llm_node(model="claude-haiku-4-5", max_tokens=50)(lambda state: "Summarise it"))
    wf.node("approve")(human_gate(lambda state: {"text": "shall we?"}))

    @wf.node("wait")
    @task
    async def wait(state: Any, ctx: Any) -> list[Any]:
        await ctx.sleep(days=30)
        return [await ctx.wait_signal("go"), str(ctx.uuid()), str(ctx.now())]

    @wf.node("fail")
    @task
    async def fail(state: Any) -> None:
        raise ValueError("x" * 100_000)

    for before, after in itertools.pairwise(("think", "book", "ask", "approve", "wait", "fail")):
        wf.edge(before, after)
    return wf


async def lived(store: Store, now: Time, journal: Path) -> list[str]:
    """Live through errands on `store`; the runs. Nothing in it depends on how fast the store is."""
    with ModelServer(journal=journal) as server:  # one of its own, whose replies are numbered from the first
        return await lived_with(Undated(Providers(environment=server.environment)), store, now)


async def lived_with(model: Model, store: Store, now: Time) -> list[str]:
    around = Environment.of_machine(10, {})._replace(ids=Counted(), label="here")
    wf = errand()
    async with Engine.open(store, workflows=[wf], model=model, environment=around) as engine:
        runs = []
        for number in range(3):
            run = await engine.start(wf, {"n": number}, key=f"key {number}", by="bob")
            await run.until(lambda state: status(state) == "waiting")
            now.forward(1)  # the first run waits for its second try
            await engine.decide(await gate_of(run), "approve", by="ann")
            await run.until(lambda state: status(state) == "waiting")
            if number == 1:
                await engine.cancel(run.id, by="ann", reason="enough")
            now.forward(days=31)
            if number != 1:
                await waits_for(run, "signal")
                await engine.signal(run.id, "go", {"n": 2**53, "text": "\u0007"})
            await run.until(lambda state: bool(state.ended))
            runs.append(run.id)
    return runs


async def waits_for(run: Run, kind: str) -> None:
    await run.until(
        lambda state: any(
            op.kind == kind and op.status == "open" for step in state.steps.values() for op in step.journal.values()
        )
    )


def appends_numbered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same with appends numbered in their order: the id of one that lost a race is used up, and which do, is chance."""
    numbers: dict[str, int] = {}
    return [(run, seq, numbers.setdefault(append, len(numbers)), *event) for run, seq, append, *event in rows]


@bounded
async def test_invariant_29_sqlite_and_postgresql_write_the_same_histories_byte_for_byte(tmp_path: Path, database: str) -> None:
    times = Time(), Time()
    for now in times:
        now.ms = BORN_MS
    sqlite = await SqliteStore.connect(tmp_path / "holdfast.db", machine_ms=times[0])
    postgres = await PostgresStore.connect(database, own_ms=times[1])
    runs = await lived(sqlite, times[0], tmp_path / "one.jsonl")
    assert await lived(postgres, times[1], tmp_path / "two.jsonl") == runs
    asked = "select run, seq, append_id, at_ms, type, payload from {}events order by run, seq"
    with apsw.Connection(str(tmp_path / "holdfast.db"), flags=apsw.SQLITE_OPEN_READONLY) as file:
        here = list(file.execute(asked.format("")))
    connection = await asyncpg.connect(database.partition("?")[0])
    there = [(str(run), *row) for run, *row in await connection.fetch(asked.format(database.partition("schema=")[2] + "."))]
    await connection.close()
    assert len(here) > 60
    assert appends_numbered(there) == appends_numbered(here)
    for run in runs:
        assert await sqlite.views.run(RunId(run)) == await postgres.views.run(RunId(run))
        assert await sqlite.views.gates(run=RunId(run), open_only=False) == await postgres.views.gates(
            run=RunId(run), open_only=False
        )
        assert await sqlite.views.effects(run=RunId(run)) == await postgres.views.effects(run=RunId(run))
    await asyncio.gather(sqlite.aclose(), postgres.aclose())
