"""How long the console's pages take in a real browser, against a real `holdfast dev` on the built bundle.

    python -m bench.console [--rounds 5] [--runs 100000]

Needs Chromium and `make console`. Prints one JSON line, each figure as its least, median and most of the rounds: the first
paint with nothing kept, from a new run to its row, from a click to a usable timeline of 10,000 events, from a commit to the
node's state in the graph, from a click to a payload of 5 MB, and once from the key End to the last of the runs in the list.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from tests.e2e.console.conftest import FLAGS, chromium, until
from tests.e2e.console.server import DevServer
from tests.e2e.console.test_runs import COPY

_ROOM: Final = Path(__file__).parents[1] / "tests" / "e2e" / "console"
_MAX_MS: Final = 300_000
_EVENTS: Final = 10_000
_ROWS: Final = 36_000
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
_SEEN: Final = """
window.seen = {};
new MutationObserver(() => {
  for (const each of document.querySelectorAll("[data-node]"))
    window.seen[`${each.dataset.node} ${each.dataset.state}`] ??= Date.now();
}).observe(document.body, {subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"]});
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    names = [f"run_flows.py:{name}" for name in ("many", "large")]
    for file in ("run_flows.py", "acting_flows.py"):
        shutil.copy(_ROOM / file, folder)
    server = DevServer(folder, ("flows.py:moment", "flows.py:broken", *names, "acting_flows.py:orders"))
    try:
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium(), args=[*FLAGS])
            sys.stdout.write(json.dumps(_measured(server, browser, options.rounds, options.runs)) + "\n")
            browser.close()
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


def _measured(server: DevServer, browser: Any, rounds: int, runs: int) -> dict[str, Any]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.once)
    page.wait_for_url("**/runs")
    state = context.storage_state()
    context.close()

    def fresh() -> Any:
        context = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 800})
        context.set_default_timeout(_MAX_MS)
        return context.new_page()

    def least(one: Callable[[Any], float]) -> dict[str, float]:
        found = []
        for _ in range(rounds):
            page = fresh()
            found.append(one(page))
            page.context.close()
        return {name: round(of(found), 1) for name, of in (("least", min), ("median", statistics.median), ("most", max))}

    many = server.start("many", _EVENTS // 2)
    large = server.start("large", _ROWS)
    server.start("broken", "no", key="alpha")
    for run in (many, large):
        server.request("GET", f"/runs/{run}", prefer="wait=30")
        while server.request("GET", f"/runs/{run}")["status"] != "completed":
            time.sleep(0.1)
    return {
        "first_paint_ms": least(lambda page: _paint_ms(server, page)),
        "new_run_shown_ms": least(lambda page: _new_run_ms(server, page)),
        "timeline_usable_ms": least(lambda page: _timeline_ms(server, page, many)),
        "graph_late_ms": least(lambda page: _graph_ms(server, page)),
        "payload_5_mb_ms": least(lambda page: _payload_ms(server, page, large)),
        "to_the_end_of_runs_ms": _end_ms(server, fresh(), runs),
    }


def _since_ms(began_s: float) -> float:
    return (time.monotonic() - began_s) * 1_000


def _paint_ms(server: DevServer, page: Any) -> float:
    page.goto(f"{server.address}/runs")
    until(page, f"({_PAINT}) > 0")
    painted: float = page.evaluate(_PAINT)
    return painted


def _new_run_ms(server: DevServer, page: Any) -> float:
    key = f"new-{time.monotonic_ns()}"
    page.goto(f"{server.address}/runs?q=key%3A{key}")
    page.get_by_text("No runs match").wait_for()
    server.start("moment", 0, key=key)
    began_s = time.monotonic()
    page.get_by_text(key, exact=True).wait_for()
    return _since_ms(began_s)


def _timeline_ms(server: DevServer, page: Any, run: str) -> float:
    page.goto(f"{server.address}/runs?q=id%3A{run}")
    link = page.get_by_role("link", name="many, completed")
    link.wait_for()
    began_s = time.monotonic()
    link.click()
    line = page.get_by_role("row").filter(has=page.locator("code", has_text="tick ×")).first
    line.get_by_role("button", name="Open").click()
    page.locator("code", has_text="tick").nth(20).wait_for()
    return _since_ms(began_s)


def _graph_ms(server: DevServer, page: Any) -> float:
    run = server.start("orders", {"customer": "ada", "amount": 7})
    page.goto(f"{server.address}/runs/{run}?tab=graph")
    page.locator("[data-node=wait][data-state=suspended]").wait_for()
    page.evaluate(_SEEN)
    server.request("POST", f"/runs/{run}/signals/go", {"data": True})
    page.locator("[data-node=send][data-state=completed]").wait_for()
    events = server.request("GET", f"/runs/{run}/events?limit=1000")["rows"]
    (ended,) = (each["at"] for each in events if each["type"] == "StepCompleted" and each["step"] == "send#1")
    shown_ms: float = page.evaluate("window.seen['send completed']")
    return shown_ms - datetime.fromisoformat(ended).timestamp() * 1_000


def _payload_ms(server: DevServer, page: Any, run: str) -> float:
    page.goto(f"{server.address}/runs/{run}?step=flow%231:0")
    details = page.get_by_role("complementary", name="Details")
    details.get_by_role("heading", name="rows").wait_for()
    began_s = time.monotonic()
    details.get_by_text("Output", exact=False).first.click()
    page.get_by_role("region", name="Output").get_by_text('"row 0"').wait_for()
    return _since_ms(began_s)


def _end_ms(server: DevServer, page: Any, runs: int) -> float:
    with sqlite3.connect(server.folder / "runs.db", timeout=30) as store:
        store.execute(COPY, (runs,))
    store.close()
    page.goto(f"{server.address}/runs")
    page.get_by_text(f"old-{runs}", exact=True).wait_for()
    began_s = time.monotonic()
    page.keyboard.press("End")
    page.get_by_text("old-1", exact=True).wait_for()
    return round(_since_ms(began_s), 1)


if __name__ == "__main__":
    main()
