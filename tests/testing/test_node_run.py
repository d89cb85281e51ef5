"""One node alone: what a test of a user's sees of it."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from holdfast import Workflow, branch, check, human_gate, llm_node, task, tool, tool_node
from holdfast.errors import UsageError
from holdfast.testing import Decided, ToolCall, run_node


class Verdict(BaseModel):
    good: bool
    why: str = ""


wf = Workflow(name="letter")
sent: list[str] = []


@tool(effect="once")
def send(to: str, body: str, key: str) -> dict[str, str]:
    sent.append(to)
    return {"id": key[:4]}


@tool(effect="read")
def look_up(word: str) -> str:
    return f"about {word}"


@wf.node("draft")
@llm_node(model="claude-haiku-4-5", tools=["look_up"])
async def draft(state):
    return {"system": "Write.", "user": state.input["topic"]}


@wf.node("judge")
@check
async def judge(state, ctx):
    verdict = await ctx.model("claude-haiku-4-5", state.events["draft"].output, output=Verdict)
    return ("pass" if verdict.good else "retry"), verdict.why


@wf.node("approval")
@human_gate
def approval(state):
    return {"diff": state.events["draft"].output}


@wf.node("route")
@branch
def route(state):
    return "post" if state.events["approval"].decision == "edit" else "stop"


@wf.node("wait")
@task
async def wait(state, ctx):
    began = ctx.now()
    await ctx.sleep(days=2)
    answer = await ctx.ask({"how": "far?"})
    told = await ctx.wait_signal("carrier")
    return [(ctx.now() - began).days, answer.decision, told]


@wf.node("post")
@tool_node(name="send")
def post(state):
    return {"to": state.input["to"], "body": state.events["approval"].payload["edited_body"]}


@wf.node("stop")
@task
def stop(state):
    raise ValueError("there is nothing to send")


wf.edge("draft", "judge")
wf.edge("judge", "approval", when="pass")
wf.loop("judge", "draft", max_visits=3, when="retry")
wf.edge("approval", "route")
wf.edge("route", "wait", when="post")
wf.edge("wait", "post")
wf.edge("route", "stop", when="stop")


async def test_an_agent_uses_its_tools_and_answers_as_instructed() -> None:
    outcome = await run_node(wf, "draft", input={"topic": "rain"}, replies=[ToolCall("look_up", {"word": "rain"}), "It rains."])
    assert (outcome.status, outcome.output) == ("completed", "It rains."), outcome.error
    assert [(call.name, call.response) for call in outcome.tool_calls] == [("look_up", "about rain")]
    assert outcome.requests[0].system == "Write."


@pytest.mark.parametrize(("good", "decision"), [(True, "pass"), (False, "retry")])
async def test_a_check_decides_and_its_loop_is_not_gone_along(good: bool, decision: str) -> None:
    outcome = await run_node(wf, "judge", outputs={"draft": "It rains."}, replies=[Verdict(good=good, why="so")])
    assert outcome.decisions == (decision,)
    assert len(outcome.requests) == 1


async def test_a_gate_shows_and_waits_or_takes_an_answer() -> None:
    asked = await run_node(wf, "approval", outputs={"draft": "It rains."})
    assert (asked.status, asked.shown) == ("waiting", {"diff": "It rains."})
    edited = {"edited_body": "It pours."}
    answered = await run_node(wf, "approval", outputs={"draft": "It rains."}, answers=[Decided("edit", edited)])
    assert (answered.status, answered.output, answered.decisions) == ("completed", edited, ("edit",))


async def test_whom_a_gate_asks_answers() -> None:
    asking = Workflow("asking")
    asking.node("pay")(human_gate(reviewers=["ann"], four_eyes=True)(lambda state: {"diff": 7}))
    outcome = await run_node(asking, "pay", answers=[Decided("approve")])
    assert (outcome.status, outcome.decisions) == ("completed", ("approve",))


async def test_what_a_person_decided_before_is_stood_in_for() -> None:
    edited = await run_node(wf, "route", outputs={"approval": Decided("edit", {"edited_body": "It pours."})})
    assert edited.decisions == ("post",)


async def test_days_of_sleep_take_no_time_and_waits_are_answered() -> None:
    outcome = await run_node(wf, "wait", outputs={"route": "post"}, answers=[Decided("answer", 7)], signals={"carrier": "gone"})
    assert outcome.output == [2, "answer", "gone"]


async def test_a_tool_is_replaced_and_its_call_is_seen() -> None:
    outcome = await run_node(
        wf, "post", input={"to": "ada"}, outputs={"approval": {"edited_body": "Hi"}}, tools={"send": lambda to, body: to}
    )
    assert (outcome.output, sent) == ("ada", [])
    assert outcome.tool_calls == (ToolCall("send", {"to": "ada", "body": "Hi"}, "ada"),)


async def test_an_error_is_reported() -> None:
    outcome = await run_node(wf, "stop", outputs={"route": "stop"})
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert "nothing to send" in outcome.error.message
    with pytest.raises(UsageError, match="no node 'nowhere'"):
        await run_node(wf, "nowhere")


async def test_a_missing_reply_is_missed() -> None:
    outcome = await run_node(wf, "draft", input={"topic": "rain"})
    assert outcome.error is not None
    assert "given no reply" in outcome.error.message
