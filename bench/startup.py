"""What it costs to start: processor time of commands, each beside an empty Typer application in the same minute.

python -m bench.startup
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.testing.model_server import ModelServer

TIMES = 7
EMPTY = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
FLOW = """
from holdfast import Workflow, llm_node
wf = Workflow("one", cost_limit_usd=1)
wf.node("ask")(llm_node(model="{model}", max_tokens=50)(lambda state: {{"user": "Hello?"}}))
"""


def cpu_s(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """The processor time of the quickest of TIMES such processes."""
    found = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    holdfast = [sys.executable, "-m", "holdfast"]
    with tempfile.TemporaryDirectory() as name, ModelServer(journal=Path(name) / "calls.jsonl") as server:
        folder, environment = Path(name), dict(server.environment)
        for provider, model in (("anthropic", "claude-haiku-4-5"), ("openai", "gpt-4.1-mini")):
            (folder / f"calls_{provider}.py").write_text(FLOW.format(model=model))
        (folder / "plain.py").write_text(
            "from holdfast import Workflow, task\nwf = Workflow('plain')\nwf.node('do')(task(lambda state: 1))\n"
        )
        commands = {
            "an empty Typer application, --help": [sys.executable, "-c", EMPTY],
            "holdfast --help": [*holdfast, "--help"],
            "holdfast run, a plain step": [*holdfast, "run", "plain.py:wf"],
            "holdfast runs list": [*holdfast, "runs", "list"],
            "holdfast run, one call of Anthropic's": [*holdfast, "run", "calls_anthropic.py:wf"],
            "holdfast run, one call of OpenAI's": [*holdfast, "run", "calls_openai.py:wf"],
        }
        for words, command in commands.items():
            print(f"{words:<40} {cpu_s(command, folder, environment):.2f} s")  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
