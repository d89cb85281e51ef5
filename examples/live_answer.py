"""A streamed answer whose worker is killed in mid-sentence. Another worker repeats the model call, and the listener is notified
which text is void.

    python -m examples.live_answer

It needs no key: the model is a slow server of the test kit. With your own key, `holdfast run
examples/live_answer.py:explain -i '{"question": "Why is the sky blue?"}'` prints the answer as it comes.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast import Context, Engine, flow
from holdfast.testing.model_server import ModelServer, Rule

ANSWER = (
    "Light from the sun has all colours in it. On its way through the air the short waves are scattered far more than the"
    " long ones, so blue comes to us from every side of the sky, and what is left around the sun looks yellow, and red in the"
    " evening."
)


@flow
async def explain(ctx: Context, request: dict[str, str]) -> str:
    await ctx.stream("progress").write("asking")
    answer = await ctx.model("claude-haiku-4-5", request["question"], max_tokens=300, stream=True)
    await ctx.stream("progress").write(f"{len(answer)} characters")
    return answer


def worker(store: str) -> "subprocess.Popen[bytes]":
    """A process that executes the flow."""
    command = [sys.executable, "-m", "holdfast", "worker", f"{__file__}:explain", "--store", store]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def listen(store: str) -> str:
    """Start a run, hear it from this process, which executes nothing, and kill whoever executes it in mid-sentence."""
    working, letters = worker(store), 0
    async with Engine.open(store, execute=False) as engine:
        run = await engine.start(explain, {"question": "Why is the sky blue?"})
        async for event in engine.watch_stream(run.id):
            if event.kind == "text":
                print(event.text, end="", flush=True)
                letters += len(event.text)
                if letters > 100 and event.source.endswith(":1") and working.poll() is None:
                    working.kill()
                    working.wait()
                    print("\n--- the worker was killed; another one comes", flush=True)
                    working = worker(store)
            elif event.kind == "reset":
                print(f"\n--- {event.source} is asked again", flush=True)
            elif event.kind == "value":
                print(f"[{event.value}]", flush=True)
        answer: str = await run.result()
    working.terminate()
    working.wait()
    return answer


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ModelServer(journal=Path(folder) / "calls.jsonl", rules=[Rule(text=ANSWER, pause_s=0.05)]) as server:
            os.environ.update(server.environment)
            answer = asyncio.run(listen(f"sqlite:///{folder}/answers.db"))
        print(f"\n--- the run's result has {len(answer)} characters")


if __name__ == "__main__":
    main()
