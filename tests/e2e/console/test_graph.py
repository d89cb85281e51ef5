"""Interaction 3: the graph shows each node's state as soon as it is committed, and a click opens the step. And the page of a
workflow, from which a run is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import findings
from tests.e2e.console.server import DevServer

FLOWS: Final = Path(__file__).parent / "acting_flows.py"
PLACES: Final = "Array.from(document.querySelectorAll('.react-flow__node'), (each) => each.style.transform)"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with a graph of four nodes and a flow."""
    server = DevServer(
        tmp_path_factory.mktemp("graph"), tuple(f"{FLOWS}:{name}" for name in ("orders", "awaits", "long", "wide", "works"))
    )
    yield server
    server.end()


def node(page: Any, name: str, state: str) -> Any:
    found = page.locator(f"[data-node={name}][data-state={state}]")
    found.wait_for()
    return found


def test_interaction_3_a_state_is_shown_with_its_commit_and_a_click_opens_its_step(dev: DevServer, page: Any) -> None:
    """The graph is read again because of an event, not because time has passed: as often as there were events at most."""
    run = dev.start("orders", {"customer": "ada", "amount": 7})
    page.goto(f"{dev.address}/runs/{run}?tab=graph")
    node(page, "wait", "suspended")
    places = page.evaluate(PLACES)
    before = events(dev, run)
    asked: list[str] = []
    page.on("request", lambda request: request.url.endswith(f"/runs/{run}/graph") and asked.append(request.url))
    dev.request("POST", f"/runs/{run}/signals/go", {"data": True})
    node(page, "wait", "completed")
    node(page, "send", "completed")
    assert page.evaluate(PLACES) == places
    assert 0 < len(asked) <= events(dev, run) - before
    assert findings(page) == []
    node(page, "judge", "completed").click()
    page.wait_for_url("**?step=judge%231")
    page.get_by_role("heading", name="judge").first.wait_for()


def events(dev: DevServer, run: str) -> int:
    count: int = dev.request("GET", f"/runs/{run}")["events"]
    return count


def test_the_graph_of_a_flow_has_its_operations(dev: DevServer, page: Any) -> None:
    run = dev.start("awaits", {})
    page.goto(f"{dev.address}/runs/{run}?tab=graph")
    page.locator("[data-node][data-state=waiting]").get_by_text("paid").wait_for()
    page.locator("[data-node][data-state=completed]").get_by_text("reserve").click()
    page.get_by_role("heading", name="reserve").first.wait_for()


def test_the_graph_of_a_flow_shows_its_code_at_work_and_failed(dev: DevServer, page: Any) -> None:
    there = dev.folder / "there"
    run = dev.start("works", str(there))
    page.goto(f"{dev.address}/runs/{run}?tab=graph")
    page.locator("[data-node][data-state=completed]").get_by_text("first").wait_for()
    page.locator("[data-node][data-state=active]").get_by_text("code of the flow").wait_for()
    assert findings(page) == []
    there.write_text("")
    page.locator("[data-node][data-state=completed]").get_by_text("second").wait_for()
    page.locator("[data-node][data-state=failed]").get_by_text("code of the flow").wait_for()
    assert page.locator("[data-state=active]").count() == 0
    page.locator("[data-node][data-state=failed]").click()
    page.wait_for_url("**?step=flow%231")


def test_a_long_flow_shows_what_it_is_at_first(dev: DevServer, page: Any) -> None:
    run = dev.start("long", 120)
    page.goto(f"{dev.address}/runs/{run}")
    page.locator("header [data-status=waiting]").first.wait_for()
    page.goto(f"{dev.address}/runs/{run}?tab=graph")
    waiting = page.locator("[data-node][data-state=waiting]")
    waiting.wait_for()
    assert waiting.get_by_text("go").is_visible()
    shown = waiting.bounding_box()
    assert shown["width"] > 100
    assert shown["y"] < 800


def test_more_nodes_than_can_be_seen_are_folded_and_open(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/workflows/wide")
    page.locator("[data-node]").get_by_text("400 nodes from part0").click()
    page.locator("[data-node=part0]").wait_for()


def test_a_run_is_started_from_the_page_of_its_workflow(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/workflows")
    page.get_by_role("link", name="orders, version 1").click()
    page.locator("[data-node=judge]").wait_for()
    assert findings(page) == []
    page.get_by_role("button", name="Start a run…").click()
    form = page.get_by_role("dialog")
    form.get_by_label("customer").fill("a")
    form.get_by_label("amount").fill("120")
    form.get_by_role("button", name="Start the run").click()
    form.get_by_text("At least 2 characters.").wait_for()
    form.get_by_label("customer").fill("ada")
    form.get_by_label("is urgent").check()
    form.get_by_label("Cost limit, in dollars").fill("0.25")
    form.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/*-*")
    run = dev.request("GET", f"/runs/{page.url.rsplit('/', 1)[1]}")
    assert (run["workflow"], run["limit_usd"]) == ("orders", "0.25")
    page.locator("header [data-status=completed]").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_workflows_fit_a_telephone(dev: DevServer, open_page: Callable[..., Any], scheme: str) -> None:
    page = open_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    for path in ("/workflows", "/workflows/orders"):
        page.goto(f"{dev.address}{path}")
        page.get_by_text("orders").first.wait_for()
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
