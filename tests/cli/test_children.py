"""`holdfast runs` about children: a run with everything below it, and what all of it has cost."""

from __future__ import annotations

from pathlib import Path

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
