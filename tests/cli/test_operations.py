"""`runs show` prints what a flow did: its functions, calls, waits and questions, with who decided."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
    assert shell("runs", "show", run, "--operations", "--tree").code == 2
