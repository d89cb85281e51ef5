"""What is sent to people and other systems, as an administrator sees it: a message that was given up is sent again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.console.conftest import MOST_MS, Errors, findings
from tests.e2e.console.server import DevServer
from tests.tools.server import Server, says

TOML = """
[channels.ops]
kind = "webhook"
url = "{url}/in"
secrets = ["OPS_SECRET"]
allow_private = ["127.0.0.0/8"]
tenants = ["default"]

[notifications.trouble]
occasions = ["dead_letter"]
channel = "ops"
"""
SECRETS = {"OPS_SECRET": "whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"}
RULE = {"name": "ends", "occasions": ["run_completed"], "channel": "ops", "digest_s": 0, "workflows": ["moment"]}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, receiver: Server) -> Iterator[DevServer]:
    folder = tmp_path_factory.mktemp("notifications")
    (folder / "holdfast.toml").write_text(TOML.format(url=receiver.url))
    server = DevServer(folder, **SECRETS)
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
    page.get_by_role("button", name="Remove…").wait_for(state="hidden")


def test_a_rule_is_set_with_an_error_at_its_field_tested_changed_and_removed(
    dev: DevServer, receiver: Server, open_page: Callable[..., Any], errors: Errors
) -> None:
    errors.expected.append("422")
    page = open_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{dev.address}/notifications?of=rules")
    table = page.get_by_role("table")
    of_file = table.get_by_role("row").filter(has_text="trouble")
    of_file.get_by_text("holdfast.toml").wait_for()
    assert of_file.get_by_role("button").all_inner_texts() == ["Test…"]
    page.get_by_role("button", name="New rule…").click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Set the rule").click()
    form.get_by_text("Choose at least one.").wait_for()
    assert findings(page) == []
    form.get_by_label("Name", exact=True).fill("failures")
    form.get_by_label("A run failed").check()
    form.get_by_label("A person is asked").check()
    form.get_by_role("button", name="Add Workflow filter").click()
    form.get_by_role("button", name="Add an item").click()
    form.get_by_label("Workflow filter 1", exact=True).fill("order*")
    form.get_by_label("Title (optional)", exact=True).fill("{secret}")
    form.get_by_label("Send a test message").check()
    form.get_by_role("button", name="Set the rule").click()
    form.locator(".form-error").get_by_text("{secret} cannot be used in a template").wait_for()
    form.get_by_label("Title (optional)", exact=True).fill("{workflow}: it's {reason}")
    line = form.get_by_text("holdfast notifications set").inner_text()
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    before = len(receiver.asked)
    form.get_by_role("button", name="Set the rule").click()
    form.wait_for(state="hidden")
    table.get_by_text("A person is asked · A run failed").wait_for()
    (rule,) = [each for each in dev.request("GET", "/notifications/rules")["rows"] if each["name"] == "failures"]
    assert (rule["occasions"], rule["workflows"]) == (["gate_opened", "run_failed"], ["order*"])
    late_s = time.monotonic() + MOST_MS / 1000
    while len(receiver.asked) == before:
        assert time.monotonic() < late_s, "no test message came"
        time.sleep(0.05)
    tested = json.loads(receiver.asked[-1].body)
    assert (tested["type"], tested["data"]["title"]) == ("holdfast.test", ": it's test")
    words = [sys.executable, "-m", "holdfast", *shlex.split(line)[1:], "--json", "--store", str(dev.folder / "runs.db")]
    typed = subprocess.run(words, cwd=dev.folder, env=os.environ | SECRETS, capture_output=True, text=True, timeout=60)
    assert typed.returncode == 0, typed.stderr
    same = json.loads(typed.stdout)
    assert {**same, "set_at": None, "by": None} == {**rule, "set_at": None, "by": None}, "the command sets the same rule"
    mine = table.get_by_role("row").filter(has_text="failures")
    mine.get_by_role("button", name="Change…").click()
    assert form.get_by_label("A run failed").is_checked()
    form.get_by_label("A person is asked").uncheck()
    form.get_by_role("button", name="Change the rule").click()
    form.wait_for(state="hidden")
    mine.get_by_text("A run failed", exact=True).wait_for()
    (rule,) = [each for each in dev.request("GET", "/notifications/rules")["rows"] if each["name"] == "failures"]
    assert (rule["occasions"], rule["title"]) == (["run_failed"], "{workflow}: it's {reason}")
    mine.get_by_role("button", name="Remove…").click()
    page.get_by_role("button", name="Remove the rule").click()
    mine.wait_for(state="hidden")
