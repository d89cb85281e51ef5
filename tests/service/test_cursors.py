"""Cursors of lists from which rows are hidden tell nothing of what stands where a page ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Context, Engine, flow, tool
from holdfast.core.values.access import Access
from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.service.cursor import open_, seal
from holdfast.service.declarations import query
from holdfast.service.declarations.command import Bulk, BulkDeadLetters, GrantApproval, MakeKey
from holdfast.service.principal import Principal
from holdfast.service.service import Service

HIDDEN = "harriet"


@tool(effect="once", approval=True)
def harriet_pay(to: str) -> str:
    """Send money."""
    return to


@flow
async def quick(ctx: Context, given: Any) -> str:
    return "done"


@flow(tools=[harriet_pay])
async def harriet(ctx: Context, given: Any) -> str:
    return await ctx.tool(harriet_pay, to="ann")


@flow
async def falling_harriet(ctx: Context, given: Any) -> str:
    raise ValueError("it fell")


class World(NamedTuple):
    engine: Engine
    service: Service
    ids: list[str]
    """Of the runs of others."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    where, flows = str(tmp_path / "runs.db"), [quick, harriet, falling_harriet]
    async with Engine.open(where, workflows=flows) as engine:
        service, ids = Service(engine, flows), []
        for number in range(2):
            waiting, failing = [await engine.start(each, {}, tenant="acme") for each in (harriet, falling_harriet)]
            ids += [waiting.id, failing.id]
            async with asyncio.timeout(30):
                while not await engine.gates(waiting.id) or not await engine.dead_letters(run_id=failing.id):
                    await asyncio.sleep(0.01)
            name = f"{HIDDEN}-{number}"
            await engine.open_conversation(name, harriet, tenant="acme")
            await engine.set_schedule(name, harriet, "0 9 * * *", tenant="acme", input={})
            await engine.grant_approval(f"{HIDDEN}_{number}*", for_s=60, by="ida", workflow=harriet.name, tenant="acme")
            await service.execute(Principal("ops"), MakeKey(name=name, tenant="acme", workflows=(harriet.name,)))
        yield World(engine, service, ids)


LISTS = (
    query.Runs,
    query.Gates,
    query.Effects,
    query.DeadLetters,
    query.Conversations,
    query.Schedules,
    query.Keys,
    query.Approvals,
    query.Workflows,
    query.Tail,
)


async def own_things(world: World, number: int) -> None:
    """What the caller may see, beside what is hidden."""
    name = f"own-{number}"
    run = await world.engine.start(quick, {}, tenant="acme", tags=[name])
    await run.result()
    await world.engine.open_conversation(name, quick, tenant="acme")
    await world.engine.set_schedule(name, quick, "0 9 * * *", tenant="acme", input={})
    await world.engine.grant_approval(f"own_{number}*", for_s=60, by="ida", workflow=quick.name, tenant="acme")
    await world.service.execute(Principal("ops"), MakeKey(name=name, tenant="acme", workflows=(quick.name,)))


LIMITED = Principal("bob", "acme", client="bob", access=Access(("admin",), workflows=("quick",)), is_person=True)
WITHOUT_OWN = (query.Gates, query.Effects, query.DeadLetters, query.Workflows)


@pytest.mark.parametrize("kind", [kind for kind in LISTS if kind is not query.Effects])
async def test_a_cursor_tells_nothing_of_rows_that_are_hidden(world: World, kind: Any) -> None:
    for number in range(3):
        await own_things(world, number)
    who, again = LIMITED, Service(world.engine, [quick, harriet, falling_harriet])
    seen: list[str] = []
    cursor, shown = ("start" if kind is query.Tail else None), []
    more: dict[str, Any] = {"ends": True} if kind is query.Tail else {}
    for turn in range(200):
        service = (world.service, again)[turn % 2]
        page = await service.query(who, kind(cursor=cursor, limit=1, **more))
        assert kind is query.Tail or kind in WITHOUT_OWN or len(page.rows) == 1
        shown += page.rows
        seen += [row["cursor"] for row in page.rows if kind is query.Tail]
        if page.cursor is None:
            break
        seen.append(page.cursor)
        cursor = page.cursor
    assert page.cursor is None
    assert len(seen) >= 2 or kind in WITHOUT_OWN
    for told in seen:
        assert HIDDEN not in told
        assert not any(each in told for each in (*world.ids, "acme", "0")) or told.startswith("~")
        assert told.startswith("~")
    assert all(HIDDEN not in str(row) for row in shown)
    whole = (await world.service.query(who, kind(limit=100, **more))).rows
    assert [_place(row) for row in shown] == [_place(row) for row in whole], "sealed cursors lead through all of the list"
    for sealed in seen[:1]:
        with pytest.raises(InvalidInput, match="no cursor of this list"):
            await world.service.query(who._replace(tenant="globex"), kind(cursor=sealed, **more))
        with pytest.raises(InvalidInput, match="no cursor of this list"):
            await world.service.query(who, kind(cursor=sealed[:-1], **more))


async def test_a_filter_tells_nothing_of_rows_that_are_hidden(world: World) -> None:
    """A page and its cursor are the same whether hidden rows fit a filter or none does."""
    for number in range(3):
        await own_things(world, number)
    ask, run = world.service.query, world.ids[0]
    for hit, miss in (
        (query.Runs(workflow="harriet", limit=1), query.Runs(workflow="nobody", limit=1)),
        (query.Runs(status=("waiting",), limit=1), query.Runs(status=("paused",), limit=1)),
        (query.Runs(text="harriet", limit=1), query.Runs(text="nothing", limit=1)),
        (query.Runs(prefix=run[:12], limit=1), query.Runs(prefix="x", limit=1)),
        (query.DeadLetters(node="flow", limit=1), query.DeadLetters(node="nothing", limit=1)),
        (query.Gates(asks=("me", "team", "anyone"), limit=1), query.Gates(risk_level=("high",), limit=1)),
        (query.Effects(limit=1), query.Effects(state="orphaned", limit=1)),
    ):
        assert await ask(LIMITED, hit) == await ask(LIMITED, miss) == ([], None)
    assert (await ask(LIMITED, query.Runs(limit=3))).cursor is None, "older ones are hidden"
    assert (await ask(LIMITED, query.Schedules(limit=1))).rows[0]["name"] == "own-0", "hidden ones stand before it"


@pytest.mark.parametrize("who", [LIMITED, Principal("gil", "globex")])
async def test_the_pages_of_the_tail_count_no_events_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch, who: Principal
) -> None:
    monkeypatch.setattr("holdfast.service.listing._LOOKED", 1)
    await own_things(world, 0)
    await (await world.engine.start(quick, {}, tenant="globex")).result()

    async def pages() -> list[int]:
        cursor, found = "start", []
        while cursor is not None:
            rows, cursor = await world.service.query(who, query.Tail(cursor=cursor, limit=1, ends=True))
            found.append(len(rows))
        return found

    before = await pages()
    for _ in range(3):
        await world.engine.cancel((await world.engine.start(harriet, {}, tenant="acme")).id)
        await (await world.engine.start(quick, {}, tenant="initech")).result()
    assert await pages() == before


async def test_a_cursor_of_the_tail_does_not_tell_that_others_commit(world: World) -> None:
    """It would be the same again while nobody does."""
    for cursor in ("now", "start"):
        asked = query.Tail(cursor=cursor)
        assert (await world.service.query(LIMITED, asked)).cursor != (await world.service.query(LIMITED, asked)).cursor


async def test_a_list_without_a_cursor_is_cut_after_hidden_rows_are_left_out(world: World) -> None:
    run = await world.engine.start(quick, {}, tenant="acme")
    await run.result()
    await world.engine.score(run.id, "z", 1.0, by="ann")
    for name in ("a", "b"):
        await world.engine.score(world.ids[0], name, 1.0, by="ann")
    rows, cursor = await world.service.query(LIMITED, query.ScoreMeans(limit=1))
    assert ([row["name"] for row in rows], cursor) == (["z"], None)


async def test_a_bulk_command_goes_on_after_own_runs_only(world: World) -> None:
    """Between which own ones another's stands would tell when it began."""
    run = await world.engine.start(quick, {}, tenant="globex")
    await run.result()
    letter = (await world.service.query(Principal("ops"), query.DeadLetters())).rows[0]["letter"]
    who, others = Principal("gil", "globex"), world.ids[0]
    bulk = Bulk(action="fork", step="flow#1", dry_run=True, status=("completed",), cursor=run.id)
    assert (await world.service.execute(who, bulk)).rows == []
    for told in (msgspec.structs.replace(bulk, cursor=others), BulkDeadLetters(action="resolve", cursor=letter, dry_run=True)):
        with pytest.raises(NotFound):
            await world.service.execute(who, told)


async def test_a_page_looks_through_so_many_hidden_rows_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await own_things(world, 0)
    monkeypatch.setattr("holdfast.service.service._LOOKED", 1)
    monkeypatch.setattr("holdfast.service.service._MAX_LOOKED", 2)
    rows, cursor = await world.service.query(LIMITED, query.Schedules(limit=1))
    assert rows == []
    ((row,), _) = await world.service.query(LIMITED, query.Schedules(limit=1, cursor=cursor))
    assert row["name"] == "own-0"


async def test_a_list_that_goes_on_with_nothing_is_not_read_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = iter(range(1_000))

    async def goes_on(*_: Any) -> query.Page:
        assert next(pages, None) is not None, "it is read for ever"
        return query.Page([], "more")

    monkeypatch.setattr(world.service, "_handled", goes_on)
    page = await world.service.query(LIMITED, query.Schedules())
    assert page.rows == []
    assert page.cursor is not None


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("run_id", "seq", "workflow", "name") if name in row}


async def test_every_list_of_a_tenant_ends_with_a_sealed_cursor(world: World) -> None:
    """Also one that has no hidden rows."""
    for number in range(2):
        await world.engine.write_shared_value("notes", f"n{number}", number, tenant="acme")
        await world.engine.set_team_budget(f"team{number}", {"writer": 1.0}, total_usd=1, tenant="acme")
        await world.service.execute(Principal("bob", "acme"), GrantApproval(tool=f"t{number}", for_s=60))
    for kind in (query.SharedValues, query.TeamBudgets, query.Approvals, query.Audit):
        page = await world.service.query(Principal("bob", "acme"), kind(limit=1))
        assert page.cursor is not None
        assert page.cursor.startswith("~")
        after = (await world.service.query(Principal("bob", "acme"), kind(limit=1, cursor=page.cursor))).rows
        assert after not in ([], page.rows)


@pytest.mark.parametrize("kind", [*LISTS, query.SharedValues, query.TeamBudgets, query.Audit])
async def test_no_place_that_a_caller_makes_up_is_a_cursor(world: World, kind: Any) -> None:
    """Where an own row comes before a place and not after the next, there is the count of all rows between."""
    own = str((await world.engine.start(quick, {}, tenant="acme")).id)
    for place in (own, "1", "0", '["acme","a"]', '["acme","a","b"]', '["a",1]', ""):
        with pytest.raises(InvalidInput, match="no cursor of this list"):
            await world.service.query(Principal("bob", "acme"), kind(cursor=place))


async def test_no_error_tells_what_a_sealed_cursor_says(world: World) -> None:
    who = Principal("bob", "acme", client="bob", access=Access(workflows=("quick",)))
    key, told = await world.engine.store.keys.cursor_key(), []
    for kind in LISTS:
        sealed = seal(key, f"{kind.__name__} acme", f"{HIDDEN}:nothing")
        try:
            await world.service.query(who, kind(cursor=sealed))
        except HoldfastError as problem:
            told.append(str(problem))
    assert told
    assert HIDDEN not in "".join(told)


@given(st.text(max_size=200), st.text(max_size=20), st.binary(min_size=1, max_size=64))
def test_a_sealed_cursor_opens_as_it_was_and_only_where_it_is_from(place: str, of: str, key: bytes) -> None:
    sealed = seal(key, of, place)
    assert open_(key, of, sealed) == place
    assert seal(key, of, place) == sealed
    for other in (sealed[:-1], sealed + "A", sealed[0] + ("A" if sealed[1] != "A" else "B") + sealed[2:], "~", "~é"):
        with pytest.raises(InvalidInput):
            open_(key, of, other)
    with pytest.raises(InvalidInput):
        open_(key, f"{of}x", sealed)
    with pytest.raises(InvalidInput):
        open_(key + b"x", of, sealed)


def test_the_length_of_a_sealed_cursor_says_little() -> None:
    assert len({len(seal(b"k", "x", "n" * length)) for length in range(60)}) == 1
