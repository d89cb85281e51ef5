"""The list of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import until
from tests.e2e.console.server import DevServer

MANY: Final = 100_000
MOST_ROWS: Final = 80
"""In the document at once."""
MOST_HELD: Final = 10_000
"""In the page's memory. Of all others it holds only the ids."""
FIRST_ROW: Final = 2
"""Number of the first row, after that of the titles."""
TO_THE_END_S: Final = 120
SHOWN: Final = """
[...document.querySelectorAll('[data-row] .foreign')].map((each) => Number(each.textContent.slice(4)) || 0)
""".strip()
"""Numbers of the old runs in the document; 0 for another run."""
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


def test_interaction_1_the_id_that_is_shown_is_found_everywhere(dev: DevServer, page: Any) -> None:
    run = dev.request("GET", "/runs?key=alpha")["rows"][0]["run_id"]
    page.goto(f"{dev.address}/runs")
    shown = page.locator("[data-row]").filter(has_text="alpha").locator("code").first.inner_text()
    assert run.startswith(shown)
    assert len(shown) < len(run)
    page.get_by_role("searchbox", name="Filter runs").fill(shown)
    page.get_by_text("beta").wait_for(state="detached")
    assert keys(page) == ["alpha"]
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Go anywhere")
    dialog.wait_for()
    page.keyboard.insert_text(shown)
    dialog.get_by_role("option").filter(has_text="alpha").click()
    page.wait_for_url(f"**/runs/{run}")
    page.locator("code").get_by_text(shown, exact=True).first.wait_for()
    page.goto(f"{dev.address}/runs/{shown}?tab=events")
    page.wait_for_url(f"**/runs/{run}?tab=events")


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


def test_interaction_1_runs_are_found_by_what_they_wait_for(dev: DevServer, page: Any) -> None:
    dev.start("asks", {"text": "a letter"}, key="person")
    dev.start("moment", 3_600, key="busy")
    page.goto(f"{dev.address}/runs")
    page.get_by_text("busy", exact=True).wait_for()
    page.get_by_role("combobox", name="Waits for").select_option(label="waits for a person")
    page.wait_for_url("**waits%3Aperson**")
    page.get_by_text("busy", exact=True).wait_for(state="detached")
    page.get_by_text("person", exact=True).wait_for()
    assert keys(page) == ["person"]
    page.get_by_role("combobox", name="Waits for").select_option(label="waits for a worker")
    page.get_by_text("No runs match waits:worker.").wait_for()


def numbers(page: Any) -> list[int]:
    """Numbers of the old runs in the document. Each stands at its place of the whole list, without a gap or a repeat."""
    until(page, "!document.querySelector('[role=row][aria-busy]')")
    rows = page.locator("[data-row]").evaluate_all(
        "all => all.map((each) => [Number(each.ariaRowIndex), each.querySelector('.foreign')?.textContent ?? ''])"
    )
    assert 0 < len(rows) < MOST_ROWS
    assert [at for at, _ in rows] == [*range(rows[0][0], rows[0][0] + len(rows))]
    old = [(at, int(key.removeprefix("old-"))) for at, key in rows if key.startswith("old-")]
    assert [number for _, number in old] == [MANY + FIRST_ROW - at for at, _ in old]
    return [number for _, number in old]


def rows_in_memory(page: Any) -> int:
    """Count the rows of runs that the page holds, after its collector has run."""
    devtools = page.context.new_cdp_session(page)
    every = devtools.send("Runtime.evaluate", {"expression": "Object.prototype"})["result"]["objectId"]
    found = devtools.send("Runtime.queryObjects", {"prototypeObjectId": every})["objects"]["objectId"]
    count = "function () { return this.filter((each) => Object.hasOwn(each, 'waiting_for')).length; }"
    asked = {"objectId": found, "functionDeclaration": count, "returnByValue": True}
    held: int = devtools.send("Runtime.callFunctionOn", asked)["result"]["value"]
    devtools.detach()
    return held


def test_interaction_1_a_hundred_thousand_runs_scroll_to_the_end(dev: DevServer, page: Any) -> None:
    with sqlite3.connect(dev.folder / "runs.db", timeout=30) as store:
        store.execute(COPY, (MANY,))
    store.close()
    asked: list[str] = []
    page.on("request", lambda request: "/api/v1/runs?" in request.url and asked.append(request.url))
    page.goto(f"{dev.address}/runs")
    page.get_by_text(f"old-{MANY}", exact=True).wait_for()
    assert numbers(page)[0] == MANY
    page.keyboard.press("End")
    last = page.get_by_role("row").filter(has_text="alpha")
    last.wait_for(timeout=TO_THE_END_S * 1000)
    until(page, "!document.body.textContent.includes('Loading more')")
    assert numbers(page)[-1] == 1
    assert last.get_attribute("aria-selected") == "true"
    assert 0 < rows_in_memory(page) < MOST_HELD
    assert MANY / 1_000 < len(asked) < MANY / 400, "each page is read once"
    seen = len(asked)
    for _ in range(3):
        before = numbers(page)
        page.keyboard.press("PageUp")
        until(page, f"before => Math.max(...{SHOWN}) > before", max(before))
    assert len(asked) < seen + 5
    # Far from the view only ids are kept: what is there is read again, in its place.
    for share in (0.5, 0.25):
        seen = len(asked)
        page.evaluate("share => window.scrollTo(0, document.documentElement.scrollHeight * share)", share)
        until(page, f"near => {SHOWN}.some((each) => Math.abs(each - near) < {MOST_ROWS})", MANY * (1 - share))
        numbers(page)
        assert seen < len(asked) <= seen + 3
    before = numbers(page)
    page.keyboard.press("PageDown")
    until(page, f"before => Math.min(...{SHOWN}) < before", before[-1])
    numbers(page)
    assert rows_in_memory(page) < MOST_HELD
    page.keyboard.press("Home")
    page.get_by_text(f"old-{MANY}", exact=True).wait_for()
    assert numbers(page)[0] == MANY
    page.goto(f"{dev.address}/runs?q=key%3Aold-7")
    page.get_by_text("old-7", exact=True).wait_for()
    assert keys(page) == ["old-7"]
