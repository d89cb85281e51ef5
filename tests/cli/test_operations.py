"""`runs show` prints what a flow did: its functions, calls, waits and questions, with who decided."""

from __future__ import annotations

import json
import re
from pathlib import Path

from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.cli.conftest import Shell

LETTER = """
import time

from holdfast import Context, flow, step


@step
def collect(n: int) -> list[int]:
    time.sleep(0.2)
    return list(range(n))


@step(effect="once")
def pay(n: int) -> int:
    return n


@flow
async def letter(ctx: Context, n: int = 3) -> str:
    found = await collect(n)
    answer = await ctx.ask({"pay": len(found)}, decisions=["approve", "reject"])
    return f"{answer.decision} {await pay(len(found))}"
"""


def test_a_flow_is_shown_with_all_that_it_did(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "letter.py"
    file.write_text(LETTER)
    run = shell("run", f"{file}:letter", "--detach").out.strip()
    shell("worker", f"{file}:letter", "--until-idle")
    gate = json.loads(shell("gates", "list", "--json").out)[0]["gate_id"]
    assert re.search(rf"(?m)^ /1 question +waiting .*{gate[:8]}", shell("runs", "show", run).out)
    shell("gates", "approve", gate, "--as", "ada")
    shell("worker", f"{file}:letter", "--until-idle")
    shown = shell("runs", "show", run).out
    assert re.search(r"(?m)^flow#1 +completed +\S+ \w+ +\S+ \w+ +1 ", shown), shown  # to go on after the answer is no attempt
    assert re.search(r"(?m)^ /0 collect +completed +\S+ \w+ +0\.[2-9] s +1 ", shown), shown
    assert re.search(r"(?m)^ /1 question +completed .* approve by ada", shown), shown
    assert re.search(r"(?m)^ /2 pay +completed +\S+ \w+ +\S+ \w+ +1 ", shown), shown
    rows = [json.loads(line) for line in shell("runs", "show", run, "--operations", "--json").out.splitlines()]
    assert [(row["kind"], row["name"], row["status"]) for row in rows] == [
        ("function", "collect", "completed"),
        ("question", "question", "completed"),
        ("tool", "pay", "completed"),
    ]
    assert (rows[1]["decision"], rows[1]["by"]) == ("approve", "ada")
    listed = shell("runs", "show", run, "--operations").out
    assert re.findall(r"(?m)^flow#1/\d \w+", listed) == ["flow#1/0 collect", "flow#1/1 question", "flow#1/2 pay"]
    assert shell("runs", "fork", run, "--from", listed.splitlines()[3].split()[0], "--dry-run").code == 0
    (step,) = json.loads(shell("runs", "show", run, "--json").out)["steps"]
    assert (step["attempts"], step["resumptions"]) == (1, 1)
    trace = re.sub(" +", " ", shell("runs", "show", run, "--trace").out)
    placed = re.findall(r"(?m)^(flow#1/\d \w+) (\w+)", trace)
    assert placed == [
        ("flow#1/0 collect", "checkpoint"),
        ("flow#1/1 question", "approval_requested"),
        ("flow#1/1 question", "approval_decided"),
        ("flow#1/2 pay", "checkpoint"),
    ]
    assert shell("runs", "show", run, "--operations", "--tree").code == 2


AGENT = """
from holdfast import Context, flow, tool


@tool(effect="read")
def look(where: str) -> str:
    "Look somewhere."
    return f"nothing at {where}"


@flow
async def ask(ctx: Context, question: str) -> str:
    return await ctx.agent("claude-haiku-4-5", question, system="Be brief.", tools=[look], max_tokens=100)
"""


def test_the_calls_of_models_are_printed_as_a_conversation(shell: Shell, server: ModelServer, tmp_path: Path) -> None:
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("look", {"where": "home"}),)), Rule(turn=2, text="It is not there."))
    file = tmp_path / "asker.py"
    file.write_text(AGENT)
    run = shell("run", f"{file}:ask", "-i", '"Where is it?"', "--detach").out.strip()
    shell("worker", f"{file}:ask", "--until-idle")
    said = shell("runs", "show", run, "--calls").out
    assert re.sub(r"(?m), \S+ \S+Z, .*$", "", said) == (
        "Call 1: claude-haiku-4-5 in flow#1, completed\n"
        "  system\n    Be brief.\n"
        "  tools\n    look\n"
        "  user\n    Where is it?\n"
        '  assistant calls look\n    {"where": "home"}\n'
        "\n"
        "Call 2: claude-haiku-4-5 in flow#1, completed\n"
        "  earlier\n    (1 as in call 1)\n"
        "  tool look\n    nothing at home\n"
        "  assistant\n    It is not there.\n"
    )
    rows = [json.loads(line) for line in shell("runs", "show", run, "--calls", "--json").out.splitlines()]
    assert [(row["after"], row["same_turns"]) for row in rows] == [(None, 0), (rows[0]["call"], 1)]
