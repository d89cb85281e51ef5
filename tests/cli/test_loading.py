"""Loading, on the command line: whoever has loaded a file goes on with the children of its flows."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Shell

FAM = """
from holdfast import Context, flow


@flow
async def kid(ctx: Context, n: int) -> str:
    return (await ctx.ask({"n": n}, decisions=["approve"])).by


async def helper(ctx: Context, n: int) -> str:
    return await ctx.child(kid, n)


@flow
async def by_helper(ctx: Context) -> str:
    return await helper(ctx, 1)


@flow
async def by_factory(ctx: Context) -> str:
    @flow
    async def made(ctx: Context) -> None:
        pass

    return await ctx.child(made)
"""


def test_a_parent_shows_its_childs_question_and_the_next_process_resumes_the_child(shell: Shell, home: Path) -> None:
    (home / "fam.py").write_text(FAM)
    said = shell("run", "fam.py:by_helper", "--key", "k")
    assert said.code == 8
    run = said.err.split("Run ")[1].split()[0]
    (child,) = [row["run_id"] for row in shell("runs", "list", "--children-of", run, "--json").data]
    assert "It asks anyone: question" in said.err + said.out
    assert "holdfast gates show" in said.err + said.out
    assert shell("gates", "approve", child, "--as", "grace").code == 0
    assert shell("worker", "fam.py:by_helper", "--until-idle").code == 0
    assert shell("run", "fam.py:by_helper", "--key", "k").out.strip() == "grace"


def test_validate_warns_of_a_child_that_no_later_process_would_find(shell: Shell, home: Path) -> None:
    (home / "fam.py").write_text(FAM)
    said = shell("validate", "fam.py:by_factory")
    assert "by_factory makes or imports it while it runs" in said.out + said.err
