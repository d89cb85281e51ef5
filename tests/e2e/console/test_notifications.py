"""What is sent to people and other systems, as an administrator sees it: a message that was given up is sent again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.console.conftest import MOST_MS, findings
from tests.e2e.console.server import DevServer
from tests.tools.server import Server, says

TOML = """
[channels.ops]
kind = "webhook"
url = "{url}/in"
secrets = ["OPS_SECRET"]
allow_private = ["127.0.0.0/8"]
tenants = ["default"]
"""
RULE = {"name": "ends", "occasions": ["run_completed"], "channel": "ops", "digest_s": 0, "workflows": ["moment"]}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, receiver: Server) -> Iterator[DevServer]:
    folder = tmp_path_factory.mktemp("notifications")
    (folder / "holdfast.toml").write_text(TOML.format(url=receiver.url))
    server = DevServer(folder, OPS_SECRET="whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3")
    try:
        yield server
    finally:
        server.end()


def await_deliveries(dev: DevServer, state: str) -> list[Any]:
    late_s = time.monotonic() + MOST_MS / 1000
    while not (rows := dev.request("GET", f"/notifications/deliveries?state={state}")["rows"]):
        assert time.monotonic() < late_s, f"no message became {state}"
        time.sleep(0.05)
    return list(rows)


def test_a_message_that_was_given_up_is_sent_again(dev: DevServer, receiver: Server, open_page: Callable[..., Any]) -> None:
    receiver.plan.append(says(410, "moved away"))
    dev.request("POST", "/notifications/rules", RULE)
    dev.start("moment", 0)
    await_deliveries(dev, "dead")
    for width in (390, 1280):
        page = open_page(viewport={"width": width, "height": 800})
        for tab, words in (("rules", "run completed"), ("channels", "webhook"), ("messages", "dead")):
            page.goto(f"{dev.address}/notifications?of={tab}")
            page.get_by_role("table").get_by_text(words).first.wait_for()
            assert findings(page) == [], tab
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
    page.get_by_role("link", name="Channels").click()
    page.get_by_role("button", name="Enable…").click()
    page.get_by_role("button", name="Enable the channel").click()
    page.get_by_role("button", name="Enable…").wait_for(state="hidden")
    page.get_by_role("link", name="Messages").click()
    page.get_by_role("button", name="Send again…").click()
    page.get_by_text("The last one failed: 127.0.0.1 answered HTTP 410").wait_for()
    page.get_by_role("button", name="Send it again").click()
    page.get_by_role("table").get_by_text("sent", exact=True).wait_for()
    ids = [each.headers["webhook-id"] for each in receiver.asked]
    assert len(ids) == 2
    assert len({*ids}) == 1, "it is the same message"
    page.get_by_role("button", name="dead", exact=True).click()
    page.get_by_text("No messages match").wait_for()
    page.get_by_role("link", name="Rules").click()
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("button", name="Remove the rule").click()
    page.get_by_text("Set a rule with").wait_for()
