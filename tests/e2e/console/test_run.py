"""The page of a run: its timeline, events, payloads and money."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.console.conftest import Errors, findings, until
from tests.e2e.console.server import DevServer

FLOWS: Final = Path(__file__).parent / "run_flows.py"
NAMES: Final = ("many", "large", "spends", "slow", "lost", "part", "shapes")
EVENTS: Final = 10_000
MOST_ROWS: Final = 200
MOST_REQUESTS: Final = 12
MOST_BYTES: Final = 1_000_000
"""Of the API's answers before the timeline is usable, as JSON without compression."""
MOST_WAIT_S: Final = 120.0
ROWS: Final = 36_000
MOST_PARSED: Final = 200_000
"""Characters that the page's own thread parses as JSON, or writes, at once. Larger payloads are a worker's work."""
WATCH_JSON: Final = """
window.largest = 0;
const { parse, stringify } = JSON;
JSON.parse = (text, ...more) => {
  window.largest = Math.max(window.largest, String(text).length);
  return parse(text, ...more);
};
JSON.stringify = (...given) => {
  const text = stringify(...given);
  window.largest = Math.max(window.largest, text?.length ?? 0);
  return text;
};
"""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    folder = tmp_path_factory.mktemp("dev")
    shutil.copy(FLOWS, folder)
    # Beside one of the server's own, with which it restarts.
    server = DevServer(folder, ("flows.py:moment", *(f"{FLOWS.name}:{name}" for name in NAMES)))
    yield server
    server.end()


def waited(dev: DevServer, run: str, *statuses: str) -> dict[str, Any]:
    """Return a run once it has one of the statuses."""
    until_s = time.monotonic() + MOST_WAIT_S
    while (found := dev.request("GET", f"/runs/{run}"))["status"] not in statuses:
        assert time.monotonic() < until_s, found
        time.sleep(0.1)
    return dict(found)


@pytest.fixture(scope="module")
def shapes(dev: DevServer) -> str:
    run = dev.start("shapes", str(dev.folder / "flaky.txt"), key="shapes")
    waited(dev, run, "waiting")
    until_s = time.monotonic() + MOST_WAIT_S
    while not any(each["kind"] == "gate" for each in dev.request("GET", f"/runs/{run}")["waiting_for"]):
        assert time.monotonic() < until_s
        time.sleep(0.1)
    return run


@pytest.fixture(scope="module")
def many(dev: DevServer) -> str:
    run = dev.start("many", EVENTS // 2, key="many")
    assert waited(dev, run, "completed")["events"] > EVENTS
    return run


def line(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.locator("code", has_text=name)).first


def test_interaction_2_ten_thousand_events_are_usable_after_few_requests(dev: DevServer, page: Any, many: str) -> None:
    """The further pages of its operations are held back until the timeline was used."""
    answers: list[Any] = []
    held: list[Any] = []
    page.on("response", lambda answer: f"/api/v1/runs/{many}" in answer.url and answers.append(answer))
    is_held = True
    page.route("**/operations?*cursor=*", lambda route: held.append(route) if is_held else route.continue_())
    page.goto(f"{dev.address}/runs?q=key%3Amany")
    page.get_by_role("link", name="many, completed").click()
    line(page, "tick ×").get_by_role("button", name="Open").click()
    page.locator("code", has_text="tick").nth(20).wait_for()
    assert page.locator("[role=row]").count() < MOST_ROWS
    # An event of the run that comes late has an answer read again.
    sizes = {each.url: len(each.body()) for each in answers}
    assert 3 < len(sizes) < MOST_REQUESTS, sizes
    assert sum(sizes.values()) < MOST_BYTES, sizes
    assert len(held) == 1, "one page after the other"
    is_held = False
    held[0].continue_()
    line(page, "tick × 5,000").wait_for(timeout=MOST_WAIT_S * 1000)
    assert page.locator("[role=row]").count() < MOST_ROWS
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    until(page, "document.querySelector('[role=row]:last-child')?.ariaRowIndex > 4900")
    assert page.locator("[role=row]").count() < MOST_ROWS


def test_interaction_2_tries_and_waits_are_bars_items_and_children_are_folded(dev: DevServer, page: Any, shapes: str) -> None:
    page.goto(f"{dev.address}/runs/{shapes}")
    for name in ("flaky", "measured", "part × 6", "sleep", "question to a person"):
        line(page, name).wait_for()
    tones = page.locator("[role=row] .timeline-bar").evaluate_all("all => all.map((each) => each.dataset.tone)")
    assert {"ok", "bad", "retry", "wait"} <= {*tones}
    assert line(page, "measured").get_by_text("12 of 12 done").is_visible()
    assert page.locator("code", has_text="[3]").count() == 0
    line(page, "measured").get_by_role("button", name="Open").click()
    page.locator("code", has_text="[3]").first.wait_for()
    # The keys do the same: to the line, fold it, open its details, close them.
    line(page, "measured").focus()
    page.keyboard.press("ArrowLeft")
    page.locator("code", has_text="[3]").first.wait_for(state="detached")
    page.keyboard.press("Enter")
    details = page.get_by_role("complementary", name="Details")
    details.get_by_text("12 of 12 done").first.wait_for()
    assert "step=" in page.url
    page.keyboard.press("Escape")
    until(page, "!location.search.includes('step=')")


def test_interaction_2_an_attempt_that_was_lost_is_a_bar_of_its_own(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected.append("ERR_")
    dev.restart()
    patient = dev.folder / "patient"
    run = dev.start("lost", str(patient), key="lost")
    page.goto(f"{dev.address}/runs/{run}")
    line(page, "flow").locator("[data-tone=busy]").wait_for()
    dev.kill()
    dev.restart()
    line(page, "flow").locator("[data-tone=lost]").wait_for(timeout=MOST_WAIT_S * 1000)
    line(page, "flow").get_by_text("2 attempts · 1 lost with its process").wait_for()
    patient.write_text("")
    line(page, "flow").locator("[data-tone=ok]").wait_for()
    line(page, "flow").click()
    details = page.get_by_role("complementary", name="Details")
    assert details.get_by_role("listitem").filter(has_text="lost").count() == 1


def test_interaction_2_zoom_and_selection_are_in_the_address(dev: DevServer, page: Any, shapes: str) -> None:
    page.goto(f"{dev.address}/runs/{shapes}")
    line(page, "sleep").click()
    strip = page.locator(".timeline-strip")
    box = strip.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 8, steps=4)
    page.mouse.up()
    until(page, "location.search.includes('zoom=')")
    page.reload()
    page.locator(".timeline-window").wait_for()
    page.get_by_role("complementary", name="Details").get_by_role("heading", name="sleep").wait_for()
    page.keyboard.press("f")
    until(page, "!location.search.includes('zoom=')")


def test_interaction_4_the_events_of_a_run_have_no_gap_and_no_repeat(dev: DevServer, page: Any, many: str) -> None:
    page.goto(f"{dev.address}/runs/{many}?tab=events")
    page.locator("[data-seq='1'][data-loaded]").wait_for()
    count = dev.request("GET", f"/runs/{many}")["events"]
    for share, last in ((0.5, 1000), (1.0, count)):
        page.evaluate("share => window.scrollTo(0, document.documentElement.scrollHeight * share)", share)
        until(
            page,
            f"""() => {{
          const rows = [...document.querySelectorAll('[data-seq]')];
          return rows.length > 5 && rows.every((each) => 'loaded' in each.dataset) && rows.at(-1).dataset.seq >= {last};
        }}""",
        )
        numbers = page.locator("[data-seq]").evaluate_all("all => all.map((each) => Number(each.dataset.seq))")
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        assert len(numbers) < MOST_ROWS
    assert numbers[-1] == count
    page.get_by_text("Run completed").wait_for()


def test_interaction_4_the_tail_of_a_run_is_followed_over_a_restart(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected.append("ERR_")
    run = dev.start("slow", 40, key="slow")
    page.goto(f"{dev.address}/runs/{run}?tab=events")
    page.get_by_text("following: new events appear here").wait_for()
    until(page, "[...document.querySelectorAll('[data-loaded]')].some((each) => each.dataset.seq > 12)")
    dev.restart()
    waited(dev, run, "completed")
    page.get_by_text("Run completed").wait_for()
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    until(page, "[...document.querySelectorAll('[data-seq]')].every((each) => 'loaded' in each.dataset)")
    numbers = page.locator("[data-seq]").evaluate_all("all => all.map((each) => Number(each.dataset.seq))")
    assert numbers == [*range(numbers[0], numbers[-1] + 1)]
    assert numbers[-1] == dev.request("GET", f"/runs/{run}")["events"]


def test_interaction_5_a_payload_of_5_mb_does_not_block_the_page(dev: DevServer, open_page: Callable[..., Any]) -> None:
    run = dev.start("large", ROWS, key="large")
    waited(dev, run, "completed")
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(WATCH_JSON)
    page.goto(f"{dev.address}/runs/{run}?step=flow%231:0")
    details = page.get_by_role("complementary", name="Details")
    details.get_by_role("heading", name="rows").wait_for()
    details.get_by_text("Output", exact=False).first.click()
    payload = page.get_by_role("region", name="Output")
    payload.get_by_text('"row 0"').wait_for()
    page.get_by_role("button", name="Fold all").click()
    payload.get_by_text(f"{ROWS * 5:,} lines").wait_for()
    search = page.get_by_role("searchbox", name="Search Output")
    search.fill(f"row {ROWS - 1}")
    page.get_by_text("1 in 1 lines").wait_for()
    payload.get_by_text(f'"row {ROWS - 1}"').wait_for()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.locator(".payload-line").count() < MOST_ROWS
    assert 0 < page.evaluate("window.largest") < MOST_PARSED
    copied = page.evaluate("navigator.clipboard.readText()")
    assert len(copied) > 5_000_000
    assert copied.startswith('{"rows":[{"id":0,"name":"row 0"')


def test_interaction_8_amounts_are_the_api_s_to_the_nano_dollar(dev: DevServer, page: Any) -> None:
    paid = dev.folder / "paid"
    run = dev.start("spends", str(paid), key="spends")
    end_s = time.monotonic() + MOST_WAIT_S
    while (budget := dev.request("GET", f"/runs/{run}/budget"))["held_usd"] != "0.01":
        assert time.monotonic() < end_s
        time.sleep(0.05)
    page.goto(f"{dev.address}/runs/{run}?tab=costs")
    shown = {"Spent": "settled_usd", "Held": "held_usd", "In doubt": "in_doubt_usd", "Left": "available_usd"}
    for name, key in shown.items():
        amount = page.locator(f"[data-amount='{name}'] .run-money-value [data-usd='{budget[key]}']")
        amount.wait_for()
        assert Decimal(amount.inner_text().replace("$", "")) == Decimal(budget[key])
    assert budget["settled_usd"] == "0.000545002"
    assert page.locator("[data-amount='Spent']").get_by_text("of $1.00").is_visible()
    page.get_by_role("img", name="Left of the limit").wait_for()
    nodes = {each["node"]: each["cost_usd"] for each in dev.request("GET", f"/runs/{run}/costs")["rows"]}
    assert page.get_by_role("region", name="By node").locator(f"[data-usd='{nodes['flow']}']").first.is_visible()
    page.get_by_role("region", name="By model and tool").get_by_text("2 calls").wait_for()
    paid.write_text("")
    page.locator("[data-amount='Spent'] [data-usd='0.010545002']").wait_for()
    page.locator("[data-amount='Held'] [data-usd='0.00']").wait_for()


def test_what_others_wrote_is_text_and_hidden_characters_are_marked(dev: DevServer, page: Any, shapes: str) -> None:
    page.goto(f"{dev.address}/runs/{shapes}?step=flow%231:0")
    details = page.get_by_role("complementary", name="Details")
    details.get_by_text("Output", exact=False).first.click()
    details.get_by_text("onerror=alert(1)").first.wait_for()
    assert page.locator("img").count() == 0
    assert {*details.locator(".unseen-mark").all_inner_texts()} == {"U+202E", "U+200B"}


def test_a_run_that_there_is_not_is_said_with_a_way_back(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected.append("404")
    page.goto(f"{dev.address}/runs/01a2201a-0000-7000-8000-000000000000")
    page.get_by_role("alert").wait_for()
    page.get_by_role("main").get_by_role("link", name="Runs").click()
    page.get_by_role("heading", name="Runs").wait_for()


@pytest.mark.parametrize("tab", ["timeline", "conversation", "events", "costs", "effects", "children", "logs"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_tab_has_a_serious_finding_or_scrolls_sideways(
    dev: DevServer, open_page: Callable[..., Any], shapes: str, tab: str, width: int, scheme: str
) -> None:
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(f"{dev.address}/runs/{shapes}?tab={tab}&step=flow%231:0")
    page.locator(".tabs [aria-current]", has_text=tab.capitalize()).wait_for()
    page.get_by_text("Loading").first.wait_for(state="detached")
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
