"""What is too much is summed up once, nothing is cut between a tool's request and its reply, and a replay asks nothing anew."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Chat, Context, Handoff, RunFailed, StateView, Tool, Workflow, flow, llm_node, tool
from holdfast.authoring.agents.compaction import Compaction, cut
from holdfast.errors import UsageError
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.providers import Providers
from holdfast.ports import ModelRequest, ModelTurn, ToolTurn, UserTurn
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.kit import bounded, die, gate_of, names, opened
from tests.engine.recorder import Recorder

MODEL, OTHER = "claude-haiku-4-5", "gpt-4.1-nano"
MOST = 6_000
SUMS_UP = "Summarize the earlier part"


@pytest.fixture
def asked(model: Providers, server: ModelServer) -> Recorder:
    server.script.add(Rule(system=SUMS_UP, text="They spoke of ships."))
    return Recorder(model)


def summaries(asked: Recorder) -> list[ModelRequest]:
    return [each for each in asked.asked if each.system.startswith(SUMS_UP)]


def answers(asked: Recorder) -> list[ModelRequest]:
    """Return what the model was asked, without the ids of the calls: each try has another."""
    return [msgspec.structs.replace(each, call=None) for each in asked.asked if not each.system.startswith(SUMS_UP)]


def expect_whole(request: ModelRequest) -> None:
    """Each tool's request has its reply right behind it, and each reply its request."""
    open_: set[str] = set()
    for turn in request.turns:
        if isinstance(turn, ToolTurn):
            assert {reply.id for reply in turn.replies} == open_
        else:
            assert not open_
        calls = turn.replay["parts"] if isinstance(turn, ModelTurn) else []
        open_ = {part["tool_call_id"] for part in calls if part["part_kind"] == "tool-call"}
    assert not open_


@flow
async def sailor(ctx: Context, chat: Chat) -> str:
    return await ctx.model(MODEL, chat, max_tokens=200, compact_above_tokens=MOST)


def word(number: int) -> str:
    return f"message {number} " + "of ships " * 100


@bounded
async def test_a_conversation_is_summed_up_once_and_each_run_is_given_a_bounded_input(
    store: str, asked: Recorder, server: ModelServer
) -> None:
    async with opened(store, workflows=[sailor], model=asked) as engine:
        await engine.open_conversation("c", sailor)
        for number in range(1, 16):
            await engine.send_message("c", word(number))
            assert (await engine.reply("c", number)).status == "completed"
        assert all(input_tokens_at_most(each) <= MOST for each in answers(asked))
        assert len(answers(asked)) == 15
        made = len(summaries(asked))
        assert 1 <= made <= 4, "not anew for each message"
        talk = await engine.conversation("c")
        kept = [number for number, each in talk.exchanges.items() if each.summary is not None]
        assert len(kept) == made
        assert [talk.exchanges[number].text.split("of")[0] for number in (1, 15)] == ["message 1 ", "message 15 "]
        last = answers(asked)[-1].turns
        assert "They spoke of ships." in str(last[0])
        assert [turn.text for turn in last if isinstance(turn, UserTurn)][-1] == word(15)
        # What is not summed up is there word for word, and nothing is there twice.
        covers = talk.exchanges[kept[-1]].summary.covers  # type: ignore[union-attr]
        given = (await engine.run(str(talk.exchanges[15].run)).state()).input.value()["messages"]
        assert given[0]["role"] == "summary"
        assert len(given) == 1 + (2 * 15 - 1) - covers
        assert len(str(given)) < 2 * MOST
        # A branch from before the first summary is told every word.
        branch = await engine.send_message("c", "And otherwise?", after=1)
        await engine.reply("c", branch.number)
        assert [turn.text for turn in answers(asked)[-1].turns if isinstance(turn, UserTurn)] == [word(1), "And otherwise?"]
        assert len(summaries(asked)) == made


def agent(*tools: Tool, **options: Any) -> Workflow:
    wf = Workflow("agent")

    @wf.node("answer")
    @llm_node(model=MODEL, tools=tools, max_tokens=200, **options)
    async def answer(state: StateView) -> dict[str, Any]:
        return {"system": "Look around.", "user": "Find the ships."}

    return wf


LOOKS = [Rule(turn=n, tool_calls=(ToolCall("look", {"where": str(n)}),)) for n in range(1, 4)]


@tool(effect="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where} " + "but waves " * 120


@tool(effect="once", approval=True)
def sink(ship: str) -> str:
    """Sink a ship."""
    return f"{ship} is no more"


@bounded
async def test_a_loop_of_tools_is_cut_between_turns_and_goes_on(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(Rule(system="Look around", user="They spoke of ships.", text="done"), *LOOKS)
    wf = agent(look, compact_above_tokens=4_000, compact_with=OTHER, max_turns=8)
    async with opened(store, workflows=[wf], model=asked) as engine:
        run = await engine.start(wf, None)
        assert await run.result() == "done"
        for each in answers(asked):
            expect_whole(each)
            assert input_tokens_at_most(each) <= 4_000
        (summary,) = summaries(asked)
        assert (summary.model, summary.tools, summary.max_tokens) == (OTHER, (), 250)
        (told,) = summary.turns
        assert '{"user":"Find the ships."}' in told.text  # type: ignore[union-attr]
        assert "ValueRecorded" in await names(run)
        row = (await engine.runs())[0]
        assert row.settled_nanousd > 0


@bounded
async def test_the_approval_that_is_waited_for_survives_and_a_replay_sees_the_same_turns(
    store: str, asked: Recorder, server: ModelServer
) -> None:
    server.script.add(
        Rule(
            system="Look around",
            user="They spoke of ships.",
            times=1,
            tool_calls=(ToolCall("sink", {"ship": "Pequod"}), ToolCall("look", {"where": "sea"})),
        ),
        Rule(system="Look around", user="They spoke of ships.", text="done"),
        *LOOKS,
    )
    wf = agent(look, sink, compact_above_tokens=4_000, max_turns=8)
    async with opened(store, workflows=[wf], model=asked) as engine:
        run = await engine.start(wf, None)
        gate = await gate_of(run)
        before = list(asked.asked)
        assert len(summaries(asked)) == 1
        await die(engine)
    async with opened(store, workflows=[wf], model=asked) as engine:
        await engine.decide(gate, "approve", by="ann")
        assert await engine.run(run.id).result() == "done"
        last = answers(asked)[-1]
        expect_whole(last)
        assert "Pequod is no more" in str(last.turns[-1])
        anew = [each for each in asked.asked[len(before) :] if each in before]
        assert anew == []


@bounded
async def test_a_death_behind_the_summary_asks_nothing_again(store: str, asked: Recorder, server: ModelServer) -> None:
    server.script.add(
        Rule(system="Look around", user="They spoke of ships.", latency_s=0.3, times=1, text="done"),
        Rule(system="Look around", user="They spoke of ships.", text="done"),
        *LOOKS,
    )
    wf = agent(look, compact_above_tokens=4_000, max_turns=8)
    async with opened(store, workflows=[wf], model=asked) as engine:
        run = await engine.start(wf, None)
        while not any("They spoke" in str(each.turns) for each in answers(asked)):
            await asyncio.sleep(0.002)
        before = answers(asked)[-1]
        await die(engine)
    # Whatever the code says by then of when to cut: what was cut stands in the journal.
    more = agent(look, compact_above_tokens=4_000, max_turns=8)
    async with opened(store, workflows=[more], model=asked) as engine:
        assert await engine.run(run.id).result() == "done"
        assert answers(asked)[-1] == before
        assert len(summaries(asked)) == 1


@bounded
async def test_what_does_not_fit_is_an_error_in_words(store: str, asked: Recorder, server: ModelServer) -> None:
    @flow
    async def talks(ctx: Context, chat: Chat) -> str:
        return await ctx.model(MODEL, chat, max_tokens=200, compact_above_tokens=1_000)

    async with opened(store, workflows=[talks], model=asked) as engine:
        run = await engine.start(talks, {"messages": [{"role": "user", "text": "x" * 2_000}]})
        with pytest.raises(RunFailed, match="nothing older to sum up"):
            await run.result()
        assert asked.asked == []
        said = [{"role": "user", "text": "short"}, {"role": "assistant", "text": "y"}, {"role": "user", "text": "x" * 2_000}]
        run = await engine.start(talks, {"messages": said})
        with pytest.raises(RunFailed, match="With its older turns summed up"):
            await run.result()
        assert len(asked.asked) == 1


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="use 1000 or more"):
        agent(compact_above_tokens=10)
    with pytest.raises(UsageError, match="not when"):
        agent(compact_with=OTHER)


def test_the_cut_is_where_half_of_what_may_be_is_left_or_at_the_last_border() -> None:
    tokens = [1_000, 800, 700, 500, 400, 300]
    assert cut([1, 2, 4, 5], tokens.__getitem__, 1_000) == 4
    assert cut([1, 2], tokens.__getitem__, 1_000) == 2
    assert cut([], tokens.__getitem__, 1_000) is None
    assert [Compaction(most).summary_tokens for most in (1_000, 16_000, 10**6)] == [62, 1_000, 2_000]


@flow
async def mate(ctx: Context, chat: Chat) -> str:
    return " | ".join(f"{each.role}: {each.text[:12]}" for each in chat.messages)


@bounded
async def test_a_successor_gets_the_summary_and_what_came_after_it(store: str, asked: Recorder, server: ModelServer) -> None:
    @flow
    async def captain(ctx: Context, chat: Chat) -> str:
        return await ctx.agent(MODEL, chat, tools=[Handoff(mate)], max_tokens=200, compact_above_tokens=MOST)

    server.script.add(Rule(user="message 5", tool_calls=(ToolCall("transfer_to_mate", {}),)))
    server.script.add(Rule(system=SUMS_UP, text="They spoke of ships."))
    said = [word(number) for number in range(1, 6) for _ in range(2)][:-1]
    messages = [{"role": ("user", "assistant")[n % 2], "text": text} for n, text in enumerate(said)]
    async with opened(store, workflows=[captain, mate], model=asked) as engine:
        run = await engine.start(captain, {"messages": messages})
        told = (await run.result()).split(" | ")
        assert told[0] == "user: Summary of t"
        assert told[-1] == "user: message 5 of"
        assert len(told) == 1 + len(answers(asked)[0].turns) - 1
        assert len(summaries(asked)) == 1
