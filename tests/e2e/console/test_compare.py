"""Two runs beside one another: chosen in the list, by an id, or from a fork (test_fork)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.console.conftest import findings, until
from tests.e2e.console.server import DevServer

TEXTS = """
label => [...document.querySelectorAll("section")].filter((each) => each.ariaLabel === label).at(-1)
  ?.querySelector(".json")?.shadowRoot?.textContent ?? ""
"""
"""What an editor shows, in a section of this name."""


@pytest.fixture(scope="module")
def runs(dev: DevServer) -> tuple[str, str]:
    """Two runs of one workflow that have ended, the second of which took longer."""
    first, second = (dev.start("moment", seconds, key=key) for seconds, key in ((0, "short"), (0.5, "long")))
    for run in (first, second):
        dev.request("POST", f"/runs/{run}/labels", {"labels": {"of": "pair"}})
    return first, second


def ended(dev: DevServer, page: Any, runs: tuple[str, str]) -> None:
    for run in runs:
        page.goto(f"{dev.address}/runs/{run}")
        page.locator("header [data-status=completed]").first.wait_for()


def test_interaction_7_two_runs_of_the_list_are_compared(dev: DevServer, page: Any, runs: tuple[str, str]) -> None:
    first, second = runs
    ended(dev, page, runs)
    page.goto(f"{dev.address}/runs?q=workflow%3Amoment")
    for key in ("long", "short"):
        row = page.get_by_role("row").filter(has_text=key)
        row.get_by_role("checkbox").check()
    assert findings(page) == []
    page.get_by_role("link", name="Compare the two").click()
    page.wait_for_url(f"**/runs/{first}/compare/{second}")
    until(page, f"(({TEXTS})('Output')).includes('waited 0.5 s')")
    assert "waited 0.0 s" in page.evaluate(TEXTS, "Output")
    assert "0.5" in page.evaluate(TEXTS, "Input")
    row = page.get_by_role("row").filter(has_text="waits")
    difference = row.get_by_role("cell").nth(2).inner_text()
    assert difference.startswith("+")
    assert difference.endswith(" ms")
    row.get_by_role("link", name="Compare waits in both runs").click()
    dialog = page.get_by_role("dialog", name="waits")
    dialog.get_by_role("region", name="Output").wait_for()
    assert "at=" in page.url
    assert findings(page) == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_interaction_7_a_run_is_compared_with_one_of_a_pasted_id(
    dev: DevServer, open_page: Callable[..., Any], runs: tuple[str, str], width: int, scheme: str
) -> None:
    first, second = runs
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    ended(dev, page, (second, first))
    page.get_by_role("button", name="Compare with…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("link", name=second[:18]).wait_for()
    dialog.get_by_label("Id of the other run").fill(first)
    dialog.get_by_text("This is the run itself.").wait_for()
    dialog.get_by_label("Id of the other run").fill(second)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{first}/compare/{second}")
    until(page, f"(({TEXTS})('Output')).includes('5 s')")
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
