"""What user code writes to a stream of its run is there once, in order, for whoever watches from wherever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from holdfast import Context, RunFailed, flow, step
from holdfast.core.facts.streams import StreamEvent
from holdfast.core.values.ids import RunId
from holdfast.engine.operations.stream import MAX_BYTES
from holdfast.engine.runs.stream_writer import StreamWriter
from holdfast.errors import InvalidInput, NotFound
from holdfast.platform.machine import MachineClock
from holdfast.ports import Piece, StreamName, Streams, StreamUpdate
from tests.engine.kit import bounded, die, opened


@step
async def work(number: int) -> int:
    return number


@flow
async def chatty(ctx: Context, count: int) -> str:
    async with ctx.stream("progress") as progress:
        await progress.write({"of": count})
    for number in range(count):
        await work(number)
        await ctx.stream("progress").write(number)
    await ctx.wait_signal("go on")
    await ctx.stream("progress").write("again")
    await ctx.stream("log").write("ended")
    return "done"


@flow
async def beside(ctx: Context, count: int) -> None:
    async def branch(number: int) -> None:
        for n in range(count):
            await ctx.stream("progress").write([number, n])
            await work(n)

    await ctx.gather(*(branch(number) for number in range(3)))


async def told(telling: AsyncIterator[StreamEvent]) -> list[Any]:
    return [(each.source, each.offset, each.value) async for each in telling if each.kind == "value"]


@bounded
async def test_each_value_is_waited_for_by_its_own_number() -> None:
    """Another's wait that ends does not end it: of two agents of a step each waits for its own results."""
    turns = [asyncio.Event() for _ in range(3)]

    class Slow:
        def __init__(self) -> None:
            self.brought: list[str] = []

        async def append(self, pieces: list[Piece]) -> None:
            await turns[len(self.brought)].wait()
            self.brought += [piece.mark for piece in pieces]

    slow = Slow()
    writer = StreamWriter(cast("Streams", slow), MachineClock())
    first = await writer.write(Piece(StreamName(RunId("run"), "tools"), "a", 1, b"1"))
    await writer.flushed(0)
    waits = asyncio.create_task(writer.flushed(first))
    await asyncio.sleep(0)  # the first batch is on its way
    second = await writer.write(Piece(StreamName(RunId("run"), "tools"), "b", 1, b"2"))
    later = asyncio.create_task(writer.flushed(second))
    turns[0].set()
    await waits
    assert (slow.brought, later.done()) == (["a"], False)
    await writer.flushed(first)
    turns[1].set()
    await later
    assert slow.brought == ["a", "b"]
    await writer.aclose()


@bounded
async def test_code_that_runs_again_writes_nothing_again(store: str) -> None:
    async with opened(store, workflows=[chatty]) as engine:
        run = await engine.start(chatty, 2)
        await run.settled()
        assert await told(engine.watch_stream(run.id, follow=False)) == [
            ("progress", 0, {"of": 2}),
            ("progress", 1, 0),
            ("progress", 2, 1),
        ]
        await die(engine)
    async with opened(store, workflows=[chatty]) as engine:
        await engine.signal(run.id, "go on")
        await engine.run(run.id).result()
        assert await told(engine.watch_stream(run.id)) == [
            ("log", 0, "ended"),
            ("progress", 0, {"of": 2}),
            ("progress", 1, 0),
            ("progress", 2, 1),
            ("progress", 3, "again"),
        ]


@bounded
async def test_who_watches_from_another_process_misses_nothing_and_may_come_back(store: str) -> None:
    """From the start, from where he was, from a number, from the end."""
    async with opened(store, workflows=[chatty]) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(chatty, 3)
        watching = elsewhere.watch_stream(run.id, "progress")
        first = [await anext(watching) for _ in range(2)]
        await watching.aclose()
        await run.settled()
        back = elsewhere.watch_stream(run.id, since=first[-1].cursor)
        rest = [(await anext(back)).value for _ in range(2)]  # by now the other one, who came before, waits for news too
        await engine.signal(run.id, "go on")
        assert [each.value for each in first] == [{"of": 3}, 0]
        assert rest == [1, 2]
        assert sorted(await told(back)) == [("log", 0, "ended"), ("progress", 4, "again")]
        assert await told(elsewhere.watch_stream(run.id, "progress", since=3)) == [("progress", 3, 2), ("progress", 4, "again")]
        assert await told(elsewhere.watch_stream(run.id, "progress", since=-1)) == [("progress", 4, "again")]
        *_, last = [each async for each in elsewhere.watch_stream(run.id)]
        assert await told(elsewhere.watch_stream(run.id, since=last.cursor)) == []


@bounded
async def test_who_wants_what_comes_hears_nothing_that_was_there(store: str) -> None:
    @flow
    async def ticks(ctx: Context, _: None) -> None:
        await ctx.stream("ticks").write("before")
        while await ctx.wait_signal("tick") != "end":
            await ctx.stream("ticks").write("tick")

    async with opened(store, workflows=[ticks]) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(ticks, None)
        await run.settled()
        telling = elsewhere.watch_stream(run.id, since="now")
        first = asyncio.create_task(anext(telling))
        while not first.done():  # until he is there
            await engine.signal(run.id, "tick", "on")
            await asyncio.wait([first], timeout=0.05)
        await engine.signal(run.id, "tick", "end")
        rest = await told(telling)
        offsets = [(await first).offset, *(offset for _, offset, _ in rest)]
        assert offsets[0] > 0
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


@bounded
async def test_branches_that_write_at_the_same_time_have_each_value_once(store: str) -> None:
    async with opened(store, workflows=[beside]) as engine:
        run = await engine.start(beside, 5)
        values = await told(engine.watch_stream(run.id))
        assert [offset for _, offset, _ in values] == list(range(15))
        assert sorted(value for *_, value in values) == [[a, b] for a in range(3) for b in range(5)]
        for number in range(3):
            assert [value[1] for *_, value in values if value[0] == number] == list(range(5))


@bounded
@pytest.mark.parametrize("written", ["x" * 70_000, object(), "a secret: TOP-SECRET-VALUE"])
async def test_what_cannot_be_a_value_of_a_stream_is_refused_in_words(
    store: str, written: Any, monkeypatch: pytest.MonkeyPatch, stored: Callable[[], bytes]
) -> None:
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")

    @flow
    async def writes(ctx: Context, _: None) -> str:
        ctx.secret("CANARY")
        try:
            await ctx.stream("progress").write(written)
        except InvalidInput as problem:
            return problem.message
        return "taken"

    async with opened(store, workflows=[writes]) as engine:
        run = await engine.start(writes, None)
        result = await run.result()
        values = await told(engine.watch_stream(run.id))
    if result == "taken":
        assert values == [("progress", 0, "a secret: [secret]")]
        assert b"TOP-SECRET" not in stored()
    else:
        assert "65536 at most" in result or "cannot be stored" in result
        assert values == []


@bounded
@pytest.mark.usefixtures("replays")
async def test_a_secret_that_two_values_of_a_stream_tell_together_stands_in_neither(
    store: str, monkeypatch: pytest.MonkeyPatch, stored: Callable[[], bytes]
) -> None:
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")

    @flow
    async def writes(ctx: Context) -> None:
        ctx.secret("CANARY")
        stream = ctx.stream("progress")
        for text in ("the key is TOP-SEC", "RET-VALUE, mind; ", "in small: top-secret", "-value", "TOP-SEC"):
            await stream.write(text)
        await stream.write({"done": 1})
        await ctx.wait_signal("go")
        await stream.write("and at last a TOP-S")

    async with opened(store, workflows=[writes]) as engine:
        run = await engine.start(writes)
        await run.until(lambda state: bool(state.steps["flow"].pending))
        await engine.signal(run.id, "go")
        await run.result()
        values = [value for *_, value in await told(engine.watch_stream(run.id))]
    assert values == [
        "the key is ",
        "[secret], mind; ",
        "in small: ",
        "[secret]",
        "TOP-SEC",
        {"done": 1},
        "and at last a ",
        "TOP-S",
    ]
    assert b"RET-VALUE" not in stored()
    assert b"top-secret" not in stored()


@bounded
async def test_a_value_of_a_stream_is_as_large_as_it_may_be_and_no_larger(store: str) -> None:
    @flow
    async def writes(ctx: Context, size: int) -> str:
        await ctx.stream("progress").write("x" * (size - 2))  # beside its quotation marks
        return "taken"

    async with opened(store, workflows=[writes]) as engine:
        taken, refused = [await engine.start(writes, size) for size in (MAX_BYTES, MAX_BYTES + 1)]
        assert await taken.result() == "taken"
        assert [len(value) for *_, value in await told(engine.watch_stream(taken.id))] == [MAX_BYTES - 2]
        with pytest.raises(RunFailed, match=f"has {MAX_BYTES + 1} bytes as JSON"):
            await refused.result()


@bounded
async def test_what_is_no_stream_or_no_place_in_one_is_reported_in_words(store: str) -> None:
    @flow
    async def misnames(ctx: Context, name: str) -> str:
        try:
            ctx.stream(name)
        except ValueError as problem:
            return str(problem)
        return "taken"

    async with opened(store, workflows=[misnames]) as engine:
        for name in ("model", "tools", "a:b", "", "x" * 65):
            run = await engine.start(misnames, name)
            assert "no stream can have this name" in await run.result()
        for since in ("12", "@", "@1,progress", "@1,=5", "@x", "@1,a=-1", "soon"):
            with pytest.raises(InvalidInput, match="no place in the streams"):
                await told(engine.watch_stream(run.id, since=since))
        for name, since in ((None, 3), ("model", 3), ("draft#1:0:1", -1)):
            with pytest.raises(InvalidInput, match="is no place"):
                await told(engine.watch_stream(run.id, name, since=since))
        with pytest.raises(NotFound):
            await told(engine.watch_stream("01234567-89ab-7def-8123-456789abcdef"))


@bounded
async def test_the_store_is_not_asked_without_watchers(store: str) -> None:
    async with opened(store, workflows=[chatty]) as engine:
        run = await engine.start(chatty, 1)
        await run.settled()
        watching = engine.watch_stream(run.id)
        await anext(watching)
        await watching.aclose()
        async with asyncio.timeout(5):
            while engine.executor.services.listening.is_looking:
                await asyncio.sleep(0.002)


@bounded
async def test_each_of_many_watchers_gets_what_it_wants(store: str) -> None:
    """What comes is made out once for all who stand at the same place."""
    async with opened(store, workflows=[chatty]) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(chatty, 2)
        await run.settled()
        names = (None, "progress", None, "log", "progress")
        *_, last = [each async for each in engine.watch_stream(run.id, follow=False)]
        telling = [elsewhere.watch_stream(run.id, name, since=last.cursor) for name in names]
        watching = [asyncio.create_task(told(each)) for each in telling]
        feeds = elsewhere.executor.services.listening._feeds
        while sum(len(feed.listeners) for feed in feeds.values()) < len(names):
            await asyncio.sleep(0.002)
        await engine.signal(run.id, "go on")
        again, ended = ("progress", 3, "again"), ("log", 0, "ended")
        heard = [sorted(each, reverse=True) for each in await asyncio.gather(*watching)]
        assert heard == [[again, ended], [again], [again, ended], [ended], [again]]


@bounded
async def test_watchers_that_hear_of_the_end_first_each_get_the_last_words(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the last pieces came after a look had read what there was, and before it read the history."""
    async with opened(store, workflows=[chatty]) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(chatty, 1)
        await run.settled()
        *_, last = [each async for each in engine.watch_stream(run.id, follow=False)]
        listening, feeds = elsewhere.executor.services.listening, elsewhere.executor.services.listening._feeds
        watching = [asyncio.create_task(told(elsewhere.watch_stream(run.id, since=last.cursor))) for _ in range(3)]
        streams = type(elsewhere.runtime.store.streams)
        chunks = streams.chunks

        async def late(self: Any, runs: Any, *more: Any, **named: Any) -> Any:
            return [] if isinstance(runs, dict) else await chunks(self, runs, *more, **named)

        monkeypatch.setattr(streams, "chunks", late)  # a look asks with its feeds, a watcher who reads by himself with one run
        while sum(len(feed.listeners) for feed in feeds.values()) < len(watching) or listening._unseen:
            await asyncio.sleep(0.002)
        await engine.signal(run.id, "go on")
        heard = [sorted(each) for each in await asyncio.gather(*watching)]
        assert heard == [[("log", 0, "ended"), ("progress", 2, "again")]] * len(watching)


@bounded
async def test_what_no_news_announced_is_found_all_the_same(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a failover, where what has grown cannot be told by what was there before."""
    monkeypatch.setattr("holdfast.engine.runs.stream_hub._ALL_S", 0.05)
    async with opened(store, workflows=[chatty]) as engine, opened(store, execute=False) as elsewhere:
        streams = type(elsewhere.runtime.store.streams)
        news = streams.news

        async def nothing(self: Any, mark: str | None) -> StreamUpdate:
            return (await news(self, mark))._replace(sizes={}, seqs={})

        monkeypatch.setattr(streams, "news", nothing)
        run = await engine.start(chatty, 1)
        watching = asyncio.create_task(told(elsewhere.watch_stream(run.id, "progress")))
        await run.settled()
        await engine.signal(run.id, "go on")
        assert await watching == [("progress", 0, {"of": 1}), ("progress", 1, 0), ("progress", 2, "again")]


@bounded
async def test_who_is_slow_reads_again_where_he_stands(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engine.runs.stream_hub._MAX_NEWS", 2)
    monkeypatch.setattr("holdfast.engine.runs.stream_writer.APART_S", 0)

    @flow
    async def counts(ctx: Context, count: int) -> None:
        for number in range(count):
            async with ctx.stream("progress") as progress:
                await progress.write(number)
            if number == 0:
                await ctx.wait_signal("go on")

    async with opened(store, workflows=[counts]) as engine:
        run = await engine.start(counts, 40)
        watching = engine.watch_stream(run.id)
        values = [(await anext(watching)).value]
        await engine.signal(run.id, "go on")
        await run.result()
        values += [each.value async for each in watching]
        assert values == list(range(40))


@bounded
async def test_who_is_busy_with_what_there_was_misses_nothing_that_comes(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @flow
    async def counts(ctx: Context, _: None) -> None:
        for number in range(4):
            async with ctx.stream("progress") as progress:
                await progress.write(number)
            if number in {0, 2}:
                await ctx.wait_signal("go on")

    async with opened(store, workflows=[counts]) as engine:
        run = await engine.start(counts, None)
        await anext(engine.watch_stream(run.id))
        busy = engine.watch_stream(run.id)
        values = [(await anext(busy)).value]  # from the store
        monkeypatch.setattr("holdfast.engine.runs.stream_hub._MAX_NEWS", 0)  # all is too much for him
        other = engine.watch_stream(run.id)
        await engine.signal(run.id, "go on")
        assert [(await anext(other)).value for _ in range(3)] == [0, 1, 2]
        monkeypatch.undo()
        await engine.signal(run.id, "go on")
        values += [each.value async for each in busy]
        assert values == list(range(4))


@bounded
async def test_a_step_has_not_ended_before_what_it_wrote_is_in_the_store(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the store takes for that: nobody hears of the end and then misses the last words."""
    free = asyncio.Event()

    @flow
    async def says(ctx: Context, _: None) -> str:
        await ctx.stream("progress").write("last words")
        return "done"

    async with opened(store, workflows=[says]) as engine:
        streams = type(engine.runtime.store.streams)
        append = streams.append

        async def slowly(self: Any, pieces: Any) -> None:
            await free.wait()
            await append(self, pieces)

        monkeypatch.setattr(streams, "append", slowly)
        run = await engine.start(says, None)
        ending = asyncio.create_task(run.result())
        assert not (await asyncio.wait([ending], timeout=0.2))[0]
        free.set()
        assert await ending == "done"
        assert await told(engine.watch_stream(run.id, follow=False)) == [("progress", 0, "last words")]
