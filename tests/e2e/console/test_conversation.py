"""Interaction 13: a conversation. Tokens appear as they stream, also over a reload; messages steer or wait; approvals are inside."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.e2e.console.conftest import findings, until
from tests.e2e.console.server import DevServer

FLOWS: Final = Path(__file__).parent / "inbox_flows.py"
WITHIN_S: Final = 40.0
REPLY: Final = "Moby-Dick stands on shelf 12. " + " ".join(f"word{number}" for number in range(40)) + " end."
SLOW: Final = Rule(user="slowly", text=REPLY, pause_s=0.15)
RULES: Final = (
    Rule(user="e-mail", times=1, tool_calls=(ToolCall("send_email", {"to": "dev@boardlab.example", "body": "Shelf\n12"}),)),
    Rule(user="look", times=1, tool_calls=(ToolCall("look_up", {"title": "Moby-Dick"}),)),
    SLOW,
    Rule(user="never mind", text="Then I stop."),
    Rule(text="**Done**, <b>all</b> of it."),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """A model provider with these answers."""
    with ModelServer(journal=tmp_path_factory.mktemp("models") / "calls.jsonl") as server:
        yield server


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[DevServer]:
    """A `holdfast dev` with an agent."""
    folder = tmp_path_factory.mktemp("talks")
    shutil.copy(FLOWS, folder)
    server = DevServer(
        folder, tuple(f"{FLOWS.name}:{name}" for name in ("librarian", "head_librarian", "mailing")), **models.environment
    )
    yield server
    server.end()


@pytest.fixture(autouse=True)
def rules(models: ModelServer) -> None:
    """The answers anew for each test."""
    models.script.clear()
    models.script.add(*RULES)


def opened(dev: DevServer, page: Any, name: str, agent: str = "librarian") -> Any:
    """Open a conversation of this name, and return its field."""
    dev.request("POST", "/conversations", {"name": name, "workflow": agent})
    page.goto(f"{dev.address}/conversations/{name}")
    return page.get_by_label("Message", exact=True)


def say(field: Any, text: str) -> None:
    """Send a message with the Enter key."""
    field.fill(text)
    field.press("Enter")


def exchanges(dev: DevServer, name: str) -> Any:
    """Return the messages of a conversation."""
    return dev.request("GET", f"/conversations/{name}")["exchanges"]


def test_interaction_13_tokens_appear_as_they_stream_and_a_reload_goes_on(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/conversations")
    page.get_by_role("button", name="New conversation").click()
    dialog = page.get_by_role("dialog")
    agent = dialog.get_by_label("Agent", exact=True)
    agent.get_by_role("option", name="librarian", exact=True).wait_for(state="attached")
    assert agent.get_by_role("option").all_inner_texts() == ["head_librarian", "librarian"], "mailing takes no chat"
    agent.select_option("librarian")
    dialog.get_by_label("Name").fill("evening")
    page.get_by_role("dialog").get_by_role("button", name="Open").click()
    field = page.get_by_label("Message", exact=True)
    say(field, "Tell me slowly where Moby-Dick is")
    reply = page.locator(".turn-prose")
    reply.get_by_text("Moby-Dick stands").wait_for()
    first = reply.inner_text()
    assert first != REPLY
    page.reload()
    reply.get_by_text("Moby-Dick stands").wait_for()
    middle = reply.inner_text()
    assert first.strip() in middle
    assert middle.strip() != REPLY
    reply.get_by_text(re.compile(r"end\.$")).wait_for()
    page.locator(".turn-reply[aria-busy=false]").wait_for()
    assert reply.all_inner_texts() == [REPLY]
    assert [(each["status"], each["reply"]) for each in exchanges(dev, "evening")] == [("completed", REPLY)]


def test_an_approval_appears_inside_the_conversation(dev: DevServer, page: Any) -> None:
    say(opened(dev, page, "approval"), "Please e-mail Dev")
    gate = page.locator("article.gate")
    gate.get_by_text("send_email is called.").wait_for()
    gate.get_by_text("Nothing can undo it.").wait_for()
    gate.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    page.get_by_text("**Done**, <b>all</b> of it.").wait_for()
    gate.wait_for(state="detached")
    page.locator(".turn-decided").get_by_text("approve").wait_for()
    assert [each["reply"] for each in exchanges(dev, "approval")] == ["**Done**, <b>all</b> of it."]


def test_an_approval_of_a_child_run_appears_inside_the_conversation(dev: DevServer, page: Any) -> None:
    say(opened(dev, page, "through", "head_librarian"), "Have Dev told")
    page.get_by_text("Asked by mailing").wait_for()
    gate = page.locator("article.gate")
    gate.get_by_text("send_email is called.").wait_for()
    gate.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    page.get_by_text("It was sent.").wait_for()
    page.locator(".turn-decided").get_by_text('send_email(to="dev@boardlab.example"').wait_for()


def test_a_message_meanwhile_steers_or_waits(dev: DevServer, page: Any) -> None:
    field = opened(dev, page, "steered")
    say(field, "Please look it up")
    page.get_by_role("button", name="Steer").wait_for()
    field.fill("Oh, never mind")
    page.get_by_role("button", name="Steer").click()
    page.get_by_text("steers the reply").wait_for()
    say(field, "Tell me slowly")
    page.get_by_text("queued", exact=True).wait_for()
    page.get_by_text("Then I stop.").wait_for()
    page.get_by_text("Moby-Dick stands").wait_for()
    first, steering, queued = exchanges(dev, "steered")
    assert (first["reply"], steering["steers"], queued["steers"]) == ("Then I stop.", 1, None)


def test_a_reply_that_its_limit_stops_says_so(dev: DevServer, page: Any) -> None:
    dev.request("POST", "/conversations", {"name": "poor", "workflow": "librarian", "cost_limit_usd": "0.000001"})
    page.goto(f"{dev.address}/conversations/poor")
    say(page.get_by_label("Message", exact=True), "Where is Moby-Dick?")
    stopped = page.locator(".turn-reply[aria-busy=false]").get_by_role("status")
    stopped.get_by_text("Stopped: the limit of this conversation has not enough left for the next call.").wait_for()
    assert page.get_by_text("Working…").count() == 0
    page.get_by_text("stopped", exact=True).wait_for()
    stopped.get_by_role("link", name="Why does it wait?").click()
    page.get_by_role("region", name="Why it waits").wait_for()
    page.goto(f"{dev.address}/conversations/poor")
    page.get_by_role("button", name="Set limits…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Cost limit, in dollars").fill("a lot")
    dialog.get_by_role("button", name="Set the limits").click()
    dialog.get_by_text("Enter an amount in dollars, like 0.50.").wait_for()
    dialog.get_by_label("Cost limit, in dollars").fill("1.00")
    dialog.get_by_role("button", name="Set the limits").click()
    page.locator(".turn-reply").get_by_text("of it.").wait_for()
    assert exchanges(dev, "poor")[0]["reply"].endswith("of it.")


def test_a_message_that_was_not_sent_survives_a_reload(dev: DevServer, page: Any) -> None:
    opened(dev, page, "draft").fill("Half a question")
    page.reload()
    assert page.get_by_label("Message", exact=True).input_value() == "Half a question"
    assert exchanges(dev, "draft") == []


def test_the_page_stays_at_its_end_only_while_the_reader_is_there(dev: DevServer, open_page: Callable[..., Any]) -> None:
    page = open_page(viewport={"width": 390, "height": 500})
    field = opened(dev, page, "end")
    for number in range(3):
        say(field, "Anything")
        page.get_by_text("**Done**").nth(number).wait_for()
        page.locator(".turn-reply[aria-busy=true]").wait_for(state="detached")
    say(field, "Tell me slowly")
    page.get_by_text("Moby-Dick stands").wait_for()
    at_end = "innerHeight + scrollY >= document.documentElement.scrollHeight - 90"
    until(page, at_end)
    page.evaluate("scrollTo(0, 0)")
    jump = page.get_by_role("button", name="Jump to now")
    jump.wait_for()
    page.get_by_text("word20").wait_for()
    assert page.evaluate("scrollY") == 0
    jump.click()
    until(page, at_end)


def test_the_reply_goes_on_after_a_restart_of_the_server(dev: DevServer, page: Any, errors: Any) -> None:
    errors.expected += ["ERR_", "Failed to load", "50"]
    say(opened(dev, page, "restart"), "Tell me slowly")
    page.get_by_text("Moby-Dick stands").wait_for()
    before, code = dev._served(), dev.folder / FLOWS.name
    code.write_text(code.read_text() + "\n")  # `dev` starts another process that serves
    deadline_s = time.monotonic() + WITHIN_S
    while dev._served() in ([], before):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    page.locator(".turn-reply[aria-busy=true]").wait_for(state="detached", timeout=WITHIN_S * 1000)
    assert page.locator(".turn-prose").all_inner_texts() == [REPLY]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_conversations_have_no_serious_finding(dev: DevServer, open_page: Callable[..., Any], width: int, scheme: str) -> None:
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    say(opened(dev, page, f"axe-{width}-{scheme}"), "Anything")
    page.get_by_text("**Done**").wait_for()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{dev.address}/conversations")
    page.get_by_role("row").filter(has_text=f"axe-{width}-{scheme}").wait_for()
    assert findings(page) == []


def test_an_unknown_conversation_says_so(dev: DevServer, page: Any, errors: Any) -> None:
    errors.expected.append("404")
    page.goto(f"{dev.address}/conversations/nothing")
    page.get_by_role("alert").get_by_text("Not Found").wait_for()
