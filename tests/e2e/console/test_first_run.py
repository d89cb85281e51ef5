"""What a newcomer sees first: `dev` prints an address, the page is there at once, and the first run is watched as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.console.conftest import findings, until
from tests.e2e.console.server import DevServer

WITHIN_S = 10.0
FIRST_PAINT_MS = 1_000


def test_dev_opens_a_page_and_the_first_run_is_watched_within_ten_seconds(dev: DevServer, page: Any) -> None:
    began_s = time.monotonic()
    page.goto(f"{dev.address}/runs")
    page.get_by_text("No runs.").wait_for()
    dev.start("moment", 1.0, key="first")
    row = page.get_by_role("row").filter(has_text="first")
    row.get_by_text("running").wait_for()
    row.get_by_text("completed").wait_for()
    assert time.monotonic() - began_s < WITHIN_S


def test_the_first_paint_comes_within_a_second(dev: DevServer, open_page: Callable[..., Any]) -> None:
    """The best of three, each with nothing kept: other tests share the machine."""

    def paint_ms() -> float:
        page = open_page()
        page.goto(f"{dev.address}/runs")
        page.get_by_role("heading", name="Runs").wait_for()
        until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
        painted: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        return painted

    assert min(paint_ms() for _ in range(3)) < FIRST_PAINT_MS


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_has_no_serious_finding(dev: DevServer, open_page: Callable[..., Any], width: int, scheme: str) -> None:
    dev.start("broken", "no", key="for axe")
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(f"{dev.address}/runs")
    page.get_by_role("row").filter(has_text="for axe").first.get_by_text("failed").wait_for()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
