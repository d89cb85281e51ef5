"""Interaction 6: the inbox. A person sees what is asked and what follows, and decides; who comes second learns who was first."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
import pytest

from tests.e2e.console.conftest import findings
from tests.e2e.console.server import TOKEN, DevServer
from tests.http.kit import NO_TLS

FLOWS: Final = Path(__file__).parent / "inbox_flows.py"
WORKFLOWS: Final = tuple(f"{FLOWS}:{name}" for name in ("refunds", "replies", "desk", "questions", "reads", "loses"))
WITHIN_S: Final = 20.0
LOOK_S: Final = 0.1
T = TypeVar("T")
TELEPHONE: Final = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` with workflows that ask."""
    server = DevServer(tmp_path_factory.mktemp("inbox"), WORKFLOWS)
    yield server
    server.end()


def asked(dev: DevServer, workflow: str, data: Any) -> dict[str, Any]:
    """Start a run that asks, and return its gate."""
    found: dict[str, Any] = dev.request("GET", f"/gates/{quote(gates(dev, dev.start(workflow, data))[0], safe='')}")
    return found


def gates(dev: DevServer, run: str, count: int = 1) -> list[str]:
    """Return the gates of a run, once there are so many."""
    return until(
        lambda: [each["gate_id"] for each in dev.request("GET", f"/gates?run={run}")["rows"]], lambda got: len(got) == count
    )


def until(look: Callable[[], T], is_enough: Callable[[T], bool]) -> T:
    """Look until it is enough, within a bound."""
    deadline_s = time.monotonic() + WITHIN_S
    while not is_enough(found := look()):
        assert time.monotonic() < deadline_s, found
        time.sleep(LOOK_S)
    return found


def again(dev: DevServer, gate: dict[str, Any]) -> dict[str, Any]:
    """Return a gate as it is now."""
    found: dict[str, Any] = dev.request("GET", f"/gates/{quote(gate['gate_id'], safe='')}")
    return found


def decide(dev: DevServer, gate: dict[str, Any], name: str, **decision: Any) -> None:
    """Decide as another person, past the console."""
    answer = httpx2.post(
        f"{dev.address}/api/v1/gates/{quote(gate['gate_id'], safe='')}/decision",
        json={"shown_hash": gate["shown_hash"], **decision},
        headers={"authorization": f"Bearer {TOKEN}", "holdfast-as": name},
        verify=NO_TLS,
        timeout=60,
    )
    assert answer.is_success, answer.text


def ended(dev: DevServer, gate: dict[str, Any]) -> dict[str, Any]:
    """Return the run of a gate, once it has ended."""
    return until(lambda: dev.request("GET", f"/runs/{gate['run_id']}"), lambda run: run["status"] in ("completed", "failed"))


def act_as(page: Any, name: str, roles: str = "") -> None:
    """Have the page act in a person's name, as its form keeps it."""
    page.add_init_script(f"localStorage.setItem('holdfast.acting', JSON.stringify({{name: {name!r}, roles: {roles!r}}}))")


def open_gate(dev: DevServer, page: Any, gate: dict[str, Any]) -> Any:
    """Open a gate, and return its part of the page."""
    page.goto(f"{dev.address}/inbox/{quote(gate['gate_id'], safe='')}")
    part = page.locator("article.gate")
    part.wait_for()
    return part


def test_an_empty_inbox_says_what_to_do(dev: DevServer, page: Any) -> None:
    """The first of this module: nothing was asked yet."""
    act_as(page, "nobody")
    page.goto(f"{dev.address}/inbox")
    page.get_by_text("Nothing waits for you.").wait_for()
    page.get_by_role("link", name="Start a workflow").wait_for()
    page.get_by_role("button", name="decided before").click()
    page.get_by_text("Nothing has been decided yet.").wait_for()
    page.wait_for_url("**/inbox?show=decided")


def test_the_inbox_keeps_mine_my_teams_and_anyone_apart(dev: DevServer, page: Any) -> None:
    act_as(page, "zoe", "night-shift")
    asked_of = {
        show: asked(dev, "questions", {"question": f"For {show}?", "within_s": 245_000, "reviewers": reviewers})["gate_id"]
        for show, reviewers in {"mine": ["zoe"], "teams": ["role:night-shift"], "others": ["eve"]}.items()
    }
    asked_of["anyone"] = asked(dev, "desk", ["A-11"])["gate_id"]
    page.goto(f"{dev.address}/inbox")
    rows = page.locator(".inbox-row")
    for show, name in (("mine", "mine 1"), ("teams", "my teams 1"), ("anyone", re.compile("anyone"))):
        page.get_by_role("button", name=name).click()
        page.locator(f'[data-gate="{asked_of[show]}"]').wait_for()
        shown = set(rows.evaluate_all("all => all.map(each => each.dataset.gate)"))
        assert shown & {*asked_of.values()} == {asked_of[show]}
    first = page.locator(f'[data-gate="{asked_of["anyone"]}"]')
    assert first.locator(".inbox-title").inner_text() == 'refund(order="A-11", amount=40.0)'
    assert "desk · tool call" in first.inner_text()
    page.get_by_role("button", name="mine 1").click()
    assert "due in 2 d 20 h" in page.locator(f'[data-gate="{asked_of["mine"]}"]').inner_text()
    act_as(page, "amy")
    page.goto(f"{dev.address}/inbox?show=mine")
    page.get_by_text("Nothing asks you by name.").wait_for()
    page.get_by_role("button", name=re.compile("See .* for anyone")).click()
    page.locator(f'[data-gate="{asked_of["anyone"]}"]').wait_for()


def test_who_comes_second_to_a_doubt_sees_that_somebody_was_first(dev: DevServer, page: Any, errors: Any) -> None:
    errors.expected.append("409")
    act_as(page, "ada")
    run = dev.start("loses", "dev")
    gate = again(dev, {"gate_id": gates(dev, run)[0]})
    page.goto(f"{dev.address}/doubts?of=tools&run={run}")
    page.get_by_role("button", name="It did not…").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_text("was about to be called").wait_for()
    decide(dev, gate, "grace", decision="answer", data="paid")
    page.get_by_text("No tool calls of unknown outcome").wait_for()
    dialog.get_by_role("button", name="State that it did not happen").click()
    dialog.get_by_text("Someone else was first").wait_for()
    dialog.get_by_text("grace").first.wait_for()
    dialog.get_by_role("button", name="Keep it as it is").click()
    assert again(dev, gate)["decision"] == "answer"


def test_a_doubt_is_decided_with_what_is_known(dev: DevServer, page: Any) -> None:
    run = dev.start("loses", "ann")
    gate = again(dev, {"gate_id": gates(dev, run)[0]})
    page.goto(f"{dev.address}/doubts?of=tools&run={run}")
    page.get_by_role("button", name="It happened…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("was about to be called").wait_for()
    dialog.get_by_label("How you know").fill("The bank's list has it.")
    dialog.get_by_role("button", name="State that it happened").click()
    dialog.get_by_role("alert").get_by_text("Nothing is entered.").wait_for()
    assert again(dev, gate)["state"] == "open"
    dialog.get_by_label("It is empty").check()
    assert findings(page) == []
    dialog.get_by_role("button", name="State that it happened").click()
    dialog.wait_for(state="hidden")
    page.get_by_text("No tool calls of unknown outcome").wait_for()
    kept = again(dev, gate)
    assert (kept["decision"], kept["data"], kept["decision_reason"]) == ("answer", "", "The bank's list has it.")


def test_interaction_6_a_person_reads_edits_with_a_diff_and_decides_what_was_shown(dev: DevServer, page: Any) -> None:
    act_as(page, "ada")
    late = asked(dev, "questions", {"question": "Which first?", "within_s": 86_400, "reviewers": ["ada"]})
    soon = asked(dev, "questions", {"question": "Which at once?", "within_s": 3_600, "reviewers": ["ada"]})
    gate = asked(dev, "refunds", {"title": "Reply to T-1018 and refund $18.40"})
    page.goto(f"{dev.address}/inbox?show=open")
    rows = page.locator(".inbox-row")
    ours = [each["gate_id"] for each in (soon, late, gate)]
    for each in ours:
        page.locator(f'[data-gate="{each}"]').wait_for()
    shown = rows.evaluate_all("all => all.map(each => each.dataset.gate)")
    assert [each for each in shown if each in ours] == ours
    page.locator(f'[data-gate="{late["gate_id"]}"]').click()
    page.locator(f'[data-gate="{late["gate_id"]}"][aria-current]').wait_for()
    for key, by in (("j", 1), ("k", 0)):
        page.keyboard.press(key)
        page.locator(f'[data-gate="{shown[shown.index(late["gate_id"]) + by]}"][aria-current]').wait_for()
    page.locator(f'[data-gate="{gate["gate_id"]}"]').click()
    part = page.locator("article.gate")
    part.get_by_role("heading", name="Reply to T-1018 and refund $18.40").wait_for()
    part.get_by_text("The run goes on to pay.").wait_for()
    part.get_by_text("can spend at most $1.00 more").wait_for()
    page.keyboard.press("e")
    page.get_by_label("Amount").fill("18.50")
    note = page.get_by_label("Note")
    note.fill(note.input_value().replace("$18.04", "$18.50").replace("a few", "three"))
    part.get_by_role("button", name="Review the edit…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("18.5", exact=True).wait_for()
    dialog.locator(".cm-deletedText").first.wait_for()
    sent: list[Any] = []
    page.on("request", lambda each: sent.extend([each.post_data_json] if each.method == "POST" else []))
    dialog.get_by_label("Reason").fill("Amount was misread.")
    dialog.get_by_role("button", name="Send the edit").click()
    part.get_by_text("Decided: edit by you").wait_for()
    assert sent[0]["shown_hash"] == gate["shown_hash"]
    assert ended(dev, gate)["output"] == {
        "amount": 18.5,
        "note": gate["initial_data"]["note"].replace("$18.04", "$18.50").replace("a few", "three"),
        "days": 3,
    }
    kept = again(dev, gate)
    assert (kept["decision"], kept["by"], kept["decision_reason"]) == ("edit", "ada", "Amount was misread.")


def test_a_field_left_open_is_asked_for_before_the_dialog_and_shown_once_decided(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "replies", None)
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Approve…").click()
    page.locator("input:focus[aria-invalid=true]").wait_for()
    assert page.get_by_role("dialog").count() == 0
    part.get_by_label("Note").fill("sorry")
    part.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    part.get_by_role("status", name="Decision").get_by_text("sorry", exact=True).wait_for()
    assert again(dev, gate)["decision"] == "approve"


def test_a_tool_call_says_its_effect_its_undoing_and_its_cost(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "desk", ["A-7"])
    page.goto(f"{dev.address}/runs/{gate['run_id']}")
    page.locator(".run-note").get_by_text('Asks any reviewer: call refund(order="A-7"').wait_for()
    part = open_gate(dev, page, gate)
    follows = part.get_by_role("region", name="What follows")
    for words in (
        "refund is called.",
        "if its outcome is unknown, a person is asked",
        "void_refund undoes it",
        "no cost limit",
    ):
        follows.get_by_text(words).wait_for()
    page.keyboard.press("a")
    page.get_by_role("dialog").get_by_text("refund is called.").wait_for()
    page.keyboard.press("Enter")
    part.get_by_text("Decided: approve").wait_for()
    assert ended(dev, gate)["output"] == ["40.0 paid back"]


def test_calls_that_are_asked_together_are_decided_together(dev: DevServer, page: Any) -> None:
    first, second = ({"gate_id": each} for each in gates(dev, dev.start("desk", ["A-1", "A-2"]), 2))
    part = open_gate(dev, page, first)
    part.get_by_role("button", name="Decide all 2…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Approve 2, reject 0").click()
    part.get_by_text("Decided: approve").wait_for()
    assert again(dev, second)["decision"] == "approve"


def test_a_rejection_has_a_reason(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "desk", ["A-9"])
    part = open_gate(dev, page, gate)
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("refund is not called.").wait_for()
    dialog.get_by_role("button", name="Reject").click()
    dialog.get_by_role("alert").get_by_text("Enter a reason.").wait_for()
    dialog.get_by_label("Reason").fill("Not this order.")
    dialog.get_by_role("button", name="Reject").click()
    part.get_by_text("Decided: reject").wait_for()
    assert again(dev, gate)["decision_reason"] == "Not this order."


def test_the_second_of_two_sees_who_was_first_and_keeps_the_draft(dev: DevServer, page: Any, errors: Any) -> None:
    errors.expected.append("409")
    act_as(page, "ada")
    gate = asked(dev, "refunds", {"title": "Refund twice"})
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Note").fill("My own words")
    part.get_by_role("button", name="Review the edit…").click()
    page.get_by_role("dialog").get_by_role("button", name="Send the edit").wait_for()
    stale = again(dev, gate)  # the page has not heard of it yet
    sent: list[str] = []
    page.on("request", lambda each: sent.extend([each.url] if each.method == "POST" else []))
    page.route("**/api/v1/gates/*", lambda route: route.continue_() if sent else route.fulfill(json=stale))
    decide(dev, gate, "grace", decision="reject", reason="It was paid already.")
    page.get_by_role("dialog").get_by_role("button", name="Send the edit").click()
    page.get_by_role("dialog").wait_for(state="hidden")
    part.get_by_text("Decided: reject by grace").wait_for()
    part.get_by_text("It was paid already.").wait_for()
    part.get_by_text("Your draft was not sent.").wait_for()
    part.locator(".gate-draft").get_by_text("My own words").first.wait_for()
    page.reload()
    part.locator(".gate-draft").get_by_text("My own words").first.wait_for()
    part.get_by_role("button", name="Discard the draft").click()
    part.locator(".gate-draft").wait_for(state="detached")


def test_a_draft_survives_a_reload_and_no_dialog_opens_for_a_wrong_one(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "refunds", {"title": "Keep my draft"})
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Note").fill("Half a sentence")
    page.get_by_label("Amount").fill("19.")
    page.reload()
    assert page.get_by_label("Note").input_value() == "Half a sentence"
    assert page.get_by_label("Amount").input_value() == "19."
    part.get_by_role("button", name="Review the edit…").click()
    part.get_by_text("This is not a number.").wait_for()
    page.locator("input:focus[aria-invalid=true]").wait_for()
    assert page.get_by_label("Amount").evaluate("each => each === document.activeElement")
    assert page.get_by_role("dialog").count() == 0
    assert again(dev, gate)["state"] == "open"


def test_who_may_not_decide_sees_why_and_delegates_to_nobody(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "questions", {"question": "Only for eve?", "within_s": 3_600, "reviewers": ["eve"]})
    act_as(page, "mallory")
    part = open_gate(dev, page, gate)
    part.get_by_role("note").get_by_text("eve").wait_for()
    assert part.get_by_role("button", name="Answer…").is_disabled()
    assert part.get_by_role("button", name="Delegate…").is_disabled()


def test_a_reviewer_delegates(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "questions", {"question": "Delegate me?", "within_s": 3_600, "reviewers": ["ada"]})
    act_as(page, "ada")
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Delegate…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Persons, roles or teams").fill("eve, finance")
    dialog.get_by_role("button", name="Delegate").click()
    part.get_by_text("ada, eve, finance", exact=True).wait_for()
    assert again(dev, gate)["reviewers"] == ["ada", "eve", "finance"]


def test_an_answer_in_words_reaches_the_run(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "questions", {"question": "Did it go out?", "within_s": 3_600, "reviewers": ["ada"]})
    act_as(page, "ada")
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Answer…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Answer").click()
    dialog.get_by_role("alert").get_by_text("Nothing is entered.").wait_for()
    dialog.get_by_label("Your answer").fill("Yes, at noon")
    dialog.get_by_role("button", name="Answer").click()
    part.get_by_text("Decided: answer").wait_for()
    assert ended(dev, gate)["output"]["answer"] == "Yes, at noon"


def test_what_a_customer_wrote_is_text_and_unseen_characters_are_marked(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "refunds", {"title": "Marked"})
    part = open_gate(dev, page, gate)
    part.get_by_text("<script>alert(1)</script>").wait_for()
    assert part.locator("mark.unseen-mark").all_inner_texts() == ["U+202E", "U+202C", "U+200B"]
    assert part.locator("script, img").count() == 0


def test_five_megabytes_are_read_without_blocking(dev: DevServer, page: Any) -> None:
    gate = asked(dev, "reads", 5_000_000)
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Show all").click()
    part.locator(".cm-content").wait_for()
    assert part.locator(".cm-line").count() < 200
    assert part.get_by_role("button", name="Approve…").is_enabled()


def test_the_inbox_works_on_a_telephone(dev: DevServer, open_page: Callable[..., Any]) -> None:
    gate = asked(dev, "refunds", {"title": "By thumb"})
    page = open_page(**TELEPHONE)
    act_as(page, "ada")
    page.goto(f"{dev.address}/inbox?show=anyone")
    page.get_by_role("link").filter(has_text="By thumb").click()
    approve = page.get_by_role("button", name="Approve…")
    approve.wait_for()
    for name in ("Approve…", "Reject…", "Edit", "Delegate…"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["height"] >= 44, name
        assert 844 / 2 < box["y"] < 844 - box["height"], name
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert findings(page) == []
    approve.click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    page.get_by_text("Decided: approve by you").wait_for()
    assert ended(dev, gate)["status"] == "completed"


def test_the_menu_counts_what_waits_and_a_wider_window_shows_the_list_again(
    dev: DevServer, open_page: Callable[..., Any]
) -> None:
    page = open_page()
    act_as(page, "ada")
    gate = asked(dev, "refunds", {"title": "Turned"})
    part = open_gate(dev, page, gate)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile(r"^Inbox \d+\+? waiting$")).wait_for()
    row = page.locator(f"[data-gate='{gate['gate_id']}']")
    row.wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    row.wait_for(state="hidden")
    part.wait_for()
    page.set_viewport_size({"width": 1280, "height": 800})
    row.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_inbox_has_no_serious_finding(dev: DevServer, open_page: Callable[..., Any], scheme: str) -> None:
    gate = asked(dev, "refunds", {"title": "For axe"})
    page = open_page(color_scheme=scheme)
    part = open_gate(dev, page, gate)
    part.get_by_role("button", name="Edit", exact=True).click()
    assert findings(page) == []
    page.get_by_label("Note").fill("Other words, of which there are enough to be compared as a text of several lines.\nHere.")
    part.get_by_role("button", name="Review the edit…").click()
    page.get_by_role("dialog").locator(".cm-content").wait_for()
    assert findings(page) == []


def test_an_unknown_gate_says_so(dev: DevServer, page: Any, errors: Any) -> None:
    errors.expected.append("404")
    page.goto(f"{dev.address}/inbox/nothing%3Ahere%230")
    page.get_by_role("alert").get_by_text("Not Found").wait_for()
