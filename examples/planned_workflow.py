"""A model writes a workflow in YAML and repairs it with the output of `holdfast validate --json`. A person approves it, and it
runs as a child of this run, within its cost limit.

`holdfast validate` reports each mistake with its place and a remedy, which is all that a model needs to correct the file. The
scripts run on this machine, so a person approves exactly the text that runs.

    holdfast run examples/planned_workflow.py:plan_and_run -i '{"task": "Count the words of three poems."}' --key poems
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import Context, Workflow, flow, step
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load

MODEL = "claude-sonnet-5"
MAX_REPAIRS = 3
WRITE = """Write a GitHub Actions workflow that does the task: jobs with `runs-on: any`, steps with `run`, a matrix where the
same is done several times. Answer with the YAML alone."""


class Task(BaseModel):
    task: str


@step
def check(text: str) -> list[dict[str, Any]]:
    """What is wrong with a workflow file, as the command line says it; nothing, if it can be run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "holdfast", "validate", str(file), "--json"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    mistakes: list[dict[str, Any]] = json.loads(result.stdout)["mistakes"]
    return mistakes


def planned(text: str) -> Workflow:
    """The workflow that a text describes: the same on every replay, for the text is recorded."""
    return workflow_of(load(text, "plan"))


@flow(cost_limit_usd="0.50")
async def plan_and_run(ctx: Context, request: Task) -> Any:
    text = _bare(await ctx.model(MODEL, request.task, system=WRITE, max_tokens=2000))
    for _ in range(MAX_REPAIRS):
        mistakes = await check(text)
        if not mistakes:
            break
        repair = {"task": request.task, "file": text, "mistakes": mistakes}
        text = _bare(await ctx.model(MODEL, f"Mend this file: {json.dumps(repair)}", system=WRITE, max_tokens=2000))
    else:
        raise ValueError(f"The plan is still wrong after {MAX_REPAIRS} repairs.")
    answer = await ctx.ask({"may this run?": text}, decisions=["approve", "reject"])
    if answer.decision == "reject":
        return None
    return await ctx.child(planned(text), cost_limit_usd="0.10")


def _bare(text: str) -> str:
    """A model's answer without the fence around it."""
    lines = text.strip().splitlines()
    return "\n".join(lines[1:-1] if lines and lines[0].startswith("```") else lines) + "\n"
