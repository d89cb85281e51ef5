"""Slack: what its incoming webhook gets, and when a message has buttons."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.notify.slack import ACTION, ButtonValue, SlackChannel, blocks_of, escaped
from holdfast.ports.channel import MAX_BODY_BYTES, Channel, Refused, Retry, Sent
from tests.notify.messages import QUESTION, message
from tests.tools.server import Server, says


def buttons(**more: Any) -> list[Any]:
    """The buttons of a message about that question."""
    blocks = blocks_of(message(**{"question": QUESTION, **more}))["blocks"]
    return [each for block in blocks if block["type"] == "actions" for each in block["elements"]]


async def test_a_message_arrives_with_its_facts_and_its_link() -> None:
    with Server() as server:
        sends: Channel = SlackChannel(f"{server.url}/services/T1/B1/secret", allow_private=True)
        assert await sends.send(message()) == Sent()
        await sends.aclose()
    (asked,) = server.asked
    assert (asked.target, asked.headers["content-type"]) == ("/services/T1/B1/secret", "application/json")
    said = json.loads(asked.body)
    assert said["text"] == "Pay invoice 7?"
    assert [block["type"] for block in said["blocks"]] == ["header", "section", "section", "context"]
    assert said["blocks"][2]["text"] == {"type": "plain_text", "text": "Amount\n12.50 EUR", "emoji": False}
    (link,) = said["blocks"][3]["elements"]
    assert link["text"] == "<https://holdfast.example.com/inbox/r-1?a=1&amp;b=2|Open in Holdfast>"


def test_a_question_has_buttons_that_name_the_gate_and_what_was_shown() -> None:
    found = buttons()
    assert [(each["action_id"], each["style"]) for each in found] == [
        (f"{ACTION}approve", "primary"),
        (f"{ACTION}reject", "danger"),
    ]
    for each in found:
        assert msgspec.json.decode(each["value"], type=ButtonValue) == ButtonValue(QUESTION.gate, QUESTION.shown_hash)
        assert json.loads(each["value"]).keys() == {"gate", "shown_hash"}


@pytest.mark.parametrize(
    "more",
    [
        {"question": None},
        {"question": msgspec.structs.replace(QUESTION, needs_form=True)},
        {"question": msgspec.structs.replace(QUESTION, allowed=("answer", "edit"))},
        {"question": msgspec.structs.replace(QUESTION, gate="g" * 2_000)},
        {"facts": (("Letter", "x" * 1_001),)},
        {"facts": (("Line", "x"),) * 21},
        {"title": "t" * 151},
    ],
)
def test_nobody_decides_with_a_button_about_what_was_cut_off(more: dict[str, Any]) -> None:
    assert buttons(**more) == []


def test_a_long_message_says_how_many_facts_it_does_not_show() -> None:
    last = blocks_of(message(facts=(("Line", "x"),) * 25, link=None))["blocks"][-1]
    assert last["elements"][0]["text"] == "5 more are not shown."


def test_only_allowed_decisions_have_a_button() -> None:
    (only,) = buttons(question=msgspec.structs.replace(QUESTION, allowed=("reject",)))
    assert only["action_id"] == f"{ACTION}reject"


HOSTILE = "<!channel> <@U123> <https://evil.example|Approve> & *bold*\u2028x"


def test_no_text_becomes_a_mention_or_a_link() -> None:
    said = blocks_of(message(title=HOSTILE, facts=((HOSTILE, HOSTILE),), link=None))
    assert "<" not in said["text"]
    assert {block["text"]["type"] for block in said["blocks"]} == {"plain_text"}
    assert escaped("<!here>&") == "&lt;!here&gt;&amp;"


@pytest.mark.parametrize("text", ["Pay ~10000~ 1 EUR", "*all* of _it_", "`x`", "&lt;", ":moneybag:", "> no"])
def test_above_a_button_stands_what_was_asked_with_no_markup_in_it(text: str) -> None:
    said = blocks_of(message(title=text, facts=(("Question", text),), question=QUESTION, link=None))
    shown = [block["text"] for block in said["blocks"] if "text" in block]
    assert shown == [{"type": "plain_text", "text": each, "emoji": False} for each in (text, f"Question\n{text}")]
    assert said["mrkdwn"] is False


@pytest.mark.parametrize("text", ["x", "<", "&", "\u20ac", "\U0001f600", '"', "\x01"])
def test_a_body_stays_below_20_kb_whatever_the_texts(text: str) -> None:
    facts = ((text * 200, text * 50_000),) * 50
    made = blocks_of(message(title=text * 200, facts=facts, question=QUESTION, link="https://h.example/" + "a" * 500))
    assert len(msgspec.json.encode(made)) < MAX_BODY_BYTES
    assert all(len(block["text"]["text"]) <= 3_000 for block in made["blocks"] if block["type"] == "section")


async def test_slacks_refusals_end_where_another_try_is_of_no_use() -> None:
    with Server(says(400), says(410), says(429, Retry_After="30"), says(500), says(404)) as server:
        sends = SlackChannel(server.url, allow_private=["127.0.0.1/32"])
        results = [await sends.send(message()) for _ in range(5)]
    assert isinstance(results[0], Refused)
    assert not results[0].disable
    assert isinstance(results[1], Refused)
    assert results[1].disable
    assert results[2] == Retry("127.0.0.1 answered HTTP 429.", after_s=30.0)
    assert all(isinstance(each, Retry) for each in results[3:])
