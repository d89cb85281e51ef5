"""`holdfast runs` about children: a run with everything below it, and what all of it has cost."""

from __future__ import annotations

from pathlib import Path

from holdfast.testing.model_server import ModelServer, Rule, Usage
from tests.cli.conftest import Shell

FLOWS = """
from holdfast import Context, flow

@flow
async def leaf(ctx: Context) -> str:
    return await ctx.wait_signal("go")

@flow
async def branch(ctx: Context) -> str:
    return await ctx.child(leaf)

@flow(cost_limit_usd=2)
async def root(ctx: Context) -> list[str]:
    return await ctx.gather(ctx.child(branch), ctx.child(leaf, key="direct"))
"""


def test_a_tree_is_shown_with_how_each_run_stands_and_what_all_cost(shell: Shell, home: Path) -> None:
    (home / "family.py").write_text(FLOWS)
    said = shell("run", "family.py:root", "--json")
    assert said.code == 8, "it waits, because its children do"
    root = said.data["run_id"]
    tree = shell("runs", "show", root, "--tree", "--json").data
    assert (tree["run_id"], tree["root_id"], tree["limit_usd"], tree["cost_usd"]) == (root, root, "2.00", "0.00")
    shape = [(each["depth"], each["workflow"], each["status"]) for each in tree["runs"]]
    assert shape[0] == (0, "root", "waiting")
    assert sorted(shape[1:]) == [(1, "branch", "waiting"), (1, "leaf", "waiting"), (2, "leaf", "waiting")]
    branch = next(each["run_id"] for each in tree["runs"] if each["workflow"] == "branch")
    part = shell("runs", "show", branch, "--tree", "--json").data
    assert [each["parent_id"] for each in part["runs"]] == [root, branch]
    children = shell("runs", "list", "--children-of", root, "--json").data
    assert {each["workflow"] for each in children} == {"branch", "leaf"}
    assert shell("runs", "show", branch, "--json").data["parent"] == {"run_id": root, "step": "flow#1", "root_id": root}
    out = shell("runs", "show", root, "--tree").out
    assert "4 runs, $0.00 spent" in out
    assert f"    {part['runs'][1]['run_id']}" in out, "a child stands below its parent"
    assert f"waits for its child {branch}" in shell("runs", "show", root).out
    assert f"{root}, for flow#1" in shell("runs", "show", branch).out


ASKING = """
from holdfast import Context, flow

@flow
async def asks(ctx: Context) -> str:
    return await ctx.model("claude-haiku-4-5", "question", max_tokens=100)

@flow
async def boss(ctx: Context) -> list[str]:
    return [await ctx.child(asks, max_tokens=500), await ctx.child(asks)]
"""


def test_a_tree_is_shown_with_the_tokens_of_each_run_and_of_all(shell: Shell, server: ModelServer, home: Path) -> None:
    server.script.add(Rule(usage=Usage(input_tokens=120, output_tokens=80), text="."))
    (home / "asking.py").write_text(ASKING)
    said = shell("run", "asking.py:boss", "--token-limit", "400", "--json")
    assert said.code == 8, "it waits for its second child, whose call does not fit"
    root = said.data["run_id"]
    tree = shell("runs", "show", root, "--tree", "--json").data
    assert (tree["tokens"], tree["held_tokens"], tree["max_tokens"]) == (200, 0, 400)
    assert [(each["tokens"], each["max_tokens"]) for each in tree["runs"]] == [(0, 400), (200, 500), (0, None)]
    out = shell("runs", "show", root, "--tree").out
    assert "200 of 500" in out
    assert "3 runs, $0.00052 spent; 200 tokens" in out
    blocked = tree["runs"][2]
    (wait,) = blocked["waiting_for"]
    assert (blocked["status"], wait["kind"], wait["reason"]) == ("budget_blocked", "tokens", "tree_budget")
    told = shell("runs", "show", blocked["run_id"]).out
    assert f"The tree of run {root} has no tokens left" in told
    command = f"runs extend {root} --tokens N"
    assert command in told
    shell(*command.replace("N", "1000").split())
    assert shell("run", "asking.py:boss", "--token-limit", "-1").code == 2
