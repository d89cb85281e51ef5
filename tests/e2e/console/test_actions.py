"""Interaction 12: pause, resume, cancel, retry, signal and extend, each by a form that says beforehand what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import findings
from tests.e2e.console.server import DevServer

FLOWS: Final = Path(__file__).parent / "acting_flows.py"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with workflows that wait and fail. Its folder has a copy of their file."""
    folder = tmp_path_factory.mktemp("acting")
    copied = folder / FLOWS.name
    copied.write_text(FLOWS.read_text())
    server = DevServer(folder, tuple(f"{copied}:{name}" for name in ("awaits", "breaks")))
    yield server
    server.end()


def opened(dev: DevServer, page: Any, run: str, status: str) -> None:
    """Open the page of a run, and wait until it has this status."""
    page.goto(f"{dev.address}/runs/{run}")
    stands(page, status)


def stands(page: Any, status: str) -> None:
    page.locator(f"header [data-status={status}]").first.wait_for()


def asked(page: Any, label: str) -> Any:
    """Press a button of the header, and return the dialog once it has the server's answer."""
    page.get_by_role("button", name=label, exact=True).click()
    dialog = page.get_by_role("alertdialog").or_(page.get_by_role("dialog"))
    dialog.wait_for()
    return dialog


def answers(dialog: Any) -> Any:
    """What will happen, once the server has said it."""
    answer = dialog.get_by_role("region", name="What will happen")
    answer.locator("dl, p strong").first.wait_for()
    return answer


def test_interaction_12_each_command_says_beforehand_what_it_does(dev: DevServer, page: Any) -> None:
    run = dev.start("awaits", {})
    opened(dev, page, run, "waiting")

    dialog = asked(page, "Extend…")
    dialog.get_by_label("Limit", exact=True).select_option("cost")
    dialog.get_by_label("New limit").fill("1.00")
    assert "This would be refused." in answers(dialog).inner_text()
    assert dialog.get_by_role("button", name="Raise the limit").is_disabled()
    dialog.get_by_label("New limit").fill("3.50")
    answers(dialog).get_by_text("at most").wait_for()
    assert "3.50" in answers(dialog).inner_text()
    assert dev.request("GET", f"/runs/{run}")["limit_usd"] == "2.00"
    dialog.get_by_role("button", name="Raise the limit").click()
    dialog.wait_for(state="detached")
    assert dev.request("GET", f"/runs/{run}")["limit_usd"] == "3.50"

    dialog = asked(page, "Pause…")
    answers(dialog).locator("[data-status=paused]").wait_for()
    assert findings(page) == []
    assert dev.request("GET", f"/runs/{run}")["status"] == "waiting"
    dialog.get_by_role("button", name="Pause the run").click()
    stands(page, "paused")

    dialog = asked(page, "Resume…")
    answers(dialog).locator("[data-status=waiting]").wait_for()
    dialog.get_by_role("button", name="Resume the run").click()
    stands(page, "waiting")

    dialog = asked(page, "Signal…")
    assert dialog.get_by_label("Name").input_value() == "paid"
    dialog.get_by_label("Name").fill("other")
    answers(dialog).get_by_text("no step waits for it").wait_for()
    dialog.get_by_label("Name").fill("paid")
    answers(dialog).get_by_text("flow#1").wait_for()
    dialog.get_by_role("button", name="Send the signal").click()
    stands(page, "completed")
    assert page.get_by_role("button", name="Cancel…").count() == 0


def test_cancel_says_what_it_undoes(dev: DevServer, page: Any) -> None:
    run = dev.start("awaits", {})
    opened(dev, page, run, "waiting")
    dialog = asked(page, "Cancel…")
    words = " ".join(answers(dialog).inner_text().split())
    assert "cancels flow#1" in words
    assert "undoes reserve by release" in words
    dialog.get_by_role("button", name="Keep it as it is").click()
    assert dev.request("GET", f"/runs/{run}")["status"] == "waiting"
    asked(page, "Cancel…").get_by_role("button", name="Cancel the run").click()
    stands(page, "cancelled")


def test_a_dialog_follows_the_run(dev: DevServer, page: Any) -> None:
    """Another ends the run while the dialog is open: it says so, and asks the same as before."""
    run = dev.start("awaits", {})
    opened(dev, page, run, "waiting")
    dialog = asked(page, "Pause…")
    answers(dialog).locator("[data-status=paused]").wait_for()
    dev.request("POST", f"/runs/{run}/pause", {})
    answers(dialog).get_by_text("stays").wait_for()
    dialog.get_by_role("button", name="Keep it as it is").click()
    stands(page, "paused")


def test_retry_says_which_step_goes_on(dev: DevServer, page: Any) -> None:
    run = dev.start("breaks", {})
    opened(dev, page, run, "failed")
    dialog = asked(page, "Retry…")
    answers(dialog).get_by_text("flow#1").wait_for()
    (dev.folder / "repaired").touch()
    dialog.get_by_role("button", name="Retry the run").click()
    stands(page, "completed")
