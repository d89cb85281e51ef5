"""The list of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import until
from tests.e2e.console.server import DevServer

MANY: Final = 100_000
COPY: Final = """
with recursive number (n) as (select 1 union all select n + 1 from number where n < ?)
insert into runs (run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
  due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, sessions, started_by)
select printf('01000000-%04x-7%03x-8000-%012x', n / 4096, n % 4096, n), seq, tenant, workflow, version, graph_hash, status,
  'old-' || n, started_at_ms - 86400000 - (100000 - n) * 1000, updated_at_ms, ended_at_ms, due_at_ms, limit_nanousd,
  settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, sessions, started_by
from number, (select * from runs where start_key = 'alpha')
"""
"""Rows without histories: the list reads rows only."""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    server = DevServer(tmp_path_factory.mktemp("dev"))
    server.start("broken", "no", key="alpha", tags=["pilot"])
    server.start("moment", 0.01, key="beta")
    yield server
    server.end()


def keys(page: Any) -> list[str]:
    """Start keys of the rows in the document, from the top."""
    found: list[str] = page.locator("[data-row] .foreign").all_inner_texts()
    return found


def test_interaction_1_filters_are_the_servers_and_stay_in_the_address(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/runs")
    page.get_by_text("beta").wait_for()
    page.get_by_role("button", name="failed").click()
    page.get_by_text("beta").wait_for(state="detached")
    page.get_by_text("alpha").wait_for()
    assert keys(page) == ["alpha"]
    assert "status%3Afailed" in page.url
    search = page.get_by_role("searchbox", name="Filter runs")
    search.fill("status:failed tag:pilot")
    search.press("Enter")
    page.wait_for_url("**tag%3Apilot**")
    page.reload()
    page.get_by_text("alpha").wait_for()
    assert search.input_value() == "status:failed tag:pilot"
    assert keys(page) == ["alpha"]
    search.fill("tag:none")
    page.get_by_text("No runs match tag:none.").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    page.get_by_text("beta").wait_for()
    page.get_by_role("combobox", name="Workflow").select_option("moment")
    page.get_by_text("alpha").wait_for(state="detached")
    page.get_by_text("beta").wait_for()
    assert keys(page) == ["beta"]


def test_interaction_1_a_pasted_run_id_opens_the_run_and_back_returns_to_the_filter(dev: DevServer, page: Any) -> None:
    run = dev.request("GET", "/runs?key=alpha")["rows"][0]["run_id"]
    page.goto(f"{dev.address}/runs?q=tag%3Apilot")
    page.get_by_text("alpha").wait_for()
    page.get_by_role("searchbox", name="Filter runs").fill(run)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="broken", exact=True).wait_for()
    assert page.url.endswith(f"/runs/{run}")
    page.go_back()
    page.get_by_text("alpha").wait_for()
    assert "tag%3Apilot" in page.url


def test_interaction_1_new_runs_wait_behind_a_button(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/runs?q=key%3Awaits")
    page.get_by_text("No runs match").wait_for()
    dev.start("broken", "no", key="waits")
    page.get_by_text("waits", exact=True).wait_for()
    page.goto(f"{dev.address}/runs")
    page.get_by_text("alpha").wait_for()
    before = keys(page)
    dev.start("broken", "no", key="newer")
    button = page.get_by_role("button", name="1 new")
    button.wait_for()
    assert keys(page) == before
    button.click()
    page.get_by_text("newer").wait_for()
    assert keys(page) == ["newer", *before]


def test_interaction_1_a_hundred_thousand_runs_scroll(dev: DevServer, page: Any) -> None:
    with sqlite3.connect(dev.folder / "runs.db", timeout=30) as store:
        store.execute(COPY, (MANY,))
    store.close()
    page.goto(f"{dev.address}/runs")
    newest = page.get_by_text(f"old-{MANY}", exact=True)
    newest.wait_for()
    for _ in range(12):
        before = page.evaluate("document.documentElement.scrollHeight")
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        until(page, "before => document.documentElement.scrollHeight > before", before)
    newest.wait_for(state="detached")
    assert 0 < page.locator("[data-row]").count() < 80
    page.evaluate("window.scrollTo(0, 0)")
    newest.wait_for()
    page.goto(f"{dev.address}/runs?q=key%3Aold-7")
    page.get_by_text("old-7", exact=True).wait_for()
    assert keys(page) == ["old-7"]
