"""What a newcomer sees first: `dev` prints an address, the page is there at once, and the first run is watched as it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import findings, until
from tests.e2e.console.server import DevServer

MOST_FILES: Final = 30
MOST_BYTES: Final = 300_000
"""Compressed, as they come over the network; fonts included."""
LOADED: Final = """
performance.getEntriesByType("resource").filter((each) => !each.name.includes("/api/"))
  .map((each) => [each.name.replace(location.origin, ""), each.encodedBodySize])
"""


def test_dev_opens_a_page_on_which_the_first_run_is_watched(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/runs")
    page.get_by_text("No runs.").wait_for()
    dev.start("moment", 1.0, key="first")
    row = page.get_by_role("row").filter(has_text="first")
    row.get_by_text("running").wait_for()
    row.get_by_text("completed").wait_for()


def test_the_first_paint_takes_few_files_and_no_answer_of_the_api(dev: DevServer, open_page: Callable[..., Any]) -> None:
    """The API's answers are held back until the page is painted."""
    page = open_page()
    held: list[Any] = []
    page.route("**/api/v1/**", lambda route: held.append(route))
    page.goto(f"{dev.address}/runs")
    page.get_by_role("heading", name="Runs").wait_for()
    until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    files = page.evaluate(LOADED)
    assert 0 < len(files) < MOST_FILES, files
    assert 0 < sum(size for _, size in files) < MOST_BYTES, files
    for route in held:
        route.continue_()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_has_no_serious_finding(dev: DevServer, open_page: Callable[..., Any], width: int, scheme: str) -> None:
    dev.start("broken", "no", key="for axe")
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(f"{dev.address}/runs")
    page.get_by_role("row").filter(has_text="for axe").first.get_by_text("failed").wait_for()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
