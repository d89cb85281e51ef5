"""The doors by which data of others comes in: each takes what is sent, and says in words what came of it.

Never here: an input, what is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from pydantic import BaseModel, ConfigDict

from holdfast import Engine, Workflow, human_gate, remote_task
from holdfast.actions import shell
from holdfast.authoring.values.json_schema import SchemaArguments
from holdfast.core.views.status import status
from holdfast.models.providers import Providers
from holdfast.platform.address import EVERYWHERE
from holdfast.platform.http_exchange import Bounds, Request, exchange
from holdfast.ports import ModelRequest, UserTurn
from holdfast.service.access.identity import Identity
from holdfast.service.service import Service
from holdfast.tools.http_reply import answer
from holdfast.wire import Trust, credential
from holdfast.wire import registry as registry_
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import OPTIONS
from holdfast.wire.server import Server as Port
from holdfast.wire.submission import Submissions
from tests.actions.jobs.kit import workflow
from tests.engine.kit import opened
from tests.tools.server import Server, sends

HTTP_BOUNDS = Bounds(timeout_s=20.0, max_response_bytes=1024 * 1024, private=EVERYWHERE)


def _store() -> str:
    return f"sqlite:///{Path(tempfile.mkdtemp()) / 'holdfast.db'}"


# --- Doors that hold the loop, to see that the probe sees it ----------------------------------------------------------


async def loop(sent: int) -> str:
    return str(sum(range(sent)))


async def thread(sent: int) -> str:
    """A single call into C, which gives up the interpreter for nobody."""
    return str(await asyncio.to_thread(sum, range(sent)))


# --- Workflow files ---------------------------------------------------------------------------------------------------


async def job(sent: tuple[str, Any]) -> str:
    """A workflow file at work, with its input: how its run ends. Its scripts run nothing."""
    text, given = sent

    async def nothing(script: shell.Script, limits: shell.Limits, **_: Any) -> shell.ScriptEnd:
        return shell.ScriptEnd(
            exit_code=0,
            signal=None,
            timed_out=False,
            outputs={},
            environment={},
            file_problems=(),
            log_tail="",
            log=shell.LogCounts(lines=0, bytes=0, dropped_lines=0, dropped_bytes=0),
            left_over=0,
            survivors=0,
            duration_s=0.0,
        )

    made = workflow(text, shell=nothing)
    async with opened(_store(), workflows=[made]) as engine:
        state = await (await engine.start(made, given)).settled()
        return f"{status(state)}: {state.error.message if state.error is not None else ''}"


# --- Decisions, and what they are held against ------------------------------------------------------------------------


async def form(sent: tuple[Any, Any]) -> str:
    """A gate with this form, and what comes of a decision with that data."""
    given, data = sent

    class Form(BaseModel):
        model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(given))

    made = Workflow("gated")
    made.node("ask")(human_gate(form=Form)(lambda state: {"question": "well?"}))
    async with opened(_store(), workflows=[made]) as engine:
        run = await engine.start(made)
        state = await run.settled()
        if state.ended:
            return f"{state.ended}: {state.error.message if state.error is not None else ''}"
        (gate,) = state.gates
        await engine.decide(gate, "approve", data)
        return "decided"


async def arguments(sent: tuple[dict[str, Any], Any]) -> str:
    """What a model gives to a tool whose parameters are this schema."""
    given, raw = sent
    return f"taken: {len(SchemaArguments(given).plain(raw))}"


# --- Replies of tools -------------------------------------------------------------------------------------------------


async def http_reply(sent: bytes) -> str:
    """What a `once` call comes to that is answered so."""
    with Server(sends(sent)) as server:
        request = Request("POST", ("http", "127.0.0.1", server.port), "/", {}, b"{}")
        found = answer(request, await exchange(request, HTTP_BOUNDS), "once", ())
    return f"answered: {str(found['body'])[:100]}"


# --- Replies of models ------------------------------------------------------------------------------------------------


async def model(sent: tuple[str, bytes]) -> str:
    """What a call comes to that its provider answers so: words for a reply, or what is known of its cost."""
    name, said = sent
    with Server(sends(said)) as server:
        os.environ |= {
            f"{provider}_{what}": value
            for provider in ("ANTHROPIC", "OPENAI")
            for what, value in (("BASE_URL", server.url), ("API_KEY", "k" * 20))
        }
        providers = Providers({})
        try:
            await providers.prepare(name)
            reply = await providers.request(ModelRequest(name, "", (UserTurn("hello"),), max_tokens=100))
        finally:
            await providers.aclose()
    return f"replied: {reply.text[:50]}, {len(reply.tool_requests)} tools, {reply.usage}"


# --- What is said over gRPC -------------------------------------------------------------------------------------------

_TOKEN = "a token of everybody"
_KNOWS = credential.metadata(Trust(_TOKEN))


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[Engine, str]]:
    """A server as `holdfast serve --grpc --yaml` has it, with a workflow whose one task is a worker's."""
    made = Workflow("task")
    made.node("do")(remote_task(task="do")(lambda state: state.input))
    registry = registry_.WorkerRegistry(registry_.Bounds(), notify=lambda _: None)
    server = Port(registry, Identity(_TOKEN))
    async with (
        asyncio.timeout(50),
        server.listening("127.0.0.1:0") as number,
        Engine.open(_store(), workflows=[made], workers=registry, yaml=True, shell=False) as engine,
    ):
        registry.open(engine.executor.placing)
        server.service = Service(engine, [made], Submissions("store", {}).take)
        yield engine, f"127.0.0.1:{number}"


async def _call(channel: Any, method: str, said: bytes, metadata: Any = _KNOWS) -> str:
    """What comes of these bytes, whatever they are."""
    call = channel.unary_unary(f"/holdfast.v1.Workflows/{method}")
    try:
        return f"answered {len(await call(said, metadata=metadata))} bytes"
    except grpc.aio.AioRpcError as problem:
        return f"{problem.code().name}: {problem.details()}"


async def clients(sent: tuple[str, Sequence[bytes]]) -> str:
    """A client that knows the token: what comes of the last of its messages to a method."""
    method, messages = sent
    async with _serving() as (_, address), grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        return [await _call(channel, method, each) for each in messages][-1]


async def strangers(sent: tuple[int, str, bytes]) -> str:
    """So many at once, each on a connection of its own, of whom nobody knows the token."""
    many, method, said = sent
    async with _serving() as (_, address):
        words = (sys.executable, "-m", "tests.hostile.strangers", address, str(many), method)
        process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        told, _ = await process.communicate(said)
        return told.decode()


async def worker(sent: Iterable[bytes]) -> str:
    """A worker that knows the token says this on its stream: what it was told last."""
    async with _serving() as (_, address), grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.stream_stream("/holdfast.v1.Workers/Work")(metadata=_KNOWS)
        told = "nothing"

        async def say() -> None:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the server has heard enough
                for each in sent:
                    await call.write(each)
                await call.done_writing()

        saying = asyncio.create_task(say())
        with contextlib.suppress(grpc.RpcError):
            while (answer := await call.read()) is not grpc.aio.EOF:
                told = str(wire.ToWorker.FromString(answer))
        await saying
        return told
