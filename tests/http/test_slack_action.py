"""Buttons in Slack: a known person decides the gate that was shown, anyone else nothing, and a second click hears who was first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Workflow, human_gate
from holdfast.http import slack_action
from holdfast.notify.slack import blocks_of
from holdfast.ports.channel import Message, Question
from holdfast.service.access.identity import Holder
from holdfast.service.service import Service
from tests.engine.kit import eventually
from tests.http import flows
from tests.http.hooks import SLACK, interaction, rules, send, shared, slack
from tests.http.kit import Asked, Port, known, served
from tests.tools.server import Server, says

priced = Workflow("priced")


@priced.node("agree")
@human_gate(four_eyes=True)
async def agree(state: Any) -> Any:
    return {"price": 7}


PEOPLE = {
    "T024BE7LD/U061F7AUR": "ida",
    "T024BE7LD/U0LEGAL": {"name": "lea", "roles": ["legal"]},
    "T024BE7LD/U0SALES": {"name": "eve", "roles": ["sales"]},
}
HOOKS = {
    "slack": rules("slack", action="decide", people=PEOPLE, allow_private=["127.0.0.0/8"]),
    "strict": rules("slack", action="decide", people=PEOPLE),
    "globex": rules("slack", action="decide", people=PEOPLE, tenant="globex", allow_private=["127.0.0.0/8"]),
}


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Port]:
    boss = Holder("boss")
    async with served(folder, known(boss=boss), hooks=HOOKS, workflows=(flows.order, priced)) as port:
        yield port


@pytest.fixture
async def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    monkeypatch.setenv("SLACK_SECRET", SLACK)
    async with listening(tmp_path) as port:
        yield port


@pytest.fixture
async def boss(port: Port) -> AsyncIterator[Asked]:
    async with port.asked("boss" * 4) as boss:
        yield boss


class Room:
    """Slack's side: the message with its buttons, who presses one, and what is shown then."""

    def __init__(self, port: Port, server: Server, gate: dict[str, Any], hook: str = "slack") -> None:
        self.port = port
        self.server = server
        self.hook = hook
        question = Question(
            run=gate["run_id"], gate=gate["gate_id"], shown_hash=gate["shown_hash"], allowed=tuple(gate["allowed"])
        )
        facts = (("Shown", json.dumps(gate["shown"])),)
        message = Message(
            id="msg_1", at_ms=0, tenant="default", occasion="gate_opened", title="Approve?", facts=facts, question=question
        )
        self.message = blocks_of(message)

    def button(self, decision: str) -> tuple[str, str]:
        (found,) = [
            each
            for block in self.message["blocks"]
            if block["type"] == "actions"
            for each in block["elements"]
            if each["text"]["text"] == decision
        ]
        return found["action_id"], found["value"]

    async def press(self, decision: str, by: str = "U061F7AUR", **more: Any) -> list[Any]:
        """Press a button, and return what Slack was told to show since."""
        before = len(self.server.asked)
        given = {
            "user": {"id": by, "team_id": "T024BE7LD"},
            "response_url": f"{self.server.url}/actions/T024BE7LD/1/secret",
            "message": self.message,
            **more,
        }
        body = interaction(*self.button(decision), **given)
        answered = await send(self.port.address, self.hook, body, slack(body))
        assert (answered.status_code, answered.content) == (200, b""), answered.text
        await eventually(lambda: len(self.server.asked) > before)
        return [json.loads(each.body) for each in self.server.asked[before:]]


async def asks(boss: Asked, workflow: str = "order", **headers: str) -> dict[str, Any]:
    given = {"workflow": workflow, "input": {"item": "tea"} if workflow == "order" else None}
    run = (await boss.post("/runs", given, wait_s=10, **headers))["run_id"]
    row = await boss.get(f"/gates/{await boss.gate(run)}")
    assert isinstance(row, dict)
    return row


async def decisions(boss: Asked, gate: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each["decision"], each["by"], each["client"], each["roles"], each["verified"])
        for each in await boss.rows(f"/runs/{gate['run_id']}/events")
        if each["type"] == "GateDecided"
    ]


async def test_a_known_person_decides_what_the_message_showed(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        room = Room(port, server, gate)
        (shown,) = await room.press("Approve")
        assert await decisions(boss, gate) == [("approve", "ida", "hook:slack", [], True)]
        assert shown["replace_original"] is True
        assert not any(block["type"] == "actions" for block in shown["blocks"])
        assert shown["blocks"][-1]["elements"][0]["text"] == "Approve: ida"
        (entry,) = [each for each in await boss.rows("/audit") if each["action"] == "Decide"]
        assert (entry["name"], entry["client"], entry["verified"], entry["outcome"]) == ("ida", "hook:slack", True, "done")
        assert server.asked[0].target == "/actions/T024BE7LD/1/secret"


async def test_a_second_click_hears_who_was_first(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        room = Room(port, server, gate)
        await room.press("Approve")
        for decision, user in (("Reject", "U0LEGAL"), ("Approve", "U061F7AUR")):
            (shown,) = await room.press(decision, user)
            assert (shown["response_type"], shown["replace_original"]) == ("ephemeral", False)
            assert "already decided: approve by ida" in shown["text"]
        assert len(await decisions(boss, gate)) == 1


async def test_of_many_clicks_at_once_one_decides(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        room = Room(port, server, gate)
        body = interaction(*room.button("Approve"), response_url=f"{server.url}/x")
        other = interaction(*room.button("Reject"), response_url=f"{server.url}/x")
        answers = await asyncio.gather(*(send(port.address, "slack", each, slack(each)) for each in [body, other] * 5))
        assert {each.status_code for each in answers} == {200}
        assert len(await decisions(boss, gate)) == 1
        await eventually(lambda: len(server.asked) == 10)
        shown = [json.loads(each.body) for each in server.asked]
        assert [each["replace_original"] for each in shown].count(True) == 1


@pytest.mark.parametrize(
    "more", [{"user": {"id": "U0NOBODY"}}, {"team": {"id": "T0OTHER"}}, {"team": None, "user": {"id": "U061F7AUR"}}]
)
async def test_an_unmapped_person_gets_a_clear_answer_and_decides_nothing(
    port: Port, boss: Asked, more: dict[str, Any]
) -> None:
    with Server() as server:
        gate = await asks(boss)
        (shown,) = await Room(port, server, gate).press("Approve", **more)
        assert shown["response_type"] == "ephemeral"
        assert "Nothing was decided: Holdfast does not know you here" in shown["text"]
        assert "[hooks.slack.people]" in shown["text"]
        assert await decisions(boss, gate) == []
        assert [each["action"] for each in await boss.rows("/audit") if each["action"] in ("Decide", "LogIn")] == ["LogIn"]


async def test_reviewers_and_roles_hold_in_slack_too(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        room = Room(port, server, gate)
        (refused,) = await room.press("Approve", "U0SALES")
        assert "Nothing was decided." in refused["text"]
        assert "'eve' is not among them" in refused["text"]
        assert await decisions(boss, gate) == []
        await room.press("Reject", "U0LEGAL")
        assert await decisions(boss, gate) == [("reject", "lea", "hook:slack", ["legal"], True)]


async def test_four_eyes_hold_in_slack_too(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss, "priced", holdfast_as="ida")
        room = Room(port, server, gate)
        (refused,) = await room.press("Approve")
        assert "second pair of eyes" in refused["text"]
        assert await decisions(boss, gate) == []
        await room.press("Approve", "U0SALES")
        assert [each[:2] for each in await decisions(boss, gate)] == [("approve", "eve")]


async def test_what_was_not_shown_is_not_decided(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        (shown,) = await Room(port, server, {**gate, "shown_hash": "0" * 64}).press("Approve")
        assert "something else" in shown["text"]
        no_hash = interaction("holdfast:approve", {"gate": gate["gate_id"]}, response_url=f"{server.url}/x")
        assert (await send(port.address, "slack", no_hash, slack(no_hash))).status_code == 422
        assert await decisions(boss, gate) == []


async def test_another_tenants_gate_is_not_there(port: Port, boss: Asked) -> None:
    with Server() as server:
        gate = await asks(boss)
        (shown,) = await Room(port, server, gate, "globex").press("Approve")
        assert shown["response_type"] == "ephemeral"
        assert await decisions(boss, gate) == []


async def test_an_unsigned_click_decides_nothing(port: Port, boss: Asked) -> None:
    gate = await asks(boss)
    value = {"gate": gate["gate_id"], "shown_hash": gate["shown_hash"]}
    body = interaction("holdfast:approve", value)
    for headers in ({}, shared(), {**slack(body), "x-slack-signature": "v0=" + "0" * 64}, slack(body + b"&")):
        answered = await send(port.address, "slack", body, {**headers, "content-type": "application/x-www-form-urlencoded"})
        assert answered.status_code == 404
    signed = slack(body)
    assert (await send(port.address, "slack", b"", signed, "GET")).status_code == 405
    assert await decisions(boss, gate) == []


@pytest.mark.parametrize(
    "body",
    [
        interaction("other:approve", "x"),
        interaction("holdfast:approve", {}, type="view_submission"),
        interaction("holdfast:approve", {}, actions=[]),
    ],
)
async def test_what_is_not_ours_is_acknowledged_and_does_nothing(port: Port, body: bytes) -> None:
    answered = await send(port.address, "slack", body, slack(body))
    assert (answered.status_code, answered.content) == (200, b"")


@pytest.mark.parametrize(
    "body",
    [b"", b"payload=", b"payload={", b"payload=[]", b"payload={}", b'payload={"type":1}', b"x=1", b"payload=1&payload=2"],
)
async def test_what_slack_does_not_send_is_refused(port: Port, body: bytes) -> None:
    assert (await send(port.address, "slack", body, slack(body))).status_code == 422


async def test_slack_is_answered_in_time_and_hears_the_rest_later(
    port: Port, boss: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes longer than Slack waits."""
    monkeypatch.setattr(slack_action, "_DECIDING_S", 0.05)
    real: Callable[..., Awaitable[Any]] = Service.execute

    async def execute(*arguments: Any) -> Any:
        await asyncio.Event().wait()

    with Server() as server:
        gate = await asks(boss)
        room = Room(port, server, gate)
        monkeypatch.setattr(Service, "execute", execute)
        (shown,) = await room.press("Approve")
        assert "not known yet" in shown["text"]
        monkeypatch.setattr(Service, "execute", real)
        (shown,) = await room.press("Approve")
        assert shown["replace_original"] is True
        assert len(await decisions(boss, gate)) == 1


@pytest.mark.parametrize(
    "url", ["{private}", "http://hooks.slack.com/x", "", "file:///etc/passwd", "https://169.254.169.254/latest"]
)
async def test_an_answer_goes_to_no_private_address(
    port: Port, boss: Asked, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(says(200)) as server:
        gate = await asks(boss)
        room = Room(port, server, gate, "strict")
        body = interaction(*room.button("Approve"), response_url=url.format(private=f"https://127.0.0.1:{server.port}/x"))
        assert (await send(port.address, "strict", body, slack(body))).status_code == 200
        await eventually(lambda: "hook:strict" in caplog.text)
        assert server.connections == 0
        assert len(await decisions(boss, gate)) == 1
