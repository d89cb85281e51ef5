"""What it costs to start: processor time of commands, beside an empty Typer application and one with an option.

python -m bench.startup

All take turns, so that what else a machine does falls on each alike; of each the least counts. A run with a call is measured
up to the call: the model never answers, and when it has been asked, the process has used what /proc says (Linux).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from holdfast.testing.model_server import Fault, ModelServer, Rule

TIMES: Final = 7
EMPTY: Final = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
OPTION: Final = """
import typer
app = typer.Typer()
@app.command()
def only(name: str = ""): pass
app(["--name", "x"])
"""
FLOW: Final = """
from holdfast import Workflow, llm_node
wf = Workflow("one", cost_limit_usd=1)
wf.node("ask")(llm_node(model="{model}", max_tokens=50)(lambda state: {{"user": "Hello?"}}))
"""
PLAIN: Final = "from holdfast import Workflow, task\nwf = Workflow('plain')\nwf.node('do')(task(lambda state: 1))\n"


def cpu_s(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """The processor time of one such process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_to_the_call_s(command: list[str], folder: Path, server: ModelServer) -> float:
    """The processor time of one such process, until the model is asked."""
    asked = len(server.calls)
    with subprocess.Popen(command, cwd=folder, env=os.environ | server.environment, stderr=subprocess.DEVNULL) as process:
        try:
            while len(server.calls) == asked:
                if process.poll() is not None:
                    raise SystemExit(f"{command} ended without a call.")
                time.sleep(0.002)
            ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        finally:
            process.kill()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    python, holdfast = [sys.executable, "-c"], [sys.executable, "-m", "holdfast"]
    with tempfile.TemporaryDirectory() as name, ModelServer(journal=Path(name) / "calls.jsonl") as server:
        folder = Path(name)
        for provider, model in (("anthropic", "claude-haiku-4-5"), ("openai", "gpt-4.1-mini")):
            (folder / f"calls_{provider}.py").write_text(FLOW.format(model=model))
        (folder / "plain.py").write_text(PLAIN)
        commands = {
            "an empty Typer application, --help": [*python, EMPTY],
            "a Typer application with one option": [*python, OPTION],
            "holdfast --help": [*holdfast, "--help"],
            "holdfast run, a plain step": [*holdfast, "run", "plain.py:wf"],
            "holdfast runs list": [*holdfast, "runs", "list"],
        }
        calls = {
            "holdfast run, to a call of Anthropic's": [*holdfast, "run", "calls_anthropic.py:wf"],
            "holdfast run, to a call of OpenAI's": [*holdfast, "run", "calls_openai.py:wf"],
        }
        server.script.add(Rule(fault=Fault("hang")))
        least = dict.fromkeys([*commands, *calls], float("inf"))
        for _ in range(TIMES):
            for words, command in commands.items():
                least[words] = min(least[words], cpu_s(command, folder, server.environment))
            for words, command in calls.items():
                least[words] = min(least[words], cpu_to_the_call_s(command, folder, server))
        for words, found_s in least.items():
            print(f"{words:<40} {found_s:.2f} s", flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
