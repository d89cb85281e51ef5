"""What every store promises (holdfast.ports), as tests. A store takes part by giving `connect`; see test_store_conformance.

Two stores that come from the same `connect` are two processes, as far as these tests can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from holdfast.core.capacity.estimates import Use
from holdfast.core.capacity.lending import DeclaredPool, Grant, Visit, Visitor
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.costs import Cost, CostField, CostProgress, HourCost, LabelCost, UncountedRun
from holdfast.core.facts.events import Recorded, ValueRecorded
from holdfast.core.facts.extra_costs import ExtraCost, ExtraSum, RunCosts
from holdfast.core.facts.graph import Definition, Graph, Node
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.nouns import supervision
from holdfast.core.nouns.conversations import Change, Conversation, ConversationTurn
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult
from holdfast.core.nouns.model_estimates import MAX_ESTIMATES, ModelEstimate, ModelUse
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.nouns.shared_values import SharedIndex, packed
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.values.actor import Actor
from holdfast.core.values.audit import FIRST, Entry, Head, Verification
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import AppendId, CallId, GateId, NodeName, RunId, Seq, SessionId, call_id
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.proposal import Proposal
from holdfast.core.values.scopes import FLEET_RUNS, AgentRow, ScopeRow, ScopeWaiter, family_of, in_tokens, of_agent, team_budget
from holdfast.core.views.projection import EffectChange, project
from holdfast.core.views.selection import GateOrder
from holdfast.core.views.status import Wait
from holdfast.engine.background.rollup import count_some
from holdfast.engine.runs.mailbox import Delivery
from holdfast.errors import (
    Conflict,
    EffectKeyTaken,
    HoldfastError,
    KeyReused,
    MissingExtra,
    NotFound,
    OverLimit,
    SeqConflict,
    SharedLockLost,
    SharedValueMoved,
    StoreError,
    Unstorable,
    UsageError,
)
from holdfast.ports import (
    ApiKey,
    Append,
    Chunk,
    DueRun,
    History,
    LogPlace,
    Piece,
    Reply,
    SignIn,
    SnapshotRecord,
    Store,
    StreamName,
    TailEvent,
    ToDecide,
    WorkflowRecord,
)
from tests.stores.story import ASKS, BORN_MS, DRAFT, PATH, SEND, TINY, Story, demanding, fold, graph, put, snapshot_of

Connect = Callable[[], Awaitable[Store]]
"""Opens a store: the same one each time, as a process of its own would."""

DAY, MONTH, DAYS = "tenant/acme/day/2023-11-14", "tenant/acme/month/2023-11", "tenant/acme/day"
"""The scopes of the stories' money, and what the limit of such a day is set for."""
ACME_RUNS = "tenant/acme/runs"
FULL = cmd.Shortage(limit=1, left=0, held=1)
TEAM = team_budget("acme", "research")
CRITIC, PLANNER, WRITER = (of_agent(TEAM, agent) for agent in ("critic", "planner", "writer"))
TRIO = {WRITER: TeamAgent(1.5), CRITIC: TeamAgent(1.0), PLANNER: TeamAgent(2.0)}
FOR_EVER_MS = BORN_MS * 10
APART_MS = 50
"""By how much the clocks of two processes on one store may differ."""


async def told(store: Store, append: Append) -> HoldfastError | None:
    """The fate of one append."""
    (fate,) = await store.log.append([append])
    return fate


async def prepared(store: Store, story: Story, key: str) -> Append:
    """The append in which `story` means the effect `key`, after everything that comes before it."""
    await put(store, story.start(), story.draft(), story.ask(), story.answer())
    return story.mean(key)


def _known(problem: HoldfastError | None) -> dict[str, cmd.Shortage]:
    """What a delivery knows after an append was refused."""
    assert isinstance(problem, OverLimit)
    delivery = Delivery([])
    assert delivery.heeds(problem)
    return delivery.shortages


async def _lent(store: Store, story: Story, amount: int, *, path: str = "0") -> Append:
    """The append of a hold for which others lend, after the refusal from which that is known."""
    refused = story.hold(amount, path)
    known = _known(await told(store, refused))
    story.forget(refused)
    append = story.hold(amount, path, shortages=known)
    await put(store, append)
    return append


def _then(story: Story, *appends: Append) -> Append:
    """What several appends say, in one."""
    before = appends[0].expected
    del story.history[before:]
    return story.happens(before, [each.event for append in appends for each in append.events])


async def _limits(store: Store) -> dict[str, int | None]:
    return {row.scope: row.limit for row in await store.scopes.agents(TEAM)}


def with_row(append: Append, **values: Any) -> Append:
    changes = msgspec.structs.replace(append.changes, run=msgspec.structs.replace(append.changes.run, **values))
    return msgspec.structs.replace(append, changes=changes)


SLOTS = DeclaredPool("BROWSERS", "slots", 8)
RATE = DeclaredPool("OPENAI_RPS", "rate", 60, per_s=60, burst=30, counts="requests", of="openai")


async def holder(store: Store, name: str) -> SessionId:
    """A session by which a holder of that name keeps its shares."""
    session = SessionId(f"session of {name}")
    await store.sessions.open(session, name, [])
    return session


async def visits(store: Store, session: SessionId, number: int, *visits: Visit, outlives_ms: int = 0) -> list[Grant]:
    return list(await store.lending.lend(Visitor("lane", session, number, outlives_ms), visits))


def seqs(events: Sequence[Recorded]) -> list[int]:
    return [recorded.seq for recorded in events]


async def expect_unsearchable(store: Store, query: SharedIndex) -> None:
    """What is encrypted is listed and read by key, and not searched."""
    story = Story()
    await put(store, story.start())
    await put(store, story.shares("rent", 0, "Friday", index=SharedIndex("rent", "tiny", packed((3, 4)))))
    with pytest.raises(UsageError, match="encrypted"):
        await store.shared_values.search("acme", "board", query, 9)
    (listed,) = await store.shared_values.search("acme", "board", None, 9)
    assert (listed.key, listed.latest.value) == ("rent", "Friday")


class StoreConformance:
    """Every test is a promise; `connect` is the store's."""

    # --- History ------------------------------------------------------------------------------------------------------

    async def test_a_history_comes_back_as_it_was_appended(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, *story.whole())
        assert await store.log.events(story.run) == tuple(story.history)
        assert seqs(story.history) == list(range(1, len(story.history) + 1))

    async def test_what_was_acknowledged_is_there_for_every_process(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        for append in story.whole():
            await put(mine, append)
            assert await theirs.log.events(story.run) == tuple(story.history)

    async def test_a_part_of_a_history_can_be_asked_for(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, *story.whole())
        assert await store.log.events(story.run, after=3) == tuple(story.history[3:])
        assert await store.log.events(story.run, after=3, limit=2) == tuple(story.history[3:5])
        assert await store.log.events(story.run, after=len(story.history)) == ()
        assert await store.log.events(RunId("nobody")) == ()

    async def test_no_append_may_leave_a_gap(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        first, second, third = story.start(), story.draft(), story.ask()
        await put(store, first)
        assert isinstance(await told(store, third), SeqConflict)
        moved = tuple(Recorded(Seq(recorded.seq + 1), recorded.at_ms, recorded.event) for recorded in second.events)
        assert isinstance(await told(store, msgspec.structs.replace(second, events=moved)), StoreError)
        assert isinstance(await told(store, msgspec.structs.replace(second, events=())), StoreError)
        await put(store, second, third)
        assert seqs(await store.log.events(story.run)) == list(range(1, len(story.history) + 1))

    async def test_a_stale_append_gets_an_error_and_changes_nothing(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start(), story.draft(), story.ask())
        there, row = tuple(story.history), await store.views.run(story.run)
        stale = with_row(story.answer(), status="failed")
        stale = msgspec.structs.replace(stale, expected=Seq(1))
        late = [Recorded(Seq(2 + n), recorded.at_ms, recorded.event) for n, recorded in enumerate(stale.events)]
        stale = with_row(msgspec.structs.replace(stale, events=tuple(late)), seq=late[-1].seq)
        fate = await told(store, stale)
        assert isinstance(fate, SeqConflict)
        assert (fate.run, fate.expected, fate.seq) == (story.run, 1, len(there))  # type: ignore[attr-defined]
        assert await store.log.events(story.run) == there
        assert await store.views.run(story.run) == row
        assert (await store.views.gates(run=story.run))[0][1] is None

    async def test_of_two_who_append_at_the_same_place_one_wins_and_one_gets_an_error(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        start = story.start()
        await put(mine, start)
        for _ in range(20):
            before = story.state.seq
            one = story.does(cmd.SendSignal("ping"))
            two = msgspec.structs.replace(one, append_id=AppendId(one.append_id[::-1]))
            fates = await asyncio.gather(told(mine, one), told(theirs, two))
            assert [type(fate) for fate in fates].count(SeqConflict) == 1
            assert fates.count(None) == 1
            assert (await mine.log.seqs([story.run]))[story.run] == before + 1

    async def test_the_same_append_is_acknowledged_again_and_written_once(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        first, second, third = story.start(), story.draft(), story.ask()
        await put(mine, first, first, second)
        await put(theirs, second, third, first, second, third)
        assert seqs(await mine.log.events(story.run)) == list(range(1, len(story.history) + 1))
        assert len(await mine.views.gates(run=story.run)) == 1

    async def test_each_of_many_appends_learns_its_own_fate(self, connect: Connect) -> None:
        store = await connect()
        stories = [Story() for _ in range(300)]
        starts = [story.start() for story in stories]
        assert set(await store.log.append(starts[::2])) == {None}
        fates = await store.log.append([story.draft() for story in stories])
        assert [fate is None for fate in fates] == [n % 2 == 0 for n in range(300)]
        now = await store.log.seqs([story.run for story in stories] + [RunId("nobody")])
        assert now == {story.run: story.state.seq for story in stories[::2]}

    async def test_it_can_be_asked_which_of_many_runs_have_ended(self, connect: Connect) -> None:
        store, whole, begun = await connect(), Story(), Story()
        await put(store, *whole.whole())
        await put(store, begun.start())
        assert await store.log.seqs([whole.run, begun.run], ended=True) == {whole.run: whole.state.seq}

    async def test_nothing_to_append_is_nothing_wrong(self, connect: Connect) -> None:
        assert list(await (await connect()).log.append([])) == []

    @pytest.mark.parametrize("poison", ["value", "text", "number", "row of another", "key taken", "late", "early"])
    async def test_what_cannot_be_stored_hurts_only_itself(self, connect: Connect, poison: str) -> None:
        store = await connect()
        taken = Story()
        await put(store, taken.start(key="taken"))
        there = tuple(taken.history)
        stories = [Story() for _ in range(20)]
        appends = [story.start() for story in stories]
        bad = appends[7]
        match poison:
            case "value":
                event = ValueRecorded(DRAFT, PATH, "now", object())
                bad = msgspec.structs.replace(bad, events=(bad.events[0], Recorded(Seq(2), BORN_MS, event)))
            case "text":
                bad = with_row(bad, workflow="half of a pair: \ud800")
            case "number":
                bad = with_row(bad, limit_nanousd=2**70)
            case "row of another":
                bad = with_row(bad, run=stories[8].run)
            case "key taken":
                bad = Story().start(key="taken")
            case "late":
                bad = msgspec.structs.replace(taken.start_again(), append_id=AppendId("another"))
            case _:
                bad = stories[7].draft()
        fates = await store.log.append([*appends[:7], bad, *appends[8:]])
        conflicts = {"key taken": KeyReused, "late": SeqConflict, "early": SeqConflict, "row of another": StoreError}
        expected = conflicts.get(poison, Unstorable)
        assert [type(fate) for fate in fates] == [expected if n == 7 else type(None) for n in range(20)]
        good = [story.run for n, story in enumerate(stories) if n != 7]
        assert await store.log.seqs([*good, stories[7].run]) == dict.fromkeys(good, 2)
        assert await store.log.events(taken.run) == there
        assert len(await store.views.runs(limit=1000)) == 20

    @pytest.mark.parametrize("text", ["a\0b", "'; drop table runs; --", "😀 ﷺ \u2028", "\\", "x" * 3_000_000, ""])
    async def test_any_text_comes_back_unchanged(self, connect: Connect, text: str) -> None:
        name = text[:100].replace("\0", "")  # the engine lets no name hold what PostgreSQL's texts cannot
        store, story = await connect(), Story(tenant=name)
        await put(store, story.start(key=name, text=text))
        assert fold(await store.log.load(story.run, FOLD_VERSION)).input.value() == {"text": text}
        row = await store.views.run(story.run)
        assert row is not None
        assert (row.tenant, row.key) == (name, name)
        found = await store.log.run_of_key(name, name)
        assert found is not None
        assert found[0] == story.run

    # --- Start keys ---------------------------------------------------------------------------------------------------

    async def test_a_start_key_belongs_to_one_run_of_its_tenant(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        first, second, other = Story(), Story(), Story(tenant="umbrella")
        await put(mine, first.start(key="order-1"))
        fate = await told(theirs, second.start(key="order-1"))
        assert isinstance(fate, KeyReused)
        assert fate.run == first.run  # type: ignore[attr-defined]
        await put(theirs, other.start(key="order-1"))
        assert await theirs.log.run_of_key("acme", "order-1") == (first.run, first.state.input_digest)
        assert await theirs.log.run_of_key("umbrella", "order-1") == (other.run, other.state.input_digest)
        assert await theirs.log.run_of_key("acme", "order-2") is None
        assert await theirs.views.run(second.run) is None

    async def test_of_two_starts_under_one_key_in_one_commit_the_first_wins(self, connect: Connect) -> None:
        store = await connect()
        first, second = Story(), Story()
        fates = await store.log.append([first.start(key="order-1"), second.start(key="order-1")])
        assert fates[0] is None
        assert isinstance(fates[1], KeyReused)
        assert fates[1].run == first.run  # type: ignore[attr-defined]
        assert await store.log.seqs([first.run, second.run]) == {first.run: 2}

    # --- Scopes -------------------------------------------------------------------------------------------------------

    async def test_what_runs_hold_settle_and_doubt_stands_in_their_scopes(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        first, second = Story(), Story()
        await put(mine, first.start(), second.start())
        await put(mine, first.hold(60), second.hold(40), first.hold(5, "1"))
        assert await theirs.scopes.balances([DAY, MONTH]) == [ScopeRow(DAY, None, 0, 105, 0), ScopeRow(MONTH, None, 0, 105, 0)]
        await put(theirs, first.settle(45), second.doubt())
        assert await mine.scopes.balances([MONTH, DAY]) == [ScopeRow(MONTH, None, 45, 5, 40), ScopeRow(DAY, None, 45, 5, 40)]
        umbrella = "tenant/umbrella/day/2023-11-14"
        assert await mine.scopes.balances([umbrella]) == [ScopeRow(umbrella, None)]

    async def test_a_limit_is_of_every_scope_of_its_family_whenever_it_is_set(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        await put(mine, story.start(), story.hold(60))
        tomorrow = "tenant/acme/day/2023-11-15"
        for limit in (100, 50, 0):
            await mine.scopes.set_limit(DAYS, limit)
            assert await theirs.scopes.balances([DAY, tomorrow]) == [ScopeRow(DAY, limit, 0, 60), ScopeRow(tomorrow, limit)]
        await mine.scopes.set_limit(DAYS.replace("acme", "ac"), 7)
        await mine.scopes.set_limit("tenant/acme/month", 1000)
        assert await theirs.scopes.limits("tenant/acme/") == {DAYS: 0, "tenant/acme/month": 1000}
        await mine.scopes.set_limit(DAYS, None)
        await mine.scopes.set_limit(DAYS, None)
        assert await theirs.scopes.limits("tenant/acme/") == {"tenant/acme/month": 1000}
        assert await theirs.scopes.balances([DAY]) == [ScopeRow(DAY, None, 0, 60)]

    async def test_a_hold_that_a_scope_has_no_room_for_is_refused_whole_and_leaves_a_waiter(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await store.scopes.set_limit("tenant/acme/month", 100)
        await put(store, story.start(), story.hold(60))
        there, row = tuple(story.history), await store.views.run(story.run)
        refused = story.hold(41, "1")
        fate = await told(store, refused)
        assert isinstance(fate, OverLimit)
        assert (fate.run, fate.scope, fate.limit, fate.used, fate.held, fate.wanted) == (  # type: ignore[attr-defined]
            story.run,
            MONTH,
            100,
            60,
            60,
            41,
        )
        assert await store.log.events(story.run) == there
        assert await store.views.run(story.run) == row
        assert await store.scopes.balances([DAY, MONTH]) == [ScopeRow(DAY, None, 0, 60), ScopeRow(MONTH, 100, 0, 60)]
        assert await store.scopes.waiting([DAY, MONTH], 10) == [ScopeWaiter(story.run, MONTH, 41, 40)]
        story.forget(refused)
        await put(store, story.hold(40, "1"))
        assert (await store.scopes.balances([MONTH]))[0].left == 0

    async def test_tokens_have_scopes_of_their_own_and_each_unit_enforces_its_limit(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        tokens = in_tokens(DAY)
        await store.scopes.set_limit(in_tokens(DAYS), 500)
        await put(store, story.start(), story.hold(60, tokens=300))
        for limits_, amounts, scope in (({}, (1, 201), tokens), ({DAYS: 100}, (41, 200), DAY), ({DAYS: 100}, (1, 201), tokens)):
            for family, limit in limits_.items():
                await store.scopes.set_limit(family, limit)
            refused = story.hold(amounts[0], "1", tokens=amounts[1])
            fate = await told(store, refused)
            assert isinstance(fate, OverLimit)
            assert (fate.scope, fate.wanted) == (scope, amounts[scope == tokens])
            story.forget(refused)
        assert await store.scopes.balances([DAY, tokens]) == [ScopeRow(DAY, 100, 0, 60), ScopeRow(tokens, 500, 0, 300)]
        await put(store, story.hold(40, "1", tokens=200), story.settle(50))
        assert await store.scopes.balances([tokens]) == [ScopeRow(tokens, 500, 2, 200)]

    @pytest.mark.parametrize("scope", ["tree/{run}", "tokens/tree/{run}", "conversation/acme/runs", in_tokens(DAY)])
    async def test_a_waiter_for_what_calls_in_flight_will_not_leave_is_found(self, connect: Connect, scope: str) -> None:
        store, giver, story = await connect(), Story(), Story()
        scope = scope.format(run=giver.run)
        shared = () if "tenant" in scope else (scope,)
        await store.scopes.set_limit(family_of(scope), 100)
        await put(store, giver.start(shared=shared), giver.hold(80, tokens=80), story.start(shared=shared))
        short = story.hold(60, tokens=60, shortages={scope: cmd.Shortage(100, 20, 80)})
        await put(store, short, story.suspend())
        assert await store.scopes.headroom(10) == []
        await put(store, giver.doubt())
        assert await store.scopes.headroom(10) == [ScopeWaiter(story.run, scope, 60, 20)]

    async def test_what_gives_back_or_cannot_be_helped_is_taken_above_the_limit(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start(), story.hold(60), story.hold(40, "1"), story.hold(0, "2"))
        await store.scopes.set_limit(DAYS, 10)
        await put(store, story.hold(0, "3"), story.settle(70), story.doubt("1"), story.draft())
        assert await store.scopes.balances([DAY]) == [ScopeRow(DAY, 10, 70, 0, 40)]

    async def test_in_one_flush_holds_are_admitted_in_order_as_far_as_they_fit(self, connect: Connect) -> None:
        store = await connect()
        await store.scopes.set_limit(DAYS, 100)
        stories = [Story() for _ in range(6)]
        giver = Story()
        await put(store, giver.start(), giver.hold(30), *(story.start() for story in stories))
        wanted = [50, 30, 20, 10, 20, 25]
        holds = [story.hold(amount) for story, amount in zip(stories, wanted, strict=True)]
        fates = await store.log.append([*holds[:4], giver.settle(5), *holds[4:]])
        # 30 are held; 50 fit, 30 do not, 20 do and fill it, 10 do not; then 25 come back, of which 20 are taken.
        assert [fate is None for fate in fates] == [True, False, True, False, True, True, False]
        assert await store.scopes.balances([DAY]) == [ScopeRow(DAY, 100, 5, 90, 0)]
        left = [(each.run, each.wanted, each.left) for each in await store.scopes.waiting([DAY], 10)]
        assert left == [(stories[1].run, 30, 5), (stories[3].run, 10, 5), (stories[5].run, 25, 5)]
        assert await store.log.seqs([story.run for story in stories[:2]]) == {stories[0].run: 3, stories[1].run: 2}

    @pytest.mark.parametrize("limit", [None, 100])
    async def test_the_same_hold_that_is_sent_again_is_charged_once(self, connect: Connect, limit: int | None) -> None:
        store, story = await connect(), Story()
        await store.scopes.set_limit(DAYS, limit)
        await put(store, story.start())
        hold = story.hold(60)
        await put(store, hold, hold)
        assert list(await store.log.append([hold])) == [None]
        assert (await store.scopes.balances([DAY]))[0].used == 60

    async def test_an_append_that_is_there_already_makes_no_room_for_others_of_its_flush(self, connect: Connect) -> None:
        store, giver, others = await connect(), Story(), [Story(), Story()]
        await store.scopes.set_limit(DAYS, 100)
        await put(store, giver.start(), giver.hold(100), *(story.start() for story in others))
        settled = giver.settle(0)
        await put(store, settled)
        fates = await store.log.append([settled, *(story.hold(60) for story in others)])
        assert [type(fate) for fate in fates] == [type(None), type(None), OverLimit]
        assert (await store.scopes.balances([DAY]))[0].used == 60

    async def test_of_two_processes_that_race_for_the_last_of_a_limit_one_gets_it(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.scopes.set_limit(DAYS, 1000)
        for number in range(10):
            stories = [Story(), Story()]
            await put(mine, *(story.start() for story in stories))
            room = (await mine.scopes.balances([DAY]))[0].left or 0
            holds = [story.hold(room - 50) for story in stories]
            fates = await asyncio.gather(told(mine, holds[0]), told(theirs, holds[1]))
            assert [type(fate) for fate in fates].count(OverLimit) == 1, f"race {number}"
            assert (await theirs.scopes.balances([DAY]))[0].left == 50
            winner = stories[fates.index(None)]
            await put(theirs, winner.settle(0))

    async def test_who_waits_is_found_when_there_is_room_and_keeps_his_turn(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.scopes.set_limit(DAYS, 100)
        giver, stories = Story(), [Story() for _ in range(3)]
        await put(mine, giver.start(), giver.hold(100), *(story.start() for story in stories))
        for story, wanted in zip(stories, (80, 30, 90), strict=True):
            refused = story.hold(wanted)
            assert isinstance(await told(mine, refused), OverLimit)
            story.forget(refused)
            await put(mine, story.hold(wanted, shortages={DAY: cmd.Shortage(100, 0, 100)}))
        assert await theirs.scopes.headroom(10) == []
        assert [each.run for each in await theirs.scopes.waiting([DAY], 10)] == [story.run for story in stories]
        await put(theirs, giver.settle(15))
        assert [(each.run, each.wanted, each.left) for each in await mine.scopes.headroom(10)] == [
            (stories[0].run, 80, 85),
            (stories[1].run, 30, 85),
        ]
        assert len(await mine.scopes.headroom(1)) == 1
        await mine.scopes.set_limit(DAYS, None)
        assert [(each.run, each.left) for each in await theirs.scopes.headroom(10)] == [(story.run, None) for story in stories]
        await mine.scopes.set_limit(DAYS, 100)
        await put(mine, stories[0].does(cmd.Tick(headroom=frozenset([DAY]))))
        assert [each.run for each in await theirs.scopes.headroom(10)] == [stories[1].run], (
            "it is to hold now, and waits no more"
        )
        await put(mine, stories[1].does(cmd.CancelRun()))
        assert [each.run for each in await theirs.scopes.waiting([DAY], 10)] == [stories[2].run]

    # --- Team budgets ---------------------------------------------------------------------------------------------------

    async def test_a_team_budget_leaves_each_agent_at_least_what_it_has_used(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.scopes.allot(TEAM, 300, TRIO)
        writer = Story()
        await put(mine, writer.start(shared=(TEAM,), agent="writer"), writer.hold(90))
        assert await theirs.scopes.agents(TEAM) == [
            AgentRow(CRITIC, 100, priority=1.0),
            AgentRow(PLANNER, 100, priority=2.0),
            AgentRow(WRITER, 100, 0, 90, priority=1.5, moved_at_ms=writer.state.at_ms),
        ]
        await theirs.scopes.allot(TEAM, 120, {CRITIC: TeamAgent(3), PLANNER: TeamAgent(4)})
        assert [(row.scope, row.limit, row.priority) for row in await mine.scopes.agents(TEAM)] == [
            (CRITIC, 15, 3.0),
            (PLANNER, 15, 4.0),
            (WRITER, 90, 0.0),
        ]
        assert await mine.scopes.balances([TEAM]) == [ScopeRow(TEAM, 120, 0, 90)]
        await mine.scopes.allot(TEAM, None, {})
        assert await theirs.scopes.agents(TEAM) == []
        assert await theirs.scopes.balances([TEAM]) == [ScopeRow(TEAM, None, 0, 90)]

    async def test_a_call_moves_lent_limits_in_its_append_and_returns_them_when_it_closes(self, connect: Connect) -> None:
        mine, theirs, writer = await connect(), await connect(), Story()
        await mine.scopes.allot(TEAM, 300, TRIO)
        await put(mine, writer.start(shared=(TEAM,), agent="writer"))
        lent = await _lent(mine, writer, 180)
        assert lent.events[-1].event.loans == {CRITIC: 50, PLANNER: 30}  # type: ignore[attr-defined]
        assert await _limits(theirs) == {CRITIC: 50, PLANNER: 70, WRITER: 180}
        await put(theirs, writer.settle(130))
        assert await _limits(mine) == {CRITIC: 70, PLANNER: 100, WRITER: 130}
        assert [row.used for row in await mine.scopes.agents(TEAM)] == [0, 0, 130]
        assert await mine.scopes.balances([TEAM]) == [ScopeRow(TEAM, 300, 130)]

    async def test_what_goes_back_of_a_loan_and_what_is_called_next_come_in_one_append(self, connect: Connect) -> None:
        """There is room where what is taken fits beside what goes back, and nowhere else: the outcome of a call and the next
        hold are often committed together."""
        mine, theirs, writer = await connect(), await connect(), Story()
        await mine.scopes.allot(TEAM, 300, TRIO)
        await put(mine, writer.start(shared=(TEAM,), agent="writer"))
        await _lent(mine, writer, 180)
        too_much = _then(writer, writer.settle(30), writer.hold(71, "1"))
        refused = await told(theirs, too_much)
        assert isinstance(refused, OverLimit)
        assert (refused.scope, refused.wanted, refused.limit - refused.used) == (WRITER, 1, 0)
        writer.forget(too_much)
        await put(theirs, _then(writer, writer.settle(30), writer.hold(70, "1")))
        assert await _limits(mine) == {CRITIC: 100, PLANNER: 100, WRITER: 100}
        assert [row.used for row in await mine.scopes.agents(TEAM)] == [0, 0, 100]

    async def test_who_was_busy_last_lends_last_and_to_lend_is_not_to_be_busy(self, connect: Connect) -> None:
        store, writer, critic = await connect(), Story(), Story()
        await store.scopes.allot(TEAM, 300, TRIO)
        await put(store, critic.start(shared=(TEAM,), agent="critic"), critic.hold(10), critic.settle(0))
        await put(store, writer.start(shared=(TEAM,), agent="writer"))
        first = await _lent(store, writer, 110)
        assert first.events[-1].event.loans == {PLANNER: 10}  # type: ignore[attr-defined]
        await put(store, writer.settle(0))
        again = await _lent(store, writer, 170, path="1")
        assert again.events[-1].event.loans == {PLANNER: 50, CRITIC: 20}  # type: ignore[attr-defined]

    async def test_a_loan_that_its_lender_can_no_longer_give_is_refused_whole(self, connect: Connect) -> None:
        """Two borrow at once who know the same of the planner: the second would leave it less than half."""
        mine, theirs, stories = await connect(), await connect(), [Story(), Story()]
        poor, rich = TeamAgent(initial_allocation=0.004), TeamAgent(initial_allocation=0.99)
        await mine.scopes.allot(TEAM, 300, {WRITER: poor, CRITIC: poor, PLANNER: rich})
        for story, agent in zip(stories, ("writer", "critic"), strict=True):
            await put(mine, story.start(shared=(TEAM,), agent=agent))
        refused = [story.hold(120) for story in stories]
        known = [_known(await told(mine, append)) for append in refused]
        for story, append in zip(stories, refused, strict=True):
            story.forget(append)
        holds = [story.hold(120, shortages=shortages) for story, shortages in zip(stories, known, strict=True)]
        fates = await asyncio.gather(told(mine, holds[0]), told(theirs, holds[1]))
        (late,) = (fate for fate in fates if fate is not None)
        assert isinstance(late, OverLimit)
        assert (late.scope, late.wanted, late.limit - late.used) == (PLANNER, 119, 178)
        assert sorted((await _limits(mine)).values()) == [1, 120, 178]
        assert await mine.scopes.waiting([PLANNER], 10) == [], "nobody waits at who cannot lend"

    async def test_who_waits_as_an_agent_is_found_when_others_may_lend_it_what_is_missing(self, connect: Connect) -> None:
        store, writer, planner = await connect(), Story(), Story()
        await store.scopes.allot(TEAM, 400, {WRITER: TeamAgent(), PLANNER: TeamAgent()})
        await put(store, planner.start(shared=(TEAM,), agent="planner"), planner.hold(150))
        await put(store, writer.start(shared=(TEAM,), agent="writer"))
        refused = writer.hold(240)
        known = _known(await told(store, refused))
        writer.forget(refused)
        await put(store, writer.hold(240, shortages=known))
        assert writer.state.short
        assert await store.scopes.headroom(10) == []
        await put(store, planner.settle(10))
        assert await store.scopes.headroom(10) == [ScopeWaiter(writer.run, WRITER, 240, 295)]
        await put(store, writer.does(cmd.Tick(headroom=frozenset([WRITER]))))
        assert (await _lent(store, writer, 240)).events[-1].event.loans == {PLANNER: 40}  # type: ignore[attr-defined]

    async def test_whom_a_team_budget_does_not_know_it_grants_nothing(self, connect: Connect) -> None:
        store, stranger = await connect(), Story()
        await store.scopes.allot(TEAM, 200, TRIO)
        await put(store, stranger.start(shared=(TEAM,), agent="stranger"))
        refused = stranger.hold(1)
        fate = await told(store, refused)
        assert isinstance(fate, OverLimit)
        assert (fate.scope, fate.limit) == (f"{TEAM}/stranger", 0)

    async def test_a_waiter_goes_with_the_next_that_its_run_appends_unless_it_waits_on(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await store.scopes.set_limit(DAYS, 10)
        await put(store, story.start())
        refused = story.hold(60)
        assert isinstance(await told(store, refused), OverLimit)
        story.forget(refused)
        await put(store, story.does(cmd.SendSignal("ping")))
        assert await store.scopes.waiting([DAY], 10) == []
        await put(store, story.hold(60, shortages={DAY: cmd.Shortage(10, 10, 0)}))
        await put(store, story.does(cmd.SendSignal("ping")))
        assert await store.scopes.waiting([DAY], 10) == [ScopeWaiter(story.run, DAY, 60, 10)]
        await put(store, story.does(cmd.PauseRun()))
        assert await store.scopes.waiting([DAY], 10) == []
        await put(store, story.does(cmd.ResumeRun()))
        assert await store.scopes.waiting([DAY], 10) == [ScopeWaiter(story.run, DAY, 60, 10)]

    async def test_what_a_session_says_of_itself_can_be_asked_for_while_it_lives(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        sessions = [SessionId("described one"), SessionId("described two"), SessionId("silent")]
        for session in sessions:
            await mine.sessions.open(session, "label", [])
        await mine.sessions.describe(sessions[0], b"{}")
        await mine.sessions.describe(sessions[1], b"old")
        await mine.sessions.describe(sessions[1], b"new")
        assert await theirs.sessions.described() == [b"{}", b"new"]
        await mine.sessions.close(sessions[0])
        assert await theirs.sessions.described() == [b"new"]

    async def test_a_session_that_was_closed_is_not_lost(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.sessions.open(SessionId("closed"), "label", [], b"{}")
        assert await theirs.sessions.lost(0, 10) == []
        await mine.sessions.close(SessionId("closed"))
        await theirs.sessions.expire()
        assert await theirs.sessions.lost(0, 10) == []

    async def test_runs_with_steps_to_be_placed_stand_in_line_until_they_are(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        demand = Demand(labels=("gpu",), pools={"OPENAI_RPS": 5})
        asks = Graph(Definition("asks", 1, (Node(NodeName("a"), "task", demand=demand),), ()))
        stories = [Story(graph=asks, tenant=tenant) for tenant in ("acme", "umbrella", "acme")]
        await put(mine, *(story.start() for story in stories))
        line = await theirs.views.unplaced(0, 10)
        assert [(each.run, each.tenant, each.graph_hash) for each in line] == [
            (story.run, story.tenant, asks.hash) for story in stories
        ]
        (wait,) = msgspec.json.decode(line[0].waiting_for, type=list[Wait])
        assert (wait.kind, wait.step, wait.demand) == ("worker", "a#1", demand)
        assert [each.run for each in await theirs.views.unplaced(line[0].place, 1)] == [stories[1].run]
        assert await theirs.scopes.headroom(10) == [], "nobody makes room for them but who places"
        assert await theirs.views.due(stories[0].at_ms + 10**9, [asks.hash], 10) == []
        await put(mine, stories[0].does(cmd.Tick(), placed=["a#1"]), stories[1].does(cmd.PauseRun()))
        assert [each.run for each in await theirs.views.unplaced(0, 10)] == [stories[2].run]
        await put(mine, stories[1].does(cmd.ResumeRun()))
        assert [each.run for each in await theirs.views.unplaced(0, 10)] == [stories[2].run, stories[1].run]

    async def test_a_key_that_finds_a_run_shows_who_started_it(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        placed, due, lost = Story(graph=ASKS), Story(), Story(session="s")
        await mine.sessions.open(lost.session, "worker", [TINY.hash])
        await put(mine, placed.start(by="shop"), due.start(by="bücher", executes=False), lost.start(by="desk"))
        await mine.sessions.close(lost.session)
        assert [each.started_by for each in await theirs.views.unplaced(0, 10)] == ["shop"]
        found = {each.run: each.started_by for each in await theirs.views.due(FOR_EVER_MS, [TINY.hash], 10)}
        assert found == {due.run: "bücher", lost.run: "desk"}
        stranded = {each.run: each.started_by for each in await theirs.views.stranded(FOR_EVER_MS, 10)}
        assert stranded == {**found, placed.run: "shop"}
        await put(mine, due.does(cmd.CancelRun(by=Actor("ada"))))
        assert [row.started_by for row in await theirs.views.runs()] == ["desk", "bücher", "shop"]

    async def test_the_workflows_of_runs_with_work_are_listed_whichever_process_knows_them(self, connect: Connect) -> None:
        store = await connect()
        later, sooner, placed, lost = (Story(graph=graph("later")), Story(graph=graph("sooner")), Story(graph=ASKS), Story())
        lost.session = SessionId("never opened")
        begun_ms = sooner.at_ms
        for story, wait_ms in ((later, 900_000), (sooner, 100)):
            await put(store, story.start(), story.draft(), story.ask(timeout_ms=wait_ms))
        assert await store.views.wanted_hashes(begun_ms - 1) == []
        assert set(await store.views.wanted_hashes(begun_ms + 60_000)) == {sooner.graph.hash}
        await put(store, placed.start())
        assert set(await store.views.wanted_hashes(begun_ms - 1)) == {ASKS.hash}
        await put(store, lost.start())
        await store.sessions.expire()
        assert set(await store.views.wanted_hashes(begun_ms - 1)) == {ASKS.hash, TINY.hash}
        assert set(await store.views.wanted_hashes(FOR_EVER_MS)) == {each.graph.hash for each in (later, sooner, placed, lost)}
        await put(store, placed.does(cmd.PauseRun()))
        assert set(await store.views.wanted_hashes(begun_ms - 1)) == {TINY.hash}

    async def test_active_runs_are_counted_from_their_start_to_their_end(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        stories = [Story(), Story(), Story(tenant="umbrella")]
        await put(mine, *(story.start() for story in stories))
        assert [row.used for row in await theirs.scopes.balances([ACME_RUNS, FLEET_RUNS])] == [2, 3]
        await put(theirs, stories[0].does(cmd.CancelRun()), stories[1].draft(), stories[1].ask())
        assert [row.used for row in await mine.scopes.balances([ACME_RUNS, FLEET_RUNS])] == [1, 2]

    async def test_a_start_beyond_the_cap_is_refused_and_leaves_nothing(self, connect: Connect) -> None:
        store, first, second = await connect(), Story(), Story()
        await store.scopes.set_limit(ACME_RUNS, 1)
        fates = await store.log.append([first.start(key="a"), second.start(key="b")])
        assert fates[0] is None
        assert isinstance(fates[1], OverLimit)
        assert (fates[1].scope, fates[1].limit, fates[1].used) == (ACME_RUNS, 1, 1)  # type: ignore[attr-defined]
        assert await store.scopes.waiting([ACME_RUNS], 10) == []
        assert await store.log.run_of_key("acme", "b") is None
        assert await store.views.run(second.run) is None
        assert isinstance(await told(store, Story().start(key="a")), KeyReused), "who has a run already gets that one"
        await put(store, first.does(cmd.CancelRun()))
        second = Story()
        await put(store, second.start(key="b"))

    async def test_places_go_to_those_who_wait_in_the_order_of_their_arrival(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.scopes.set_limit(ACME_RUNS, 1)
        active, queue = Story(), [Story() for _ in range(3)]
        await put(mine, active.start(), *(story.start(shortages={ACME_RUNS: FULL}) for story in queue))
        assert await theirs.scopes.headroom(10) == []
        assert [each.run for each in await theirs.scopes.waiting([ACME_RUNS], 10)] == [story.run for story in queue]
        await put(theirs, active.does(cmd.CancelRun()))
        assert [each.run for each in await mine.scopes.headroom(10)] == [story.run for story in queue]
        fate = await told(mine, Story().start())
        assert isinstance(fate, OverLimit), "there is a place, but others came before"
        assert fate.used == 3  # type: ignore[attr-defined]
        look = cmd.Tick(headroom=frozenset([ACME_RUNS]))
        late = queue[1].does(look)
        assert isinstance(await told(theirs, late), OverLimit), "not its turn"
        queue[1].forget(late)
        assert [each.run for each in await theirs.scopes.waiting([ACME_RUNS], 10)] == [story.run for story in queue]
        await mine.scopes.set_limit(ACME_RUNS, 2)
        admissions = [story.does(look) for story in queue]
        fates = await mine.log.append(admissions)
        assert [type(fate) for fate in fates] == [type(None), type(None), OverLimit]
        assert (await mine.scopes.balances([ACME_RUNS]))[0].used == 2
        assert [each.run for each in await mine.scopes.waiting([ACME_RUNS], 10)] == [queue[2].run]

    async def test_who_is_taken_up_again_waits_once_that_is_recorded_and_never_before(self, connect: Connect) -> None:
        """A run that has ended takes no more appends, if the one that says it goes on never comes: it would wait for ever,
        and all others behind it."""
        store = await connect()
        await store.scopes.set_limit(ACME_RUNS, 1)
        failed, active, next_ = Story(), Story(), Story()
        error = ErrorRecord("draft", "validation", "no", retryable=False, at_ms=BORN_MS)
        await put(store, failed.start(), failed.does(cmd.FailAttempt(DRAFT, 1, error)), active.start())
        assert failed.state.ended == "failed"
        refused = failed.does(cmd.RetryRun())
        assert isinstance(await told(store, refused), OverLimit)
        assert await store.scopes.waiting([ACME_RUNS], 10) == []
        await put(store, active.does(cmd.CancelRun()), next_.start())

    # --- The roll-up of costs -----------------------------------------------------------------------------------------

    async def test_a_run_is_counted_once_from_where_it_was_counted_last(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        story, other = Story(), Story(tenant="umbrella")
        await put(mine, story.start(), story.hold(60), story.hold(50, "1"), story.settle(45), other.start())
        runs = [story.run, other.run]
        first, others = UncountedRun(story.run, Seq(5), Seq(0)), UncountedRun(other.run, Seq(2), Seq(0))
        assert await theirs.costs.uncounted(runs) == [first, others]
        assert await theirs.costs.uncounted([other.run, Story().run]) == [others]
        cost = Cost("2023-11-14", "acme", "tiny", "draft", "m", 1, 1, 1, 45)
        counted = RunCosts(first, [HourCost("2023-11-14T22", "search", cost)])
        assert await mine.costs.count([counted]) == [story.run]
        assert await theirs.costs.count([counted]) == [], "somebody else was first"
        await put(mine, story.settle(30, "1"))
        (second,) = await theirs.costs.uncounted([story.run])
        assert second == UncountedRun(story.run, Seq(6), Seq(5))
        late = HourCost("2023-11-14T23", "search", msgspec.structs.replace(cost, cost_nanousd=30))
        theirs_ = HourCost("2023-11-13T00", "", Cost("2023-11-13", "umbrella", *"wnm", 1, 2, 3, 4))
        both = [RunCosts(second, [late]), RunCosts(others, [theirs_]), counted]
        assert await theirs.costs.count(both) == [story.run, other.run], "each that was not counted, and no other"
        assert await mine.costs.uncounted(runs) == []
        sums = [
            Cost("2023-11-13", "umbrella", *"wnm", 1, 2, 3, 4),
            Cost("2023-11-14", "acme", "tiny", "draft", "m", 2, 2, 2, 75),
        ]
        assert await mine.costs.rollup("2023-11-13", "2023-11-14") == sums
        assert await mine.costs.rollup("2023-11-13", "2023-11-13") == sums[:1]
        assert await mine.costs.rollup("2000-01-01", "2099-12-31", tenant="acme") == sums[1:]
        assert await mine.costs.rollup("2000-01-01", "2099-12-31", limit=1) == sums[:1]
        assert await mine.costs.rollup("2000-01-01", "2099-12-31", after=sums[0].key, limit=9) == sums[1:]

    async def test_the_roll_up_goes_on_from_where_it_has_come(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        assert await mine.costs.progress() is None
        begun, further = CostProgress("7", RunId("")), CostProgress("7")
        assert [await each.costs.move(None, begun) for each in (mine, theirs)] == [True, False]
        assert await theirs.costs.move(begun, further)
        assert not await mine.costs.move(begun, CostProgress("8")), "another was first"
        assert await mine.costs.progress() == further
        assert await mine.costs.move(further, begun), "where its place is lost it begins again"

    async def test_what_is_counted_in_pieces_by_several_is_what_the_runs_cost(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        early, *stories = [Story(tenant=tenant) for tenant in ("acme", "umbrella", "acme", "acme")]
        huge = 2**53 + 1  # a float would lose its last digit
        await put(mine, early.start(), early.hold(60), early.settle(45))
        assert not await count_some(mine), "it looks at all runs first"
        for story in stories:
            await put(mine, story.start(), story.hold(huge), story.settle(huge), story.hold(50, "1"))
        while not all(await asyncio.gather(count_some(mine), count_some(theirs))):
            pass
        days = "2000-01-01", "2099-12-31"
        assert {each.tenant: each.cost_nanousd for each in await mine.costs.sums(["tenant"], *days)} == {
            "acme": 2 * huge + 45,
            "umbrella": huge,
        }
        await put(mine, stories[0].settle(30, "1"))
        while not await count_some(theirs):
            pass
        (total,) = await mine.costs.sums([], *days)
        assert (total.calls, total.cost_nanousd) == (5, 3 * huge + 75)
        await put(mine, early.hold(50, "1"))
        count, seen = mine.costs.count, await theirs.costs.uncounted([early.run])

        async def late(runs: Sequence[RunCosts]) -> Sequence[RunId]:
            if seen:  # another process counts what it has seen, less than this one
                assert await theirs.costs.count([RunCosts(seen.pop(), [])])  # type: ignore[attr-defined]
            return await count(runs)

        await put(mine, early.settle(7, "1"))
        mine.costs.count = late  # type: ignore[method-assign]
        while not await count_some(mine):
            pass
        (total,) = await mine.costs.sums([], *days)
        assert (total.calls, total.cost_nanousd) == (6, 3 * huge + 82)
        rows = [await mine.views.run(story.run) for story in (early, *stories)]
        assert sum(row.settled_nanousd for row in rows if row is not None) == total.cost_nanousd

    async def test_extra_costs_and_the_dearest_runs_are_counted_with_the_costs(self, connect: Connect) -> None:
        store = await connect()
        cheap, dear, theirs = Story(), Story(), Story(tenant="umbrella")
        await put(store, cheap.start(), dear.start(), theirs.start(), dear.hold(60), dear.settle(45))
        huge = 2**53 + 1  # a float would lose its last digit
        retry = ExtraCost("2023-11-14", "acme", "", "tiny", "draft", "m", "retry", 1, 10, huge)
        doubt = msgspec.structs.replace(retry, cause="doubt", model="n", cost_nanousd=5)
        for story, total, extra in ((cheap, 7, [retry, doubt]), (dear, huge, [retry]), (theirs, 9, [])):
            (uncounted,) = await store.costs.uncounted([story.run])
            assert await store.costs.count([RunCosts(uncounted, [], extra, total)])
        days = "2023-11-14", "2023-11-14"
        assert await store.costs.extra([], *days) == [
            ExtraSum("retry", *[""] * 6, 2, 20, 2 * huge),
            ExtraSum("doubt", *[""] * 6, 1, 10, 5),
        ]
        assert await store.costs.extra(["model", "day"], *days, limit=1, offset=1, workflows=["tiny"]) == [
            ExtraSum("doubt", "2023-11-14", "", "", "", "", "n", 1, 10, 5)
        ]
        assert await store.costs.extra([], *days, workflows=[]) == await store.costs.extra([], *days, tenant="umbrella") == []
        found = await store.costs.dearest(0, 2**48)
        assert found == await store.costs.dearest(0, FOR_EVER_MS)
        assert [(each.run, each.cost_nanousd) for each in found] == [(dear.run, huge), (theirs.run, 9), (cheap.run, 7)]
        assert found[0][1:5] == ("acme", "tiny", 1, "running")
        assert [each.run for each in await store.costs.dearest(0, FOR_EVER_MS, tenant="acme", limit=1)] == [dear.run]
        assert await store.costs.dearest(0, BORN_MS) == []
        assert await store.costs.dearest(BORN_MS, BORN_MS + 86_400_000) == found
        assert [each.run for each in await store.costs.dearest(1, FOR_EVER_MS, tenant="umbrella")] == [theirs.run]

    async def test_runs_with_a_label_cost_what_they_have_settled(self, connect: Connect) -> None:
        store = await connect()
        first, second = Story(), Story()
        await put(store, first.start(labels={"team": "search"}), second.start(labels={"team": "ads"}))
        await put(store, first.hold(60), first.settle(45), second.hold(30), second.settle(30))
        found = await store.costs.by_label("team", 0, FOR_EVER_MS)
        assert found == [LabelCost("search", 1, 45, 0), LabelCost("ads", 1, 30, 0)]
        assert await store.costs.by_label("team", 0, FOR_EVER_MS, limit=1, offset=1) == found[1:]
        assert await store.costs.by_label("", 0, FOR_EVER_MS) == await store.costs.by_label("team", 0, BORN_MS) == []

    async def test_costs_are_summed_up_by_hour_and_team_with_the_rest_and_what_no_hour_has(self, connect: Connect) -> None:
        store = await connect()
        first, second = Story(), Story()
        await put(store, first.start(), second.start())
        huge = 2**53 + 1  # a float would lose its last digit
        cost = Cost("2023-11-14", "acme", "tiny", "draft", "m", 1, 2, 3, huge)
        counted = [
            HourCost("2023-11-14T22", "search", cost),
            HourCost("2023-11-14T23", "", msgspec.structs.replace(cost, node="check", cost_nanousd=5)),
            HourCost("2023-11-14T23", "", msgspec.structs.replace(cost, workflow="other", model="n", cost_nanousd=7)),
        ]
        assert await store.costs.count([RunCosts(UncountedRun(first.run, Seq(2), Seq(0)), counted)])
        days: tuple[str, str] = ("2023-11-14", "2023-11-14")

        async def sums(*by: CostField, **filters: Any) -> list[Any]:
            found = await store.costs.sums(by, *days, **filters)
            return [(*filter(None, each[:8]), *(["rest"] if each.is_rest else []), each.cost_nanousd) for each in found]

        assert await sums() == [(huge + 12,)]
        assert await sums("hour") == [("2023-11-14T22", huge), ("2023-11-14T23", 12)]
        assert await sums("team") == [(12,), ("search", huge)]
        assert await sums("day", "team", team="search") == [("2023-11-14", "search", huge)]
        assert await sums("model", workflows=["tiny"]) == [("m", huge + 5)]
        assert await sums("model", workflows=[]) == []
        assert await sums("node", tenant="umbrella") == []
        nodes = [("tiny", "draft", huge), ("other", "draft", 7), ("tiny", "check", 5)]
        assert await sums("workflow", "node", largest_first=True) == nodes
        assert await sums("workflow", "node", largest_first=True, limit=1, offset=1) == nodes[1:2]
        assert await sums("workflow", "node", largest_first=True, top=1) == [nodes[0], ("rest", 12)]
        assert await sums("hour", "model", top=1) == [
            ("2023-11-14T22", "m", huge),
            ("2023-11-14T23", "rest", 7),
            ("2023-11-14T23", "m", 5),
        ]
        assert await store.costs.workflows(*days) == ["other", "tiny"]

    # --- Tenant-wide effect keys --------------------------------------------------------------------------------------

    async def test_a_tenant_wide_effect_belongs_to_the_run_that_means_it_first(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        first, second = Story(), Story()
        for story in (first, second):
            await put(mine, story.start(), story.draft(), story.ask(), story.answer())
        await put(mine, first.mean("k"))
        refused = second.mean("k")
        fate = await told(theirs, refused)
        assert isinstance(fate, EffectKeyTaken)
        assert (fate.key, fate.call, fate.args_hash, fate.response) == ("k", first.call, "hash", None)
        second.forget(refused)
        await put(theirs, second.mean("k", taken=cmd.KnownEffect(first.call, "hash")))
        await put(theirs, second.does(cmd.SuspendStep(SEND, 1)))
        assert await theirs.scopes.headroom(10) == []
        await put(mine, first.send())
        assert await theirs.scopes.headroom(10) == [ScopeWaiter(second.run, "effect/k", 1, None)]
        await put(theirs, second.does(cmd.Tick(headroom=frozenset(["effect/k"]))))
        refused = second.mean("k", attempt=2)
        fate = await told(theirs, refused)
        assert isinstance(fate, EffectKeyTaken)
        assert fate.response == inline("sent")

    async def test_an_effect_that_did_not_happen_leaves_its_key_to_the_next_call(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        stories = [Story(), Story(), Story()]
        for story in stories:
            await put(mine, story.start(), story.draft(), story.ask(), story.answer())
        await put(mine, stories[0].mean("k"))
        await put(mine, stories[0].does(cmd.ReleaseEffect(stories[0].call)))
        fates = await theirs.log.append([stories[1].mean("k"), stories[2].mean("k")])
        assert fates[0] is None
        assert isinstance(fates[1], EffectKeyTaken)
        assert fates[1].call == stories[1].call
        await put(mine, stories[0].mean("other", path="1"))

    async def test_a_key_that_is_its_runs_own_is_no_obstacle(self, connect: Connect) -> None:
        store, story = await connect(), Story(session="never opened")
        await put(store, story.start(), story.draft(), story.ask(), story.answer(), story.mean("k", "idempotent"))
        await put(store, story.does(cmd.Tick(frozenset([story.session]))))
        again = story.mean("k", "idempotent", attempt=2)
        await put(store, again)
        fate = await told(store, await prepared(store, Story(), "k"))
        assert isinstance(fate, EffectKeyTaken)
        assert fate.call == call_id(story.run, SEND, PATH, 2)

    async def test_a_key_outlives_its_run(self, connect: Connect) -> None:
        store, first, second = await connect(), Story(), Story()
        await put(store, await prepared(store, first, "k"), first.send(), first.finish())
        refused = await prepared(store, second, "k")
        assert isinstance(await told(store, refused), EffectKeyTaken)
        assert second.run not in [each.run for each in await store.scopes.waiting(["effect/k"], 10)]

    # --- Shared values ------------------------------------------------------------------------------------------------

    async def test_of_two_appends_that_write_one_version_one_is_written(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        first, second = Story(), Story()
        for story in (first, second):
            await put(mine, story.start())
        appends = [first.shares("case", 0, "ann"), second.shares("case", 0, "bob")]
        fates = await theirs.log.append(appends)
        assert (fates[0], type(fates[1])) == (None, SharedValueMoved)
        assert isinstance(await told(mine, appends[1]), SharedValueMoved)
        second.forget(appends[1])
        await put(mine, second.shares("case", 1, "bob"))
        versions = await theirs.shared_values.versions("acme", "board", "case")
        assert [(each.version, each.value) for each in versions] == [(1, "ann"), (2, "bob")]
        assert await theirs.shared_values.find("acme", "board", "case") == versions[-1]
        assert await theirs.shared_values.find("umbrella", "board", "case") is None
        entries = await mine.shared_values.page(None, None, None, 10)
        assert [(each.tenant, each.space, each.key, each.latest.version) for each in entries] == [("acme", "board", "case", 2)]
        assert await mine.shared_values.page("acme", "board", ("acme", "board", "case"), 10) == []

    async def test_an_append_that_is_sent_again_writes_its_version_once(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start())
        append = story.shares("case", 0, "ann")
        await put(store, append)
        assert await store.log.append([append]) == [None]
        assert len(await store.shared_values.versions("acme", "board", "case")) == 1

    async def test_a_lock_has_one_holder_until_its_time_is_up_and_each_grant_a_higher_number(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        name = ("acme", "board", "case")
        first = await mine.shared_values.lock(*name, "ann", 60_000)
        assert first is not None
        assert await theirs.shared_values.lock(*name, "bob", 60_000) is None
        await mine.shared_values.unlock(*name, first)
        second = await theirs.shared_values.lock(*name, "bob", 60_000)
        assert second is not None
        assert second > first
        await mine.shared_values.unlock(*name, first)
        assert await mine.shared_values.lock(*name, "ann", 60_000) is None, "what was ann's is no more to be given back"
        story = Story()
        await put(mine, story.start())
        late = story.shares("case", 0, "ann", fence=first)
        assert isinstance(await told(mine, late), SharedLockLost)
        story.forget(late)
        await put(mine, story.shares("case", 0, "ann", fence=second))

    async def test_a_value_is_found_by_its_words_until_it_goes_and_counts_its_uses(
        self, connect: Connect, request: pytest.FixtureRequest
    ) -> None:
        mine, theirs = await connect(), await connect()
        if "encrypted" in request.node.name:
            await expect_unsearchable(mine, SharedIndex("rent"))
            return
        story = Story()
        await put(mine, story.start())
        texts = {"rent": "The rents are due on Friday", "deposit": "A deposit of two rents", "cat": "She has a cat"}
        for key, text in texts.items():
            await put(mine, story.shares(key, 0, text, keep=1, index=SharedIndex(text)))
        await put(mine, story.shares("other", 0, "rent", index=SharedIndex("landlord")))

        async def found(query: SharedIndex | None, space: str = "board", limit: int = 9) -> list[str]:
            return [each.key for each in await theirs.shared_values.search("acme", space, query, limit)]

        assert await found(SharedIndex("When is the RENT due?"), limit=1) == ["rent"]
        assert sorted(await found(SharedIndex("rent"))) == ["deposit", "rent"]
        assert await found(SharedIndex("?!")) == await found(SharedIndex("rent"), "elsewhere") == []
        assert await found(None, limit=2) == ["other", "cat"]

        await put(mine, story.uses("cat", "rent"))
        again = story.uses("cat", "nobody")
        await put(mine, again)
        assert await theirs.log.append([again]) == [None], "sent again, it counts once"
        used = {each.key: (each.uses, each.used_at_ms) for each in await mine.shared_values.search("acme", "board", None, 9)}
        assert used == {"cat": (2, story.at_ms), "rent": (1, used["rent"][1]), "deposit": (0, 0), "other": (0, 0)}
        await put(mine, story.shares("cat", 1, "He has a dog", keep=1, index=SharedIndex("He has a dog")))
        assert await found(SharedIndex("cat dog")) == ["cat"]
        assert [each.uses for each in await mine.shared_values.search("acme", "board", SharedIndex("dog"), 9)] == [2]

        await put(mine, story.shares("deposit", 1, "gone", keep=0, dropped=("rent", "nobody")))
        assert await found(SharedIndex("rent landlord")) == ["other"]
        assert await found(None) == ["cat", "other"]
        assert await mine.shared_values.versions("acme", "board", "deposit") == []
        assert await mine.shared_values.find("acme", "board", "rent") is None
        assert len(await mine.shared_values.versions("acme", "board", "cat")) == 1
        await put(mine, story.shares("other", 1, "without words"))
        assert await found(None) == ["cat"]

    async def test_a_value_is_found_by_its_meaning_as_its_latest_version_has_it(
        self, connect: Connect, request: pytest.FixtureRequest
    ) -> None:
        store, story = await connect(), Story()
        if "encrypted" in request.node.name:
            await expect_unsearchable(store, SharedIndex(model="tiny", vector=packed((6, 8))))
            return
        await put(store, story.start())
        for key, vector in {"rent": (3, 4), "deposit": (4, 3), "cat": (-4, 3)}.items():
            await put(store, story.shares(key, 0, key, index=SharedIndex("", "tiny", packed(vector))))
        await put(store, story.shares("other", 0, "rent", index=SharedIndex("", "large", packed((3, 4)))))
        query = SharedIndex(model="tiny", vector=packed((6, 8)))
        if "oldest" in request.node.name:
            with pytest.raises(MissingExtra, match="pgvector"):
                await store.shared_values.search("acme", "board", query, 9)
            return
        nearest = await store.shared_values.search("acme", "board", query, 9)
        assert [(each.key, round(each.likeness, 5)) for each in nearest] == [("rent", 1), ("deposit", 0.96), ("cat", 0)]
        longer = SharedIndex(model="tiny", vector=packed((1, 2, 3)))
        assert await store.shared_values.search("acme", "board", longer, 9) == []
        assert await store.shared_values.search("acme", "elsewhere", query, 9) == []
        await put(store, story.shares("rent", 1, "moved", index=SharedIndex("", "tiny", packed((-3, -4)))))
        await put(store, story.shares("cat", 1, "gone", keep=0))
        nearest = await store.shared_values.search("acme", "board", query, 9)
        assert [(each.key, round(each.likeness, 5)) for each in nearest] == [("deposit", 0.96), ("rent", -1)]

    # --- Pools above steps --------------------------------------------------------------------------------------------

    async def test_a_schedule_is_found_when_it_is_due_and_changed_by_one_at_a_time(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        early, late = [
            Schedule(tenant="t", name=name, workflow="w", cron="0 0 * * *", due_at_ms=at, input=msgspec.Raw(b'{"a":1}'))
            for name, at in (("early", 100), ("late", 200))
        ]
        paused = msgspec.structs.replace(early, tenant="u", due_at_ms=None, paused=True)
        assert [await mine.schedules.add(each) for each in (late, early, paused, early)] == [True, True, True, False]
        assert [kept.schedule.name for kept in await theirs.schedules.due(200, 10)] == ["early", "late"]
        assert [kept.schedule.name for kept in await theirs.schedules.due(200, 1)] == ["early"]
        assert await theirs.schedules.due(99, 10) == []
        assert await theirs.schedules.next_due_ms() == 100
        known = await mine.schedules.find("t", "early")
        assert known is not None
        assert (bytes(known.schedule.input), known.revision) == (b'{"a":1}', 1)
        moved = msgspec.structs.replace(early, due_at_ms=300, fired=1)
        assert await mine.schedules.replace(moved, known.revision)
        assert not await theirs.schedules.replace(early, known.revision)
        assert await theirs.schedules.next_due_ms() == 200
        listed = await mine.schedules.page(None, None, 2)
        assert [(kept.schedule.tenant, kept.schedule.name, kept.revision) for kept in listed] == [
            ("t", "early", 2),
            ("t", "late", 1),
        ]
        assert [kept.schedule.tenant for kept in await mine.schedules.page(None, ("t", "late"), 2)] == ["u"]
        assert [kept.schedule.tenant for kept in await mine.schedules.page("u", None, 2)] == ["u"]
        assert [await theirs.schedules.remove("t", "late") for _ in range(2)] == [True, False]
        assert await mine.schedules.find("t", "late") is None

    async def test_a_pool_is_what_was_declared_last_for_every_process(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.set_pool(RATE)
        await mine.lending.set_pool(SLOTS)
        assert list(await theirs.lending.pools()) == [SLOTS, RATE]
        larger = msgspec.structs.replace(SLOTS, limit=9)
        await theirs.lending.set_pool(larger)
        assert list(await mine.lending.pools()) == [larger, RATE]
        assert await mine.lending.remove_pool("OPENAI_RPS")
        assert not await theirs.lending.remove_pool("OPENAI_RPS")
        assert list(await theirs.lending.pools()) == [larger]

    async def test_a_pool_that_is_there_is_not_added_again(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        added = await asyncio.gather(*(store.lending.add_pool(SLOTS) for store in (mine, theirs, mine)))
        assert sorted(added) == [False, False, True]
        assert not await theirs.lending.add_pool(msgspec.structs.replace(SLOTS, limit=9))
        assert list(await mine.lending.pools()) == [SLOTS]

    async def test_a_pool_that_is_closed_is_so_for_every_process_and_with_new_figures(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.set_pool(RATE)
        a, b = await holder(mine, "a"), await holder(theirs, "b")
        await visits(mine, a, 1, Visit("OPENAI_RPS", 0, 1, 0, closes_ms=60_000))
        await mine.lending.set_pool(msgspec.structs.replace(RATE, limit=61))
        (grant,) = await visits(theirs, b, 1, Visit("OPENAI_RPS", 0, 1, 0))
        assert grant.granted == 0
        assert 30_000 < grant.closed_ms <= 60_000

    async def test_one_visit_is_answered_for_all_its_pools(self, connect: Connect) -> None:
        store = await connect()
        await store.lending.set_pool(SLOTS)
        await store.lending.set_pool(RATE)
        session = await holder(store, "a")
        asked = [Visit(name, 0, 1, 0) for name in ("OPENAI_RPS", "UNKNOWN", "BROWSERS")]
        assert await visits(store, session, 1, *asked) == [Grant(SLOTS, 8, 8), Grant(RATE, 60, 60, filled=30)]

    async def test_holders_in_several_processes_have_no_more_than_there_is(self, connect: Connect) -> None:
        stores = [await connect() for _ in range(3)]
        await stores[0].lending.set_pool(SLOTS)
        sessions = [await holder(store, str(n)) for n, store in enumerate(stores)]
        held = [0, 0, 0]

        async def come_and_go(n: int) -> None:
            for number in range(1, 20):
                wanted = (n + number) % 6
                held[n] = min(held[n], wanted)
                (grant,) = await visits(stores[n], sessions[n], number, Visit("BROWSERS", held[n], wanted, held[n]))
                held[n] = grant.usable
                assert sum(held) <= SLOTS.limit
                assert sum(share.granted for share in await stores[n].lending.pool_shares("BROWSERS")) <= SLOTS.limit

        await asyncio.gather(*(come_and_go(n) for n in range(3)))

    async def test_what_a_holder_reported_last_can_be_seen_by_all(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.set_pool(SLOTS)
        session = await holder(mine, "a")
        await visits(mine, session, 1, Visit("BROWSERS", 0, 3, 0))
        await visits(mine, session, 2, Visit("BROWSERS", 2, 12, 8, least=2))
        (share,) = await theirs.lending.pool_shares("BROWSERS")
        assert (share.holder, share.session, share.granted) == ("lane", session, 8)
        assert (share.used, share.wanted, share.least, share.number, share.is_short) == (2, 12, 2, 2, False)

    async def test_a_visit_that_comes_late_changes_no_row(self, connect: Connect) -> None:
        store = await connect()
        await store.lending.set_pool(SLOTS)
        session = await holder(store, "a")
        await visits(store, session, 2, Visit("BROWSERS", 0, 3, 0))
        before = await store.lending.pool_shares("BROWSERS")
        await visits(store, session, 1, Visit("BROWSERS", 0, 0, 0))
        assert await store.lending.pool_shares("BROWSERS") == before

    async def test_a_share_is_free_when_its_session_is_dead(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.set_pool(SLOTS)
        gone, other = await holder(mine, "gone"), await holder(theirs, "other")
        await visits(mine, gone, 1, Visit("BROWSERS", 0, 8, 0))
        assert [each.granted for each in await visits(theirs, other, 1, Visit("BROWSERS", 0, 1, 0))] == [0]
        await mine.sessions.close(gone)
        assert [share.life for share in await theirs.lending.pool_shares("BROWSERS")] == ["dead", "living"]
        assert [each.granted for each in await visits(theirs, other, 2, Visit("BROWSERS", 0, 1, 0))] == [8]
        assert [share.session for share in await theirs.lending.pool_shares("BROWSERS")] == [other]
        with pytest.raises(Conflict):
            await visits(mine, gone, 2, Visit("BROWSERS", 0, 8, 0))

    async def test_what_may_outlive_a_holder_is_lent_only_to_its_heir(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.set_pool(SLOTS)
        gone, heir, other = [await holder(mine, name) for name in ("gone", "heir", "other")]
        await visits(mine, gone, 1, Visit("BROWSERS", 0, 8, 0), outlives_ms=60_000)
        await mine.sessions.close(gone)
        await theirs.lending.lend(Visitor("another lane", other, 1), [Visit("BROWSERS", 0, 8, 0)])
        assert [share.granted for share in await theirs.lending.pool_shares("BROWSERS")] == [0, 8]
        assert [each.granted for each in await visits(theirs, heir, 1, Visit("BROWSERS", 8, 8, 0))] == [8]
        assert [share.session for share in await theirs.lending.pool_shares("BROWSERS") if share.granted] == [heir]

    async def test_a_session_that_was_not_opened_is_lent_nothing(self, connect: Connect) -> None:
        store = await connect()
        await store.lending.set_pool(SLOTS)
        with pytest.raises(Conflict):
            await visits(store, SessionId("never opened"), 1, Visit("BROWSERS", 0, 8, 0))
        assert await store.lending.pool_shares("BROWSERS") == []

    async def test_what_is_lent_of_a_pool_is_remembered_while_the_pool_is_not_there(self, connect: Connect) -> None:
        store = await connect()
        await store.lending.set_pool(SLOTS)
        old, new = await holder(store, "old"), await holder(store, "new")
        await visits(store, old, 1, Visit("BROWSERS", 0, 8, 0))
        await store.lending.remove_pool("BROWSERS")
        assert await visits(store, old, 2, Visit("BROWSERS", 8, 8, 8)) == []
        await store.lending.set_pool(SLOTS)
        assert [each.granted for each in await visits(store, new, 1, Visit("BROWSERS", 0, 8, 0))] == [0]

    async def test_a_rate_fills_in_the_time_of_the_store(self, connect: Connect) -> None:
        store = await connect()
        fast = msgspec.structs.replace(RATE, limit=6_000_000, burst=6_000_000)
        await store.lending.set_pool(fast)
        session = await holder(store, "a")
        (full,) = await visits(store, session, 1, Visit(fast.name, 0, 1, 0))
        (none,) = await visits(store, session, 2, Visit(fast.name, 0, 0, 0))
        await asyncio.sleep(0.05)
        (some,) = await visits(store, session, 3, Visit(fast.name, 0, 1, 0))
        assert (full.filled, none.granted) == (6_000_000, 0)
        assert 4_000 <= some.filled <= 3_000_000

    async def test_estimates_follow_what_steps_have_taken(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        await mine.lending.learn([Use("report", "write", "TPM", 900), Use("report", "read", "TPM", 50)])
        await theirs.lending.learn([Use("report", "write", "TPM", 1000), Use("report", "write", "TPM", 500)])
        await theirs.lending.learn([Use("other", "write", "RPS", 1)])
        await theirs.lending.learn([])
        found = await mine.lending.estimates(workflow="report")
        assert [(each.node, each.amount, each.samples) for each in found] == [("read", 50, 1), ("write", 950, 3)]
        assert [each.workflow for each in await mine.lending.estimates(pool="RPS")] == ["other"]
        assert len(await mine.lending.estimates()) == 3

    async def test_what_several_processes_learn_at_once_all_counts(self, connect: Connect) -> None:
        stores = [await connect() for _ in range(3)]
        uses = [Use("w", node, "P", 5) for node in ("b", "a", "c")]
        await asyncio.gather(*(store.lending.learn(uses[n:] + uses[:n]) for n, store in enumerate(stores) for _ in range(5)))
        assert [each.samples for each in await stores[0].lending.estimates()] == [15, 15, 15]

    # --- What models are like ---------------------------------------------------------------------------------------------

    async def test_what_models_are_like_is_learned_by_all_read_by_workflow_and_forgotten(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        use = ModelUse("desk", "answer", "small", 100, 1_000, 1_000, 500, 7)
        late = msgspec.structs.replace(use, output_tokens=200, at_ms=9)
        await mine.model_estimates.learn([use])
        await theirs.model_estimates.learn([late, msgspec.structs.replace(use, workflow="other", model="dear")])
        await theirs.model_estimates.learn([])
        found = sorted(await mine.model_estimates.of("desk"), key=lambda each: each.kind)
        assert found == [
            ModelEstimate("", "", "dear", 100_000, 100_000, 500, 1, 7),
            ModelEstimate("", "", "small", 150_000, 150_000, 500, 2, 9),
            ModelEstimate("desk", "answer", "small", 150_000, 150_000, 500, 2, 9),
        ]
        await mine.model_estimates.forget(9)
        assert {each.model for each in await theirs.model_estimates.of("other")} == {"small"}

    async def test_what_several_processes_see_of_models_at_once_all_counts(self, connect: Connect) -> None:
        stores = [await connect() for _ in range(3)]
        uses = [ModelUse("w", node, "m", 5, 5, 5, 5, 5) for node in ("b", "a", "c")]
        await asyncio.gather(
            *(store.model_estimates.learn(uses[n:] + uses[:n]) for n, store in enumerate(stores) for _ in range(5))
        )
        assert sorted(each.samples for each in await stores[0].model_estimates.of("w")) == [15, 15, 15, 45]

    async def test_of_what_models_are_like_no_more_is_read_than_is_needed(self, connect: Connect) -> None:
        store = await connect()
        uses = [ModelUse("w", f"node {n}", "m", 5, 5, 5, 5, n) for n in range(MAX_ESTIMATES + 5)]
        await store.model_estimates.learn(uses)
        found = await store.model_estimates.of("w")
        assert len(found) == MAX_ESTIMATES + 1, "and that of the model everywhere"
        assert min(each.at_ms for each in found) == 5, "the latest of them"

    # --- Folding and snapshots ----------------------------------------------------------------------------------------

    async def test_rows_are_the_projection_of_the_folded_history(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        for append in story.whole():
            await put(store, append)
            reopened = await connect()
            state = fold(await reopened.log.load(story.run, FOLD_VERSION))
            assert state == story.state
            assert await reopened.views.run(story.run) == project(state, [append.events[-1].event], executing=True).run
            await reopened.aclose()

    async def test_a_run_that_was_not_started_is_not_found(self, connect: Connect) -> None:
        store = await connect()
        with pytest.raises(NotFound):
            await store.log.load(RunId("nobody"), FOLD_VERSION)
        assert await store.views.run(RunId("nobody")) is None

    async def test_a_snapshot_stands_for_the_events_before_it(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start(), story.draft(), story.ask())
        await store.log.snapshot(story.run, snapshot_of(story.state))
        middle = len(story.history)
        await put(store, story.answer(), story.intend())
        loaded = await (await connect()).log.load(story.run, FOLD_VERSION)
        assert loaded.events == tuple(story.history[middle:])
        assert loaded.snapshot is not None
        assert fold(loaded) == fold(History(None, tuple(story.history))) == story.state

    async def test_the_latest_snapshot_counts_whatever_the_order_they_came_in(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start())
        old = snapshot_of(story.state)
        await put(store, story.draft())
        await store.log.snapshot(story.run, snapshot_of(story.state))
        await store.log.snapshot(story.run, old)
        assert (await store.log.load(story.run, FOLD_VERSION)).snapshot == snapshot_of(story.state)

    async def test_a_snapshot_of_another_fold_is_ignored(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start(), story.draft())
        await store.log.snapshot(story.run, SnapshotRecord(Seq(4), FOLD_VERSION + 1, b"of a later Holdfast"))
        assert await store.log.load(story.run, FOLD_VERSION) == History(None, tuple(story.history))
        await store.log.snapshot(story.run, snapshot_of(story.state))
        assert fold(await store.log.load(story.run, FOLD_VERSION)) == story.state

    # --- Graphs -------------------------------------------------------------------------------------------------------

    # What is promised of large payloads is in tests/blobs/conformance.py, for whatever keeps them.

    async def test_a_graph_comes_back_by_its_hash(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        encoded, loaded = graph().encoded, WorkflowRecord("story", 1, graph().hash)
        await mine.graphs.put_workflow(loaded, encoded)
        await theirs.graphs.put_workflow(loaded, encoded)
        assert await theirs.graphs.graph(graph().hash) == encoded
        with pytest.raises(NotFound):
            await theirs.graphs.graph("0" * 64)

    async def test_a_workflow_is_the_one_that_was_loaded_last_under_its_name_and_version(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        first = WorkflowRecord("flow", 1, TINY.hash, b'{"type": "object"}')
        await mine.graphs.put_workflow(first, TINY.encoded)
        loaded = await theirs.graphs.workflow("flow", tenant="default")
        assert loaded.loaded_at_ms is not None
        assert abs(loaded.loaded_at_ms - mine.clock.now_ms()) < 60_000
        assert loaded == msgspec.structs.replace(first, loaded_at_ms=loaded.loaded_at_ms)
        await theirs.graphs.put_workflow(first, TINY.encoded)
        assert await mine.graphs.workflow("flow", 1, tenant="default") == loaded, "what was loaded again is as old as it was"
        for changed in (WorkflowRecord("flow", 1, TINY.hash), WorkflowRecord("flow", 1, ASKS.hash)):
            await theirs.graphs.put_workflow(changed, ASKS.encoded)
            found = await mine.graphs.workflow("flow", tenant="default")
            assert (found.graph_hash, found.input_schema) == (changed.graph_hash, None)
        await mine.graphs.put_workflow(WorkflowRecord("flow", 3, TINY.hash), TINY.encoded)
        assert [(await theirs.graphs.workflow("flow", asked, tenant="default")).version for asked in (None, 1)] == [3, 1]
        assert await theirs.graphs.graph(TINY.hash) == TINY.encoded, "runs of what was there before still follow it"
        for name, version, words in (("flow", 2, "version 2 of workflow 'flow'"), ("flo", None, "workflow 'flo'")):
            with pytest.raises(NotFound, match=words):
                await theirs.graphs.workflow(name, version, tenant="default")

    async def test_a_submitted_workflow_is_its_tenants_and_never_stands_for_code(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        acme, globex = (
            WorkflowRecord("build", 1, each, tenant=name) for name, each in (("acme", TINY.hash), ("globex", ASKS.hash))
        )
        assert await mine.graphs.submit_workflow(acme, TINY.encoded)
        assert await theirs.graphs.submit_workflow(globex, ASKS.encoded)
        later = msgspec.structs.replace(acme, version=2, input_schema=b"{}")
        assert await mine.graphs.submit_workflow(later, TINY.encoded)
        for tenant, versions, hash_ in (("acme", [2, 1], TINY.hash), ("globex", [1], ASKS.hash), ("other", [], None)):
            listed = await theirs.graphs.workflows(tenant=tenant)
            assert [(each.name, each.version, each.tenant) for each in listed] == [("build", each, tenant) for each in versions]
            if versions:
                found = await mine.graphs.workflow("build", tenant=tenant)
                assert (found.graph_hash, found.version, found.tenant) == (hash_, versions[0], tenant)
                continue
            with pytest.raises(NotFound, match="workflow 'build'"):
                await mine.graphs.workflow("build", tenant=tenant)
        await mine.graphs.put_workflow(WorkflowRecord("build", 1, TINY.hash), TINY.encoded)
        assert not await theirs.graphs.submit_workflow(globex, ASKS.encoded)
        assert await theirs.graphs.submit_workflow(acme, TINY.encoded), "it is that code"
        for tenant in ("acme", "globex", "other"):
            found = await theirs.graphs.workflow("build", tenant=tenant)
            assert (found.graph_hash, found.version, found.tenant) == (TINY.hash, 1, None)
            assert [each.tenant for each in await theirs.graphs.workflows(tenant=tenant)] == [None]

    async def test_workflows_are_listed_by_name_and_a_page_goes_on_where_the_last_ended(self, connect: Connect) -> None:
        store = await connect()
        assert await store.graphs.workflows(tenant="default") == []
        for name, version in (("b", 2), ("B", 1), ("", 7), ("b", 10), ("ä", 1), ("a b", 1)):
            await store.graphs.put_workflow(WorkflowRecord(name, version, TINY.hash), TINY.encoded)
        every = [(each.name, each.version) for each in await store.graphs.workflows(tenant="default")]
        assert every == [("", 7), ("B", 1), ("a b", 1), ("b", 10), ("b", 2), ("ä", 1)]
        page = await store.graphs.workflows(tenant="default", limit=4)
        last = page[-1]
        await store.graphs.put_workflow(WorkflowRecord("A", 1, TINY.hash), TINY.encoded)  # it comes before what is left
        after = await store.graphs.workflows(tenant="default", after=(last.name, last.version), limit=4)
        assert [(each.name, each.version) for each in (*page, *after)] == every

    # --- Sessions -----------------------------------------------------------------------------------------------------

    async def test_a_session_lives_from_its_opening_to_its_close(self, connect: Connect) -> None:
        mine, theirs, session = await connect(), await connect(), SessionId("s 1/ä")
        assert not mine.sessions.alive(session)
        await mine.sessions.open(session, "worker", [TINY.hash])
        assert mine.sessions.alive(session)
        assert not theirs.sessions.alive(session), "a process answers for its own sessions only"
        await mine.sessions.close(session)
        assert not mine.sessions.alive(session)
        await mine.sessions.close(session)

    async def test_death_is_for_ever(self, connect: Connect) -> None:
        mine, theirs, session = await connect(), await connect(), SessionId("s")
        await mine.sessions.open(session, "worker", [])
        await mine.sessions.close(session)
        for store in (mine, theirs):
            with pytest.raises(StoreError):
                await store.sessions.open(session, "worker", [])
            assert not store.sessions.alive(session)

    async def test_a_living_session_is_not_buried(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story(session="s")
        await mine.sessions.open(story.session, "worker", [TINY.hash])
        await put(mine, story.start())
        for store in (mine, theirs):
            assert await store.sessions.expire() == frozenset()
            assert await store.views.due(FOR_EVER_MS, [TINY.hash], 10) == []
        assert mine.sessions.alive(story.session)

    async def test_a_dead_session_is_named_as_long_as_it_has_work_in_flight(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        story, quiet = Story(session="s"), Story(session="quiet")
        for each in (story, quiet):
            await mine.sessions.open(each.session, "worker", [TINY.hash])
            await put(mine, each.start())
        await put(mine, quiet.draft(), quiet.ask())
        await mine.aclose()
        assert await theirs.sessions.expire() == {story.session}
        (due,) = await theirs.views.due(BORN_MS, [TINY.hash], 10)
        assert due == DueRun(story.run, TINY.hash, None, "acme", None, frozenset({story.session}))
        dead, story.session = frozenset({story.session}), SessionId("t")
        await theirs.sessions.open(story.session, "worker", [TINY.hash])
        await put(theirs, story.does(cmd.Tick(dead)))
        assert await theirs.sessions.expire() == frozenset()
        assert await theirs.views.due(BORN_MS, [TINY.hash], 10) == []

    async def test_an_unknown_session_is_dead(self, connect: Connect) -> None:
        store, story = await connect(), Story(session="never opened")
        await put(store, story.start())
        assert await store.sessions.expire() == {story.session}
        (due,) = await store.views.due(BORN_MS, [TINY.hash], 10)
        assert due.dead == {story.session}

    async def test_what_a_run_left_in_flight_when_it_ended_is_looked_after(self, connect: Connect) -> None:
        store, story = await connect(), Story(session="never opened")
        appends = list(story.whole())
        still = msgspec.structs.replace(appends[-1].changes, sessions=(story.session,))
        await put(store, *appends[:-1], msgspec.structs.replace(appends[-1], changes=still))
        assert await store.views.unended([TINY.hash]) == 0
        assert await store.sessions.expire() == {story.session}
        (due,) = await store.views.due(BORN_MS, [TINY.hash], 10)
        assert (due.run, due.dead) == (story.run, frozenset({story.session}))

    # --- What is due --------------------------------------------------------------------------------------------------

    async def test_runs_are_due_in_the_order_of_their_times_and_not_before(self, connect: Connect) -> None:
        store = await connect()
        stories = [Story() for _ in range(5)]
        waits_ms = [300, 100, 500, 200, 400]
        for story, wait_ms in zip(stories, waits_ms, strict=True):
            await put(store, story.start(), story.draft(), story.ask(timeout_ms=wait_ms))
        in_order = [stories[n].run for n in (1, 3, 0, 4, 2)]
        first_ms = stories[1].at_ms + 100
        assert await store.views.next_due_ms([TINY.hash]) == first_ms
        assert await store.views.due(first_ms - 1, [TINY.hash], 10) == []
        assert [due.run for due in await store.views.due(first_ms, [TINY.hash], 10)] == in_order[:1]
        assert [due.run for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 10)] == in_order
        assert [due.run for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 3)] == in_order[:3]
        await put(store, stories[1].answer("reject"))
        assert [due.run for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 10)] == in_order[1:]
        assert await store.views.next_due_ms([TINY.hash]) == stories[3].at_ms + 200

    async def test_a_process_hears_only_of_workflows_that_it_can_run(self, connect: Connect) -> None:
        store = await connect()
        theirs = graph("of another release")
        foreign, own = Story(graph=theirs), Story()
        for story in (foreign, own):
            await put(store, story.start(executes=False))
        both = [TINY.hash, theirs.hash]
        assert [due.run for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 10)] == [own.run]
        assert {due.run for due in await store.views.due(FOR_EVER_MS, both, 10)} == {own.run, foreign.run}
        assert await store.views.due(FOR_EVER_MS, [], 10) == []
        assert await store.views.next_due_ms([]) is None
        assert [await store.views.unended(hashes) for hashes in ([], [TINY.hash], both)] == [0, 1, 2]
        await put(store, own.does(cmd.CancelRun()))
        assert [await store.views.unended(hashes) for hashes in ([], [TINY.hash], both)] == [0, 0, 1]

    async def test_what_a_dead_session_left_is_due_with_everything_else(self, connect: Connect) -> None:
        store = await connect()
        waiting, left = Story(), Story(session="never opened")
        await put(store, waiting.start(), waiting.draft(), waiting.ask(timeout_ms=100), left.start())
        await store.sessions.expire()
        due = {due.run: due.dead for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 10)}
        assert due == {waiting.run: frozenset(), left.run: {left.session}}
        assert len(await store.views.due(FOR_EVER_MS, [TINY.hash], 1)) == 1
        assert await store.views.due(FOR_EVER_MS, ["another"], 10) == []

    # --- Runs whose workflow nobody can run -----------------------------------------------------------------------------

    async def test_a_due_run_is_stranded_while_no_session_can_run_its_workflow(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        other = graph("of another release")
        await put(mine, story.start(executes=False))
        row = await mine.views.run(story.run)
        assert row is not None
        due_ms = row.due_at_ms or 0
        assert due_ms
        await mine.sessions.open(SessionId("newer"), "worker", [other.hash])
        assert await mine.views.stranded(due_ms - 1, 10) == []
        assert await mine.views.stranded(due_ms, 10) == [DueRun(story.run, TINY.hash, due_ms, "acme", None)]
        await theirs.sessions.open(SessionId("older"), "worker", [other.hash, TINY.hash])
        assert await mine.views.stranded(FOR_EVER_MS, 10) == [], "a living session can run it"
        await asyncio.sleep(4 * APART_MS / 1000)
        before_ms = mine.clock.now_ms()
        await theirs.sessions.close(SessionId("older"))
        assert await mine.views.stranded(before_ms - APART_MS, 10) == [], "one could until just now"
        assert [run.run for run in await mine.views.stranded(FOR_EVER_MS, 10)] == [story.run]

    async def test_the_grace_of_a_stranded_run_begins_with_the_death_of_the_last_who_could(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story(session="s")
        await theirs.sessions.open(story.session, "worker", [TINY.hash])
        await put(theirs, story.start())
        await asyncio.sleep(4 * APART_MS / 1000)
        before_ms = mine.clock.now_ms()
        await theirs.aclose()
        assert await mine.sessions.expire() == {story.session}
        assert await mine.views.stranded(before_ms - APART_MS, 10) == []
        assert await mine.views.stranded(FOR_EVER_MS, 10) == [
            DueRun(story.run, TINY.hash, None, "acme", None, frozenset({story.session}))
        ]

    async def test_a_run_that_waits_is_not_stranded_until_something_falls_due(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start(), story.draft(), story.ask())
        assert await store.views.stranded(FOR_EVER_MS, 10) == []
        await put(store, story.does(cmd.DecideGate(story.gate, "approve", by=Actor("ada")), executes=False))
        assert [run.run for run in await store.views.stranded(FOR_EVER_MS, 10)] == [story.run]

    async def test_a_run_in_line_for_a_place_is_stranded_while_no_session_can_run_its_workflow(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        others = demanding("others")
        later, sooner, known = Story(graph=ASKS), Story(graph=ASKS), Story(graph=others)
        later.at_ms += 1000
        await put(mine, known.start(), later.start(), sooner.start())
        await mine.sessions.open(SessionId("s"), "worker", [others.hash])
        assert await theirs.views.stranded(sooner.at_ms - 1, 10) == [], "it has stood there for too short a time"
        assert await theirs.views.stranded(sooner.at_ms, 10) == [DueRun(sooner.run, ASKS.hash, None, "acme", None)]
        await put(theirs, later.does(cmd.PauseRun()))
        assert [each.run for each in await mine.views.stranded(FOR_EVER_MS, 10)] == [sooner.run]
        await put(theirs, sooner.does(cmd.Tick(loaded=(cmd.LoadedWorkflow("asks", 2, "newer"),)), executes=False))
        assert await mine.views.stranded(FOR_EVER_MS, 10) == [], "a person is asked about it"
        assert [each.run for each in await mine.views.due(FOR_EVER_MS, [ASKS.hash], 10)] == [sooner.run]
        await put(theirs, sooner.does(cmd.Tick()), later.does(cmd.ResumeRun()))
        assert await theirs.views.gates() == []
        await mine.sessions.widen(SessionId("s"), [others.hash, ASKS.hash])
        assert await theirs.views.stranded(FOR_EVER_MS, 10) == [], "a living session can run it, wherever its place is"

    async def test_of_stranded_runs_those_come_first_that_have_waited_longest(self, connect: Connect) -> None:
        store = await connect()
        later, due, sooner = Story(graph=ASKS), Story(), Story(graph=demanding("others"))
        later.at_ms, due.at_ms = later.at_ms + 9000, due.at_ms + 1000
        await put(store, later.start(), due.start(executes=False), sooner.start())
        expected = [sooner.run, due.run, later.run]
        for most in (1, 2, 3, 10):
            assert [each.run for each in await store.views.stranded(FOR_EVER_MS, most)] == expected[:most]

    async def test_a_run_in_line_is_stranded_by_the_workflow_that_it_was_moved_to(self, connect: Connect) -> None:
        store = await connect()
        new, story = demanding(version=2), Story(graph=ASKS)
        await store.sessions.open(SessionId("s"), "worker", [ASKS.hash])
        await put(store, story.start())
        assert await store.views.stranded(FOR_EVER_MS, 10) == []
        story.graph = new
        await put(store, story.does(cmd.MigrateRun(Actor("ann")), executes=False))
        assert [each.graph_hash for each in await store.views.stranded(FOR_EVER_MS, 10)] == [new.hash]
        await store.sessions.widen(SessionId("s"), [new.hash])
        assert await store.views.stranded(FOR_EVER_MS, 10) == []

    async def test_a_run_about_which_a_person_is_asked_is_stranded_no_more(self, connect: Connect) -> None:
        store, stories = await connect(), [Story() for _ in range(3)]
        for story in stories:
            await put(store, story.start(executes=False))
        find = cmd.Tick(loaded=(cmd.LoadedWorkflow("tiny", 2, "of the new code"),))
        await put(store, stories[0].does(find, executes=False))
        assert stories[0].state.gates
        assert [run.run for run in await store.views.stranded(FOR_EVER_MS, 10)] == [stories[1].run, stories[2].run]
        assert [run.run for run in await store.views.stranded(FOR_EVER_MS, 1)] == [stories[1].run]
        row = await store.views.run(stories[0].run)
        assert row is not None
        assert row.status == "requires_attention"
        due = [due.run for due in await store.views.due(FOR_EVER_MS, [TINY.hash], 10)]
        assert stories[0].run in due, "whoever has the code must find it"
        await put(store, stories[0].does(cmd.Tick()))
        assert await store.views.gates() == []

    async def test_a_session_can_learn_to_run_more(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        await put(mine, story.start(executes=False))
        await mine.sessions.open(SessionId("s"), "worker", [])
        assert [run.run for run in await theirs.views.stranded(FOR_EVER_MS, 10)] == [story.run]
        await mine.sessions.widen(SessionId("s"), [TINY.hash])
        assert await theirs.views.stranded(FOR_EVER_MS, 10) == []

    async def test_a_session_says_what_it_can_run(self, connect: Connect) -> None:
        mine, theirs = await connect(), await connect()
        assert await theirs.sessions.able(["a", "b"]) == 0
        await mine.sessions.open(SessionId("s"), "here:1", ["a"])
        await mine.sessions.open(SessionId("t"), "there:2", ["b", "c"])
        assert [await theirs.sessions.able(hashes) for hashes in (["a"], ["a", "b"], ["d"], [])] == [1, 2, 0, 0]
        await mine.sessions.close(SessionId("s"))
        assert await theirs.sessions.able(["a", "b"]) == 1
        assert [await theirs.sessions.able_until_ms(hashes) for hashes in (["b"], ["d"])] == [None, None]
        assert abs((await theirs.sessions.able_until_ms(["a", "b"]) or 0) - theirs.clock.now_ms()) < 60_000
        assert await theirs.sessions.labels([SessionId("s"), SessionId("t"), SessionId("u")]) == {"s": "here:1", "t": "there:2"}

    # --- Lists --------------------------------------------------------------------------------------------------------

    async def test_runs_are_listed_newest_first(self, connect: Connect) -> None:
        store = await connect()
        stories = [Story(tenant=("acme", "umbrella")[n % 2], at_ms=BORN_MS + n * 10) for n in range(6)]
        await store.log.append([story.start() for story in stories[:3]])
        await put(store, *(story.start() for story in stories[3:]))
        await put(store, stories[4].does(cmd.CancelRun()))

        async def listed(**conditions: Any) -> list[int]:
            found = await store.views.runs(**conditions)
            return [next(n for n, story in enumerate(stories) if story.run == row.run) for row in found]

        assert await listed() == [5, 4, 3, 2, 1, 0]
        assert await listed(limit=2) == [5, 4]
        assert await listed(before=stories[4].run, limit=2) == [3, 2]
        assert await listed(tenant="umbrella") == [5, 3, 1]
        assert await listed(tenant="umbrella", before=stories[5].run) == [3, 1]
        assert await listed(status="cancelled") == [4]
        assert await listed(tenant="umbrella", status="cancelled") == []
        assert await listed(status=["cancelled", "running"]) == [5, 4, 3, 2, 1, 0]
        assert await listed(status=["cancelled", "failed"]) == [4]
        assert await listed(since_ms=BORN_MS + 20, until_ms=BORN_MS + 40) == [3, 2]
        assert await listed(key="none") == []
        assert await listed(prefix=stories[2].run) == [2]
        assert await listed(prefix=stories[2].run[:-1], tenant="acme") == [
            n for n in range(4, -1, -2) if stories[n].run[:-1] == stories[2].run[:-1]
        ]
        assert await listed(prefix="nobody") == []
        assert await listed(workflow="tiny", status="running", tenant="acme") == [2, 0]
        assert await listed(workflow="another") == []
        assert await listed(version=1, tenant="acme") == [4, 2, 0]
        assert await listed(version=2) == []
        given = [(0, "helpful", 0.2, "ann"), (0, "helpful", 0.9, "ann"), (2, "helpful", 0.5, "ann"), (2, "brief", 9.0, "bob")]
        for n, name, value, by in given:
            await store.scores.add(stories[n].run, Score(name, value, by, "person", "", 1), 100)
        assert await listed(score_from=("helpful", 0.5)) == [2, 0]
        assert await listed(score_to=("helpful", 0.5)) == [2], "the latest of an author counts"
        assert await listed(score_from=("helpful", 0.6), score_to=("helpful", 0.9)) == [0]
        assert await listed(score_from=("brief", 1.0), score_to=("helpful", 0.5), tenant="acme") == [2]
        assert await listed(score_from=("none", 0.0)) == []

    async def test_runs_are_found_by_tags_by_what_they_are_known_by_and_by_cost(self, connect: Connect) -> None:
        store = await connect()
        stories = [Story(tenant=("acme", "umbrella")[n % 2], at_ms=BORN_MS + n * 10) for n in range(4)]
        tags: Any = ((), ("order=7", "red"), ("red",), ("Red Hot", "order=7", "red"))
        for n, story in enumerate(stories):
            await put(store, story.start(key=f"Key-{n}", by=f"Ann {n}", tags=tags[n]))
        await put(store, stories[2].hold(100), stories[2].settle(60))

        def tagged(*tags: str) -> dict[str, Any]:
            return {"labels": [("", tag) for tag in tags]}

        async def listed(**conditions: Any) -> list[int]:
            found = await store.views.runs(**conditions)
            return [next(n for n, story in enumerate(stories) if story.run == row.run) for row in found]

        assert await listed(**tagged("red")) == [3, 2, 1]
        assert await listed(**tagged("red"), limit=1) == [3]
        assert await listed(**tagged("red"), before=stories[3].run) == [2, 1]
        assert await listed(**tagged("red", "order=7")) == await listed(**tagged("order=7", "red")) == [3, 1]
        assert await listed(**tagged("red"), tenant="acme") == [2]
        assert await listed(**tagged("Red")) == await listed(**tagged("red", "none")) == []
        assert await listed(**tagged()) == await listed(text="TINY") == [3, 2, 1, 0]
        assert await listed(text="key-1") == await listed(text="ann 1") == [1]
        assert await listed(text="red hot") == await listed(text="HOT") == [3]
        assert await listed(text="red", **tagged("order=7"), tenant="umbrella") == [3, 1]
        assert await listed(text="%") == await listed(text="none") == []
        assert await listed(cost_from_nanousd=60) == await listed(cost_from_nanousd=1, cost_to_nanousd=60) == [2]
        assert await listed(cost_from_nanousd=61) == []
        assert await listed(cost_to_nanousd=0) == [3, 1, 0]
        runs = [story.run for story in stories]
        kept = {run: [("", tag) for tag in each] for run, each in zip(runs, tags, strict=True) if each}
        assert await store.views.labels(runs) == kept

    async def test_runs_are_found_by_what_they_wait_for(self, connect: Connect) -> None:
        store = await connect()
        asks, hears, ended = (Story(at_ms=BORN_MS + n * 10) for n in range(3))
        names = {asks.run: "asks", hears.run: "hears", ended.run: "ended"}
        await put(store, asks.start(), asks.draft(), asks.ask())
        # The signal's name looks like a wait for a person.
        await put(store, hears.start(), hears.does(cmd.AwaitSignal(DRAFT, 1, PATH, '"kind":"gate"', "hash")))
        await put(store, *ended.whole())

        async def listed(*kinds: str, **conditions: Any) -> list[str]:
            return [names[row.run] for row in await store.views.runs(waiting_for=kinds, **conditions)]

        assert await listed("gate") == ["asks"]
        assert await listed("signal") == ["hears"]
        assert await listed("signal", "gate") == ["hears", "asks"]
        assert await listed("signal", "gate", limit=1) == ["hears"]
        assert await listed("signal", "gate", before=hears.run) == ["asks"]
        assert await listed("gate", tenant="umbrella") == await listed("timer") == []
        assert await listed() == ["ended", "hears", "asks"]

    async def test_runs_are_found_and_counted_by_their_labels(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        stories = [Story(tenant=("acme", "umbrella")[n % 2], at_ms=BORN_MS + n * 10) for n in range(4)]
        for n, story in enumerate(stories):
            await put(store, story.start(labels={"customer": ("é", "zoo")[n // 2], "Stage": "new"}, tags=("customer",)))
        await put(store, stories[0].label(Stage="done", more="it's"), stories[1].label(Stage=None))
        await put(store, stories[2].label(Stage="done"), stories[2].label(Stage="new", more="1"))

        async def listed(*labels: tuple[str, str], **conditions: Any) -> list[int]:
            found = await there.views.runs(labels=labels, **conditions)
            return [next(n for n, story in enumerate(stories) if story.run == row.run) for row in found]

        assert await listed(("customer", "zoo")) == [3, 2]
        assert await listed(("Stage", "new")) == [3, 2]
        assert await listed(("customer", "é"), ("Stage", "done"), ("", "customer")) == [0]
        assert await listed(("customer", "é"), ("Stage", "new")) == await listed(("stage", "new")) == []
        assert await listed(("customer", "é"), tenant="umbrella") == [1]
        assert await listed(text="it's") == await listed(("more", "it's"), limit=1) == [0]
        assert await listed(("customer", "")) == await listed(("", "é")) == []
        kept = await there.views.labels([story.run for story in stories])
        assert kept[stories[0].run] == [("", "customer"), ("Stage", "done"), ("customer", "é"), ("more", "it's")]
        assert kept[stories[1].run] == [("", "customer"), ("customer", "é")]
        assert kept[stories[2].run] == [("", "customer"), ("Stage", "new"), ("customer", "zoo"), ("more", "1")]

        async def counted(**asked: Any) -> list[tuple[Any, ...]]:
            return [tuple(each) for each in await there.views.label_counts(**asked)]

        await put(store, *list(stories[3].rest()))
        every = [
            ("Stage", "done", "tiny", "running", 1),
            ("Stage", "new", "tiny", "completed", 1),
            ("Stage", "new", "tiny", "running", 1),
            ("customer", "zoo", "tiny", "completed", 1),
            ("customer", "zoo", "tiny", "running", 1),
            ("customer", "é", "tiny", "running", 2),
            ("more", "1", "tiny", "running", 1),
            ("more", "it's", "tiny", "running", 1),
        ]
        assert await counted() == every
        assert await counted(key="customer") == every[3:6]
        assert await counted(key="customer", after=every[3][:4], limit=1) == every[4:5]
        pages, after = [], ("", "", "", "")
        while page := await counted(limit=3, after=after):
            pages += page
            after = page[-1][:4]
        assert pages == every
        assert await counted(tenant="umbrella", key="customer") == [every[3], ("customer", "é", "tiny", "running", 1)]
        assert [await counted(newest=most, key="Stage") for most in (2, 1)] == [every[1:3], every[1:2]], "of the newest"
        assert await counted(newest=1, tenant="umbrella", workflow="tiny") == await counted(newest=1, tenant="umbrella")
        assert await counted(workflow="another") == await counted(key="custom") == await counted(tenant="nobody") == []

    async def test_gates_are_listed_with_the_latest_that_became_of_them(self, connect: Connect) -> None:
        store = await connect()
        first, second = Story(), Story()
        for story in (first, second):
            await put(store, story.start(), story.draft(), story.ask(timeout_ms=100))
        ((row, change),) = await store.views.gates(run=first.run)
        assert (row.gate, row.run, row.reviewers, change) == (first.gate, first.run, ("ada", "grace"), None)
        first.at_ms += 1000
        escalated = first.does(cmd.Tick())
        await put(store, escalated)
        ((_, change),) = await store.views.gates(run=first.run)
        assert (change,) == escalated.changes.gate_changes
        assert change is not None
        assert change.state == "escalated"
        assert [row.gate for row, _ in await store.views.gates()] == [first.gate, second.gate]
        assert [row.gate for row, _ in await store.views.gates(limit=1)] == [first.gate]
        assert [row.gate for row, _ in await store.views.gates(after=first.gate)] == [second.gate]
        assert await store.views.gates(after=second.gate) == []
        with pytest.raises(NotFound, match="to go on after"):
            await store.views.gates(after=GateId(f"{first.run}:nothing"))
        assert await store.views.gates(tenant="somebody else") == []
        assert len(await store.views.gates(tenant=first.state.tenant)) == 2
        answered = first.answer()
        await put(store, answered)
        assert [row.gate for row, _ in await store.views.gates()] == [second.gate]
        assert await store.views.gates(run=first.run) == []
        ((_, change),) = await store.views.gates(run=first.run, open_only=False)
        assert (change,) == answered.changes.gate_changes
        assert change is not None
        assert (change.state, change.decision, change.by) == ("decided", "approve", "ada")

    async def test_gates_are_listed_with_what_they_propose_and_by_its_risk(self, connect: Connect) -> None:
        store, found = await connect(), {}
        for risk in (None, "low", "high", "critical"):
            story = found[risk] = Story()
            proposal = Proposal("pay" if risk else None, ("e1", "é,2") if risk else (), risk)  # type: ignore[arg-type]
            await put(store, story.start(), story.draft(), story.ask(proposal=proposal, expires_after_ms=9_000))
            ((row, _),) = await store.views.gates(run=story.run)
            assert (row.proposed_action, row.evidence_ids, row.risk_level) == proposal
            assert (row.expires_at_ms, row.quorum) == (story.at_ms + 9_000, 1)
        for levels, risks in (
            (("high", "critical"), ["high", "critical"]),
            (("low",), ["low"]),
            ((), list(found)),
            (("x",), []),
        ):
            rows = await store.views.gates(risk_levels=levels)
            assert [row.gate for row, _ in rows] == [found[risk].gate for risk in risks]
        assert await store.views.gates(run=found["low"].run, risk_levels=["high"]) == []

    async def test_gates_are_listed_by_deadline_and_closed_ones_last_first(self, connect: Connect) -> None:
        store = await connect()
        late, soon, never = stories = Story(), Story(), Story()
        for story, timeout_ms in zip(stories, (9_000, 100, None), strict=True):
            await put(store, story.start(), story.draft(), story.ask(timeout_ms=timeout_ms))

        async def listed(order: GateOrder, after: Story | None = None, limit: int = 9) -> list[GateId]:
            cursor = None if after is None else after.gate
            return [row.gate for row, _ in await store.views.gates(order=order, after=cursor, limit=limit)]

        assert await listed("due") == [soon.gate, late.gate, never.gate]
        assert await listed("due", limit=2) == [soon.gate, late.gate]
        assert await listed("due", after=late) == [never.gate]
        assert await listed("due", after=never) == []
        assert await listed("closed") == []
        for number, story in enumerate((late, never), 1):
            story.at_ms += number * 1_000
            await put(store, story.answer())
        assert await listed("closed") == [never.gate, late.gate]
        assert await listed("closed", after=never) == [late.gate]
        assert await listed("closed", after=late) == []
        assert await listed("due") == [soon.gate]
        with pytest.raises(NotFound, match="to go on after"):
            await store.views.gates(order="due", after=GateId(f"{soon.run}:nothing"))

    async def test_gates_are_listed_with_those_who_have_approved(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        reviewers = ("ada", "grace", "role:lead")
        await put(store, story.start(), story.draft(), story.ask(quorum=3, reviewers=reviewers, timeout_ms=50))

        async def approved() -> tuple[str, ...] | None:
            ((row, change),) = await store.views.gates(run=story.run, open_only=False)
            assert row.quorum == 3
            return None if change is None else change.approved_by

        assert await approved() is None
        await put(store, story.answer(by="ada"))
        assert await approved() == ("ada",)
        await put(store, story.assign("ivan"))
        assert await approved() == ("ada",)
        story.at_ms += 1000
        await put(store, story.does(cmd.Tick()), story.answer(by="grace"))
        assert await approved() == ("ada", "grace")
        await put(store, story.answer(by="ivan"))
        assert await approved() == ("ada", "grace")

    async def test_whom_a_gate_asks_from_now_on_is_what_lists_say(self, connect: Connect) -> None:
        store = await connect()
        story = Story()
        await put(store, story.start(), story.draft(), story.ask(timeout_ms=100))
        story.at_ms += 1000
        assigned, escalated = story.assign("ivan"), story.does(cmd.Tick())
        await put(store, assigned, escalated)
        ((row, change),) = await store.views.gates(run=story.run)
        assert change is not None
        assert (row.reviewers, change.state) == (("ada", "grace", "ivan"), "escalated")

    async def test_effects_are_listed_with_the_latest_that_became_of_them(self, connect: Connect) -> None:
        store = await connect()
        first, second = Story(), Story()
        for story in (first, second):
            await put(store, story.start(), story.draft(), story.ask(), story.answer(), story.intend())
        ((row, change),) = await store.views.effects(run=first.run)
        assert (row.call, row.tool, row.policy, row.request.value()) == (first.call, "mail", "once", {"to": "bob"})
        assert change is None
        assert [row.call for row, _ in await store.views.effects(state="intended")] == [first.call, second.call]
        await put(store, first.send())
        ((_, change),) = await store.views.effects(run=first.run)
        assert change == EffectChange(first.call, "completed", first.at_ms, inline("sent"))
        assert [row.call for row, _ in await store.views.effects(state="intended")] == [second.call]
        assert [row.call for row, _ in await store.views.effects(state="completed")] == [first.call]
        assert [row.call for row, _ in await store.views.effects(limit=1)] == [first.call]
        assert [row.call for row, _ in await store.views.effects(after=first.call)] == [second.call]
        assert await store.views.effects(after=second.call) == []
        with pytest.raises(NotFound, match="to go on after"):
            await store.views.effects(after=CallId(f"{first.run}:nothing"))
        assert await store.views.effects(tenant="somebody else") == []
        assert len(await store.views.effects(tenant=first.state.tenant)) == 2
        assert await store.views.effects(run=second.run, state="completed") == []

    # --- Between processes, and time ----------------------------------------------------------------------------------

    async def test_a_process_hears_of_others_commits_and_not_of_its_own(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        await put(mine, story.start())
        await mine.blobs.put("acme", "2026-01", b"mine")
        assert not await mine.watch.changed(0.01)
        assert await theirs.watch.changed(5)
        assert not await theirs.watch.changed(0.01)
        hearing = asyncio.create_task(mine.watch.changed(30))
        await put(theirs, story.draft())
        assert await asyncio.wait_for(hearing, 60)

    async def test_no_other_appends_to_a_run_that_one_holds_alone(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()
        await put(mine, story.start())
        signal = story.does(cmd.SendSignal("ping"))
        other = msgspec.structs.replace(signal, append_id=AppendId("another"))
        async with mine.log.exclusive(story.run):
            waiting = asyncio.create_task(told(theirs, other))
            assert not (await asyncio.wait({waiting}, timeout=0.1))[0]
            await put(mine, signal)
        assert isinstance(await waiting, SeqConflict)
        async with theirs.log.exclusive(story.run):
            assert (await theirs.log.seqs([story.run]))[story.run] == story.state.seq
        await put(mine, story.does(cmd.SendSignal("ping")))

    async def test_a_process_that_gave_up_waiting_to_be_exclusive_holds_nothing(self, connect: Connect) -> None:
        mine, theirs, story = await connect(), await connect(), Story()

        async def want() -> None:
            async with theirs.log.exclusive(story.run):
                raise AssertionError("not while the other is")

        await put(mine, story.start())
        async with mine.log.exclusive(story.run):
            wanting = asyncio.create_task(want())
            await asyncio.wait({wanting}, timeout=0.05)
            wanting.cancel()
            await asyncio.wait({wanting})
        await put(mine, story.draft())
        await put(theirs, story.ask())

    # --- The tail -----------------------------------------------------------------------------------------------------

    async def test_a_tail_tells_every_event_once_in_pieces_of_any_size(self, connect: Connect) -> None:
        store, stories = await connect(), [Story() for _ in range(3)]
        for appends in zip(*(list(story.whole()) for story in stories), strict=True):
            assert list(await store.log.append(appends)) == [None] * 3
        for limit in (1, 2, 7, 1000):
            found: list[TailEvent] = []
            cursor = None
            while True:
                told, cursor = await store.tail.after(cursor, limit)
                assert len(told) <= limit
                found += told
                if len(told) < limit:
                    break
            for story in stories:
                assert [each.recorded for each in found if each.run == story.run] == story.history
            assert len(found) == sum(len(story.history) for story in stories)

    async def test_a_tail_goes_on_in_another_process_after_any_event(self, connect: Connect) -> None:
        mine, theirs, story, later = await connect(), await connect(), Story(), Story()
        await put(mine, *story.whole())
        told, rest = await mine.tail.after(None, 1000)
        await put(mine, *later.whole())
        for number, each in enumerate(told):
            more, _ = await theirs.tail.after(each.cursor, 5)
            everything = [*story.history, *later.history]
            assert [one.recorded for one in more] == everything[number + 1 : number + 6]
        again, rest = await theirs.tail.after(rest, 1000)
        assert [one.recorded for one in again] == later.history
        assert (await mine.tail.after(rest, 1000))[0] == []

    async def test_a_tail_names_the_runs_of_its_events_without_reading_them(self, connect: Connect) -> None:
        mine, theirs, stories = await connect(), await connect(), [Story() for _ in range(3)]
        await put(mine, Story().start())
        cursor = begin = await mine.tail.end()
        for story in stories:
            await put(mine, *story.whole())
        events = sum(len(story.history) for story in stories)
        for limit in (1, 2, 7, events, 1000):
            cursor, found, is_all = begin, set[RunId](), False
            for _ in range(events // limit + 1):
                assert not is_all
                before = cursor
                runs, cursor, is_all = await theirs.tail.runs(cursor, limit)
                assert set(runs) == {each.run for each in (await mine.tail.after(before, limit))[0]}
                assert len(runs) == len(set(runs))
                found |= set(runs)
                if is_all:
                    break
            assert found == {story.run for story in stories}
        assert (await mine.tail.runs(cursor, 10))[::2] == ([], True)
        with pytest.raises(UsageError):
            await mine.tail.runs("yesterday", 10)

    async def test_a_tail_can_begin_with_what_comes_next(self, connect: Connect) -> None:
        store, story, later = await connect(), Story(), Story()
        await put(store, *story.whole())
        end = await store.tail.end()
        assert (await store.tail.after(end, 10))[0] == []
        await put(store, later.start())
        assert [each.run for each in (await store.tail.after(end, 1000))[0]] == [later.run] * len(later.history)

    async def test_what_is_no_cursor_is_refused(self, connect: Connect) -> None:
        store = await connect()
        for text in ("", "yesterday", "-1", "1_2_3", "\u0663"):
            with pytest.raises(UsageError):
                await store.tail.after(text, 10)

    async def test_tending_a_store_changes_nothing_that_is_visible(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start())
        for _ in range(2):
            await store.upkeep.maintain()
        await put(store, story.draft())
        assert await store.log.events(story.run) == tuple(story.history)
        assert [each.recorded for each in (await store.tail.after(None, 1000))[0]] == story.history

    async def test_store_time_never_runs_backwards(self, connect: Connect) -> None:
        store, story = await connect(), Story(at_ms=BORN_MS * 2)
        times = [store.clock.now_ms() for _ in range(1000)]
        assert times == sorted(times)
        await put(store, story.start())
        assert (await connect()).clock.now_ms() >= story.at_ms

    async def test_a_closed_store_says_so(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        await put(store, story.start())
        writing = asyncio.create_task(store.log.append([story.draft()]))
        await asyncio.sleep(0)
        await asyncio.gather(store.aclose(), store.aclose())
        await store.aclose()
        assert list(await writing) == [None], "what was queued is finished"
        with pytest.raises(StoreError):
            await store.log.append([story.ask()])
        with pytest.raises(StoreError):
            await store.log.load(story.run, FOLD_VERSION)
        assert fold(await (await connect()).log.load(story.run, FOLD_VERSION)).seq == 4

    async def test_a_conversation_is_changed_with_what_was_said_by_one_who_has_seen_it(self, connect: Connect) -> None:
        first, there, story = await connect(), await connect(), Story()
        store, other = first.conversations, there.conversations
        new = Conversation(id="c é", tenant="acme", workflow="agent", made_at_ms=5)
        assert await store.put(Change(new, ()))
        assert not await other.put(Change(new, ()))
        assert await other.find("acme", "nobody") is None
        seen = await other.find("acme", "c é")
        assert seen == msgspec.structs.replace(new, revision=1)
        hello = ConversationTurn(number=1, text="né\n", at_ms=6, status="active")
        said = msgspec.structs.replace(seen, said=1, active=1)
        assert sorted(await asyncio.gather(*(each.put(Change(said, (hello,))) for each in (store, other)))) == [False, True]
        assert list(await store.exchanges("acme", "c é")) == [hello]
        assert [each.id for each in await other.due(10)] == ["c é"]  # its run is still to be started
        await put(first, story.start())
        running = msgspec.structs.replace(said, revision=2, run=story.run)
        begun = msgspec.structs.replace(hello, run=story.run)
        assert await other.put(Change(running, (begun,)))
        assert list(await store.due(10)) == []
        assert list(await store.exchanges("acme", "c é")) == [begun]
        assert await store.put(Change(msgspec.structs.replace(running, revision=3, cancelling=True), ()))
        assert [each.id for each in await other.due(10)] == ["c é"]
        later = [ConversationTurn(number=number, text="and", at_ms=7) for number in (10, 2)]
        assert await other.put(Change(msgspec.structs.replace(running, revision=4, said=10, waiting=(2, 10)), (*later,)))
        assert [each.number for each in await store.exchanges("acme", "c é")] == [1, 2, 10]
        assert await store.put(Change(Conversation(id="a", tenant="other", workflow="agent", made_at_ms=5), ()))
        assert [each.id for each in await store.page(None, None, 10)] == ["c é", "a"]
        assert [each.id for each in await store.page(None, ("acme", "c é"), 10)] == ["a"]
        assert [each.id for each in await store.page("acme", None, 10)] == ["c é"]
        (idle,) = await other.idle(2**53, 10)  # the other has a run
        assert (idle.tenant, idle.id) == ("other", "a")
        assert list(await other.idle(1, 10)) == []
        assert not await store.remove(msgspec.structs.replace(idle, revision=7))
        busy = await store.find("acme", "c é")
        assert busy is not None
        assert not await store.remove(busy)
        ended = msgspec.structs.replace(busy, active=None, run=None, waiting=(), cancelling=False)
        assert await store.put(Change(ended, ()))
        assert await other.remove(msgspec.structs.replace(ended, revision=busy.revision + 1))
        assert await store.find("acme", "c é") is None
        assert list(await store.exchanges("acme", "c é")) == []
        assert [each.id for each in await store.page(None, None, 10)] == ["a"]
        assert await store.put(Change(new, (hello,)))
        assert not await other.discard("acme", "a")
        assert await other.discard("acme", "c é")
        assert await store.find("acme", "c é") is None
        assert list(await store.exchanges("acme", "c é")) == []
        assert [each.id for each in await store.page(None, None, 10)] == ["a"]

    async def test_records_of_different_kinds_may_have_one_name(self, connect: Connect) -> None:
        store = await connect()
        talk = Conversation(id="one", tenant="acme", workflow="agent", made_at_ms=5)
        hello = ConversationTurn(number=1, text="hello", at_ms=6)
        assert await store.conversations.put(Change(talk, (hello,)))
        assert await store.supervisors.put(supervision.Change(supervision.Supervisor(tenant="acme", name="one", workers=())))
        assert await store.schedules.add(Schedule(tenant="acme", name="one", workflow="w", cron="0 0 * * *", due_at_ms=None))
        assert [len(await each.page(None, None, 10)) for each in (store.conversations, store.supervisors, store.schedules)] == [
            1
        ] * 3
        assert await store.schedules.remove("acme", "one")
        assert [await store.schedules.find("acme", "one"), await store.supervisors.task("acme", "one", "0000000001")] == [
            None,
            None,
        ]
        found = await store.supervisors.find("acme", "one")
        assert found is not None
        assert await store.supervisors.remove(found)
        assert await store.conversations.find("acme", "one") == msgspec.structs.replace(talk, revision=1)
        assert list(await store.conversations.exchanges("acme", "one")) == [hello]

    async def test_a_supervisor_is_changed_with_its_tasks_by_one_who_has_seen_it(self, connect: Connect) -> None:
        first, there, story = await connect(), await connect(), Story()
        store, other = first.supervisors, there.supervisors
        worker = supervision.Worker(name="ann", workflow="agent", task_types=("read",), avg_ms=1.5)
        new = supervision.Supervisor(tenant="acme", name="d é", workers=(worker,))
        assert await store.put(supervision.Change(new))
        assert not await other.put(supervision.Change(new))
        assert await other.find("acme", "nobody") is None
        seen = await other.find("acme", "d é")
        assert seen == msgspec.structs.replace(new, revision=1)
        assert list(await store.due(2**52, 10)) == []
        task = supervision.Task(id="t é", task_type="read", payload=msgspec.Raw(b'{"n":"\xc3\xa9"}'), at_ms=6)
        taken = supervision.submitted(seen, task, 6)[1]
        put_by = [each.put(supervision.Change(taken, (task,))) for each in (store, other)]
        assert sorted(await asyncio.gather(*put_by)) == [False, True]
        assert await store.task("acme", "d é", "t é") == task
        assert await store.task("acme", "d é", "u") is None
        assert list(await other.due(0, 10)) == [("acme", "d é")]  # its run is to be started
        await put(first, story.start())
        begun = msgspec.structs.replace(supervision.begun(taken, task.id, story.run), revision=2)
        at_work = msgspec.structs.replace(task, run=story.run)
        assert await other.put(supervision.Change(begun, (at_work,)))
        assert list(await store.due(60_005, 10)) == []
        assert list(await store.due(60_006, 10)) == [("acme", "d é")]  # it takes too long
        await put(first, story.does(cmd.CancelRun()))
        assert list(await other.due(0, 10)) == [("acme", "d é")]  # its run has ended
        what = supervision.TaskOutcome("completed", 5)
        over, done = supervision.ended(msgspec.structs.replace(begun, revision=3), at_work, what, first.clock.now_ms())
        assert await store.put(supervision.Change(over, (done,)))
        assert await other.task("acme", "d é", "t é") == done
        assert list(await other.due(2**52, 10)) == []
        another, old = msgspec.structs.replace(task, id="u"), msgspec.structs.replace(done, ended_ms=11)
        assert await other.put(supervision.Change(msgspec.structs.replace(over, revision=4), (another, old)))
        assert await store.task("acme", "d é", "t é") is None  # more than a week is over since
        assert await store.put(supervision.Change(msgspec.structs.replace(new, name="a", tenant="other")))
        assert [each.name for each in await store.page(None, None, 10)] == ["d é", "a"]
        assert [each.name for each in await store.page(None, ("acme", "d é"), 10)] == ["a"]
        assert [each.name for each in await store.page("acme", None, 10)] == ["d é"]
        latest = await store.find("acme", "d é")
        assert latest is not None
        assert not await other.remove(over)
        assert await other.remove(latest)
        assert await store.task("acme", "d é", "u") is None
        assert [each.name for each in await store.page(None, None, 10)] == ["a"]

    async def test_a_stream_has_each_piece_once_and_in_its_place_whichever_process_brings_it(self, connect: Connect) -> None:
        store, there, story, other = await connect(), await connect(), Story(), Story()
        said, progress = StreamName(story.run, "draft#1:0:1"), StreamName(story.run, "progress")
        elsewhere = StreamName(other.run, "progress")
        await store.streams.append([Piece(said, "0", 4, "né\0t".encode()), Piece(progress, "a:0", 1, b"1")])
        await there.streams.append(
            [
                Piece(progress, "a:0", 1, b"again"),  # brought once more: it is there
                Piece(progress, "b:0", 1, b"2"),
                Piece(elsewhere, "a:0", 1, b"3"),
                Piece(said, "4", 2, b"ok"),
                Piece(progress, "b:1", 1, b"4"),
            ]
        )
        assert [*await store.streams.chunks([story.run], {}, 100)] == [
            Chunk(said, 0, 4, "né\0t".encode()),
            Chunk(said, 4, 2, b"ok"),
            Chunk(progress, 0, 1, b"1"),
            Chunk(progress, 1, 1, b"2"),
            Chunk(progress, 2, 1, b"4"),
        ]
        assert await there.streams.sizes([story.run, other.run]) == {said: 6, progress: 3, elsewhere: 1}
        known = {said: 5, progress: 2, StreamName(story.run, "unheard of"): 3}
        assert {*await there.streams.chunks([story.run, other.run], known, 100)} == {
            Chunk(elsewhere, 0, 1, b"3"),
            Chunk(said, 4, 2, b"ok"),
            Chunk(progress, 2, 1, b"4"),
        }
        assert [*await store.streams.chunks([story.run], {said: 6, progress: 3}, 100)] == []
        assert len(await store.streams.chunks([story.run], {}, 2)) == 2
        both, ours = [story.run, other.run], [Chunk(progress, 1, 1, b"2"), Chunk(progress, 2, 1, b"4")]
        assert [*await store.streams.chunks(both, {progress: 1, elsewhere: 1}, 2, only="progress")] == ours
        await store.streams.forget([said])
        assert await there.streams.sizes([story.run]) == {progress: 3}
        assert [chunk.name for chunk in await store.streams.chunks([story.run], {}, 100)] == [progress] * 3

    async def test_what_a_model_thinks_comes_before_what_it_says_also_in_a_small_page(self, connect: Connect) -> None:
        store, story, other = await connect(), Story(), Story()
        names = [
            StreamName(run, f"draft#1:0:1{part}")
            for run in (story.run, other.run)
            for part in ("", ":thinking", ":look:toolu_1")
        ]
        await store.streams.append([Piece(name, str(at), 1, b"a") for at in range(3) for name in names])
        runs = [story.run, other.run]
        first = await store.streams.chunks(runs, {}, 6)
        assert [chunk.name.stream for chunk in first] == ["draft#1:0:1:thinking"] * 6
        (next_,) = await store.streams.chunks([story.run], {names[1]: 3}, 1)
        assert next_.name == names[0]

    async def test_what_has_grown_is_shown_of_all_runs_and_never_missed(self, connect: Connect) -> None:
        store, there, story, other = await connect(), await connect(), Story(), Story()
        said, progress = StreamName(story.run, "draft#1:0:1"), StreamName(other.run, "progress")
        mark, sizes, seqs = await store.streams.news(None)
        assert (sizes, seqs) == ({}, {})
        await there.streams.append([Piece(said, "0", 4, b"four"), Piece(progress, "a:0", 1, b"1")])
        await put(there, *story.whole())
        first = await store.streams.news(mark)
        assert first.sizes == {said: 4, progress: 1}
        assert first.seqs == await store.log.seqs([story.run])
        assert (await store.streams.news(first.mark))[1:] == ({}, {})
        await there.streams.forget([said])
        await there.streams.append([Piece(progress, "a:1", 1, b"2")])
        assert (await store.streams.news(first.mark)).sizes == {progress: 2}
        assert (await there.streams.news(mark)).sizes == {progress: 2}

    async def test_what_is_seen_of_a_stream_has_no_gap_while_many_write_to_it(self, connect: Connect) -> None:
        stores, story = [await connect() for _ in range(3)], Story()
        name, seen = StreamName(story.run, "progress"), list[Chunk]()

        async def write(number: int) -> None:
            for n in range(10):
                pieces = [Piece(name, f"{number}:{n}:{k}", 1, b"%d" % number) for k in range(2)]
                if number:  # these two bring the same at the same moment, and each is there once
                    pieces.append(Piece(name, f"both:{n}", 1, b"both"))
                await stores[number].streams.append(pieces)

        async def watch() -> None:
            while len(seen) < 70:
                seen.extend(await stores[0].streams.chunks([story.run], {name: len(seen)}, 7))

        async with asyncio.timeout(30):
            await asyncio.gather(*map(write, range(3)), watch())
        assert [chunk.first for chunk in seen] == list(range(70))
        assert sum(chunk.content == b"both" for chunk in seen) == 10

    async def test_what_jobs_print_is_kept_in_pieces_that_grow_and_may_be_cut(self, connect: Connect) -> None:
        store, story = await connect(), Story()
        first, grown, other = (LogPlace(story.run, *each) for each in (("a (1)", 1, 0), ("a (1)", 1, 5), ("b", 2, 0)))
        await store.job_logs.keep([(first, b"one\n", "t"), (other, "é\0\n".encode(), "t"), (grown, b"two", "t")], [])
        await store.job_logs.keep([(grown, b"two\nthree\n", "t")], [])
        there = await connect()
        assert sorted((place, size) for place, size, _ in await there.job_logs.pieces(story.run)) == [
            (first, 4),
            (grown, 10),
            (other, 4),
        ]
        assert [await there.job_logs.read(each) for each in (first, grown, other)] == [
            b"one\n",
            b"two\nthree\n",
            "é\0\n".encode(),
        ]
        await store.job_logs.keep([], [first, other])
        assert [place for place, *_ in await there.job_logs.pieces(story.run)] == [grown]
        assert (await there.job_logs.read(first), await there.job_logs.pieces(Story().run)) == (b"", [])

    async def test_scores_are_all_kept_in_their_order_up_to_a_bound_from_all_authors(self, connect: Connect) -> None:
        store, there, story, other = await connect(), await connect(), Story(), Story()
        first = Score("helpful", -0.25, "ann é", "person", "two\nlines", BORN_MS, "deploy", "shop")
        second = Score("helpful", 1e15, "judge", "code", "", BORN_MS - 1)
        assert await store.scores.add(story.run, first, 9)
        assert await there.scores.add(story.run, second, 9)
        assert await there.scores.add(story.run, first, 9)  # said again, and kept again
        assert list(await store.scores.of_run(story.run)) == [first, second, first]
        added = [await asyncio.gather(*(each.scores.add(story.run, second, 9) for each in (store, there))) for _ in range(4)]
        assert sum(each for pair in added for each in pair) == 6
        assert len(await there.scores.of_run(story.run)) == 9
        assert await store.scores.add(other.run, second, 1)
        assert not await there.scores.add(other.run, first, 1)
        assert list(await there.scores.of_run(other.run)) == [second]
        assert list(await store.scores.of_run(RunId("nobody"))) == []

    async def test_evaluations_are_kept_once_and_listed_newest_first(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        first = Evaluation(
            id=f"{1:036d}",
            tenant="acme",
            suite="cases é.yaml",
            workflow="order",
            version=2,
            graph_hash="h",
            scenarios=2,
            passed=1,
            replayed=1,
            min_passed=0.5,
            met=True,
            cost_nanousd=7,
            at_ms=BORN_MS,
            by="ann é",
            os_user="deploy",
        )
        others = [
            msgspec.structs.replace(first, id=f"{number:036d}", tenant=tenant, workflow=workflow)
            for number, tenant, workflow in ((2, "acme", "other"), (3, "globex", "order"), (4, "acme", "order"))
        ]
        judged = (ScenarioResult("a", "r1", ("It went\nastray\0.",), 7), ScenarioResult("b", "r2", replayed=True))
        await asyncio.gather(*(each.evaluations.add(first, judged) for each in (store, there)))
        for each in others:
            await there.evaluations.add(each, ())
        await store.evaluations.add(msgspec.structs.replace(first, passed=2), ())  # what is kept stays as it is
        assert await there.evaluations.find(first.id) == (first, judged)
        assert await there.evaluations.find("nobody") is None
        assert list(await store.evaluations.listed(None, None, None, 9)) == [*reversed(others), first]
        assert list(await store.evaluations.listed("acme", "order", None, 9)) == [others[2], first]
        assert list(await store.evaluations.listed("acme", None, others[2].id, 1)) == [others[0]]
        assert list(await store.evaluations.listed("nobody", None, None, 9)) == []

    async def test_means_are_of_the_scores_that_count_by_version_of_a_workflow(self, connect: Connect) -> None:
        store, runs = await connect(), [Story() for _ in range(3)]
        await put(store, *[story.start() for story in runs])
        (row,) = [each for each in await store.views.runs() if each.run == runs[0].run]

        def said(name: str, value: float, by: str, at_ms: int) -> Score:
            return Score(name, value, by, "code", "", at_ms)

        given = [
            (0, said("helpful", 0.0, "ann", 1)),
            (0, said("helpful", 1.0, "ann", 5)),
            (0, said("helpful", 0.5, "bob", 3)),
            (1, said("helpful", -1e15, "ann", 2)),
            (1, said("helpful", 0.0, "ann", 4)),
            (2, said("brief", 3.0, "ann", 9)),
        ]
        for number, score in given:
            assert await store.scores.add(runs[number].run, score, 9)
        brief = ScoreMean(row.workflow, row.version, "brief", 1, 3.0, 9)
        helpful = ScoreMean(row.workflow, row.version, "helpful", 3, 0.5, 5)
        assert list(await store.scores.means()) == [brief, helpful]
        assert list(await store.scores.means(tenant=row.tenant, workflow=row.workflow, limit=1)) == [brief]
        assert list(await store.scores.means(name="helpful")) == [helpful]
        (later,) = await store.scores.means(name="helpful", since_ms=4)
        assert (later.scores, later.mean) == (2, 0.5)
        assert [*await store.scores.means(tenant="nobody"), *await store.scores.means(workflow="none")] == []

    async def test_a_key_is_replaced_as_it_was_seen_and_found_by_its_hash_alone(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        first = ApiKey(name="shop", hash="a" * 64, tenant="acme", may=("operator",), workflows=("order*",), made_at_ms=BORN_MS)
        other = ApiKey(name="audits", hash="b" * 64, may=("viewer",), expires_at_ms=BORN_MS)
        links = [
            msgspec.structs.replace(other, name=name, hash=name * 9, opens=opens)
            for name, opens in (("x", ("run", "paid")), ("y", ToDecide("run:gate#1", "e" * 64, "ida")))
        ]
        assert [await store.keys.put(each, None) for each in links] == [True, True]
        assert [await there.keys.find(each.hash) for each in links] == links
        assert await store.keys.put(first, None)
        assert not await there.keys.put(msgspec.structs.replace(first, hash="c" * 64), None)
        assert await there.keys.put(other, None)
        rotated = msgspec.structs.replace(first, hash="d" * 64, revoked_at_ms=BORN_MS)
        both = await asyncio.gather(*(each.keys.put(rotated, first.hash) for each in (store, there)))
        assert sorted(both) == [False, True]
        assert (await store.keys.find(first.hash), await there.keys.find(rotated.hash)) == (None, rotated)
        assert [*await there.keys.named("shop", None, 9), *await store.keys.named("nobody", None, 9)] == [rotated]
        assert list(await there.keys.listed(None, None, 9)) == [other, rotated, *links]
        assert list(await there.keys.listed("acme", ("audits", ""), 1)) == [rotated]
        assert list(await there.keys.listed("globex", None, 9)) == []

    async def test_the_name_of_a_key_is_its_tenant_s_and_that_of_the_fleet_s_is_no_other_s(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        keys = [ApiKey(name="shop", hash=tenant * 9, tenant=tenant) for tenant in ("acme", "globex")]
        assert [await store.keys.put(each, None) for each in keys] == [True, True]
        assert not await there.keys.put(msgspec.structs.replace(keys[0], hash="x"), None)
        fleet = ApiKey(name="ops", hash="ops")
        assert await there.keys.put(fleet, None)
        assert not await store.keys.put(ApiKey(name="ops", hash="y", tenant="acme"), None), "it would be taken for the fleet's"
        assert not await store.keys.put(ApiKey(name="shop", hash="z"), None)
        assert list(await there.keys.named("shop", None, 9)) == keys
        assert list(await there.keys.named("shop", "globex", 9)) == keys[1:]
        assert [*await there.keys.named("ops", None, 9), *await there.keys.named("ops", "acme", 9)] == [fleet]
        assert list(await store.keys.listed(None, ("shop", "acme"), 9)) == keys[1:]
        over = msgspec.structs.replace(keys[1], revoked_at_ms=BORN_MS)
        assert await store.keys.put(over, over.hash)
        assert list(await there.keys.listed(None, None, 9)) == [fleet, keys[0], over]

    async def test_all_processes_seal_cursors_with_one_secret(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        secret = await store.keys.cursor_key()
        assert await there.keys.cursor_key() == secret
        assert len(secret) >= 64

    async def test_the_audit_log_is_one_chain_whichever_process_adds_to_it(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        entry = Entry(BORN_MS, "Decide", "run:gate", "done", "ann é", True, "clients.shop", "", "127.0.0.1", "acme", "t")
        others = entry._replace(tenant="globex", outcome="not_found")
        assert await store.audit.head() == Head(0, FIRST)
        await asyncio.gather(
            *(each.audit.append(kind) for kind in (entry, others) for each in (store, there) for _ in range(3))
        )
        links = list(await store.audit.links(limit=100))
        assert [each.number for each in links] == list(range(1, 13))
        reading = Verification()
        assert [reading.problem(each) for each in links] == [None] * 12
        assert reading.problem_at_end(await there.audit.head()) is None
        assert {each.entry for each in links} == {entry, others}
        assert [each.entry for each in await there.audit.links(tenant="acme", limit=100)] == [entry] * 6
        assert list(await there.audit.links(after=10, limit=1)) == links[10:11]

    async def test_the_audit_log_is_searched_by_who_what_about_which_thing_and_when(self, connect: Connect) -> None:
        store = await connect()
        run = "0190a1b2-0000-7000-8000-000000000001"
        entries = [
            Entry(10, "Start", run, "done", "ann", True, client="ann"),
            Entry(20, "Decide", f"{run}:gate#1", "done", "bob", False, client="desk", tenant="acme"),
            Entry(30, "Pause", run, "not_found", "ann", True, client="ann"),
            Entry(40, "Decide", "0190a1b2-0000-7000-8000-000000000002:gate#1", "done", "ann", True, client="ann"),
        ]
        for each in entries:
            await store.audit.append(each)

        async def found(**filters: Any) -> list[int]:
            return [each.number for each in await store.audit.links(**filters)]

        assert await found() == [1, 2, 3, 4]
        assert await found(newest_first=True, limit=2) == [4, 3]
        assert await found(newest_first=True, before=3, limit=2) == [2, 1]
        assert await found(name="ann") == [1, 3, 4]
        assert await found(name="desk") == [2]
        assert await found(actions=["Decide", "Pause"]) == [2, 3, 4]
        assert await found(about=run, newest_first=True) == [3, 2, 1]
        assert await found(since_ms=20, until_ms=40) == [2, 3]
        assert await found(tenant="acme", name="bob", actions=("Decide",), about=run, since_ms=20, until_ms=21) == [2]
        assert await found(name="an") == []

    async def test_a_request_under_a_key_is_begun_once_and_its_answer_is_kept_for_so_long(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        begun = await asyncio.gather(
            *(each.replies.begin("key", "digest", 60_000) for each in (store, there) for _ in range(3))
        )
        assert sorted(each.is_new for each in begun) == [False] * 5 + [True]
        assert {(each.digest, each.reply, each.begun_at_ms) for each in begun} == {("digest", None, begun[0].begun_at_ms)}
        reply = Reply(201, b"\x00{}", {"location": "here"})
        assert await there.replies.finish("key", reply)
        assert not await store.replies.finish("key", None), "it has an answer"
        again = await store.replies.begin("key", "another", 60_000)
        assert (again.digest, again.reply, again.is_new) == ("digest", reply, False)
        await store.replies.begin("other", "digest", 60_000)
        assert await store.replies.finish("other", None)
        assert not await there.replies.finish("other", reply), "it is not known any more"
        assert (await there.replies.begin("other", "digest", 60_000)).is_new
        await asyncio.sleep(0.01)
        assert (await there.replies.begin("key", "another", 0)).is_new, "it is over"

    async def test_a_sign_in_is_known_to_each_process_until_it_ends(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        now_ms = store.clock.now_ms()

        def made(hash_: str, life_ms: int, owner: str = "ann") -> SignIn:
            return SignIn(
                hash=hash_,
                way="oidc",
                owner=owner,
                issuer="https://id.example.com",
                claims={"sub": "ann", "roles": ["legal"]},
                began_at_ms=now_ms,
                expires_at_ms=now_ms + life_ms,
            )

        await store.sign_ins.add(made("over", -1_000), 3)
        assert await there.sign_ins.find("over") is None
        for number in range(5):
            await store.sign_ins.add(made(f"of-ann-{number}", 60_000 + number), 3)
        await there.sign_ins.add(made("of-bob", 60_000, "bob"), 3)
        known = [await store.sign_ins.find(f"of-ann-{number}") for number in range(5)]
        assert known == [None, None, *(made(f"of-ann-{number}", 60_000 + number) for number in (2, 3, 4))]
        assert await store.sign_ins.find("of-bob") is not None
        assert await there.sign_ins.end("of-ann-3")
        assert not await store.sign_ins.end("of-ann-3")
        assert await store.sign_ins.find("of-ann-3") is None

    async def test_sessions_are_listed_by_name_and_tenant_and_all_of_one_end_at_once(self, connect: Connect) -> None:
        store, there = await connect(), await connect()
        now_ms = store.clock.now_ms()

        def made(number: int, name: str, tenant: str | None = None, life_ms: int = 60_000) -> SignIn:
            return SignIn(
                hash=f"{number:064}"[::-1],
                way="token",
                owner=name,
                name=name,
                tenant=tenant,
                origin="10.0.0.9",
                began_at_ms=now_ms,
                expires_at_ms=now_ms + life_ms + number,
            )

        ann, globex, bob = [made(each, "ann", "acme") for each in (1, 2, 3)], made(4, "ann", "globex"), made(5, "bob")
        for each in (*ann, globex, bob, made(6, "ann", "acme", -1_000)):
            await store.sign_ins.add(each, 9)
        assert await there.sign_ins.listed(limit=9) == [bob, globex, *ann[::-1]]
        first = await there.sign_ins.listed(name="ann", tenant="acme", limit=2)
        assert first == [ann[2], ann[1]]
        assert await there.sign_ins.listed(name="ann", tenant="acme", after=first[-1].id, limit=2) == [ann[0]]
        assert await there.sign_ins.listed(session=bob.id, limit=1) == [bob]
        assert await there.sign_ins.listed(session=bob.id, tenant="acme", limit=1) == []
        assert await there.sign_ins.end_of("ann", "acme") == 3
        assert await store.sign_ins.listed(limit=9) == [bob, globex]
        assert (await store.sign_ins.end_of("ann", None), await store.sign_ins.end_of("ann", None)) == (1, 0)
