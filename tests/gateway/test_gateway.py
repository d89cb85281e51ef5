"""The gateway's port as clients of many kinds meet it, and the variables that lead them there."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx2
import pytest

from holdfast.actions.program.environment import environment_of
from holdfast.core.values.ids import RunId, StepId
from holdfast.errors import CallsStopped
from holdfast.gateway import LoopbackGateway
from holdfast.ports import ForwardedReply, ForwardedRequest, ReplyWriter


class NoCalls:
    """Keeps ports.ForwardedCalls for a step whose program is refused everything."""

    run, step = RunId("r"), StepId("s")

    async def forward(self, request: ForwardedRequest, writer: ReplyWriter) -> ForwardedReply:
        raise CallsStopped("At the limit.", reason="limit")

    def undelivered(self, request: ForwardedRequest) -> None:
        raise AssertionError


@pytest.fixture
async def gateway() -> AsyncIterator[LoopbackGateway]:
    gateway = LoopbackGateway()
    yield gateway
    await gateway.aclose()


QUESTION = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": []}
KEYS = [("authorization", "Bearer {}"), ("authorization", "bearer {}"), ("x-api-key", "{}"), ("x-goog-api-key", "{}")]


@pytest.mark.parametrize(("name", "form"), KEYS)
async def test_a_token_is_taken_in_any_providers_header_until_it_is_revoked(
    gateway: LoopbackGateway, name: str, form: str
) -> None:
    async with httpx2.AsyncClient() as client:
        async with gateway.open(NoCalls()) as given:
            url, key = f"{given['ANTHROPIC_BASE_URL']}/v1/messages?beta=true", given["ANTHROPIC_API_KEY"] or ""
            stopped = await client.post(url, json=QUESTION, headers={name: form.format(key)})
            assert stopped.status_code == 402
            assert stopped.json() == {"type": "error", "error": {"type": "billing_error", "message": "At the limit."}}
            assert (await client.post(url, json=QUESTION, headers={name: form.format("holdfast-x")})).status_code == 401
            assert (await client.post(url, json=QUESTION)).status_code == 401
        revoked = await client.post(url, json=QUESTION, headers={name: form.format(key)})
        assert revoked.status_code == 401


async def test_what_is_no_call_is_not_found_at_once(gateway: LoopbackGateway) -> None:
    async with httpx2.AsyncClient() as client, gateway.open(NoCalls()) as given:
        base, headers = given["ANTHROPIC_BASE_URL"], {"x-api-key": given["ANTHROPIC_API_KEY"] or ""}
        for method, path in (("HEAD", "/api/hello"), ("GET", "/v1/models"), ("POST", "/v1/batches"), ("GET", "/v1/messages")):
            assert (await client.request(method, f"{base}{path}", headers=headers)).status_code == 404
        upgrade = {**headers, "connection": "Upgrade", "upgrade": "websocket"}
        assert (await client.get(f"{base}/v1/responses", headers=upgrade)).status_code == 426
        for path in ("/messages", "/v1/messages", "/v1/chat/completions", "/chat/completions"):
            assert (await client.post(f"{base}{path}", json=QUESTION, headers=headers)).status_code == 402
        assert (await client.post(f"{base}/v1/messages", content=b"no JSON", headers=headers)).status_code == 400


async def test_every_format_has_its_own_answer_at_the_limit(gateway: LoopbackGateway) -> None:
    model = {"model": "gpt-4.1-nano", "input": "Hi."}
    gemini = "/v1beta/models/gemini-2.5-flash"
    async with httpx2.AsyncClient() as client, gateway.open(NoCalls()) as given:
        base, headers = given["ANTHROPIC_BASE_URL"], {"x-goog-api-key": given["GEMINI_API_KEY"] or ""}
        for path in ("/v1/responses", "/responses", "/v1/embeddings"):
            stopped = await client.post(f"{base}{path}", json=model, headers=headers)
            assert (stopped.status_code, stopped.json()["error"]["code"]) == (402, "insufficient_quota")
        codex = await client.post(f"{base}/v1/responses", json=model, headers={**headers, "originator": "codex_exec"})
        assert (codex.status_code, codex.json()["error"]["message"]) == (400, "At the limit.")
        for path in (f"{gemini}:generateContent", f"{gemini}:streamGenerateContent?alt=sse"):
            stopped = await client.post(f"{base}{path}", json={"contents": []}, headers=headers)
            assert (stopped.status_code, stopped.json()["error"]["status"]) == (402, "FAILED_PRECONDITION")
        no_events = await client.post(f"{base}{gemini}:streamGenerateContent", json={"contents": []}, headers=headers)
        assert (no_events.status_code, no_events.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_it_listens_on_the_loopback_interface_only_and_closes(gateway: LoopbackGateway) -> None:
    async with gateway.open(NoCalls()) as given, gateway.open(NoCalls()) as other:
        place = urlsplit(given["OPENAI_BASE_URL"] or "")
        assert place.hostname == "127.0.0.1"
        assert place.port is not None
        assert given["OPENAI_BASE_URL"] == other["OPENAI_BASE_URL"]
        assert given["OPENAI_API_KEY"] != other["OPENAI_API_KEY"]
    await gateway.aclose()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port)).close()


async def test_no_inherited_variable_leads_a_program_past_it(gateway: LoopbackGateway) -> None:
    inherited = {
        "ANTHROPIC_AUTH_TOKEN": "secret",
        "ANTHROPIC_API_URL": "https://elsewhere",
        "GOOGLE_API_KEY": "secret",
        "NO_PROXY": "intranet",
        "OPENAI_API_BASE": "https://elsewhere/v1",
        "OPENAI_API_KEY": "secret",
        "PATH": "/bin",
    }
    async with gateway.open(NoCalls()) as given:
        made = environment_of(inherited, given)
    assert not {"secret", "https://elsewhere", "https://elsewhere/v1"} & {*made.values()}
    assert made["PATH"] == "/bin"
    assert made["NO_PROXY"] == "intranet,127.0.0.1"
    assert made["OPENAI_API_BASE"] == made["OPENAI_BASE_URL"]
