"""HTTP tools in runs: what a lost reply, a refusal and a kill mean under each policy. The server's journal judges."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Run, RunFailed, Workflow, http_lookup, http_tool, secret, task, tool_node
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.views.status import status
from tests.engine.kit import call_of, eventually, opened
from tests.tools.server import (
    Server,
    do,
    does_and_breaks_off,
    does_and_drips,
    does_and_drops,
    does_and_hangs,
    drops,
    raw,
    says,
    sends,
)

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0.001, only_transient=True)
LOOPBACK = ["127.0.0.0/8"]
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


def pays(server: Server, effect: str, *, settles_within_s: float | None = None, **more: Any) -> Workflow:
    """pay, over HTTP, which returns what the server says."""
    wf = Workflow(f"pay-{effect}")
    found = http_lookup(f"{server.url}/by-key/{{key}}") if effect == "verify" else None
    options: dict[str, Any] = {"timeout_s": 5, "allow_private": LOOPBACK, **more}
    pay = http_tool(
        "pay",
        "POST",
        f"{server.url}/payments",
        parameters=SCHEMA,
        effect=effect,
        verify=found,
        settles_within_s=settles_within_s,
        **options,
    )

    @wf.node("pay")
    @tool_node(name=pay, retry=AT_ONCE)
    async def pay_node(state):
        return {"amount": 5}

    return wf


async def answered(run: Run) -> Any:
    response = await run.result()
    assert response["status"] == 200
    return response["body"]


async def test_an_http_tool_sends_its_key_and_records_the_answer(store: str) -> None:
    with Server() as server:
        async with opened(store) as engine:
            run = await engine.start(pays(server, "once"))
            response = await run.result()
            ((row, change),) = await engine.effects(run.id)
    assert response == {"status": 200, "headers": {"content-type": "application/json"}, "body": {"paid": 1}}
    (asked,) = server.asked
    assert (asked.method, asked.target, json.loads(asked.body)) == ("POST", "/payments", {"amount": 5})
    assert asked.key == row.key
    assert len(row.key) == 64
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"
    assert change.state == "completed"
    assert row.request.value() == {"amount": 5}


LOST = [
    pytest.param(does_and_drops, {}, id="dropped"),
    pytest.param(does_and_breaks_off, {}, id="broken-off-in-the-middle"),
    pytest.param(does_and_hangs, {"timeout_s": 0.3}, id="late"),
    pytest.param(does_and_drips, {"timeout_s": 0.3}, id="dripping"),
    pytest.param(says(500, {"error": "oh"}), {}, id="500"),
    pytest.param(says(503), {}, id="503-without-retry-after"),
    pytest.param(sends(b"HTTP/1.1 999 \r\nnonsense\r\n\r\n"), {}, id="no-http"),
]


@pytest.mark.parametrize(("how", "given"), LOST)
async def test_a_lost_idempotent_reply_is_requested_again_with_its_key_and_acts_once(
    store: str, how: Any, given: dict[str, Any]
) -> None:
    with Server(how, how) as server:
        async with opened(store) as engine:
            assert await answered(await engine.start(pays(server, "idempotent", **given))) == {"paid": 1}
    assert len(server.asked) == 3
    assert len(server.keys) == 1
    assert len(server.effects) == 1


@pytest.mark.parametrize(("how", "given"), LOST)
async def test_a_lost_reply_of_a_once_call_is_never_asked_for_again_but_put_to_a_person(
    store: str, how: Any, given: dict[str, Any]
) -> None:
    with Server(how) as server:
        async with opened(store) as engine:
            run = await engine.start(pays(server, "once", **given))
            state = await run.until(lambda state: status(state) == "requires_attention")
            ((gate, asked),) = state.gates.items()
            assert (asked.opened.reason, asked.opened.subject) == ("effect_unknown", call_of(state))
            await engine.decide(gate, "answer", {"status": 200, "headers": {}, "body": {"paid": 1}})
            assert await answered(run) == {"paid": 1}
    assert len(server.asked) == 1


@pytest.mark.parametrize(("how", "given"), LOST)
async def test_a_lost_reply_of_a_call_with_a_lookup_is_looked_up(store: str, how: Any, given: dict[str, Any]) -> None:
    with Server(how, says(200, {"paid": "found"})) as server:
        async with opened(store) as engine:
            assert await answered(await engine.start(pays(server, "verify", **given))) == {"paid": "found"}
    sent, looked_up = server.asked
    assert (looked_up.method, looked_up.target) == ("GET", f"/by-key/{sent.key}")
    assert looked_up.key is None


async def test_not_found_makes_the_call_again_under_its_key_only_after_the_time_to_settle(store: str) -> None:
    with Server(drops, says(404), says(404), says(404), do) as server:
        async with opened(store) as engine:
            run = await engine.start(pays(server, "verify", settles_within_s=0.5))
            started = asyncio.get_running_loop().time()
            assert await answered(run) == {"paid": 1}
            assert asyncio.get_running_loop().time() - started >= 0.45
    assert [asked.method for asked in server.asked] == ["POST", "GET", "GET", "GET", "POST"]
    assert len(server.keys) == 1


async def test_a_lookup_that_breaks_says_nothing_and_is_made_again(store: str) -> None:
    with Server(does_and_drops, says(500), does_and_drops, says(200, {"paid": 1})) as server:
        async with opened(store) as engine:
            assert await answered(await engine.start(pays(server, "verify"))) == {"paid": 1}
    assert [asked.method for asked in server.asked] == ["POST", "GET", "GET", "GET"]
    assert len(server.effects) == 1


async def test_a_long_page_that_says_not_found_is_not_found(store: str) -> None:
    page = raw(404, b"<p>" * 100_000, kind="text/html")
    with Server(drops, sends(page), do) as server:
        async with opened(store) as engine:
            assert await answered(await engine.start(pays(server, "verify"))) == {"paid": 1}
    assert [asked.method for asked in server.asked] == ["POST", "GET", "POST"]


async def test_a_lookup_elsewhere_gets_no_secret_of_the_tool(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAY_TOKEN", "canary-7d1f-token")
    wf = Workflow("elsewhere")
    with Server(does_and_drops) as server, Server(says(200, {"paid": 1})) as other:
        pay = http_tool(
            "pay",
            "POST",
            server.url,
            parameters=SCHEMA,
            allow_private=LOOPBACK,
            headers={"Authorization": secret("PAY_TOKEN")},
            verify=http_lookup(f"{other.url}/{{key}}"),
        )
        wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 5}))
        async with opened(store) as engine:
            assert await answered(await engine.start(wf)) == {"paid": 1}
    assert "authorization" in server.asked[0].headers
    assert "authorization" not in other.asked[0].headers


async def test_what_a_lookup_found_may_be_picked_out_of_its_answer(store: str) -> None:
    wf = Workflow("search")
    with Server(does_and_drops, says(200, {"items": []}), do) as server:
        lookup = http_lookup(
            f"{server.url}/search?reference={{key}}&amount={{amount}}",
            found=lambda response: response["body"]["items"][0] if response["body"]["items"] else None,
        )
        pay = http_tool("pay", "POST", f"{server.url}/payments", parameters=SCHEMA, verify=lookup, allow_private=LOOPBACK)
        wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 5}))
        async with opened(store) as engine:
            assert await answered(await engine.start(wf)) == {"paid": 1}
    assert server.asked[1].target == f"/search?reference={server.asked[0].key}&amount=5"


@pytest.mark.parametrize("effect", ["once", "verify", "idempotent"])
async def test_what_was_certainly_never_sent_is_tried_again_under_every_policy(store: str, effect: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = Server(port=port)
    async with opened(store) as engine:
        run = await engine.start(pays(server, effect))
        with pytest.raises(RunFailed, match="Nothing was sent") as failed:
            await run.result()
        assert failed.value.error.error_class == "network"
        assert [name for name in await events(run) if name in ("EffectIntended", "EffectFailed")] == [
            "EffectIntended",
            "EffectFailed",
            "EffectIntended",
            "EffectFailed",
            "EffectIntended",
            "EffectFailed",
        ]


async def events(run: Run) -> list[str]:
    return [type(each.event).__name__ for each in await run.events()]


@pytest.mark.parametrize("effect", ["once", "verify", "idempotent"])
@pytest.mark.parametrize(
    ("code", "error_class"), [(400, "validation"), (404, "validation"), (422, "validation"), (401, "authorization")]
)
async def test_what_a_server_refuses_has_failed_and_is_not_tried_again(
    store: str, effect: str, code: int, error_class: str
) -> None:
    with Server(says(code, {"error": "no such account"})) as server:
        async with opened(store) as engine:
            run = await engine.start(pays(server, effect))
            with pytest.raises(RunFailed, match=f"HTTP {code}.*no such account") as failed:
                await run.result()
            assert [change.state for _, change in await engine.effects(run.id)] == ["failed"]
    assert failed.value.error.error_class == error_class
    assert len(server.asked) == 1


async def test_a_refusal_stands_although_its_words_never_come(store: str) -> None:
    async def refuses_slowly(server: Server, asked: Any, writer: Any) -> None:
        writer.write(raw(422, length=1000))
        await asyncio.Event().wait()

    with Server(refuses_slowly) as server:
        async with opened(store) as engine:
            with pytest.raises(RunFailed, match="HTTP 422"):
                await (await engine.start(pays(server, "once", timeout_s=0.3))).result()


@pytest.mark.parametrize("effect", ["once", "verify", "idempotent"])
@pytest.mark.parametrize("code", [408, 425, 429, 503])
async def test_not_now_is_tried_again_under_every_policy_and_not_before_retry_after(store: str, effect: str, code: int) -> None:
    with Server(says(code, Retry_After="1")) as server:
        async with opened(store) as engine:
            started = asyncio.get_running_loop().time()
            assert await answered(await engine.start(pays(server, effect))) == {"paid": 1}
            assert asyncio.get_running_loop().time() - started >= 0.95
    assert len(server.asked) == 2
    assert len(server.keys) == 1


async def test_a_server_that_is_still_at_the_first_try_is_asked_again(store: str) -> None:
    with Server(does_and_drops, says(409, {"error": "in progress"})) as server:
        async with opened(store) as engine:
            assert await answered(await engine.start(pays(server, "idempotent"))) == {"paid": 1}
    assert len(server.asked) == 3
    assert len(server.effects) == 1


@pytest.mark.parametrize(
    "body", [raw(200, b"\x00\xff", kind="image/png"), raw(200, b"{", kind="application/json"), raw(200, b"x" * 3000)]
)
async def test_an_unusable_answer_is_an_unknown_outcome_because_the_effect_is_likely(store: str, body: bytes) -> None:
    with Server(sends(body)) as server:
        async with opened(store) as engine:
            run = await engine.start(pays(server, "once", max_response_bytes=2000))
            state = await run.until(lambda state: status(state) == "requires_attention")
            assert "of no use" in state.calls[call_of(state)].error.message
    assert len(server.asked) == 1
    assert len(server.effects) == 1


async def test_a_secret_goes_to_the_server_and_is_nowhere_else(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_TOKEN", "canary-7d1f-token")
    with Server(says(403, {"error": "canary-7d1f-token may not"})) as server:
        async with opened(store) as engine:
            wf = pays(server, "once", headers={"Authorization": secret("PAY_TOKEN", prefix="Bearer ")})
            with pytest.raises(RunFailed, match=r"\[secret\] may not"):
                await (await engine.start(wf)).result()
    assert server.asked[0].headers["authorization"] == "Bearer canary-7d1f-token"
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert stored
    assert b"canary" not in stored


async def test_what_an_http_tool_did_is_undone_by_another_that_looks_into_its_answer(store: str) -> None:
    wf = Workflow("undone")
    with Server(says(201, {"id": "p-1"})) as server:
        undo = http_tool("undo", "DELETE", f"{server.url}/payments/{{response.body.id}}", allow_private=LOOPBACK)
        pay = http_tool("pay", "POST", f"{server.url}/payments", parameters=SCHEMA, compensation=undo, allow_private=LOOPBACK)
        wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 5}))

        @wf.node("fails")
        @task
        def fails(state):
            raise ValueError("no")

        wf.edge("pay", "fails")
        async with opened(store) as engine:
            with pytest.raises(RunFailed):
                await (await engine.start(wf)).result()
    assert [(asked.method, asked.target) for asked in server.asked] == [("POST", "/payments"), ("DELETE", "/payments/p-1")]


async def test_a_handler_calls_an_http_tool_by_its_name_with_the_fields_of_a_model(store: str) -> None:
    class Payment(BaseModel):
        amount: int
        currency: str = "EUR"
        note: str | None = None

    wf = Workflow("by-name")
    with Server() as server:
        _pay = http_tool("pay_by_name", "POST", f"{server.url}/p", parameters=Payment, allow_private=LOOPBACK, encoding="form")

        @wf.node("work")
        @task(tools=["pay_by_name"])
        async def work(state, ctx):
            return await ctx.tool("pay_by_name", amount=7)

        async with opened(store) as engine:
            assert await answered(await engine.start(wf)) == {"paid": 1}
    (asked,) = server.asked
    assert asked.body == b"amount=7&currency=EUR"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


# --- A process that is killed between intent and reply ------------------------------------------------------------------

VICTIM = """
import asyncio, sys
from holdfast import Engine
from tests.tools.server import Server
from tests.tools.test_http_effects import pays

async def main():
    store, port, effect, run = sys.argv[1:]
    async with Engine.open(store, workflows=[wf := pays(Server(port=int(port)), effect)]) as engine:
        print((await engine.start(wf)).id, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("effect", "calls"), [("idempotent", ["POST", "POST"]), ("verify", ["POST", "GET"]), ("once", ["POST"])]
)
async def test_a_kill_between_intent_and_reply_is_settled_as_the_policy_says(
    store: str, tmp_path: Path, effect: str, calls: list[str]
) -> None:
    with Server(does_and_hangs) as server:
        if effect == "verify":
            server.plan.append(says(200, {"paid": 1}))
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, store, str(server.port), effect, ""], stdout=subprocess.PIPE, cwd=Path.cwd()
        )
        try:
            assert victim.stdout is not None
            run_id = (await asyncio.to_thread(victim.stdout.readline)).decode().strip()
            await asyncio.wait_for(eventually(lambda: server.asked), 30)
        finally:
            os.kill(victim.pid, signal.SIGKILL)
            victim.communicate(timeout=10)
        async with opened(store, workflows=[pays(server, effect)]) as engine:
            run = engine.run(run_id)
            if effect == "once":
                state = await run.until(lambda state: status(state) == "requires_attention")
                await engine.decide(next(iter(state.gates)), "answer", {"status": 200, "headers": {}, "body": {"paid": 1}})
            assert await answered(run) == {"paid": 1}
    assert [asked.method for asked in server.asked] == calls
    assert len(server.keys) == 1
    assert len(server.effects) == 1
