"""A browser without a session is led to the sign-in, and from there to the page that it asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.console.conftest import MOST_MS, WATCH, Errors, findings
from tests.e2e.console.server import TOKEN, DevServer


@pytest.fixture
def stranger(browser: Any, errors: Errors) -> Any:
    """A page without a session."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    context.set_default_timeout(MOST_MS)
    context.add_init_script(WATCH)
    context.on("page", errors.watch)
    errors.expected += ["401"]
    yield context.new_page()
    context.close()
    assert errors.unexpected() == []


def test_a_stranger_signs_in_and_comes_to_the_page_asked_for(dev: DevServer, stranger: Any) -> None:
    stranger.goto(f"{dev.address}/runs?q=mine")
    stranger.wait_for_url("**/sign-in?next=%2Fruns%3Fq%3Dmine")
    stranger.get_by_label("API token or key").fill("not-the-token-of-anybody")
    assert findings(stranger) == []
    stranger.get_by_role("button", name="Sign in").click()
    stranger.get_by_role("alert").wait_for()
    stranger.get_by_label("API token or key").fill(TOKEN)
    stranger.get_by_role("button", name="Sign in").click()
    stranger.wait_for_url("**/runs?q=mine")
    stranger.get_by_role("button", name="Clear the filter").wait_for()


def test_a_session_elsewhere_is_seen_and_ended(dev: DevServer, stranger: Any, page: Any) -> None:
    stranger.goto(f"{dev.address}/sign-in?next=%2Finbox")
    stranger.get_by_label("API token or key").fill(TOKEN)
    stranger.get_by_role("button", name="Sign in").click()
    stranger.wait_for_url("**/inbox**")
    page.goto(f"{dev.address}/settings?of=sessions")
    rows = page.get_by_role("table", name="Sessions").get_by_role("row")
    page.get_by_text("this browser").wait_for()
    others = rows.filter(has_not_text="this browser").filter(has_text="with a token")
    before = others.count()
    others.first.get_by_role("button", name="End…").click()
    page.get_by_role("alertdialog").get_by_text("has to sign in again, at once").wait_for()
    assert findings(page) == []
    page.get_by_role("button", name="End the session").click()
    page.get_by_role("alertdialog").wait_for(state="hidden")
    others.nth(before - 1).wait_for(state="detached")
    stranger.goto(f"{dev.address}/runs")
    stranger.wait_for_url("**/sign-in?**")
    page.get_by_role("button", name="all sessions").click()
    page.get_by_text("this browser").wait_for()
    page.get_by_role("button", name="End all of a person…").click()
    page.get_by_role("dialog").get_by_label("Person, token or key").fill("nobody of that name")
    page.get_by_role("button", name="End the sessions").click()
    page.get_by_text("0 sessions of nobody of that name ended.").wait_for()


def test_one_who_signs_out_sees_nothing_more(dev: DevServer, stranger: Any) -> None:
    run = dev.start("broken", "no", key="secret chairs")
    stranger.goto(f"{dev.address}/sign-in")
    stranger.get_by_label("API token or key").fill(TOKEN)
    stranger.get_by_role("button", name="Sign in").click()
    stranger.get_by_text("secret chairs").wait_for()
    stranger.get_by_role("button", name="Menu").click()
    stranger.get_by_role("button", name="Sign out").click()
    stranger.wait_for_url("**/sign-in?**")
    stranger.goto(f"{dev.address}/runs/{run}")
    stranger.wait_for_url("**/sign-in?**")
    assert stranger.get_by_text("secret chairs").count() == 0


def test_the_printed_link_opened_again_leads_to_the_console_or_says_why_not(dev: DevServer, stranger: Any, page: Any) -> None:
    page.goto(dev.once)  # signed in, whoever has used it before
    page.wait_for_url("**/runs")
    errors = stranger.goto(dev.once)
    assert errors.status == 200
    stranger.get_by_role("alert").get_by_text("The code of this address was used").wait_for()
    assert findings(stranger) == []
