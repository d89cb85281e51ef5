"""Shared values: read and written by many runs, each write once and in the commit that says so."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import OperationFailed, RunFailed, flow
from holdfast.core.facts import events as ev
from holdfast.errors import Conflict
from tests.engine.kit import names, opened


@flow
async def count(ctx, given):
    """Adds to a number that all runs share."""
    return (await ctx.shared("board").update("total", lambda total: (total or 0) + given)).version


SEEN: list[int] = []


@flow
async def counted(ctx, given):
    """Adds to a number, and remembers on what."""

    def add(total):
        SEEN.append(total or 0)
        return (total or 0) + given

    await ctx.shared("board").update("counted", add)


@flow
async def careful(ctx, given):
    """Reads, waits, and writes what it expects to be the next version."""
    board = ctx.shared("board", agent=given["by"])
    seen = await board.read("case")
    if given.get("first"):
        await ctx.wait_signal("go")
    version = seen.version if seen is not None else 0
    try:
        written = await board.write("case", given["value"], expected_version=version, strategy=given["strategy"])
    except OperationFailed as refused:
        return [refused.error.error_class, refused.error.message]
    return None if written is None else [written.version, written.value, written.by]


@flow
async def read_and_count(ctx):
    """Reads one thing, and adds to another."""
    board = ctx.shared("board")
    return [await board.read("plan"), (await board.update("total", lambda total: (total or 0) + 1)).value]


async def test_many_runs_that_update_one_value_lose_no_update(store: str) -> None:
    async with opened(store, workflows=[count]) as engine:
        runs = [await engine.start(count, 1) for _ in range(12)]
        versions = [await run.result() for run in runs]
        assert sorted(versions) == list(range(1, 13))
        shared = engine.runtime.store.shared_values
        latest = await shared.find("default", "board", "total")
        assert latest is not None
        assert (latest.value, latest.version) == (12, 12)


async def test_a_process_never_gets_in_its_own_way(store: str) -> None:
    async with opened(store, workflows=[counted]) as engine:
        SEEN.clear()
        runs = await asyncio.gather(*(engine.start(counted, 1) for _ in range(40)))
        await asyncio.gather(*(run.result() for run in runs))
        assert sorted(SEEN) == list(range(40)), "no change is worked out twice"


async def test_however_many_update_one_value_at_once_no_update_is_lost_and_none_fails(store: str) -> None:
    """Two processes, as it were, that know nothing of each other, and more flows at once than a write has tries."""
    async with opened(store, workflows=[count]) as one, opened(store, workflows=[count]) as other:
        starts = [engine.start(count, 1) for _ in range(75) for engine in (one, other)]
        runs = await asyncio.gather(*starts)
        versions = await asyncio.gather(*(run.result() for run in runs))
        assert sorted(versions) == list(range(1, 151))


@pytest.mark.parametrize(
    ("strategy", "comes_to"),
    [("first_write", None), ("last_write", [2, {"late": 1}, "bob"]), ("merge", [2, {"early": 1, "late": 1}, "bob"])],
)
async def test_a_write_that_comes_late_goes_by_its_strategy(store: str, strategy: str, comes_to: object) -> None:
    async with opened(store, workflows=[careful]) as engine:
        late = await engine.start(careful, {"by": "bob", "first": True, "value": {"late": 1}, "strategy": strategy}, key="late")
        await late.settled()
        early = await engine.start(careful, {"by": "ann", "value": {"early": 1}, "strategy": "reject"})
        assert await early.result() == [1, {"early": 1}, "ann"]
        await engine.signal(late.id, "go")
        assert await late.result() == comes_to
        [conflict] = [e.event.conflict for e in await late.events() if isinstance(e.event, ev.SharedValueConflicted)]
        assert (conflict.expected, conflict.found, conflict.found_by, conflict.strategy) == (0, 1, "ann", strategy)
        assert (conflict.current.value(), conflict.attempted.value()) == ({"early": 1}, {"late": 1})


async def test_a_write_that_comes_late_is_refused_in_words(store: str) -> None:
    async with opened(store, workflows=[careful]) as engine:
        late = await engine.start(careful, {"by": "bob", "first": True, "value": 2, "strategy": "reject"})
        await late.settled()
        await (await engine.start(careful, {"by": "ann", "value": 1, "strategy": "reject"})).result()
        await engine.signal(late.id, "go")
        error_class, message = await late.result()
        assert error_class == "conflict"
        assert message == (
            "'case' of 'board' is at version 1, written by 'ann', not at 0. Nothing was written: read it, and decide again."
        )


@pytest.mark.usefixtures("replays")
async def test_a_replay_sees_what_the_step_saw_and_writes_nothing_again(store: str) -> None:
    seen: list[object] = []

    @flow
    async def writes(ctx, given):
        board = ctx.shared("board")
        await board.write("n", 1)
        value = await board.read("n")
        seen.append(value.version)
        await ctx.wait_signal("go")
        return value.value

    async with opened(store, workflows=[writes, count]) as engine:
        run = await engine.start(writes)
        await run.settled()
        assert await engine.runtime.store.shared_values.put(_next("n", 1, b'{"value":9,"version":2,"at_ms":1,"by":"x"}'))
        await engine.signal(run.id, "go")
        assert await run.result() == 1
        assert seen == [1, 1]
        assert (await names(run)).count("SharedValueWritten") == 1
        assert [each.value for each in await engine.runtime.store.shared_values.versions("default", "board", "n")] == [1, 9]


async def test_reads_are_recorded_even_if_the_write_beside_them_is_repeated(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, workflows=[read_and_count]) as engine:
        values = engine.runtime.store.shared_values
        find, others = values.find, [_next("total", 0, b'{"value":5,"version":1,"at_ms":1,"by":"ann"}')]

        async def overtaken(tenant: str, space: str, key: str):
            found = await find(tenant, space, key)
            if key == "total" and others:
                assert await values.put(others.pop())
            return found

        monkeypatch.setattr(values, "find", overtaken)
        run = await engine.start(read_and_count)
        assert await run.result() == [None, 6]
        assert (await names(run))[2:4] == ["ValueRecorded", "SharedValueWritten"]


async def test_a_step_that_waits_goes_on_with_a_value_that_is_not_from_a_run(store: str) -> None:
    @flow
    async def waits(ctx, given):
        found = await ctx.shared("board").changed("n")
        return [found.value, found.by]

    async with opened(store, workflows=[waits]) as engine:
        run = await engine.start(waits)
        await run.settled()
        assert (await engine.write_shared_value("board", "n", {"at": 7}, by="ann")).version == 1
        assert await run.result() == [{"at": 7}, "ann"]
        with pytest.raises(Conflict, match="is at version 1, and not at 0"):
            await engine.write_shared_value("board", "n", 8, expected_version=0)
        assert [each.key for each in await engine.shared_values(space="board")] == ["n"]


async def test_branches_of_one_step_that_write_the_same_value_both_count(store: str) -> None:
    @flow
    async def both(ctx, given):
        board = ctx.shared("board")
        await ctx.gather(*(board.update("n", lambda n: (n or 0) + 1) for _ in range(5)))
        return (await board.read("n")).value

    async with opened(store, workflows=[both]) as engine:
        assert await (await engine.start(both)).result() == 5


async def test_only_the_last_versions_are_kept(store: str) -> None:
    @flow
    async def often(ctx, given):
        board = ctx.shared("board")
        for each in range(25):
            await board.write("n", each)
        return [version.version for version in await board.versions("n")]

    async with opened(store, workflows=[often]) as engine:
        assert await (await engine.start(often)).result() == list(range(6, 26))


@flow
async def waits(ctx, given):
    version = await ctx.shared("board").changed("news", after=given.get("after", 0), timeout_s=given.get("timeout_s"))
    return [version.version, version.value]


@flow
async def tells(ctx, given):
    await ctx.shared("board").write("news", given)


async def test_a_step_waits_for_a_change_that_another_process_makes(store: str) -> None:
    async with opened(store, workflows=[waits]) as theirs, opened(store, workflows=[tells]) as mine:
        run = await theirs.start(waits, {})
        await run.settled()
        assert await run.status() == "waiting"
        await (await mine.start(tells, "rain")).result()
        assert await asyncio.wait_for(run.result(), 10) == [1, "rain"]
        later = await theirs.start(waits, {"after": 1})
        await later.settled()
        await (await mine.start(tells, "sun")).result()
        assert await asyncio.wait_for(later.result(), 10) == [2, "sun"]
        assert await (await theirs.start(waits, {"after": 1})).result() == [2, "sun"], "it is there already"


async def test_a_wait_for_a_change_has_an_end(store: str) -> None:
    async with opened(store, workflows=[waits]) as engine:
        run = await engine.start(waits, {"timeout_s": 0.05})
        with pytest.raises(RunFailed, match="'board/news' was not written in time"):
            await asyncio.wait_for(run.result(), 10)


async def test_a_lock_lets_one_in_at_a_time_and_may_be_taken_within_itself(store: str) -> None:
    inside, most = 0, 0

    @flow
    async def alone(ctx, given):
        nonlocal inside, most
        board = ctx.shared("board")
        async with board.lock("case"), board.lock("case"):
            inside += 1
            most = max(most, inside)
            seen = await board.read("case")
            await asyncio.sleep(0.01)
            written = await board.write("case", (seen.value if seen is not None else 0) + 1)
            inside -= 1
        return written.version

    async with opened(store, workflows=[alone]) as engine:
        runs = [await engine.start(alone) for _ in range(6)]
        assert sorted([await run.result() for run in runs]) == [1, 2, 3, 4, 5, 6]
        assert most == 1
        latest = await engine.runtime.store.shared_values.find("default", "board", "case")
        assert latest is not None
        assert latest.value == 6


async def test_branches_take_a_lock_one_after_the_other(store: str) -> None:
    inside: list[int] = []

    @flow
    async def branches(ctx, given):
        board = ctx.shared("board")

        async def one(number):
            async with board.lock("case"):
                inside.append(number)
                await asyncio.sleep(0.01)
                await board.update("case", lambda known: (known or 0) + 1)
                inside.append(number)

        await ctx.gather(one(1), one(2), one(3))

    async with opened(store, workflows=[branches]) as engine:
        await (await engine.start(branches)).result()
    assert inside[0::2] == inside[1::2], "nobody came in before the one inside had left"


async def test_a_lock_whose_time_is_up_lets_nothing_be_written_under_it(store: str) -> None:
    @flow
    async def slow(ctx, given):
        board = ctx.shared("board")
        async with board.lock("case", lease_s=0.02):
            await asyncio.sleep(0.1)
            await board.write("case", "late")

    async with opened(store, workflows=[slow]) as engine:
        with pytest.raises(RunFailed, match="its time was up"):
            await (await engine.start(slow)).result()
        assert await engine.runtime.store.shared_values.find("default", "board", "case") is None


async def test_a_lock_is_not_kept_while_its_step_waits(store: str) -> None:
    @flow
    async def pauses(ctx, given):
        board = ctx.shared("board")
        async with board.lock("case", wait_s=0, lease_s=60):
            await board.write("case", 1)
            await ctx.wait_signal("go")
            await board.write("case", 2)

    async with opened(store, workflows=[pauses]) as engine:
        run = await engine.start(pauses)
        await run.settled()
        shared = engine.runtime.store.shared_values
        fence = await shared.lock("default", "board", "case", "me", 60_000)
        assert fence is not None, "nobody has it"
        await engine.signal(run.id, "go")
        with pytest.raises(RunFailed, match="was held by another for 0 s"):
            await asyncio.wait_for(run.result(), 10)
        await shared.unlock("default", "board", "case", fence)
        assert [each.value for each in await shared.versions("default", "board", "case")] == [1]


async def test_a_holder_that_lost_its_lock_does_not_overwrite_the_newer_value(store: str) -> None:
    @flow
    async def pauses(ctx, given):
        board = ctx.shared("board")
        async with board.lock("case"):
            seen = await board.read("case")
            await ctx.wait_signal("go")
            try:
                await board.write("case", "mine")
            except OperationFailed as refused:
                assert seen is None
                return refused.error.error_class

    async with opened(store, workflows=[pauses, tells]) as engine:
        run = await engine.start(pauses)
        await run.settled()
        shared = engine.runtime.store.shared_values
        assert await shared.put(_next("case", 0, b'{"value":"theirs","version":1,"at_ms":1,"by":"x"}'))
        await engine.signal(run.id, "go")
        assert await asyncio.wait_for(run.result(), 10) == "conflict"
        assert [each.value for each in await shared.versions("default", "board", "case")] == ["theirs"]


async def test_what_is_deleted_is_away_and_no_later_value_is_taken_for_it(store: str) -> None:
    @flow
    async def deletes(ctx, given):
        board = ctx.shared("board", agent="ann")
        await board.write("case", "old")
        seen = await board.read("case")
        gone = await board.delete("case", expected_version=seen.version)
        assert await board.read("case") is None
        assert await board.update("case", lambda old: [old]) is not None
        refused = []
        for action in (board.delete("case", expected_version=1), board.write("case", "mine", expected_version=0)):
            with pytest.raises(OperationFailed) as problem:
                await action
            refused.append(problem.value.error.error_class)
        await board.delete("case")
        first = await board.write("case", "new", expected_version=0)
        return gone.gone, gone.version, refused, first.version

    async with opened(store, workflows=[deletes]) as engine:
        run = await engine.start(deletes)
        assert await asyncio.wait_for(run.result(), 10) == [True, 2, ["conflict", "conflict"], 5]
        shared = engine.runtime.store.shared_values
        assert [each.value for each in await shared.versions("default", "board", "case")] == [None, "new"]


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda ctx: ctx.shared("").read("n"), "space of a shared value"),
        (lambda ctx: ctx.shared("!memory/a/").read("n"), "the engine's own"),
        (lambda ctx: ctx.shared("s").read("x" * 300), "key of a shared value"),
        (lambda ctx: ctx.shared("s").write("n", 1, expected_version=0, strategy="sum"), "strategy='sum'"),
        (lambda ctx: ctx.shared("s").write("n", "x" * 70_000), "64 KiB at most"),
        (lambda ctx: ctx.shared("s").write("n", object()), "does not exist in JSON"),
        (lambda ctx: ctx.shared("s").lock("n", lease_s=-1).__aenter__(), "held up to 3600 s"),
    ],
)
async def test_bad_input_ends_in_words_and_writes_nothing(store: str, do, words: str) -> None:
    @flow
    async def bad(ctx, given):
        await do(ctx)

    async with opened(store, workflows=[bad]) as engine:
        run = await engine.start(bad)
        await asyncio.wait_for(run.settled(), 10)
        state = await run.state()
        assert state.error is not None
        assert words in state.error.message
        assert await engine.runtime.store.shared_values.find("default", "s", "n") is None


def _next(key: str, base: int, body: bytes):
    from holdfast.core.views.projection import SharedChange

    return SharedChange("default", "board", key, base, body)
