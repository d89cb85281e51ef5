"""What is shown follows the server, and the page says when it cannot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.console.conftest import Errors
from tests.e2e.console.server import DevServer
from tests.wire.kit import ended, holdfast

NOTICED_S = 5.0
LOST = "Connection lost."
BACK = "Connected again."
BROKEN = ("net::ERR_",)
"""What a browser says of a server that is killed."""


@pytest.fixture
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A server of the test's own, which it kills."""
    server = DevServer(tmp_path_factory.mktemp("dev"))
    yield server
    server.end()


@pytest.fixture
def signed_in(browser: Any, dev: DevServer) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(dev.once)
    page.wait_for_url("**/runs")
    state = context.storage_state()
    context.close()
    return state


def keys(page: Any) -> list[str]:
    """Start keys in the list, from the top."""
    return [text for text in page.locator("[data-row] .foreign").all_inner_texts() if text.startswith("key-")]


def test_interaction_4_the_live_tail_has_no_gap_and_no_repeat_over_a_restart(
    dev: DevServer, open_page: Callable[..., Any], errors: Errors
) -> None:
    errors.expected += [*BROKEN]
    dev.restart()  # the first server is the one that may not be killed
    run = dev.start("many", 60, key="many")
    page = open_page(viewport={"width": 1280, "height": 8_000})  # all events are in view
    page.goto(f"{dev.address}/runs/{run}?tab=events")
    page.locator("[data-seq='10'][data-loaded]").wait_for()
    dev.kill()
    page.get_by_text(LOST).wait_for(timeout=NOTICED_S * 1000)
    dev.restart()
    page.get_by_text(BACK).wait_for()
    page.get_by_role("main").get_by_text("completed").first.wait_for(timeout=60_000)
    events = dev.request("GET", f"/runs/{run}/events?limit=1000")["rows"]
    assert any(each["type"] == "AttemptLost" for each in events), "it was at work when it was killed"
    page.locator(f"[data-seq='{len(events)}'][data-loaded]").wait_for()
    shown = page.locator("[data-seq][data-loaded]").evaluate_all("rows => rows.map(row => Number(row.dataset.seq))")
    assert shown == [each["seq"] for each in events] == list(range(1, len(events) + 1))


def test_runs_of_the_time_without_a_server_are_listed_afterwards(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected += [*BROKEN]
    dev.restart()
    page.goto(f"{dev.address}/runs")
    page.get_by_text("No runs.").wait_for()
    dev.start("broken", "no", key="key-0")
    page.get_by_text("key-0").wait_for()
    dev.kill()
    page.get_by_text(LOST).wait_for(timeout=NOTICED_S * 1000)
    words = ("run", "flows.py:broken", "--store", str(dev.folder / "runs.db"), "--input", '"no"')
    for number in (1, 2):
        process = holdfast(*words, "--key", f"key-{number}", folder=dev.folder)
        with ended(process):
            process.process.wait(60)
    dev.restart()
    page.get_by_text(BACK).wait_for()
    page.get_by_role("button", name="2 new").click()
    page.get_by_text("key-2").wait_for()
    dev.start("broken", "no", key="key-3")
    page.get_by_role("button", name="1 new").click()
    page.get_by_text("key-3").wait_for()
    assert keys(page) == ["key-3", "key-2", "key-1", "key-0"]
    assert page.get_by_text(LOST).count() == 0


def test_a_server_that_answers_nothing_is_noticed_within_five_seconds(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected += ["ERR_"]
    page.goto(f"{dev.address}/runs")
    page.get_by_text("No runs.").wait_for()
    dev.pause()
    began_s = time.monotonic()
    page.get_by_text(LOST).wait_for()
    assert time.monotonic() - began_s < NOTICED_S + 1.0
    dev.resume()
    page.get_by_text(BACK).wait_for()


def test_seven_tabs_share_one_stream(dev: DevServer, open_page: Callable[..., Any]) -> None:
    """Over HTTP/1.1 six streams of one origin would leave no connection for anything else."""
    first = open_page()
    tabs = [first, *[first.context.new_page() for _ in range(6)]]
    for tab in tabs:
        tab.goto(f"{dev.address}/runs")
        tab.get_by_text("No runs.").wait_for()
    dev.start("broken", "no", key="key-0")
    for tab in tabs:
        tab.get_by_text("key-0").wait_for()
