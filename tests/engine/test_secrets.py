"""Secrets: tools and steps get them by name, and their values are nowhere afterwards: not in the store, a log, a screen."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import (
    Context,
    OperationFailed,
    RunFailed,
    TransitionDenied,
    Workflow,
    branch,
    flow,
    human_gate,
    task,
    tool,
    tool_node,
)
from holdfast.engine.runs.payloads import INLINE_BYTES
from holdfast.errors import MissingSecret
from holdfast.models.providers import Providers
from holdfast.settings import Secrets, Settings
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import die, divergence, eventually, gate_of, opened

CANARIES = {
    "PLAIN": "canary-4f1d0c7e-plain",
    "QUOTED": 'canary"with\\quotes\tand\nlines-9a1b',
    "FOREIGN": "canary-ключ-鍵-7e2d",
    "URL": "canary/with?url&parts=1+2-5c6d",
    "NUMBER": "918273645546372819",
}


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)


def forms(value: str) -> set[bytes]:
    """How a value may look in a file."""
    inner = json.dumps(value)[1:-1]
    texts = {value, inner, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(inner)[1:-1], quote(value, safe="")}
    return {text.encode() for text in texts}


def assert_nowhere(folder: Path, stored: bytes, *texts: str) -> None:
    """Neither a file under `folder`, nor what is `stored`, nor one of `texts` holds a canary."""
    assert b"RunStarted" in stored
    places = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    places |= {"the store": stored}
    places |= {f"text {number}": text.encode() for number, text in enumerate(texts)}
    for where, content in places.items():
        for name, value in CANARIES.items():
            found = [form for form in forms(value) if form in content]
            assert not found, f"{name} is in {where}"


def leaky() -> Workflow:
    """Tells every secret in every way that there is."""
    wf = Workflow("leaky")

    @tool(effect="once", approval=True)
    async def send(to: str, ctx) -> dict[str, Any]:
        values = {name: ctx.secret(name) for name in CANARIES}
        return {"sent": values, "number": int(values["NUMBER"]), values["PLAIN"]: to, "deep": [[{"x": values["URL"]}]]}

    @tool(effect="once")
    async def fail(ctx) -> None:
        raise ValueError(" ".join(ctx.secret(name) for name in CANARIES) + " " + "x" * 5000 + ctx.secret("PLAIN"))

    @wf.node("tools")
    @task(tools=[send, fail])
    async def tools_(state, ctx):
        values = [ctx.secret(name) for name in CANARIES]
        answer = await ctx.ask({"values": values, "json": json.dumps(values)}, reviewers=[values[0]])
        sent = await ctx.tool("send", to=f"to {values[0]}")
        try:
            await ctx.tool("fail")
        except OperationFailed as failed:
            message = failed.message
        try:
            await ctx.tool(f"no such tool {values[0]}")
        except OperationFailed as failed:
            denied = failed.message
        signal = await ctx.wait_signal("go")
        return [answer.data, answer.reason, sent, message, denied, signal, *values]

    @wf.node("route")
    @branch
    async def route(state):
        return "large"

    @wf.node("large")
    @task
    async def large(state, ctx):
        return {"text": (ctx.secret("PLAIN") + " " + ctx.secret("QUOTED")) * INLINE_BYTES}

    @wf.node("gate")
    @human_gate
    async def gate(state, ctx):
        return {"diff": [ctx.secret(name) for name in CANARIES], "reviewers": [ctx.secret("URL")]}

    @wf.guard("never")
    def never(state):
        raise TransitionDenied(f"not with {CANARIES['PLAIN']}")

    @wf.node("broken")
    @task
    async def broken(state, ctx):
        raise RuntimeError(f"no answer from https://host/?key={quote(ctx.secret('URL'), safe='')} {ctx.secret('NUMBER')}")

    wf.node("skipped")(task(lambda state: None))
    wf.edge("tools", "route")
    wf.edge("route", "large")
    wf.edge("large", "gate")
    wf.edge("gate", "broken")
    wf.edge("gate", "skipped", guard="never")
    return wf


async def test_canaries_planted_everywhere_appear_nowhere(
    store: str, stored: Callable[[], bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wf = leaky()
    async with opened(store) as engine:
        run = await engine.start(wf)
        first = await gate_of(run)
        secret = CANARIES["PLAIN"]
        by = {"by": f"ann {secret}", "roles": [secret]}
        await engine.decide(first, "answer", {"text": secret}, reason=f"because {secret}", **by)
        state = await run.until(lambda state: [gate for gate in state.gates if gate != first])
        await engine.decide(next(iter(state.gates)))
        await engine.signal(run.id, "go", {"signal": list(CANARIES.values())}, by=secret)
        state = await run.until(lambda state: any(gate.startswith(f"{run.id}:gate") for gate in state.gates))
        await engine.decide(next(iter(state.gates)), "edit", {"edited_body": secret}, **by)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        state = await run.state()
        shown = [repr(state), repr(await run.events()), repr(await engine.gates(run.id, open_only=False))]
        shown += [repr(await engine.effects(run.id)), str(failed.value), repr(failed.value.error), repr(engine)]
        shown.append(repr(await engine.payloads.value(state.steps["tools"].output, state.tenant)))
        assert state.steps["large"].output.blob is not None
        shown.append((await engine.payloads.value(state.steps["large"].output, state.tenant))["text"])
        assert "[secret]" in shown[-1]
    assert_nowhere(tmp_path, stored(), *shown, caplog.text)


async def test_a_way_that_is_named_after_a_secret_is_not_shown(store: str, stored: Callable[[], bytes], tmp_path: Path) -> None:
    wf = Workflow("way")

    @wf.node("route")
    @branch
    async def route(state, ctx):
        return ctx.secret("PLAIN")

    wf.node("there")(task(lambda state: None))
    wf.edge("route", "there")
    async with opened(store) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed, match=r"chose '\[secret\]'") as failed:
            await run.result()
    assert_nowhere(tmp_path, stored(), str(failed.value))


@pytest.mark.usefixtures("replays")
async def test_what_a_step_of_a_flow_tells_has_no_secret_in_it(store: str, stored: Callable[[], bytes], tmp_path: Path) -> None:
    def fail(values: list[str]) -> None:
        raise ValueError(" ".join(values))

    @flow
    async def leak(ctx: Context) -> Any:
        values = [ctx.secret(name) for name in CANARIES]
        found = await ctx.step(f"named {values[0]}", lambda given: {given[0]: given, "number": int(values[-1])}, values)
        try:
            await ctx.step("fail", fail, values)
        except OperationFailed as failed:
            found["failed"] = failed.message
        if values[0] not in changed:
            await ctx.wait_signal("go")
        return await ctx.step(values[0], lambda given: [found, given], values)

    changed: list[str] = []
    async with opened(store) as engine:
        run = await engine.start(leak)
        await run.until(lambda state: bool(state.steps["flow"].pending))
        changed.append(CANARIES["PLAIN"])
        await engine.signal(run.id, "go")
        shown = await divergence(run)
        await engine.decide(shown["gate"], "approve")
        output = await run.result()
    assert "[secret]" in str(output)
    assert_nowhere(tmp_path, stored(), repr(output), repr(shown))


async def test_what_a_step_sees_live_is_what_it_sees_again(store: str) -> None:
    wf = Workflow("live")
    seen: list[Any] = []

    @tool(effect="read")
    async def look(n: int, ctx) -> dict[str, Any]:
        if n:
            raise ValueError(ctx.secret("PLAIN"))
        return {"text": f"<{ctx.secret('PLAIN')}>", "number": int(ctx.secret("NUMBER")), "other": 12}

    @wf.node("work")
    @task(tools=[look])
    async def work(state, ctx):
        found = [await ctx.tool("look", n=0)]
        try:
            await ctx.tool("look", n=1)
        except OperationFailed as failed:
            found.append(failed.message)
        found.append(state.input)
        seen.append(found)
        await ctx.wait_signal("go")
        return found

    async with opened(store) as engine:
        run = await engine.start(wf, {"n": 1})
        await eventually(lambda: seen)
        await die(engine)
    async with opened(store, workflows=[wf]) as engine:
        await engine.signal(run.id, "go")
        result = await engine.run(run.id).result()
    assert seen[0] == seen[-1] == result
    assert result[0] == {"text": "<[secret]>", "number": "[secret]", "other": 12}
    assert "[secret]" in result[1]
    assert len(seen) >= 2


async def test_a_secret_of_digits_does_not_break_the_numbers_it_stands_in(store: str) -> None:
    wf = Workflow("digits")

    @wf.node("work")
    @task
    async def work(state, ctx):
        number = int(ctx.secret("NUMBER"))
        return {"same": number, "longer": f"{number}0", "fraction": number / 10**18, "other": 5, "yes": True, "no": None}

    wf.node("after")(task(lambda state: state.events["work"].output))
    wf.edge("work", "after")
    async with opened(store) as engine:
        found = await (await engine.start(wf)).result()
    assert found["same"] == "[secret]"
    assert found["longer"] == "[secret]0"
    assert {name: found[name] for name in ("other", "yes", "no")} == {"other": 5, "yes": True, "no": None}


async def test_a_prompt_and_an_answer_keep_no_secret(
    store: str, stored: Callable[[], bytes], tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text=f"I repeat: {CANARIES['PLAIN']} {CANARIES['URL']}"))
    nothing = tmp_path / "nothing"  # the model server's journal keeps what was really sent
    wf = Workflow("prompt")

    @wf.node("ask")
    @task
    async def ask(state, ctx):
        return await ctx.model(
            "claude-haiku-4-5", {"token": ctx.secret("PLAIN")}, system=f"Use {ctx.secret('URL')}.", max_tokens=100
        )

    async with opened(store, model=model) as engine:
        assert await (await engine.start(wf)).result() == "I repeat: [secret] [secret]"
    assert_nowhere(nothing, stored())


async def test_a_tool_may_ask_only_for_the_secrets_that_it_names(store: str) -> None:
    wf = Workflow("named")

    @tool(effect="once", secrets=["PLAIN"])
    async def peek(name: str, ctx) -> int:
        return len(ctx.secret(name))

    wf.node("peek")(tool_node(name=peek)(lambda state: {"name": state.input["name"]}))
    async with opened(store) as engine:
        assert await (await engine.start(wf, {"name": "PLAIN"})).result() == len(CANARIES["PLAIN"])
        with pytest.raises(RunFailed, match="may ask for PLAIN, not for 'URL'") as failed:
            await (await engine.start(wf, {"name": "URL"})).result()
        assert failed.value.error.error_class == "authorization"


async def test_a_missing_secret_fails_with_the_name_of_the_variable_to_set(store: str) -> None:
    wf = Workflow("missing")

    @wf.node("work")
    @task
    async def work(state, ctx):
        return ctx.secret("NOT_SET_ANYWHERE")

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="environment variable NOT_SET_ANYWHERE") as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "authorization"
        assert failed.value.error.retryable is False


async def test_a_value_in_the_place_of_a_name_is_not_repeated() -> None:
    with pytest.raises(MissingSecret, match="name of a secret") as problem:
        Secrets(environment={}).get("Bearer hunter2")
    assert "hunter2" not in str(problem.value)


async def test_secrets_of_a_file_are_known_from_the_start_and_need_not_be_asked_for(store: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets.env"
    file.write_text("# the vault\nVAULT=canary-from-a-file\n\nOTHER = spaced-canary \n")
    file.chmod(0o600)
    wf = Workflow("file")
    wf.node("work")(task(lambda state: f"{state.input['text']} canary-from-a-file spaced-canary"))
    async with opened(store, settings=Settings(secrets_file=file)) as engine:
        run = await engine.start(wf, {"text": "canary-from-a-file"})
        assert await run.result() == "[secret] [secret] [secret]"
        assert engine.executor.services.secrets.get("OTHER") == "spaced-canary"
    file.unlink()
    assert b"canary" not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


async def test_a_secret_too_short_to_be_found_in_text_is_refused(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "abc")
    wf = Workflow("short")

    @wf.node("work")
    @task
    async def work(state, ctx):
        with pytest.raises(MissingSecret, match="shorter than 4"):
            ctx.secret("SHORT")
        return "refused"

    async with opened(store) as engine:
        assert await (await engine.start(wf)).result() == "refused"


PROGRAM = """
from holdfast import Workflow, human_gate, task, tool

wf = Workflow("told")

@tool(effect="once")
async def send(ctx) -> str:
    raise TimeoutError("no answer for " + ctx.secret("PLAIN"))

@wf.node("say")
@task
async def say(state, ctx):
    return {"said": ctx.secret("PLAIN"), "url": ctx.secret("URL")}

@wf.node("send")
@task(tools=[send])
async def send_node(state, ctx):
    return await ctx.tool("send")

wf.edge("say", "send")
"""


def holdfast(folder: Path, *words: str, secrets: bool) -> str:
    """What the command line says, on both of its streams."""
    environment = {name: value for name, value in os.environ.items() if secrets or name not in CANARIES}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def test_the_command_line_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(PROGRAM)
    said = holdfast(tmp_path, "run", "told.py:wf", "-i", '{"text": "hello"}', secrets=True)
    run = json.loads(holdfast(tmp_path, "runs", "list", "--json", secrets=False).splitlines()[0])
    run = run[0] if isinstance(run, list) else run
    said += holdfast(tmp_path, "runs", "show", run["run_id"], secrets=False)
    said += holdfast(tmp_path, "runs", "events", run["run_id"], "--json", secrets=False)
    assert "no answer for [secret]" in said
    assert run["status"] == "requires_attention"
    assert_nowhere(tmp_path, (tmp_path / "holdfast.db").read_bytes(), said)
