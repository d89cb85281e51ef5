"""What is told and asked over HTTP, from a start to its end, on a real port."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.http.openapi import document
from holdfast.http.route import BASE, ROUTES
from holdfast.ports import RequestAnswered
from holdfast.service.access.identity import Holder
from holdfast.service.declarations import command, query
from holdfast.service.declarations.declaration import Command, ListQuery, Query, declared
from holdfast.stores.nouns.records import Conversations, Schedules
from holdfast.stores.sqlite.tail import Watch
from holdfast.testing.server_process import free_port
from tests.http.kit import Asked, known, served

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_a_run_is_started_approved_and_followed_to_its_end(api: Asked) -> None:
    asked = {"workflow": "order", "input": {"item": "tea", "count": 2}, "key": "o-1", "cost_limit_usd": "0.50"}
    started = await api.said("POST", "/runs", asked, prefer="wait=10", holdfast_as="ann")
    run = started.json()
    assert (started.status_code, run["status"], run["limit_usd"]) == (201, "waiting", "0.50")
    assert started.headers["location"] == f"/api/v1/runs/{run['run_id']}"
    assert started.headers["preference-applied"] == "wait=10"
    again = await api.post("/runs", asked)
    assert again["run_id"] == run["run_id"], "its start key is the tenant's for good"
    path = f"/gates/{await api.gate(run['run_id'])}"
    gate = await api.get(path)
    assert (gate["shown"], gate["reviewers"], gate["state"]) == ({"total": 6}, ["ida", "legal"], "open")
    decision = {"decision": "approve", "reason": "cheap", "shown_hash": gate["shown_hash"]}
    ended = await api.post(f"{path}/decision", decision, wait_s=10, holdfast_as="ida")
    assert (ended["status"], ended["output"]) == ("completed", "shipped tea")
    whole = await api.get(f"/runs/{run['run_id']}")
    assert [step["status"] for step in whole["steps"]] == ["completed"] * 3
    assert (whole["started_by"], whole["key"]) == ("ann", "o-1")
    for part, name in (("events", "type"), ("steps", "step"), ("trace", "event_type")):
        assert all(
            name in row for row in await api.rows(f"/runs/{run['run_id']}/{part}", **({} if part == "steps" else {"limit": 2}))
        )
    graph = await api.get(f"/runs/{run['run_id']}/graph")
    assert [(node["node"], node["status"]) for node in graph["nodes"]] == [
        ("price", "completed"),
        ("approve", "completed"),
        ("ship", "completed"),
    ]
    assert {edge["state"] for edge in graph["edges"]} == {"taken"}
    for part in ("costs", "logs", "scores", "children", "stream"):
        assert await api.rows(f"/runs/{run['run_id']}/{part}") == []
    assert (await api.get(f"/runs/{run['run_id']}/tree"))["runs"][0]["run_id"] == run["run_id"]


async def test_observers_are_told_how_each_request_was_answered(tmp_path: Path) -> None:
    told: list[Any] = []
    async with served(tmp_path, observers=[told.append]) as port, port.asked() as asked:
        await asked.said("POST", "/runs", {"workflow": "quick"}, prefer="wait=10")
        await asked.said("POST", "/runs", {"workflow": "nothing"})
        await asked.get("/runs")
    requests = [each for each in told if isinstance(each, RequestAnswered)]
    assert [(each.is_command, each.status, each.waits) for each in requests] == [
        (True, 201, True),
        (True, 404, False),
        (False, 200, False),
    ]
    assert all(0 < each.took_s < 10 for each in requests)


async def test_what_is_answered_ends_its_line_and_names_no_option_of_a_command(api: Asked) -> None:
    """So that a shell's prompt stands on a line of its own; a row's tag is that of what was read."""
    run = await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10)
    row = await api.said("GET", f"/runs/{run['run_id']}")
    gate = await api.gate(run["run_id"])
    refused = await api.said("POST", f"/gates/{gate}/decision", await api.seen(gate), holdfast_as="mallory")
    missing = await api.said("GET", "/runs/nope")
    for said in (row, refused, missing, await api.said("GET", "/runs")):
        assert said.content.endswith(b"}\n"), said.text
    again = await api.said("GET", f"/runs/{run['run_id']}", if_none_match=row.headers["etag"])
    assert (again.status_code, refused.status_code, missing.status_code) == (304, 409, 404)
    assert "mallory" in refused.json()["detail"]
    assert "--" not in refused.json()["detail"]


async def test_a_run_takes_the_messages_that_one_may_send_it(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
    assert (await api.post(f"/runs/{run}/pause"))["status"] == "paused"
    await api.post(f"/runs/{run}/extend", {"limit": "steps", "value": 5_000})
    await api.post(f"/runs/{run}/budget", {"limit_usd": "2.50"})
    await api.post(f"/runs/{run}/signals/hello", {"data": {"a": 1}})
    quote_ = await api.post(f"/runs/{run}/quote", {"action": "fork", "fields": {"step": "price#1"}})
    assert quote_["fork"]["run_id"] == run
    fork = await api.said("POST", f"/runs/{run}/fork", {"step": "price#1"})
    assert (fork.status_code, fork.json()["run_id"] != run) == (201, True)
    assert (await api.post(f"/runs/{run}/resume"))["limit_usd"] == "2.50"
    await api.post(f"/runs/{run}/scores", {"name": "helpful", "value": 0.5}, holdfast_as="ann")
    assert [(each["name"], each["by"]) for each in await api.rows(f"/runs/{run}/scores")] == [("helpful", "ann")]
    assert (await api.post(f"/runs/{run}/cancel", {"reason": "enough"}, wait_s=10))["status"] == "cancelled"
    assert await api.refused("POST", f"/runs/{run}/pause") == (409, "run_ended")
    outcomes = await api.post("/runs/bulk", {"action": "cancel", "workflow": "order", "status": ["waiting"], "dry_run": True})
    assert [each["run_id"] for each in outcomes["rows"]] == [fork.json()["run_id"]]


async def test_runs_are_labelled_found_by_labels_and_counted(api: Asked) -> None:
    """Also after their end; a refusal points at the label."""
    given: list[dict[str, str]] = [{"customer": "acme", "stage": "new"}, {"customer": "acme"}, {}]
    runs = [(await api.post("/runs", {"workflow": "quick", "labels": each}, wait_s=10))["run_id"] for each in given]

    async def found(*labels: str) -> list[int]:
        return [runs.index(row["run_id"]) for row in await api.rows("/runs", label=[*labels])]

    assert [row["labels"] for row in await api.rows("/runs")] == given[::-1]
    assert (await found("customer=acme"), await found("customer=acme", "stage=new"), await found("stage=")) == ([1, 0], [0], [])
    assert (await api.post(f"/runs/{runs[2]}/labels", {"labels": {"customer": "a=b", "none": None}}))["run_id"] == runs[2]
    await api.post(f"/runs/{runs[0]}/labels", {"labels": {"stage": None}})
    assert (await api.get(f"/runs/{runs[2]}"))["labels"] == {"customer": "a=b"}
    assert (await found("customer=a=b"), await found("stage=new")) == ([2], [])
    waits = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}, "labels": {"n": "1"}}, wait_s=10))[
        "run_id"
    ]
    counted = [
        {"key": "customer", "value": "a=b", "workflow": "quick", "status": "completed", "runs": 1},
        {"key": "customer", "value": "acme", "workflow": "quick", "status": "completed", "runs": 2},
        {"key": "n", "value": "1", "workflow": "order", "status": "waiting", "runs": 1},
    ]
    assert await api.rows("/runs/labels") == counted
    assert await api.rows("/runs/labels", key="customer", limit=1) == counted[:2]
    assert await api.rows("/runs/labels", workflow="order") == counted[2:]
    outcomes = await api.post("/runs/bulk", {"action": "cancel", "label": ["n=1"], "dry_run": True})
    assert [each["run_id"] for each in outcomes["rows"]] == [waits]
    for path, body, place in (
        ("/runs", {"workflow": "quick", "labels": {"a b": "c"}}, "#/labels/a b"),
        ("/runs", {"workflow": "quick", "labels": {"a": 1}}, "#/labels"),
        (f"/runs/{runs[0]}/labels", {"labels": {"a": "x" * 257}}, "#/labels/a"),
    ):
        problem = await api.said("POST", path, body)
        assert problem.status_code == 422
        assert [each["pointer"].removesuffix("/...") for each in problem.json()["errors"]] == [place]
    assert (await api.said("GET", "/runs?label=customer")).status_code == 422
    assert len(await api.rows("/runs")) == 4


async def test_runs_are_found_by_tags_text_and_cost(api: Asked) -> None:
    """A fork has those of its origin; a start that could not be found again is refused, and begins nothing."""
    given: list[dict[str, object]] = [{"tags": ["red", "order=7", "red"]}, {"tags": ["red"], "key": "Big-9"}, {}]
    runs = [(await api.post("/runs", {"workflow": "quick", **each}, wait_s=10))["run_id"] for each in given]

    async def found(**asked: object) -> list[int]:
        return [runs.index(row["run_id"]) for row in await api.rows("/runs", **asked)]

    assert (await api.get(f"/runs/{runs[0]}"))["tags"] == ["order=7", "red"]
    assert [row["tags"] for row in await api.rows("/runs")] == [[], ["red"], ["order=7", "red"]]
    assert await found(tag="red") == [1, 0]
    assert await found(tag=["red", "order=7"]) == [0]
    assert await found(text="big", workflow="quick") == [1]
    assert await found(waiting_for=["gate", "timer"]) == []
    assert (await api.said("GET", "/runs?waiting_for=godot")).status_code == 422
    assert await found(max_cost_usd="0") == [2, 1, 0]
    assert await found(min_cost_usd="0.01") == []
    assert (await api.get("/runs", tag="red", limit=1))["cursor"] == runs[1]
    fork = (await api.post(f"/runs/{runs[0]}/fork", {"step": "do#1"}, wait_s=10))["run_id"]
    assert (await api.get(f"/runs/{fork}"))["tags"] == ["order=7", "red"]
    done = await api.post(
        "/runs/bulk", {"action": "fork", "step": "do#1", "status": ["completed"], "tag": ["order=7"], "dry_run": True}
    )
    assert [each["run_id"] for each in done["rows"]] == [fork, runs[0]]
    for wrong in (["x" * 101], [" "], ["a\nb"], [f"t{number}" for number in range(21)], "red", [1]):
        assert await api.refused("POST", "/runs", {"workflow": "quick", "tags": wrong}) == (422, "invalid_input")
    for wrong in ("much", "-1"):
        assert (await api.said("GET", f"/runs?min_cost_usd={wrong}")).status_code == 422
    assert len(await api.rows("/runs")) == 4


async def test_a_list_is_sent_page_by_page_while_rows_come(api: Asked) -> None:
    runs = [(await api.post("/runs", {"workflow": "quick", "input": number}))["run_id"] for number in range(7)]
    page = await api.get("/runs", limit=3, workflow="quick")
    assert [row["run_id"] for row in page["rows"]] == runs[:-4:-1]
    await api.post("/runs", {"workflow": "quick"})
    rest = await api.get("/runs", limit=1000, workflow="quick", cursor=page["cursor"])
    assert [row["run_id"] for row in rest["rows"]] == runs[3::-1]
    await asyncio.gather(*(api.get(f"/runs/{run}") for run in runs))
    both = await api.rows("/runs", status=["completed", "running"], limit=4)
    assert {row["run_id"] for row in both} >= set(runs)


async def test_a_dead_letter_is_replayed_as_it_was_seen(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "broken"}, wait_s=10))["run_id"]
    ((letter,), count) = [(await api.rows(path)) for path in ("/dead-letters", "/dead-letters/summary")]
    assert (letter["run_id"], count[0]["open"]) == (run, 1)
    path = f"/dead-letters/{quote(letter['letter'], safe='')}"
    seen = await api.said("GET", path)
    assert seen.json()["letter"] == letter["letter"]
    tag = seen.headers["etag"]
    assert (await api.said("GET", path, if_none_match=tag)).status_code == 304
    await api.post(f"{path}/retry", if_match=tag)
    assert await api.refused("POST", f"{path}/resolve", {"reason": "no"}, if_match=tag) == (412, "changed")


async def test_a_decision_is_of_what_was_seen(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
    path = f"/gates/{await api.gate(run)}"
    assert await api.rows("/gates", risk_level="high") == await api.rows("/gates", risk_level=["low", "critical"]) == []
    assert await api.refused("GET", "/gates?risk_level=grave") == (422, "invalid_input")
    assert (await api.get(path))["risk_level"] is None
    tag, seen = (await api.said("GET", path)).headers["etag"], await api.seen(path)
    decided = f"{path}/decision"
    for unseen in ({}, {"decision": "reject"}, {"shown_hash": None}):
        assert await api.refused("POST", decided, unseen, holdfast_as="ida") == (422, "invalid_decision")
    assert await api.refused("POST", decided, {}, if_match="*", holdfast_as="ida") == (422, "invalid_decision")
    assert await api.refused("POST", decided, {}, if_match='"other"', holdfast_as="ida") == (412, "changed")
    assert await api.refused("POST", decided, {"shown_hash": "other"}, holdfast_as="ida") == (409, "conflict")
    assert await api.refused("POST", decided, seen, holdfast_as="eve") == (409, "decision_refused")
    maybe = {**seen, "decision": "maybe"}
    assert await api.refused("POST", decided, maybe, holdfast_as="ida") == (422, "invalid_decision")
    assert (await api.post(decided, {}, if_match=tag, wait_s=10, holdfast_as="eve", holdfast_roles="sales, legal"))[
        "status"
    ] == "completed"
    assert await api.refused("POST", decided, {}, holdfast_as="ida") in ((409, "already_decided"), (409, "run_ended"))


async def test_limits_of_all_tenants_are_listed(api: Asked) -> None:
    for body in (
        {"tenant": "acme", "period": "day", "limit_usd": "5"},
        {"tenant": "acme", "team": "search/it", "period": "month", "limit_usd": "7.000000001"},
        {"tenant": "globex", "period": "day", "in_tokens": True, "max_tokens": 900},
    ):
        await api.post("/budgets", body)
    found = [
        (row["tenant"], row["team"], row["period"], row["limit_usd"], row["max_tokens"])
        for row in await api.rows("/budgets/limits", limit=1)
    ]
    assert found == [
        ("acme", "search/it", "month", "7.000000001", None),
        ("acme", None, "day", "5.00", None),
        ("globex", None, "day", None, 900),
    ]
    assert len(await api.rows("/budgets/limits", tenant="acme")) == 2


async def test_everything_else_that_there_is_can_be_queried_and_changed(api: Asked) -> None:
    await api.post("/pools", {"name": "gpu", "slots": 2})
    assert (await api.get("/pools/gpu"))["name"] == "gpu"
    await api.said("DELETE", "/pools/gpu")
    assert (await api.rows("/pools")) == []
    await api.post("/budgets", {"tenant": "default", "period": "day", "limit_usd": "5"})
    budget = await api.said("GET", "/budgets?tenant=default")
    await api.post("/budgets", {"tenant": "default", "period": "day", "limit_usd": "6"}, if_match=budget.headers["etag"])
    old = budget.headers["etag"]
    told = {"tenant": "default", "period": "day", "limit_usd": "7"}
    assert await api.refused("POST", "/budgets", told, if_match=old) == (412, "changed")
    await api.post("/admission", {"runs": 50})
    assert (await api.get("/admission"))["cap"] == 50
    await api.post("/state", {"space": "shop", "key": "tea", "value": {"left": 3}})
    await api.post("/state", {"space": "shop", "key": "tea", "value": {"left": 2}, "expected_version": 1})
    assert [row["value"] for row in await api.rows("/state/shop/tea")] == [{"left": 3}, {"left": 2}]
    assert len(await api.rows("/state", space="shop")) == 1
    lost = {"space": "shop", "key": "tea", "value": 0, "expected_version": 1}
    assert await api.refused("POST", "/state", lost) == (409, "conflict")
    assert await api.refused("POST", "/state/forget", {"space": "!cache/a", "key": "tea"}) == (404, "not_found")
    await api.post("/schedules", {"name": "daily", "workflow": "quick", "cron": "0 9 * * *"})
    await api.post("/schedules/daily/pause")
    assert (await api.get("/schedules/daily"))["paused"]
    await api.post("/schedules/daily/resume")
    assert [row["name"] for row in await api.rows("/schedules")] == ["daily"]
    assert (await api.said("DELETE", "/schedules/daily")).status_code == 204
    await api.post("/conversations", {"name": "chat", "workflow": "answering"})
    said = await api.said("POST", "/conversations/chat/messages", {"text": "hi", "key": "m1"})
    again = await api.said("POST", "/conversations/chat/messages", {"text": "hi", "key": "m1"})
    assert (said.status_code, said.json()["number"]) == (201, again.json()["number"])
    assert (await api.get("/conversations/chat"))["name"] == "chat"
    assert len(await api.rows("/conversations")) == 1
    assert (await api.said("DELETE", "/conversations/chat")).status_code == 204
    assert isinstance((await api.get("/workers"))["rows"], list)
    for empty in ("/effects", "/doubts", "/costs", "/queue"):
        assert await api.rows(empty) == []
    assert (await api.get("/me")) == {
        "name": None,
        "verified": False,
        "client": None,
        "tenant": None,
        "roles": [],
        "teams": [],
        "may": ["admin"],
        "workflows": ["*"],
        "tools": ["*"],
        "signed_in_with": None,
        "session_expires_at": None,
    }
    whole = await api.get("/workflows/order")
    assert (whole["input_schema"]["required"], whole["definition"]["name"]) == (["item"], "order")


# --- Events as they come ----------------------------------------------------------------------------------------------


async def test_a_history_is_sent_without_a_gap_over_a_restart(tmp_path: Path) -> None:
    """The listener comes back with the last id that was heard, to another process's worth of engine on the same store."""
    address, seen = f"127.0.0.1:{free_port()}", []
    async with served(tmp_path, address=address) as port, port.asked() as api:
        run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        async for kind, id_, _ in api.events(f"/runs/{run}/events"):
            seen.append((id_, kind))
            if kind == "GateOpened":
                break
    async with served(tmp_path, address=address) as port, port.asked() as api:
        listening = asyncio.create_task(_all(api, f"/runs/{run}/events", last_event_id=str(seen[-1][0])))
        gate = await api.gate(run)
        await api.post(f"/gates/{gate}/decision", await api.seen(gate), holdfast_as="ida")
        told = await listening
        rows = await api.rows(f"/runs/{run}/events")
    assert told[-1][0] == "end"
    assert told[-1][2]["status"] == "completed"
    heard = [*seen, *((id_, kind) for kind, id_, _ in told[:-1])]
    assert heard == [(str(row["seq"]), row["type"]) for row in rows]


async def test_a_listener_that_has_heard_all_may_rest(api: Asked) -> None:
    """A browser's EventSource comes back after each end, until it is answered 204."""
    run = (await api.post("/runs", {"workflow": "counting", "input": 2}, wait_s=10))["run_id"]
    await api.post(f"/runs/{run}/signals/enough", wait_s=10)
    for path in (f"/runs/{run}/events", f"/runs/{run}/stream"):
        told = await _all(api, path)
        assert [kind for kind, *_ in told][-1] == "end"
        before, last = (str(told[place][1]) for place in (-3, -2))
        assert [kind for kind, *_ in await _all(api, path, last_event_id=before)] == [told[-2][0], "end"]
        rests = await api.said("GET", path, accept="text/event-stream", last_event_id=last)
        assert (rests.status_code, rests.content) == (204, b"")
    async with api.http.stream("GET", f"/runs/{run}/events", headers={"accept": "text/event-stream"}) as said:
        names = {line for line in (await said.aread()).decode().splitlines() if line.startswith("event:")}
    assert names == {"event: end"}, "what has a name is not heard by `onmessage`"


async def test_the_first_event_of_a_stream_says_when_to_come_again(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "counting", "input": 2}, wait_s=10))["run_id"]
    await api.post(f"/runs/{run}/signals/enough", wait_s=10)
    for path in (f"/runs/{run}/events", f"/runs/{run}/stream", "/events?ends=true"):
        async with api.http.stream("GET", path, headers={"accept": "text/event-stream"}) as said:
            blocks = (await said.aread()).decode().split("\n\n")
        assert [number for number, block in enumerate(blocks) if "retry: 2000" in block] == [0], path
        assert "\ndata: " in blocks[0]


def test_the_description_names_each_kind_of_event() -> None:
    described = document()["paths"]
    found = {}
    for path in ("/runs/{run}/events", "/runs/{run}/stream", "/events"):
        answered = described[f"{BASE}{path}"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
        found[path] = [each["$ref"].rpartition("/")[2] for each in answered["contentSchema"]["anyOf"]]
    assert found == {
        "/runs/{run}/events": ["EventRow", "RunStatusRow", "Problem"],
        "/runs/{run}/stream": ["StreamRow", "RunStatusRow", "Problem"],
        "/events": ["TailRow", "Problem"],
    }


async def test_a_listener_to_whom_nothing_was_said_may_rest_too(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "quick"}, wait_s=10))["run_id"]
    path = f"/runs/{run}/stream"
    ((kind, last, _),) = await _all(api, path)
    assert kind == "end"
    assert last
    rests = await api.said("GET", path, accept="text/event-stream", last_event_id=str(last))
    assert (rests.status_code, rests.content) == (204, b"")


async def test_the_record_of_a_conversation_or_schedule_is_read_once(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.post("/schedules", {"name": "daily", "workflow": "quick", "cron": "0 9 * * *", "input": None})
    await api.post("/conversations", {"name": "chat", "workflow": "answering"})
    reads: list[str] = []
    for kind in (Conversations, Schedules):
        find = kind.find

        async def counted(self: Any, tenant: str, name: str, find: Any = find) -> Any:
            reads.append(name)
            return await find(self, tenant, name)

        monkeypatch.setattr(kind, "find", counted)
    assert (await api.get("/schedules/daily"))["cron"] == "0 9 * * *"
    assert (await api.get("/conversations/chat"))["exchanges"] == []
    assert reads == ["daily", "chat"]


async def test_a_row_that_is_kept_is_asked_for_again_only_where_it_has_changed(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
    row, head = [await api.said(method, f"/runs/{run}") for method in ("GET", "HEAD")]
    tag = row.headers["etag"]
    assert row.headers["cache-control"] == "private, no-cache"
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert int(head.headers["content-length"]) == len(row.content)
    for held in (tag, f"W/{tag}", f'"other", W/{tag}', "*"):
        again = await api.said("GET", f"/runs/{run}", if_none_match=held)
        assert (again.status_code, again.content) == (304, b""), held
    assert (await api.said("GET", f"/runs/{run}", if_none_match='"other"')).status_code == 200
    assert (await api.said("HEAD", "/runs")).status_code == 200
    refused = await api.said("PUT", f"/runs/{run}")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    refused = await api.said("PUT", "/session")
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, POST")


async def _all(api: Asked, path: str, **headers: str) -> list[tuple[str, str | None, object]]:
    return [each async for each in api.events(path, **headers)]


async def test_a_signal_counts_once_under_its_key_and_needs_the_expected_data(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "rated"}, wait_s=10))["run_id"]
    rating = f"/runs/{run}/signals/rating"
    for wrong in ({"data": "five"}, {}, {"data": 5.5, "key": "k"}):
        assert await api.refused("POST", rating, wrong) == (422, "invalid_input")
    for _ in range(2):
        assert (await api.post(rating, {"data": 5, "key": "k"}))["run_id"] == run
    assert await api.refused("POST", rating, {"data": 4, "key": "k"}) == (409, "key_reused")
    assert (await api.post(rating, {"data": 5, "key": "k"}, wait_s=10))["output"] == 5
    assert [each["type"] for each in await api.rows(f"/runs/{run}/events")].count("SignalReceived") == 1


async def test_a_stream_is_sent_from_where_it_was_heard(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "counting", "input": 3}, wait_s=10))["run_id"]
    values, cursor = [], None
    async for kind, id_, row in api.events(f"/runs/{run}/stream"):
        assert kind == "value"
        values.append(row["value"])
        if len(values) == 2:
            cursor = id_
            break
    listening = asyncio.create_task(_all(api, f"/runs/{run}/stream", last_event_id=str(cursor)))
    await api.post(f"/runs/{run}/signals/enough")
    told = await listening
    assert [row["value"] for kind, _, row in told if kind == "value"] == [2]
    assert (told[-1][0], told[-1][2]["status"]) == ("end", "completed")


async def test_every_event_of_all_runs_is_sent_once_in_one_stream(api: Asked) -> None:
    """Those who come late hear the rest, whoever committed it; a page has the same."""
    runs = [(await api.post("/runs", {"workflow": "quick", "input": n}, wait_s=10))["run_id"] for n in range(3)]
    heard: list[tuple[str, str, str]] = []
    async for kind, id_, row in api.events("/events?workflow=quick"):
        heard.append((row["run_id"], kind, str(id_)))
        if kind == "RunCompleted" and row["run_id"] == runs[1]:
            break
    listening = asyncio.create_task(_until(api, "/events", runs[2], last_event_id=heard[-1][2]))
    heard += await listening
    page = await api.get("/events", limit=1000)
    assert [(row["run_id"], row["type"]) for row in page["rows"]] == [(run, kind) for run, kind, _ in heard]
    assert (await api.get("/events", cursor=page["cursor"]))["rows"] == []
    assert (await api.get("/events", limit=1000, ends="true")) == {**page, "cursor": None}
    late = (await api.get("/events", cursor="now"))["cursor"]
    await api.post("/runs", {"workflow": "quick"}, wait_s=10)
    assert (await api.get("/events", cursor=late))["rows"][0]["type"] == "RunStarted"
    assert await api.refused("GET", "/events?cursor=x") == (400, "usage_error")


async def test_who_listens_to_all_events_takes_no_notice_from_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store's watch tells one listener that somebody else may have committed, and that is the engine."""
    told: set[asyncio.Task[Any] | None] = set()
    changed = Watch.changed

    async def counted(watch: Watch, timeout_s: float) -> bool:
        told.add(asyncio.current_task())
        return await changed(watch, timeout_s)

    monkeypatch.setattr(Watch, "changed", counted)
    async with served(tmp_path) as port, port.asked() as api:
        run = (await api.post("/runs", {"workflow": "quick"}, wait_s=10))["run_id"]
        await _until(api, "/events", run)
        late = asyncio.create_task(_until(api, "/events?cursor=now", "none"))
        await asyncio.sleep(0.5)
        assert not late.done()
        late.cancel()
        assert len(told) <= 1


async def _until(api: Asked, path: str, run: str, **headers: str) -> list[tuple[str, str, str]]:
    """What is told until a run has completed."""
    found = []
    async for kind, id_, row in api.events(path, **headers):
        found.append((row["run_id"], kind, str(id_)))
        if kind == "RunCompleted" and row["run_id"] == run:
            break
    return found


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "refused"),
    [
        ("GET", "/nothing", None, {}, (404, "no_route")),
        ("PUT", "/runs", {}, {}, (405, "no_method")),
        ("GET", "/runs/no-such", None, {}, (404, "not_found")),
        ("GET", "/runs/no-such/events", None, {"accept": "text/event-stream"}, (404, "not_found")),
        ("GET", "/runs/no-such/stream", None, {"accept": "text/event-stream"}, (404, "not_found")),
        ("GET", "/gates/no-such", None, {}, (404, "not_found")),
        ("POST", "/gates/no-such/decision", {}, {}, (404, "not_found")),
        ("GET", "/runs?limit=many", None, {}, (422, "invalid_input")),
        ("GET", "/runs?limit=0", None, {}, (422, "invalid_input")),
        ("GET", "/runs?cursor=%00", None, {}, (422, "invalid_input")),
        ("GET", "/runs/%00", None, {}, (422, "invalid_input")),
        ("GET", "/runs?colour=red", None, {}, (422, "invalid_input")),
        ("GET", "/runs?key=a&key=b", None, {}, (422, "invalid_input")),
        ("GET", "/runs?status=merry", None, {}, (422, "invalid_input")),
        ("GET", "/costs?cursor=x", None, {}, (422, "invalid_input")),
        ("POST", "/runs", [], {}, (422, "invalid_input")),
        ("POST", "/runs", {"workflow": 1}, {}, (422, "invalid_input")),
        ("POST", "/runs", {"workflow": "order", "input": {}}, {}, (422, "invalid_input")),
        ("POST", "/runs", {"workflow": "none"}, {}, (404, "not_found")),
        ("POST", "/runs", {"workflow": "quick", "run": "x"}, {}, (422, "invalid_input")),
        ("POST", "/runs", {"yaml": "on: x"}, {}, (400, "usage_error")),
        ("GET", "/me", None, {"host": "evil.example"}, (421, "wrong_host")),
    ],
)
async def test_what_cannot_be_is_refused_as_a_problem(
    api: Asked, method: str, path: str, body: object, headers: dict[str, str], refused: tuple[int, str]
) -> None:
    assert await api.refused(method, path, body, **headers) == refused


async def test_a_field_that_is_wrong_is_pointed_at(api: Asked) -> None:
    problem = (await api.said("POST", "/runs", {"workflow": "quick", "max_tokens": "many"})).json()
    assert [each["pointer"] for each in problem["errors"]] == ["#/max_tokens"]
    for name, value in (("max_wall_s", -1), ("max_model_calls", 0), ("tags", [""]), ("on_limit", "stop")):
        problem = (await api.said("POST", "/runs", {"workflow": "quick", name: value})).json()
        assert [each["pointer"] for each in problem["errors"]] == [f"#/{name}"]
    assert (await api.said("GET", "/runs?limit=0")).json()["errors"][0]["pointer"] == "#/limit"
    granted = {"tool": "pay", "for_s": -1}
    assert (await api.said("POST", "/approvals", granted)).json()["errors"][0]["pointer"] == "#/for_s"


async def test_a_word_that_its_field_does_not_take_is_answered_with_those_it_takes(api: Asked) -> None:
    problem = (await api.said("POST", "/runs/x/extend", {"limit": "foo", "value": 1})).json()
    assert problem["detail"].startswith("limit is 'foo'; it is one of steps, ")
    assert problem["detail"].endswith(". Nothing was done.")
    ((place, words),) = [each.values() for each in problem["errors"]]
    assert (place, words.partition(", ")[0]) == ("#/limit", "is one of steps")


async def test_an_address_that_is_no_route_and_a_gate_that_is_not_there_are_named(api: Asked) -> None:
    problem = (await api.said("PUT", "/runs", {})).json()
    assert problem["detail"] == "No such route: PUT /api/v1/runs. See /api/v1/openapi.json."
    problem = (await api.said("POST", "/gates/zzz/decision", {"decision": "approve"})).json()
    assert problem["detail"].startswith("There is no gate zzz")


async def test_a_wrong_schedule_or_name_is_pointed_at(api: Asked) -> None:
    daily = {"name": "daily", "workflow": "quick", "cron": "daily", "jitter_s": -1}
    problem = (await api.said("POST", "/schedules", daily)).json()
    assert [each["pointer"] for each in problem["errors"]] == ["#/cron", "#/jitter_s"]
    assert problem["errors"][0]["detail"].startswith("'daily' is not a cron expression")
    for place, said, field in (
        ("/schedules", {**daily, "name": "a\nb"}, "name"),
        ("/schedules", {**daily, "cron": "0 9 * * *", "jitter_s": 0, "team": "x" * 300}, "team"),
        ("/conversations", {"name": "x" * 129, "workflow": "quick"}, "name"),
        ("/conversations", {"name": "a\nb", "workflow": "quick"}, "name"),
        ("/conversations/a%0Ab/messages", {"text": "hello"}, "conversation"),
    ):
        problem = (await api.said("POST", place, said)).json()
        assert [each["pointer"] for each in problem["errors"]] == [f"#/{field}"], (place, problem)


async def test_the_audit_log_names_what_each_command_is_about(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "quick"}, wait_s=10))["run_id"]
    for place, said in (
        ("/pools", {"name": "LINES", "slots": 1}),
        ("/state", {"space": "prices", "key": "tea", "value": 1}),
        ("/admission", {"runs": 100, "tenant": "acme"}),
        ("/runs/bulk", {"action": "cancel", "workflow": "quick"}),
        ("/dead-letters/bulk", {"action": "retry"}),
        (f"/runs/{run}/scores", {"name": "quality", "value": 1}),
    ):
        await api.post(place, said, holdfast_as="ida")
    named = [(row["action"], row["about"]) for row in await api.rows("/audit")]
    assert named == [
        ("Start", run),
        ("SetPool", "LINES"),
        ("WriteSharedValue", "prices"),
        ("SetAdmission", "acme"),
        ("Bulk", "cancel"),
        ("BulkDeadLetters", "retry"),
        ("GiveScore", run),
    ]


async def test_each_field_of_an_input_that_is_wrong_is_pointed_at(api: Asked) -> None:
    start = {"workflow": "order", "input": {"item": ["tea"], "count": "many"}}
    problem = (await api.said("POST", "/runs", start)).json()
    assert [each["pointer"] for each in problem["errors"]] == ["#/input/item", "#/input/count"]
    assert problem["errors"][1]["detail"].startswith("count: ")
    unpaid = (await api.said("POST", "/runs", {"workflow": "quick", "cost_limit_usd": "-1"})).json()
    assert unpaid["errors"] == [{"pointer": "#/cost_limit_usd", "detail": unpaid["detail"]}]
    run = (await api.post("/runs", {"workflow": "rated"}, wait_s=10))["run_id"]
    signal = (await api.said("POST", f"/runs/{run}/signals/rating", {"data": "five"})).json()
    assert [each["pointer"] for each in signal["errors"]] == ["#/data"]
    dated = {"name": "daily", "cron": "0 9 * * *", **start}
    assert len((await api.said("POST", "/schedules", dated)).json()["errors"]) == 2


async def test_a_body_is_json_and_not_too_long(api: Asked) -> None:
    said = [
        await api.http.post("/runs", content=content, headers={"content-type": kind})
        for content, kind in (
            (b"x" * (4 * 2**20 + 1), "application/json"),
            (b"{}", "text/plain"),
            (b"{", "application/json"),
            (b"\xff", "application/json"),
            (b"[" * 100_000, "application/json"),
        )
    ]
    assert [each.status_code for each in said] == [413, 415, 422, 422, 422]
    assert all(each.headers["content-type"] == "application/problem+json" for each in said)


async def test_who_asks_is_known_before_the_body_is_read(tmp_path: Path) -> None:
    """The answer comes while most of the body has not been sent."""
    async with served(tmp_path, known(ann=Holder("clients.ann"))) as port:
        host, _, number = port.address.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(number))
        writer.write(b"POST /api/v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n{")
        async with asyncio.timeout(10):
            line = await reader.readline()
        writer.close()
    assert line == b"HTTP/1.1 401 Unauthorized\r\n"


async def test_a_problem_bears_the_trace_of_who_asks(api: Asked) -> None:
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    assert (await api.said("GET", "/runs/none", **headers)).json()["trace_id"] == TRACE
    run = (await api.post("/runs", {"workflow": "quick"}, wait_s=10, **headers))["run_id"]
    assert {row["trace_id"] for row in await api.rows(f"/runs/{run}/events")} == {TRACE}


# --- The description --------------------------------------------------------------------------------------------------


def test_every_command_and_query_has_a_path() -> None:
    of_modules = {each for module in (command, query) for each in vars(module).values() if is_told(each)}
    assert {route.what for route in ROUTES} == {*declared()} == of_modules


def is_told(kind: Any) -> bool:
    """True for a class of a command or a query."""
    return isinstance(kind, type) and issubclass(kind, Command | Query) and kind not in (Command, Query, ListQuery)


async def test_the_description_is_of_every_path(api: Asked) -> None:
    told = await api.get("/openapi.json")
    assert told["openapi"] == "3.1.0"
    operations = [(method.upper(), path) for path, each in told["paths"].items() for method in each]
    assert set(operations) == {
        *((route.method, f"/api/v1{route.path}") for route in ROUTES),
        ("GET", "/api/v1/me"),
        ("POST", "/api/v1/links/{token}"),
        ("POST", "/api/v1/agui/{workflow}"),
        ("POST", "/api/v1/session"),
        ("DELETE", "/api/v1/session"),
        ("GET", "/api/v1/sign-in"),
    }
    ids = [each["operationId"] for path in told["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))
    assert document()["paths"].keys() == told["paths"].keys()
