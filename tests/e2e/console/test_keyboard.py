"""The console by keys alone: the palette, the rows of a list, the filter, and the list of keys."""

from __future__ import annotations

import re
from typing import Any

from tests.e2e.console.conftest import findings, until
from tests.e2e.console.server import DevServer


def test_interaction_14_everything_is_reached_by_keys(dev: DevServer, page: Any) -> None:
    runs = [dev.start("broken", "no", key=f"keyed-{number}") for number in range(3)]
    page.goto(f"{dev.address}/runs")
    page.get_by_text("keyed-2").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator("[aria-selected=true]").get_attribute("data-row") == runs[1]
    page.keyboard.press("k")
    assert page.locator("[aria-selected=true]").get_attribute("data-row") == runs[2]
    page.keyboard.press("/")
    page.keyboard.type("keyed-0")
    page.get_by_text("keyed-2").wait_for(state="detached")
    page.wait_for_url("**/runs?q=keyed-0")
    page.keyboard.press("j")
    assert page.get_by_label("Filter runs").input_value() == "keyed-0j"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys of this page")
    keys.get_by_text("Next row").wait_for()
    assert findings(page) == []
    page.keyboard.press("Escape")
    keys.wait_for(state="detached")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Go anywhere")
    palette.wait_for()
    page.keyboard.type("keyed-1")
    palette.get_by_role("option", selected=True).filter(has_text="keyed-1").wait_for()
    assert findings(page) == []
    page.keyboard.press("Escape")
    palette.wait_for(state="detached")
    page.keyboard.press("Control+k")
    page.keyboard.type("runs")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/runs$"))
    page.get_by_text("keyed-2").wait_for()


def test_a_pasted_id_opens_the_run(dev: DevServer, page: Any) -> None:
    run = dev.start("broken", "no")
    page.goto(f"{dev.address}/runs")
    page.get_by_role("table", name="Runs").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="Go anywhere").wait_for()
    page.keyboard.insert_text(f" {run} ")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run}")


def test_back_restores_the_filter_the_place_and_the_focus(dev: DevServer, page: Any) -> None:
    for number in range(40):
        dev.start("broken", "no", key=f"returning-{number:02}-")
    page.goto(f"{dev.address}/runs?q=returning")
    page.get_by_text("returning-39-").wait_for()
    page.mouse.wheel(0, 500)
    row = page.get_by_role("row").filter(has_text="returning-20-")
    row.wait_for()
    until(page, "window.scrollY > 300")
    place = page.evaluate("window.scrollY")
    run = row.get_attribute("data-row")
    row.get_by_role("link").click()
    page.wait_for_url(f"**/runs/{run}")
    page.go_back()
    page.wait_for_url("**/runs?q=returning")
    assert page.get_by_label("Filter runs").input_value() == "returning"
    row.wait_for()
    until(page, f"Math.abs(window.scrollY - {place}) < 5")
    until(page, f"document.activeElement?.closest('[data-row]')?.dataset.row === '{run}'")
