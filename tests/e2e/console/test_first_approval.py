"""The way of a newcomer: an example under `dev`, its first run in the browser, an approval there, and the run goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.testing.model_server import ModelServer, Rule
from tests.e2e.console.server import DevServer

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "expense_approval.py"
WITHIN_S: Final = 60.0
READ: Final = Rule(output={"amount_eur": "84.00", "purpose": "Train to Lyon"})


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with the example of an expense report."""
    with ModelServer(journal=tmp_path_factory.mktemp("models") / "calls.jsonl", rules=[READ]) as models:
        server = DevServer(tmp_path_factory.mktemp("example"), (f"{EXAMPLE}:wf",), **models.environment)
        yield server
        server.end()


def test_a_newcomer_approves_in_the_browser_and_the_run_goes_on(dev: DevServer, page: Any) -> None:
    began_s = time.monotonic()
    run = dev.start("expense-approval", {"employee": "ada", "receipt": "Train to Lyon, 2nd class, 84.00 EUR"})
    page.goto(f"{dev.address}/runs")
    page.get_by_role("row").filter(has_text="expense-approval").get_by_text("waiting for approval").wait_for()
    page.get_by_role("link", name="Inbox").click()
    part = page.locator("article.gate")
    part.get_by_text("Train to Lyon").wait_for()
    part.get_by_text("The run goes on to pay.").wait_for()
    part.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Note").fill("Second class, as agreed")
    part.get_by_role("button", name="Review the edit…").click()
    page.get_by_role("dialog").get_by_role("button", name="Send the edit").click()
    part.get_by_text("Decided: edit").wait_for()
    part.get_by_role("link", name="Open the run").click()
    page.wait_for_url(f"**/runs/{run}**")
    page.get_by_text("completed").first.wait_for()
    assert dev.request("GET", f"/runs/{run}")["status"] == "completed"
    assert dev.request("GET", f"/effects?run={run}")["rows"][0]["request"]["amount_eur"] == "84.00"
    assert time.monotonic() - began_s < WITHIN_S
