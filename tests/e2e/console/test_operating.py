"""What an operator sees and does: why steps wait, pools, workers, dead letters, money, keys. One server serves all tests."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from holdfast import Workflow, sync, task
from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.testing.model_server import ModelServer
from tests.e2e.console.conftest import MOST_MS, Errors, findings
from tests.e2e.console.server import DevServer
from tests.wire.kit import Process, holdfast

CODE: Final = Path(__file__).parent / "operating.py"
NAMES: Final = ("browse", "render", "sheet", "letters", "ask")
LEASE_S: Final = 10.0
"""Of a process on SQLite; a killed one is known at once, and marked when the next sweep looks."""
WAITING: Final = 3
LETTERS: Final = 3


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with a model server, where two steps hold all slots of a pool and some wait, a step waits for a label,
    letters have failed and money was spent."""
    folder = tmp_path_factory.mktemp("operating")
    with ModelServer(journal=folder / "calls.jsonl") as models:
        environment = {**models.environment, "OPERATING_FOLDER": str(folder)}
        server = DevServer(folder, tuple(f"{CODE}:{name}" for name in NAMES), **environment)
        try:
            server.request("POST", "/pools", {"name": "BROWSERS", "slots": 2})
            for _ in range(2 + WAITING):
                server.request("POST", "/runs", {"workflow": "browse"})
            server.request("POST", "/runs", {"workflow": "render"})
            for number in range(LETTERS):
                server.start("letters", {"name": f"bob{number}", "address": "nowhere"})
            for number in range(2):
                server.start("ask", f"what {number}?", team="search" if number else None)
            server.request("POST", "/budgets", {"tenant": "default", "period": "day", "limit_usd": "5.000000001"})
            await_(lambda: len(server.request("GET", "/dead-letters")["rows"]) == LETTERS)
            await_(lambda: len(server.request("GET", "/queue")["rows"]) == WAITING + 1)
            await_(lambda: len(server.request("GET", "/runs?status=completed")["rows"]) == 2)
            yield server
        finally:
            server.end()


def await_(met: Callable[[], Any], within_s: float = MOST_MS / 1000) -> None:
    """Look until it is so. Fails after a while."""
    late_s = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < late_s, "it did not come to that"
        time.sleep(0.05)


def cells(page: Any, table: str) -> list[str]:
    """The texts of a table's rows, without its heading."""
    return [" ".join(each.split()) for each in page.get_by_role("table", name=table).get_by_role("row").all_inner_texts()[1:]]


# --- 9: pools, and why a step waits -----------------------------------------------------------------------------------


def test_9_why_does_this_wait_is_one_click_from_any_waiting_step(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/queue")
    page.get_by_role("button", name=f"steps wait for 1 of BROWSERS {WAITING}").wait_for()
    page.get_by_role("button", name="step waits for label gpu 1").wait_for()
    page.get_by_role("table", name="Waiting steps").get_by_role("link", name=re.compile("browse")).nth(1).click()
    why = page.get_by_role("region", name="Why it waits")
    why.get_by_text("1 of").wait_for()
    for words in ("0 of 2", "not known: no step of this kind has ended yet", "Held by", "What comes back is kept for"):
        why.get_by_text(words).first.wait_for()
    held = {each["run"] for each in dev.request("GET", "/pools/BROWSERS")["holders"]}
    shown = why.get_by_role("listitem").get_by_role("link")
    assert {str(each.get_attribute("href")).removeprefix("/runs/") for each in shown.all()} == held
    assert "run=" in page.url, "the answer has an address"
    page.get_by_role("table", name="Waiting steps").get_by_role("link", name=re.compile("render")).click()
    why.get_by_text("no worker has label gpu").wait_for()
    why.get_by_text("never, unless you add a worker").wait_for()


def test_9_a_pool_shows_holders_waiters_and_headroom(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/pools")
    page.get_by_role("table", name="Pools").get_by_text("2 of 2").wait_for()
    page.get_by_role("link", name="Pool BROWSERS").click()
    page.get_by_text("2 of 2 in use").wait_for()
    page.get_by_role("heading", name=f"{WAITING} steps wait for it").wait_for()
    assert len(cells(page, "Steps that hold it")) == 2
    assert len(cells(page, "Steps that wait for it")) == WAITING
    page.get_by_role("button", name="Change the limit…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Slots").fill("1")
    dialog.get_by_text("What is in use above the new limit stays in use").wait_for()
    dialog.get_by_label("Slots").fill("3")
    dialog.get_by_text("2 at a time → 3 at a time").wait_for()
    dialog.get_by_role("button", name="Change the limit").click()
    dialog.wait_for(state="hidden")
    page.get_by_text("3 of 3 in use").wait_for()
    page.get_by_role("heading", name=f"{WAITING - 1} steps wait for it").wait_for()
    assert dev.request("GET", "/pools/BROWSERS")["limit"] == 3


def test_9_a_step_that_waits_for_others_of_its_kind_says_when_it_starts(dev: DevServer, page: Any) -> None:
    (dev.folder / "go").touch()
    await_(lambda: not dev.request("GET", "/pools/BROWSERS")["holders"])
    (dev.folder / "go").unlink()
    for _ in range(3 + WAITING):
        dev.request("POST", "/runs", {"workflow": "browse"})
    await_(lambda: len(dev.request("GET", "/pools/BROWSERS")["waiting"]) == WAITING)
    step = dev.request("GET", "/pools/BROWSERS")["waiting"][0]
    page.goto(f"{dev.address}/queue?run={step['run']}&step={quote(step['step'])}")
    page.get_by_role("region", name="Why it waits").get_by_text(
        re.compile("if steps take as long as the last 5 did")
    ).wait_for()


RATE: Final = "HAIKU_RPM"
CALLS: Final = 3


def test_9_a_rate_lists_the_model_calls_that_wait_and_when_each_starts(dev: DevServer, page: Any) -> None:
    dev.request(
        "POST", "/pools", {"name": RATE, "rate": 1, "per_s": 60, "burst": 1, "counts": "requests", "of": "claude-haiku-4-5"}
    )
    runs = [dev.start("ask", f"when {number}?") for number in range(CALLS + 1)]
    await_(lambda: dev.request("GET", f"/pools/{RATE}")["waiting_calls"] == CALLS)
    await_(lambda: all(each["starts_at"] for each in dev.request("GET", f"/pools/{RATE}")["waiting"]))
    waiting = dev.request("GET", f"/pools/{RATE}")["waiting"]
    assert {each["run"] for each in waiting} < set(runs)
    for place, each in enumerate(waiting, 1):  # the page, the query and the run agree
        (why,) = dev.request("GET", f"/queue?run={each['run']}")["rows"]
        (wait,) = dev.request("GET", f"/runs/{each['run']}")["waiting_for"]
        assert (why["pool"], why["place"], why["model"], wait["kind"]) == (RATE, place, "claude-haiku-4-5", "pool")
        assert RATE in wait["about"]
    page.goto(f"{dev.address}/pools/{RATE}")
    page.get_by_role("heading", name=f"{CALLS} model calls wait for it").wait_for()
    rows = cells(page, "Model calls that wait for it")
    assert all("claude-haiku-4-5" in row and "about" in row for row in rows)
    page.get_by_role("link", name=re.compile("Why does it wait: ask")).nth(1).click()
    why_region = page.get_by_role("region", name="Why it waits")
    why_region.get_by_text("when the pool has refilled").wait_for()
    why_region.get_by_text("for a call of").wait_for()
    page.goto(f"{dev.address}/runs/{waiting[-1]['run']}")
    page.get_by_role("link", name="Why does it wait?").first.click()
    page.get_by_role("region", name="Why it waits").get_by_text("when the pool has refilled").wait_for()
    assert findings(page) == []
    fast = {"name": RATE, "rate": 6000, "per_s": 60, "counts": "requests", "of": "claude-haiku-4-5"}
    dev.request("POST", "/pools", fast)
    await_(lambda: all(dev.request("GET", f"/runs/{run}")["status"] == "completed" for run in runs), 30.0)


# --- 10: workers ------------------------------------------------------------------------------------------------------


def papers(dev: DevServer) -> list[Any]:
    return [row for row in dev.request("GET", "/workers")["rows"] if "paper" in row["labels"]]


def worker(dev: DevServer, workflow: str = "render") -> Process:
    """A real worker on the store of `dev`, which is known there."""
    process = holdfast(
        "worker",
        f"{CODE}:{workflow}",
        "--label",
        "paper",
        "--store",
        f"sqlite:///{dev.folder / 'runs.db'}",
        folder=dev.folder,
        OPERATING_FOLDER=str(dev.folder),
    )
    await_(lambda: "live" in [row["state"] for row in papers(dev)])
    return process


def test_10_a_killed_worker_is_marked_within_its_lease(dev: DevServer, page: Any) -> None:
    process = worker(dev)
    page.goto(f"{dev.address}/workers")
    row = page.get_by_role("row").filter(has_text="paper")
    row.get_by_text("free").wait_for()
    os.kill(process.pid, 9)
    killed_s = time.monotonic()
    row.get_by_text("lost", exact=True).wait_for()
    assert time.monotonic() - killed_s < LEASE_S
    page.get_by_text("1 lost in the last hour").wait_for()
    process.process.wait(MOST_MS / 1000)
    assert worker(dev).stop() == 0
    await_(lambda: [row["state"] for row in papers(dev)] == ["lost"])


def test_10_the_load_of_a_worker_is_what_it_works_at(dev: DevServer, page: Any) -> None:
    process = worker(dev, "sheet")
    (idle,) = [row for row in papers(dev) if row["state"] == "live"]
    page.goto(f"{dev.address}/workers")
    row = page.get_by_role("row").filter(has_text=re.compile("paper")).filter(has_text=f"of {idle['slots']}")
    row.get_by_text(f"0 of {idle['slots']}").wait_for()
    runs = [dev.request("POST", "/runs", {"workflow": "sheet"})["run_id"] for _ in range(2)]
    row.get_by_text(f"2 of {idle['slots']}").wait_for()
    row.get_by_text("at work").first.wait_for()
    row.get_by_text("and 1 more").wait_for()
    (dev.folder / "ink").touch()
    row.get_by_text(f"0 of {idle['slots']}").wait_for()
    row.get_by_text("free").wait_for()
    assert {dev.request("GET", f"/runs/{run}")["status"] for run in runs} == {"completed"}
    assert process.stop() == 0


# --- 11: dead letters -------------------------------------------------------------------------------------------------


def sent(dev: DevServer) -> list[str]:
    ledger = dev.folder / "sent"
    return ledger.read_text().splitlines() if ledger.exists() else []


def test_11_a_dead_letter_is_edited_against_its_schema_and_retried(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/dead-letters")
    page.get_by_role("link", name=re.compile("Dead letter of letters")).first.click()
    page.get_by_text("'nowhere' is no address").first.wait_for()
    page.get_by_role("button", name="Edit the input…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Copies").fill("12")
    dialog.get_by_role("button", name="Keep the edit").click()
    dialog.get_by_text("At most 9.").wait_for()
    dialog.get_by_label("Copies").fill("2")
    dialog.get_by_label("Address").fill("bob@example.com")
    dialog.get_by_text("bob@example.com").last.wait_for()  # the change, before it is sent
    dialog.get_by_role("button", name="Keep the edit").click()
    dialog.wait_for(state="hidden")
    page.get_by_text("edited").first.wait_for()
    assert sent(dev) == []
    page.get_by_role("button", name="Retry…").click()
    page.get_by_role("alertdialog").get_by_text("It is tried with what was edited.").wait_for()
    page.get_by_role("button", name="Retry the step").click()
    page.get_by_text("closed").first.wait_for()
    await_(lambda: sent(dev) == ["bob@example.com 2"])


def test_11_the_arguments_of_a_failed_call_are_a_form_of_the_tool_s_schema(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected += ["404", "412"]
    run = dev.start("letters", {"name": "eve", "address": "nowhere"})
    await_(lambda: len(dev.request("GET", f"/dead-letters?run={run}")["rows"]) == 1)
    letter = dev.request("GET", f"/dead-letters?run={run}")["rows"][0]["letter"]
    page.goto(f"{dev.address}/dead-letters/{quote(letter, safe='')}")
    page.get_by_role("button", name="Edit the arguments…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Copies").fill("many")
    dialog.get_by_role("button", name="Keep the edit").click()
    dialog.get_by_text("This is not a number.").wait_for()
    dialog.get_by_label("Copies").fill("2.5")
    dialog.get_by_text("This must be a whole number.").wait_for()
    dialog.get_by_label("Copies").fill("3")
    dialog.get_by_label("Address").fill("eve@example.com")
    dialog.get_by_role("button", name="Keep the edit").click()
    dialog.wait_for(state="hidden")
    page.get_by_role("heading", name="Changed for the next attempt").wait_for()
    before = len(sent(dev))
    page.get_by_role("button", name="Close…").click()
    dialog.get_by_text("With an output the run goes on with it").wait_for()
    dev.request("POST", f"/dead-letters/{quote(letter, safe='')}/retry")  # somebody else is first
    await_(lambda: sent(dev)[before:] == ["eve@example.com 3"])
    dialog.get_by_role("button", name="Close it").click()
    dialog.get_by_role("alert").wait_for()
    dialog.get_by_text("Someone else was first").wait_for()


def test_a_dead_letter_is_closed(dev: DevServer, page: Any) -> None:
    run = dev.start("letters", {"name": "mel", "address": "nowhere"})
    await_(lambda: len(dev.request("GET", f"/dead-letters?run={run}")["rows"]) == 1)
    letter = dev.request("GET", f"/dead-letters?run={run}")["rows"][0]["letter"]
    page.goto(f"{dev.address}/dead-letters/{quote(letter, safe='')}")
    page.get_by_role("button", name="Close…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason, kept in the run's history").fill("The customer is gone.")
    dialog.get_by_role("button", name="Close it").click()
    dialog.wait_for(state="hidden")
    page.get_by_text("closed").first.wait_for()
    await_(lambda: dev.request("GET", f"/runs/{run}")["status"] == "failed")
    assert page.get_by_role("button", name="Retry…").count() == 0


def test_the_audit_log_is_filtered_by_the_server_and_newest_first(dev: DevServer, page: Any) -> None:
    run = dev.start("render", {})
    dev.request("POST", f"/runs/{run}/pause")
    dev.request("POST", f"/runs/{run}/resume")
    page.goto(f"{dev.address}/audit")
    page.get_by_label("Run, gate or name").fill(run)
    page.wait_for_url(f"**/audit?about={run}")
    await_(lambda: [row.split()[-4:-3] for row in cells(page, "Audit")] and len(cells(page, "Audit")) == 3)
    numbers = [int(row.split()[0]) for row in cells(page, "Audit")]
    assert numbers == sorted(numbers, reverse=True)
    page.get_by_label("Action").fill("Pause")
    page.wait_for_url("**action=Pause**")
    await_(lambda: len(cells(page, "Audit")) == 1)
    assert "Pause" in cells(page, "Audit")[0]
    page.get_by_role("table", name="Audit").locator(f'a[href="/runs/{run}"]').click()
    page.wait_for_url(f"**/runs/{run}")
    page.goto(f"{dev.address}/audit?name=nobody")
    page.get_by_text("No entries match who “nobody”.").wait_for()


def test_11_all_that_match_are_retried_after_a_dry_run(dev: DevServer, page: Any) -> None:
    open_ = len(dev.request("GET", "/dead-letters")["rows"])
    page.goto(f"{dev.address}/dead-letters?workflow=letters")
    page.get_by_role("button", name="Retry all that match…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(f"All {open_} that match: it would retry {open_}.").wait_for()
    assert len(dev.request("GET", "/dead-letters")["rows"]) == open_, "a dry run changes nothing"
    dialog.get_by_role("button", name=f"Retry {open_}").click()
    dialog.get_by_text(f"{open_} retried").wait_for()
    dialog.get_by_role("button", name="Close", exact=True).click()
    dialog.wait_for(state="hidden")
    await_(lambda: all(row["attempts"] > 1 for row in dev.request("GET", "/dead-letters")["rows"]))


# --- 8: money ---------------------------------------------------------------------------------------------------------


def shown_usd(place: Any) -> list[str]:
    """Amounts as the API has them, that a place shows; what is on the screen says the same."""
    found = []
    for each in place.locator(".money").all():
        exact = each.get_attribute("data-usd")
        assert Decimal(each.inner_text().replace("$", "").replace(",", "")) == Decimal(exact)
        found.append(exact)
    return found


def test_8_budgets_and_costs_are_the_api_s_to_the_nano_dollar(dev: DevServer, page: Any) -> None:
    day = dev.request("GET", "/budgets?tenant=default")["books"][0]
    page.goto(f"{dev.address}/budgets")
    card = page.get_by_role("region", name=day["scope"])
    card.get_by_text("Left").wait_for()
    names = ("settled_usd", "held_usd", "in_doubt_usd", "limit_usd", "left_usd")
    assert shown_usd(card) == [day[name] for name in names]
    page.locator(".days canvas").wait_for()
    page.get_by_role("table", name="All limits").get_by_role("row").nth(1).wait_for()
    costs = dev.request("GET", "/costs")["rows"]
    by_node: dict[str, Decimal] = {}
    for row in costs:
        name = f"{row['workflow']} / {row['node']}"
        by_node[name] = by_node.get(name, Decimal(0)) + Decimal(row["cost_usd"])
    page.goto(f"{dev.address}/costs?by=node")
    table = page.get_by_role("table", name="Costs by node")
    table.get_by_role("row").nth(len(by_node)).wait_for()
    assert sorted(map(Decimal, shown_usd(table))) == sorted(by_node.values())
    total = dev.request("GET", "/costs/summary?by=total")["rows"][0]["cost_usd"]
    assert shown_usd(page.locator("[data-total]")) == [total]
    assert sum(by_node.values()) == Decimal(total) == Decimal(day["settled_usd"])
    page.locator(".days canvas").wait_for()


def test_8_costs_by_hour_and_team_burn_a_limit_down_as_the_api_says(dev: DevServer, page: Any) -> None:
    dev.request("POST", "/budgets", {"tenant": "default", "team": "search", "period": "day", "limit_usd": "0.750000001"})
    teams = dev.request("GET", "/costs/summary?by=tenant&by=team&order=cost")["rows"]
    assert {each["team"] for each in teams} == {"", "search"}
    page.goto(f"{dev.address}/costs?by=team&days=1&each=hour")
    table = page.get_by_role("table", name="Costs by team")
    table.get_by_text("default / search").wait_for()
    assert shown_usd(table) == [each["cost_usd"] for each in teams]
    page.get_by_role("figure", name="Costs by hour and team, in dollars").locator("canvas").wait_for()
    burnt = dev.request("GET", "/budgets/burn-down?tenant=default&team=search")["rows"][-1]
    card = page.get_by_role("region", name="Burn-down of default / search, this day")
    card.locator("canvas").wait_for()
    assert shown_usd(card) == [burnt["left_usd"], burnt["limit_usd"], burnt["total_usd"]]
    assert Decimal(burnt["left_usd"]) + Decimal(burnt["total_usd"]) == Decimal("0.750000001")
    page.goto(f"{dev.address}/costs?by=model&team=search")
    mine = dev.request("GET", "/costs/summary?by=model&team=search&order=cost")["rows"]
    models = page.get_by_role("table", name="Costs by model")
    models.get_by_role("row").nth(len(mine)).wait_for()
    assert shown_usd(models) == [each["cost_usd"] for each in mine]


def test_a_budget_s_limit_is_set_with_what_it_counts_said_before(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/budgets?tenant=acme&team=search")
    card = page.get_by_role("region", name=re.compile("team search of acme, month"))
    card.get_by_role("button", name="Set the limit…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Dollars").fill("12.000000001")
    dialog.get_by_text("What is spent above a lower limit stays spent").wait_for()
    dialog.get_by_role("button", name="Set the limit").click()
    dialog.wait_for(state="hidden")
    page.get_by_role("table", name="All limits").get_by_text("12.000000001").wait_for()
    (book,) = [each for each in dev.request("GET", "/budgets?tenant=acme&team=search")["books"] if each["period"] == "month"]
    assert book["limit_usd"] == "12.000000001"


# --- Schedules, keys --------------------------------------------------------------------------------------------------


def test_a_schedule_is_made_paused_and_removed(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected.append("422")  # the cron line that is none
    page.goto(f"{dev.address}/schedules")
    page.get_by_role("button", name="New schedule…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("nightly")
    dialog.get_by_label("Workflow").select_option("render")
    dialog.get_by_label("Cron line").fill("not a cron")
    dialog.get_by_role("button", name="Create the schedule").click()
    dialog.get_by_role("alert").wait_for()
    dialog.get_by_label("Cron line").fill("30 2 * * *")
    dialog.get_by_role("button", name="Create the schedule").click()
    dialog.wait_for(state="hidden")
    page.get_by_role("link", name="Schedule nightly").click()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause the schedule").click()
    page.get_by_text("None while it is paused.").wait_for()
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("button", name="Remove the schedule").click()
    page.get_by_text("No schedules.").wait_for()
    assert dev.request("GET", "/schedules")["rows"] == []


def test_a_key_s_secret_is_shown_once_and_a_revoked_key_stays_listed(dev: DevServer, page: Any) -> None:
    page.goto(f"{dev.address}/settings")
    page.get_by_role("button", name="New key…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("deploy")
    dialog.get_by_label("Grant").select_option("operator")
    dialog.get_by_role("button", name="Create the key").click()
    page.get_by_role("dialog", name="Secret of deploy").get_by_role("code").wait_for()
    secret = page.get_by_role("dialog", name="Secret of deploy").get_by_role("code").inner_text()
    assert len(secret) > 20
    page.get_by_role("button", name="I have copied it").click()
    page.get_by_role("row").filter(has_text="deploy").get_by_text("works").wait_for()
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke…").click()
    page.get_by_role("button", name="Revoke the key").click()
    page.get_by_role("row").filter(has_text="deploy").get_by_text("revoked").wait_for()
    (key,) = dev.request("GET", "/keys")["rows"]
    assert (key["may"], key["revoked_at"] is not None) == (["operator"], True)


# --- The line, when it is long ----------------------------------------------------------------------------------------

LONG: Final = 450
"""More than two pages of the list."""
MOST_ROWS: Final = 80


def test_a_long_line_is_read_page_by_page_and_few_rows_are_in_the_document(dev: DevServer, page: Any) -> None:
    (before,) = [row["steps"] for row in dev.request("GET", "/queue/summary")["rows"] if row["demands"] == "label gpu"]
    for _ in range(LONG):
        dev.request("POST", "/runs", {"workflow": "render"})
    await_(lambda: {"demands": "label gpu", "steps": before + LONG} in dev.request("GET", "/queue/summary")["rows"], 60.0)
    page.goto(f"{dev.address}/queue?for=label gpu")
    page.get_by_role("button", name=f"steps wait for label gpu {before + LONG}").wait_for()
    last = dev.request("GET", "/queue?demands=label%20gpu&limit=1000")["rows"][-1]
    end = page.locator(f"[data-row='{last['run']}/{last['step']}']")
    late_s = time.monotonic() + MOST_MS / 1000
    while not end.count():
        assert time.monotonic() < late_s, "the end of the line was not reached"
        assert page.get_by_role("table", name="Waiting steps").get_by_role("row").count() < MOST_ROWS
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    end.get_by_role("link").first.click()
    page.get_by_role("region", name="Why it waits").get_by_text("no worker has label gpu").wait_for()
    cancelled = dev.request("POST", "/runs/bulk", {"action": "cancel", "workflow": "render", "limit": 1000})
    assert cancelled["cursor"] is None
    await_(lambda: len(dev.request("GET", "/queue?demands=label%20gpu")["rows"]) == 0, 60.0)


# --- Every page -------------------------------------------------------------------------------------------------------

# --- Evaluations ------------------------------------------------------------------------------------------------------


def keep_evaluations(store: Path) -> str:
    """Keep a result of a suite with each of three versions. Return the id of the last."""
    last = ""
    with sync.open(store, execute=False) as engine:
        for version, passed in ((1, 8), (2, 10), (3, 7)):
            wf = Workflow("case", version=version)
            wf.node("do")(task(lambda state: None))
            results = [ScenarioResult(f"s{n}", f"r{n}", () if n < passed else ("It failed.",)) for n in range(10)]
            kept = engine.keep_evaluation("cases.yaml", wf, results, min_passed=0.8, by="ann")
            last = kept.id
    return last


def test_an_evaluation_shows_the_newest_result_of_each_version(dev: DevServer, open_page: Callable[..., Any]) -> None:
    kept = keep_evaluations(dev.folder / "runs.db")
    for width in (1280, 390):
        page = open_page(viewport={"width": width, "height": 900})
        page.goto(f"{dev.address}/evals/{kept}")
        page.get_by_role("table", name="Newest result by version").wait_for()
        told = page.get_by_role("table", name="Newest result by version").inner_text()
        assert re.findall(r"\d+\s+of 10", told) == ["7 of 10", "10 of 10", "8 of 10"]
        assert re.findall(r"\S+ pp|–", told) == ["−30 pp", "+20 pp", "–"]
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("table", name="Newest result by version").get_by_role("link").nth(1).click()
    page.get_by_text("10 of 10; at least 80 % must pass").wait_for()


PAGES: Final = (
    "/queue",
    "/pools",
    "/pools/BROWSERS",
    "/workers",
    "/dead-letters",
    "/doubts",
    "/doubts?of=tools",
    "/schedules",
    "/costs",
    "/costs?by=team&days=1&each=hour",
    "/budgets",
    "/budgets?of=agents",
    "/evals",
    "/audit",
    "/settings",
    "/settings?of=approvals",
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_page_has_a_serious_finding_or_scrolls_sideways(
    dev: DevServer, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    for path in PAGES:
        page.goto(f"{dev.address}{path}")
        page.get_by_role("heading", level=1).wait_for()
        page.get_by_text(re.compile(r"^Loading (?!more)")).first.wait_for(state="hidden")
        assert findings(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_what_is_not_there_says_so_and_offers_the_way_back(dev: DevServer, page: Any, errors: Errors) -> None:
    errors.expected.append("404")
    for path in ("/pools/nothing", "/dead-letters/nothing", "/schedules/nothing", "/evals/nothing", "/budgets/nothing"):
        page.goto(f"{dev.address}{path}")
        page.get_by_role("alert").wait_for()
    page.goto(f"{dev.address}/dead-letters?workflow=none")
    page.get_by_text("No dead letters match workflow “none”.").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    page.wait_for_url("**/dead-letters")
