"""With the example's rules the model server behaves like a competent model on every one of its tickets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.testing.model_server import ModelServer, Rule, load_rules

EXAMPLE = Path(__file__).parents[2] / "examples" / "support_triage"
TICKETS = json.loads((EXAMPLE / "tickets.json").read_text())
CLASSIFY = "Classify the ticket as: bug, feature, billing, or other."
SEARCH_KB = {
    "name": "search_kb",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
FETCH_ACCOUNT = {
    "name": "fetch_account",
    "input_schema": {"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    journal = tmp_path_factory.mktemp("triage") / "calls.jsonl"
    with ModelServer(journal=journal, rules=load_rules(EXAMPLE / "model_rules.json", Rule)) as server:
        yield server


@pytest.fixture(scope="module")
def claude(server: ModelServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.anthropic_url, headers={"x-api-key": "k"}) as client:
        yield client


def converse(client: httpx2.Client, system: str, user: str, tools: list[dict[str, Any]]) -> tuple[list[str], str]:
    """The names of the tools called on the way, and the text at the end."""
    called: list[str] = []
    messages: list[Any] = [{"role": "user", "content": user}]
    for _ in range(5):
        body = {"model": "claude-sonnet-4-7", "max_tokens": 500, "system": system, "messages": messages, "tools": tools}
        content = client.post("/v1/messages", json=body).raise_for_status().json()["content"]
        uses = [block for block in content if block["type"] == "tool_use"]
        if not uses:
            return called, "".join(block["text"] for block in content if block["type"] == "text")
        called += [use["name"] for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "found"} for use in uses]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    raise AssertionError("The model does not come to an end.")


@pytest.mark.parametrize("ticket", TICKETS, ids=lambda ticket: ticket["id"])
def test_every_ticket_is_classified_after_one_look_into_the_handbook(claude: httpx2.Client, ticket: dict[str, str]) -> None:
    called, text = converse(claude, CLASSIFY, ticket["ticket_text"], [SEARCH_KB])
    assert (called, text) == (["search_kb"], ticket["expected_class"])
    assert converse(claude, CLASSIFY, ticket["ticket_text"], []) == ([], ticket["expected_class"])


@pytest.mark.parametrize("kind", ["bug", "billing", "feature", "other"])
def test_a_reply_is_drafted_after_looking_things_up(claude: httpx2.Client, kind: str) -> None:
    called, text = converse(claude, "Write a short, friendly reply.", kind, [SEARCH_KB, FETCH_ACCOUNT])
    assert called == ["search_kb"] + ["fetch_account"] * (kind in ("bug", "billing"))
    assert text.endswith("The Pinbarrow team")
    assert len(text) < 500


def test_the_tickets_are_varied() -> None:
    assert len(TICKETS) == len({ticket["id"] for ticket in TICKETS}) == 25
    assert min(Counter(ticket["expected_class"] for ticket in TICKETS).values()) >= 5
