"""`holdfast.sync`: an engine for code that does not await, from any thread."""

from __future__ import annotations

import ast
import asyncio
import inspect
import signal
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

import holdfast
from holdfast import Context, Engine, RunFailed, WorkerAgent, flow, step, sync
from holdfast.errors import Conflict, NotFound, UsageError


@flow
async def plus(ctx: Context, number: int) -> int:
    return number + 1


@flow
async def asks(ctx: Context) -> str:
    answer = await ctx.ask("Pay?", decisions=["yes", "no"])
    return answer.decision


@flow
async def fails(ctx: Context) -> None:
    raise ValueError("no")


@flow
async def speaks(ctx: Context) -> None:
    stream = ctx.stream("news")
    for word in ("one", "two", "three"):
        await stream.write(word)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "holdfast.db")


def test_a_call_that_blocks_is_given_up_at_its_limit_and_the_run_goes_on(path: str) -> None:
    with holdfast.sync.open(path, workflows=[asks]) as engine:
        asked = engine.start(asks)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="give it more time"), sync.timeout(0.05), sync.timeout(30):
            asked.result()
        assert time.monotonic() < began + 30
        state = asked.until(lambda state: bool(state.gates))
        engine.decide(next(iter(state.gates)), "yes")
        with sync.timeout(60):
            assert asked.result() == "yes"


def test_a_script_starts_runs_and_waits_for_them_without_a_loop(path: str) -> None:
    with holdfast.sync.open(path, workflows=[plus, asks, fails, speaks]) as engine:
        run = engine.start(plus, 1)
        assert (run.result(), run.status(), engine.run(run.id).result()) == (2, "completed", 2)
        with pytest.raises(RunFailed, match="ValueError: no"):
            engine.start(fails).result()
        asked = engine.start(asks)
        state = asked.until(lambda state: bool(state.gates))
        gate = engine.gate(next(iter(state.gates)))
        assert (gate.shown, gate.decisions, gate.is_open) == ("Pay?", ("yes", "no"), True)
        engine.decide(gate.gate, "yes", by="ann", shown_hash=gate.shown_hash)
        assert asked.result() == "yes"
        assert (engine.gate(gate.gate).decision, engine.gate(gate.gate).by) == ("yes", "ann")
        with pytest.raises(NotFound):
            engine.find("nope")
        said = engine.start(speaks)
        told = list(engine.watch_stream(said.id))
        assert [each.value for each in told if each.kind == "value"] == ["one", "two", "three"]
        first = engine.watch_stream(said.id)
        assert next(first).value == "one"
        first.close()
        assert len(engine.traced(None).runs()) == 4
        assert isinstance(engine.traced(None), sync.Control)
        assert engine.traced(None).start(plus, 4).result() == 5
        team = engine.set_supervisor("team", [WorkerAgent("ann", plus, ["add"])])
        accepted = team.submit("add", 7)
        assert (team.name, team.wait(accepted.task_id).result) == ("team", 8)
        assert (engine.working, engine.broken) == (0, None)


def test_an_engine_may_be_left_open_between_calls_and_is_closed_once(path: str) -> None:
    engine = sync.open(path, workflows=[plus])
    assert engine.start(plus, 1).result() == 2
    engine.close()
    engine.close()
    with pytest.raises(UsageError, match=r"^Open the engine again"):
        engine.start(plus, 1)
    assert "holdfast-engine" not in {each.name for each in threading.enumerate()}


def test_what_is_wrong_with_opening_is_reported_to_the_caller(path: str) -> None:
    with pytest.raises(UsageError, match=r"^Give a list: workflows="):
        sync.open(path, workflows=plus)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="workflow"):
        sync.open(path, workflow=[plus])  # type: ignore[call-arg]
    assert "holdfast-engine" not in {each.name for each in threading.enumerate()}


def test_many_threads_share_one_engine(path: str) -> None:
    with sync.open(path, workflows=[plus]) as engine, ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda n: engine.start(plus, n).result(), range(40))] == [*range(1, 41)]
        assert len({run.id for run in pool.map(lambda _: engine.start(plus, 0, key="one"), range(16))}) == 1


def test_a_thread_that_waits_learns_that_the_engine_was_closed(path: str) -> None:
    with sync.open(path, workflows=[asks]) as engine, ThreadPoolExecutor(1) as pool:
        run = engine.start(asks)
        waiting = pool.submit(run.result)
        run.until(lambda state: bool(state.gates))
        engine.close()
        with pytest.raises(UsageError):
            waiting.result()


def test_the_engine_s_own_thread_is_refused_and_a_step_in_a_thread_is_served(path: str) -> None:
    @step(retry=1)
    async def awaits() -> Any:
        return engines[0].start(plus, 1).result()

    @step(retry=1)
    async def closes() -> None:
        engines[0].close()

    @step
    def blocks() -> int:
        result: int = engines[0].start(plus, 1).result()
        return result

    @flow
    async def wf(ctx: Context, name: str) -> Any:
        return await {"awaits": awaits, "closes": closes, "blocks": blocks}[name]()

    with sync.open(path, workflows=[wf, plus]) as engine:
        engines = [engine]
        assert engine.start(wf, "blocks").result() == 2
        with pytest.raises(RunFailed, match=r"Use holdfast.sync in a plain `def` step"):
            engine.start(wf, "awaits").result()
        with pytest.raises(RunFailed, match=r"Close the engine in another thread"):
            engine.start(wf, "closes").result()


# --- Slips -----------------------------------------------------------------------------------------------------------------


async def test_code_that_awaits_all_the_same_gets_advice(path: str) -> None:
    engine: Any = sync.open(path, workflows=[plus])
    run: Any = engine.start(plus, 1)
    with pytest.raises(UsageError, match=r"^Leave out `await`"):
        await run
    assert run.result() == 2  # a loop runs in this thread, as it does in a notebook
    with pytest.raises(UsageError, match=r"^Write `with holdfast.sync.open\(...\)`, without `async`"):
        async with engine:
            pass
    with pytest.raises(UsageError, match=r"holdfast.sync.open\(...\)"), Engine.open(path):  # type: ignore[attr-defined]
        pass


# --- In other people's programs ----------------------------------------------------------------------------------------------


class ThreadingServer(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_a_wsgi_application_has_one_engine_for_all_its_threads(path: str) -> None:
    engine = sync.open(path, workflows=[plus])

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        result = engine.start(plus, int(environ["QUERY_STRING"])).result()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(result).encode()]

    with engine, make_server("127.0.0.1", 0, application, ThreadingServer, Quiet) as server, ThreadPoolExecutor(8) as pool:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(number: int) -> str:
            with urlopen(f"http://127.0.0.1:{server.server_port}/?{number}", timeout=60) as reply:
                body: bytes = reply.read()
                return body.decode()

        assert [*pool.map(ask, range(24))] == [str(each + 1) for each in range(24)]
        server.shutdown()


class Notebook:
    """Cells as a notebook runs them: in one namespace, each a file of its own, in a loop that runs."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._cells = 0

    async def cell(self, source: str) -> Any:
        """Run it; the value of its last line, where that is an expression."""
        self._cells += 1
        tree = ast.parse(textwrap.dedent(source))
        if isinstance(last := tree.body[-1], ast.Expr):
            tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], last.value)
        name = f"/cells/ipykernel_1/{self._cells}.py"
        code = compile(ast.fix_missing_locations(tree), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        self.names.pop("_", None)
        result = eval(code, self.names)
        if inspect.isawaitable(result):
            await result
        return self.names.get("_")


OPENED = {
    "sync": ("engine = holdfast.sync.open({path!r})", "engine.close()", ""),
    "async": (
        "opening = Engine.open({path!r})\nengine = await opening.__aenter__()",
        "await opening.__aexit__(None, None, None)",
        "await ",
    ),
}


@pytest.mark.parametrize("how", OPENED)
async def test_a_cell_that_is_run_again_has_its_code_used(path: str, how: str) -> None:
    """Each way in which the object of a redefined flow is handed over: started, as a child, as a tool's flow, kept with a
    supervisor, a conversation or a schedule."""
    opens, closes, waits = OPENED[how]
    notebook = Notebook()
    await notebook.cell(f"import holdfast.sync\nfrom holdfast import *\n{opens.format(path=path)}")
    for added in (1, 100):
        await notebook.cell(f"""
            @flow
            async def kid(ctx: Context, n: int) -> int:
                return n + {added}
        """)
        await notebook.cell("""
            @flow
            async def top(ctx: Context, n: int) -> int:
                return await ctx.child(kid, n)
        """)
        for name in ("top", "kid"):
            run = await notebook.cell(f"run = {waits}engine.start({name}, 1)\n{waits}run.result()")
            assert run == 1 + added, name
        await notebook.cell(f"""
            team = {waits}engine.set_supervisor("team", [WorkerAgent("ann", kid, ["add"])])
            task = {waits}team.submit("add", 1)
        """)
        assert (await notebook.cell(f"{waits}team.wait(task.task_id)")).result == 1 + added
    await notebook.cell("""
        @flow
        async def kid(ctx: Context, n: int) -> int:
            return n + 1000
    """)
    assert await notebook.cell(f"{waits}({waits}engine.start(top, 1)).result()") == 1001
    await notebook.cell(closes)


# --- Processes -----------------------------------------------------------------------------------------------------------------


def program(path: str, body: str) -> list[str]:
    return [sys.executable, "-c", f"PATH = {path!r}\n{textwrap.dedent(body)}"]


def test_ctrl_c_leaves_a_wait_and_closes_the_engine(path: str) -> None:
    script = """
        import signal

        import holdfast.sync
        from holdfast import Context, flow
        from holdfast.core.views.status import status

        @flow
        async def waits(ctx: Context) -> None:
            await ctx.wait_signal("go")

        # A program that a shell has put into the background ignores SIGINT, and so do those that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with holdfast.sync.open(PATH, workflows=[waits]) as engine:
            run = engine.start(waits)
            run.until(lambda state: status(state) == "waiting")
            try:
                print("waiting", flush=True)
                run.result()
            finally:
                print(run.status(), flush=True)
    """
    with subprocess.Popen(program(path, script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=60)
    assert rest == "waiting\n"
    assert problems.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


def test_a_program_that_leaves_its_engine_open_ends_and_its_run_goes_on(path: str) -> None:
    module = """
        import pathlib
        import time

        import holdfast.sync
        from holdfast import Context, flow, step

        @step
        def first() -> int:
            pathlib.Path(PATH + ".begun").touch()
            time.sleep(0.5)
            return 1

        @step
        def second() -> int:
            return 2

        @flow
        async def wf(ctx: Context) -> int:
            return await first() + await second()
    """
    left = (
        module
        + """
        engine = holdfast.sync.open(PATH, workflows=[wf])
        engine.start(wf, key="one")
        while not pathlib.Path(PATH + ".begun").exists():
            time.sleep(0.01)
    """
    )
    later = (
        module
        + """
        with holdfast.sync.open(PATH, workflows=[wf]) as engine:
            run = engine.start(wf, key="one")
            print(run.result(), [type(each.event).__name__ for each in run.events() if "Fail" in type(each.event).__name__])
    """
    )
    ended = subprocess.run(program(path, left), capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    again = subprocess.run(program(path, later), capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == "3 []\n"


def test_a_forked_program_gets_the_advice_to_open_an_engine_of_its_own(path: str) -> None:
    script = """
        import os, sys
        import holdfast.sync
        from holdfast import Context, flow

        @flow
        async def wf(ctx: Context) -> int:
            return 1

        with holdfast.sync.open(PATH, workflows=[wf]) as engine:
            if (child := os.fork()) == 0:
                try:
                    engine.start(wf)
                except Exception as problem:
                    print(problem, flush=True)
                engine.close()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print(engine.start(wf).result())
    """
    ended = subprocess.run(program(path, script), capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("Open an engine in this process")
    assert ended.stdout.endswith("\n1\n")


# --- Types ----------------------------------------------------------------------------------------------------------------------


def test_the_facade_has_what_its_types_say() -> None:
    stub = ast.parse((Path(holdfast.__file__).parent / "sync" / "__init__.pyi").read_text("utf-8"))
    for kind in stub.body:
        if isinstance(kind, ast.ClassDef):
            for each in kind.body:
                if isinstance(each, ast.FunctionDef):
                    assert hasattr(getattr(sync, kind.name), each.name), f"{kind.name}.{each.name}"
    assert inspect.signature(sync.open).parameters == inspect.signature(Engine.open).parameters
    assert [*inspect.signature(sync.Engine.start).parameters] == [*inspect.signature(Engine.start).parameters]


def test_conflicts_keep_their_class(path: str) -> None:
    with sync.open(path, workflows=[plus]) as engine:
        engine.start(plus, 1, key="a")
        with pytest.raises(Conflict):
            engine.start(plus, 2, key="a")


def test_a_loop_that_runs_in_the_caller_s_thread_does_not_matter(path: str) -> None:
    async def cell() -> int:
        with sync.open(path, workflows=[plus]) as engine:
            result: int = engine.start(plus, 1).result()
            return result

    assert asyncio.run(cell()) == 2
