"""The first minutes of a newcomer: no runs yet, a form for a plain parameter, a gate that asks who decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.console.conftest import findings
from tests.e2e.console.server import DevServer

FLOWS = Path(__file__).parent / "start_flows.py"
NAMES = ("complain", "batch", "pick", "rate", "hurry", "name_all", "greet", "anything")


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with workflows that take one plain value."""
    server = DevServer(tmp_path_factory.mktemp("start"), tuple(f"{FLOWS}:{name}" for name in NAMES))
    yield server
    server.end()


def starting(dev: DevServer, page: Any, name: str) -> Any:
    """Open the form that starts a workflow."""
    page.goto(f"{dev.address}/workflows/{name}")
    page.get_by_role("button", name="Start a run…").click()
    return page.get_by_role("dialog")


def started(dev: DevServer, page: Any, form: Any) -> Any:
    """Start it, and return what it answers, which is its input. None where it waits."""
    form.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/**")
    run = page.url.split("/runs/")[1].split("?")[0]
    return dev.request("GET", f"/runs/{run}", prefer="wait=10").get("output")


def test_a_newcomer_starts_a_run_says_who_decides_and_approves(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/runs?status=failed")
    page.goto(f"{dev.address}/runs")
    page.get_by_role("main").get_by_role("link", name="workflow", exact=True).click()
    page.wait_for_url("**/workflows")
    form = starting(dev, page, "complain")
    field = form.get_by_label("Complaint")
    field.wait_for()
    assert field.evaluate("field => field === document.activeElement")
    form.get_by_text("What the customer wrote.").wait_for()
    assert findings(page) == []
    complaint = "Order 17 arrived broken, and nobody has answered me for more than a week now."
    page.keyboard.type(complaint)
    assert started(dev, page, form) is None
    assert page.get_by_text("http:").count() == 0, "a start key that the server made up is nothing to a person"
    page.goto(f"{page.url.partition(chr(63))[0]}?tab=logs")
    page.get_by_text("What Python code prints is in the terminal of its process").wait_for()
    page.goto(page.url.partition("?")[0])
    page.get_by_role("link", name="Open the question").wait_for()
    # Whom it asks is a role, and the newcomer has said none: the inbox counts and shows it all the same.
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Inbox 1 waiting").click()
    gate = page.locator("article.gate")
    gate.get_by_text("Only support may decide.").wait_for()
    gate.get_by_text(complaint).wait_for()
    assert gate.get_by_role("button", name="Approve…").is_disabled()
    assert findings(page) == []
    gate.get_by_label("Name").fill("grace")
    gate.get_by_role("button", name="Continue").click()
    gate.get_by_text("Only support may decide.").wait_for()
    gate.get_by_label("Roles").fill("support")
    gate.get_by_role("button", name="Continue").click()
    gate.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    gate.get_by_text("Decided: approve").wait_for()


@pytest.mark.parametrize(
    ("name", "label", "begins", "typed", "expected"),
    [
        ("batch", "Item count", "200", "7", 7),
        ("batch", "Item count", "200", "", 200),
        ("pick", "Size", '"small"', None, "small"),
        ("rate", "Rate", "", "0.5", 0.5),
        ("greet", "Name", "", "Ada", "Ada"),
        ("greet", "Name", "", "", None),
    ],
)
def test_a_plain_parameter_has_a_field_with_its_name_and_default(
    dev: DevServer, page: Any, name: str, label: str, begins: str, typed: str | None, expected: Any
) -> None:
    form = starting(dev, page, name)
    field = form.get_by_label(label)
    assert field.input_value() == begins
    if typed is not None:
        field.fill(typed)
    assert started(dev, page, form) == expected


def test_a_list_and_a_check_box_are_fields_too(dev: DevServer, page: Any) -> None:
    form = starting(dev, page, "name_all")
    form.get_by_role("button", name="Add an item").click()
    form.get_by_label("Names 1", exact=True).fill("ada")
    assert started(dev, page, form) == ["ada"]
    form = starting(dev, page, "hurry")
    form.get_by_label("Is urgent").check()
    assert started(dev, page, form) is True


def test_an_input_of_any_type_is_json_that_says_so_and_has_the_focus(dev: DevServer, page: Any) -> None:
    form = starting(dev, page, "anything")
    form.get_by_text("JSON, like").wait_for()
    page.keyboard.type("a text")
    form.get_by_role("button", name="Start the run").click()
    form.get_by_text("A text needs quotes").wait_for()
    form.get_by_role("button", name="Cancel").click()
    form.wait_for(state="detached")
    form = starting(dev, page, "batch")
    form.get_by_role("button", name="Close this dialog").click()
    form.wait_for(state="detached")


def test_the_settings_say_that_this_server_accepts_keys(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/settings")
    page.get_by_text("holdfast dev accepts it").wait_for()
    made = dev.request("POST", "/keys", {"name": "bot", "may": ["viewer"]})
    assert dev.request("GET", "/runs", authorization=f"Bearer {made['key']}")["rows"] is not None
