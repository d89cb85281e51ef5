"""What nobody here can know: an append whose reply was lost, a lookup that breaks, commands decided with a migration."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, OutcomeUnknown, RetryPolicy, Workflow, human_gate, task, tool
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import GateId, RunId
from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.ports import Append
from holdfast.stores.sqlite import SqliteStore
from tests.engine.history import events_of
from tests.engine.kit import eventually, gate_of, opened


def two(guard: Any = None) -> Workflow:
    wf = Workflow("two")
    wf.node("a")(task(lambda state: 1))
    wf.node("b")(task(lambda state: 2))
    wf.edge("a", "b", guard=guard)
    return wf


class Lossy:
    """A store whose replies of commits are lost as told: each word is what becomes of the next append."""

    def __init__(self, store: SqliteStore, *words: str) -> None:
        self._append = store.log.append
        self.words = list(words)
        store.log.append = self.append  # type: ignore[method-assign]

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        word = self.words.pop(0) if self.words else ""
        if word == "refused":
            raise StoreError("The disk is away; nothing was written.")
        fates = await self._append(appends)
        if word == "lost":
            raise UnknownCommit("The reply was lost.")
        return fates


async def test_a_commit_whose_reply_was_lost_stays_unknown_while_the_store_is_away(tmp_path: Path) -> None:
    """That the second try was refused says nothing about the first, which is on the disk: a step has started here."""
    tries: list[int] = []
    wf = Workflow("again")

    @wf.node("work")
    @task(retry=RetryPolicy(max_attempts=2, initial_s=0.01))
    async def work(state: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return 2

    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        async with opened(store) as engine:
            lossy = Lossy(store, "", "", "lost", "refused", "refused")
            run = await engine.start(wf)
            await completed(engine, run.id)
            assert lossy.words == []
            assert len(await events_of(run, ev.StepStarted)) == len(tries) == 2
    finally:
        await store.aclose()


async def test_a_step_that_started_without_its_process_knowing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.runs.mailbox.PATIENCE_S", 0.0)
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        async with opened(store) as engine:
            wf = two()
            await engine.runtime.catalog.add(wf)
            Lossy(store, "lost")
            with pytest.raises(UnknownCommit):
                await engine.start(wf)
            (row,) = await engine.runs()
            await completed(engine, row.run)
    finally:
        await store.aclose()


async def test_a_look_that_fails_forgets_no_step_that_may_have_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away for what is looked at beside it, from before the start until it was asked twice more."""
    monkeypatch.setattr("holdfast.engine.runs.mailbox.PATIENCE_S", 0.0)
    monkeypatch.setattr("holdfast.engine.fleet.sweep._AWAY_S", 0.01)
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        look, refused, is_back = store.views.runs, list[None](), asyncio.Event()

        async def away(**sought: Any) -> Any:
            if sought.get("status") == "waiting" and not is_back.is_set():
                refused.append(None)
                raise StoreError("The disk is away; nothing was read.")
            return await look(**sought)

        store.views.runs = away  # type: ignore[method-assign]
        async with opened(store) as engine:
            wf = two()
            await engine.runtime.catalog.add(wf)
            Lossy(store, "lost")
            with pytest.raises(UnknownCommit):
                await engine.start(wf)
            before = len(refused)
            await eventually(lambda: len(refused) >= before + 2)
            is_back.set()
            (row,) = await engine.runs()
            await completed(engine, row.run)
    finally:
        await store.aclose()


@pytest.mark.parametrize("words", [["refused"] * 4, ["lost", *["refused"] * 4]], ids=["nothing written", "nobody knows"])
async def test_a_long_absence_of_the_store_ends_no_step_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Whoever asks from outside is told; a step in the middle of its work has nobody to tell, and goes on when it can."""
    monkeypatch.setattr("holdfast.engine.runs.mailbox.PATIENCE_S", 0.1)
    begun: list[int] = []
    posted: list[str] = []
    wf = Workflow("posts")

    @tool(effect="once")
    async def post(key: str) -> str:
        posted.append(key)
        return key

    @wf.node("work")
    @task(tools=[post])
    async def work(ctx: Any) -> Any:
        begun.append(1)
        lossy.words = [*words]
        refused, answer = await asyncio.gather(engine.start(two()), ctx.tool("post"), return_exceptions=True)
        assert isinstance(refused, StoreError)
        return answer

    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        async with opened(store) as engine:
            lossy = Lossy(store)
            run = await engine.start(wf)
            assert [await run.result()] == posted
            assert begun == [1]
            assert engine.runtime.membership.broken is None
    finally:
        await store.aclose()


async def completed(engine: Engine, run: str) -> None:
    """Wait by looking at the row alone: whoever asks for the state would bring the process up to date."""
    while (await engine.find(run)).status != "completed":
        await asyncio.sleep(0.01)


async def test_what_is_decided_together_with_a_migration_follows_it(store: str) -> None:
    def asking(version: int) -> Workflow:
        wf = Workflow("asking", version=version)
        wf.node("ask")(human_gate(lambda state: {"what": "go on?"}))
        wf.node("end")(task(lambda state: "done"))
        wf.edge("ask", "end")
        return wf

    old, new = asking(1), asking(2)
    async with opened(store) as engine:
        run = await engine.start(old)
        gate = await gate_of(run)
        await engine.runtime.catalog.add(new)
        mailbox = engine.runtime.runs.mailbox(RunId(run.id))
        moved = mailbox.post(cmd.MigrateRun(Actor("ann")), new.graph)
        decided = mailbox.post(cmd.DecideGate(GateId(gate), "approve", None, Actor("bob")))
        await asyncio.gather(moved, decided)
        assert await run.result() == "done"


async def test_a_lookup_that_breaks_is_no_answer_that_code_can_go_on_with(store: str) -> None:
    """It is in no journal: a replay would not see it. So the attempt fails, and the next one asks again."""
    asked: list[str] = []

    async def find(key: str) -> Any:
        asked.append(key)
        if len(asked) == 1:
            raise ConnectionResetError("the lookup was cut off")
        return "found"

    @tool(effect="verify", verify=find, settles_within_s=0)
    async def post(what: str, key: str) -> str:
        raise OutcomeUnknown("no word from the other side")

    wf = Workflow("careless")

    @wf.node("work")
    @task(tools=[post], retry=RetryPolicy(max_attempts=3, initial_s=0))
    async def work(ctx: Any) -> Any:
        try:
            return await ctx.tool("post", what="x")
        except Exception as problem:
            return f"lived with {type(problem).__name__}"

    async with opened(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == "found"
        assert len(asked) == 2
        assert [failed.error.error_class for failed in await events_of(run, ev.AttemptFailed)] == ["network"]


async def test_a_waiter_hears_of_another_process_although_the_store_was_away_at_the_time(tmp_path: Path) -> None:
    """The other process says its last while this one cannot look; nothing comes after it."""
    wf = Workflow("asking")
    wf.node("ask")(human_gate(lambda state: {"what": "go on?"}))
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    seqs, asked = store.log.seqs, asyncio.Event()

    async def away(*given: Any, **which: Any) -> Any:
        asked.set()
        raise StoreError("The disk is away.")

    try:
        async with opened(store, execute=False) as desk:
            async with opened(str(tmp_path / "holdfast.db"), workflows=[wf]) as worker:
                run = await worker.start(wf)
                gate = await gate_of(run)
                waits = asyncio.create_task(desk.run(run.id).result())
                while not desk.runtime.runs.watched(at_end=True):
                    await asyncio.sleep(0.01)
                store.log.seqs = away  # type: ignore[method-assign]
                await worker.decide(gate, by="ann")
                await run.result()
            await asked.wait()
            await asyncio.sleep(0.5)  # until it has been told of everything, and could look at none of it
            store.log.seqs = seqs  # type: ignore[method-assign]
            async with asyncio.timeout(20):
                await waits
    finally:
        await store.aclose()


@pytest.mark.parametrize("part", ["what is left above", "what was said"])
async def test_guards_that_could_not_be_asked_are_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    """The store is away before a guard speaks, or after: a warning says so, and no task ends with what nobody has heard."""
    asked: list[int] = []
    unheard: list[dict[str, Any]] = []
    wf = two(guard=lambda state: asked.append(1) or True)
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    balances, append, refused = store.scopes.balances, store.log.append, list[None]()

    def is_away(now: bool) -> None:
        if now and not refused:
            refused.append(None)
            raise StoreError("The disk is away.")

    async def read(scopes: Any) -> Any:
        is_away(part == "what is left above")
        return await balances(scopes)

    async def write(appends: Sequence[Append]) -> Any:
        is_away(part == "what was said" and any(isinstance(e.event, ev.GuardJudged) for each in appends for e in each.events))
        return await append(appends)

    store.scopes.balances = read  # type: ignore[method-assign]
    store.log.append = write  # type: ignore[method-assign]
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    try:
        async with opened(store) as engine:
            run = await engine.start(wf)
            assert await run.result() == 2
            assert len(await events_of(run, ev.GuardJudged)) == 1
        gc.collect()
    finally:
        await store.aclose()
    assert refused
    assert len(asked) == (1 if part == "what is left above" else 2)
    assert unheard == []
    assert "could not ask the guards" in caplog.text
