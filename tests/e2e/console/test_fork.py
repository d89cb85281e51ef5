"""Interaction 7: fork from a step with an edited input, its worst-case price shown before; the two runs compared side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.testing.model_server import ModelServer, Rule
from tests.e2e.console.conftest import findings
from tests.e2e.console.server import DevServer

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "expense_approval.py"
FLOWS: Final = Path(__file__).parent / "acting_flows.py"
WITHIN_S: Final = 30.0
LOOK_S: Final = 0.1
READ: Final = Rule(output={"amount_eur": "84.00", "purpose": "Train to Lyon"})
FIRST: Final = {"employee": "ada", "receipt": "Train to Lyon, 84.00 EUR"}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with the example of an expense report, whose model has a price, and a graph of functions."""
    with ModelServer(journal=tmp_path_factory.mktemp("models") / "calls.jsonl", rules=[READ]) as models:
        workflows = (f"{EXAMPLE}:wf", f"{FLOWS}:orders")
        server = DevServer(tmp_path_factory.mktemp("forks"), workflows, **models.environment)
        yield server
        server.end()


def asking(dev: DevServer, run: str) -> dict[str, Any]:
    """The run, once it asks a person."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        row: dict[str, Any] = dev.request("GET", f"/runs/{run}")
        if any(each["kind"] == "gate" for each in row["waiting_for"]):
            return row
        time.sleep(LOOK_S)
    raise AssertionError(f"no gate within {WITHIN_S} s")


def test_interaction_7_a_fork_shows_its_worst_case_and_stands_beside_the_original(dev: DevServer, page: Any) -> None:
    run = dev.start("expense-approval", FIRST)
    asking(dev, run)
    dev.request("POST", f"/runs/{run}/pause", {})
    page.goto(f"{dev.address}/runs/{run}?step=read%231")
    page.get_by_role("button", name="Fork from here…").click()
    dialog = page.get_by_role("dialog")
    answer = dialog.get_by_role("region", name="What will happen")
    answer.get_by_text("worst case").wait_for()
    quote = dev.request("POST", f"/runs/{run}/quote", {"action": "fork", "fields": {"step": "read#1"}})["fork"]
    assert float(quote["worst_case_usd"]) > 0
    assert answer.locator(f"[data-usd='{quote['worst_case_usd']}']").count() >= 1
    dialog.get_by_label("Cost limit, in dollars").fill("0.04")
    answer.locator("[data-usd='0.04']").wait_for()
    assert findings(page) == []
    dialog.get_by_label("employee").fill("bob")
    dialog.get_by_label("receipt").fill("Bus to Lyon, 14.00 EUR")
    changes = dialog.locator(".changes")
    assert changes.locator("del").first.inner_text() == "ada"
    assert changes.locator("ins").first.inner_text() == "bob"
    assert dev.request("GET", "/runs?limit=10")["rows"][1:] == [], "nothing is started before it is sent"
    dialog.get_by_role("button", name="Start the fork").click()
    page.wait_for_url(lambda url: "/runs/" in url and run not in url)
    fork = page.url.rsplit("/", 1)[1]
    row = asking(dev, fork)
    assert (row["forked_from"]["run_id"], row["limit_usd"]) == (run, "0.04")
    assert dev.request("GET", f"/runs/{fork}/events/1")["input"] == {"employee": "bob", "receipt": "Bus to Lyon, 14.00 EUR"}

    page.get_by_role("link", name="Compare with the original").click()
    page.wait_for_url(f"**/runs/{run}/compare/{fork}")
    row = page.get_by_role("row").filter(has_text="claude-haiku-4-5").first
    row.wait_for()
    row.get_by_text("claude-haiku-4-5").nth(1).wait_for()
    assert page.get_by_text("First run").count() == 1
    assert findings(page) == []


def write(page: Any, name: str, text: str) -> None:
    """Replace the JSON in an editor."""
    page.get_by_role("dialog").get_by_role("textbox", name=name).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_interaction_7_a_step_is_forked_with_other_outputs_of_steps_before_it(dev: DevServer, page: Any) -> None:
    run = dev.start("orders", {"customer": "ada", "amount": 7, "is_urgent": True}, key="small")
    page.goto(f"{dev.address}/runs/{run}?step=judge%231")
    page.locator("header [data-status=completed]").first.wait_for()
    page.get_by_role("button", name="Fork from here…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Edit the output of an earlier step").select_option("fetch#1")
    write(page, "Output of fetch#1", '{"amount": 500}')
    dialog.locator(".changes").get_by_text("500").wait_for()
    dialog.get_by_role("button", name="Edit the input as JSON").click()
    write(page, "Input of the new run", '{"customer": "ada", "amount": "many"}')
    dialog.get_by_text("This would be refused.").wait_for()
    assert dialog.get_by_role("button", name="Start the fork").is_disabled()
    write(page, "Input of the new run", '{"customer": "ada", "amount": 500, "is_urgent": true}')
    dialog.get_by_text("worst case").wait_for()
    assert findings(page) == []
    dialog.get_by_role("button", name="Start the fork").click()
    page.wait_for_url(lambda url: "/runs/" in url and run not in url)
    page.locator("header [data-status=completed]").first.wait_for()
    fork = page.url.rsplit("/", 1)[1]
    outputs = {
        each["step"]: each.get("output")
        for each in dev.request("GET", f"/runs/{fork}/events?limit=1000")["rows"]
        if "step" in each
    }
    assert (outputs["fetch#1"], outputs["judge#1"]) == ({"amount": 500}, {"large": True})
    assert dev.request("GET", f"/runs/{run}/events/1")["input"]["amount"] == 7
