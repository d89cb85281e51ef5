"""Every command and every list, over HTTP by the client: what is told is done, and what is asked is answered as it was told."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Workflow, task
from holdfast.client import AsyncClient
from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.nouns.tool_policy import When
from holdfast.errors import Conflict, DecisionRefused, InvalidInput, NotFound
from holdfast.service.declarations import command, query
from holdfast.service.declarations.query import Page, View
from tests import media
from tests.http.kit import Port, served
from tests.wire import flows

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
WORKFLOWS = (flows.gated, flows.chain, flows.echo, flows.posted, flows.payday)
WAIT_S = 20


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with served(tmp_path, workflows=WORKFLOWS) as open_:
        yield open_


@pytest.fixture
async def client(port: Port) -> AsyncIterator[AsyncClient]:
    """One who may do everything."""
    async with AsyncClient(port.address, by="ann") as connected:
        yield connected


async def started(client: AsyncClient, workflow: str, given: Any = None, *, by: str = "ann", **more: Any) -> str:
    """Start a run; its id."""
    return str((await client.acting(by).start(workflow, given, **more))["run_id"])


async def rested(client: AsyncClient, run: str) -> View:
    """Wait until a run has ended or waits for somebody."""
    return await client.run(run, wait_s=WAIT_S)


async def gate_of(client: AsyncClient, run: str) -> str:
    """Wait for the gate of a run."""
    await rested(client, run)
    return str((await client.query(query.Gates(run=run))).rows[0]["gate_id"])


async def hash_of(client: AsyncClient, gate: str) -> str:
    """Return the hash of what a gate shows."""
    return str((await client.gate(gate))["shown_hash"])


async def test_a_run_is_paused_extended_and_goes_on(client: AsyncClient) -> None:
    run = await started(client, "gated", by="ann", cost_limit_usd="1.00")
    gate = await gate_of(client, run)
    assert gate in [row["gate_id"] for row in (await client.query(query.Gates())).rows]
    assert (await client.query(query.Gates(risk_level=("high", "low")))).rows == []
    paused = await client.execute(command.Pause(run))
    assert paused is not None
    assert paused["status"] == "paused"
    await client.execute(command.Extend(run, "steps", 5_000))
    await client.execute(command.RaiseBudget(run, "2.50"))
    resumed = await client.execute(command.Resume(run))
    assert resumed is not None
    assert resumed["status"] == "waiting"
    decision = command.Decide(gate, "approve", reason="fine", shown_hash=await hash_of(client, gate))
    await client.acting("ida", ["legal"]).execute(decision)
    assert (await rested(client, run))["status"] == "completed"
    events = [row async for row in client.rows(query.Events(run=run, limit=3))]
    assert [row["seq"] for row in events] == list(range(1, len(events) + 1))
    raised = [(row["limit"], row["value"], row["by"]) for row in events if row["type"] == "LimitRaised"]
    assert raised == [("steps", 5_000, "ann"), ("cost", 2_500_000_000, "ann")]
    (decided,) = [row for row in events if row["type"] == "GateDecided"]
    assert (decided["by"], decided["roles"], decided["reason"]) == ("ida", ["legal"], "fine")


async def test_a_command_s_trace_is_that_of_its_header(client: AsyncClient) -> None:
    traced = client.acting("ann", traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    run = (await traced.start("gated"))["run_id"]
    gate = await gate_of(client, run)
    decision = command.Decide(gate, "approve", shown_hash=await hash_of(client, gate))
    await client.acting("ida", ["legal"], traceparent=f"00-{TRACE}-00f067aa0ba902b7-00").execute(decision)
    await rested(client, run)
    assert {row["trace_id"] async for row in client.rows(query.Events(run=run))} == {TRACE}


async def test_lists_go_on_where_the_page_before_ended_while_rows_come(client: AsyncClient) -> None:
    runs = [await started(client, "gated", by="ann", tenant="pages") for _ in range(5)]
    for run in runs:
        await gate_of(client, run)
    first = await client.query(query.Runs(tenant="pages", limit=2))
    gates = await client.query(query.Gates(tenant="pages", limit=2))
    runs.append(await started(client, "gated", by="ann", tenant="pages"))
    await gate_of(client, runs[-1])
    assert [row["run_id"] for row in first.rows] == [runs[4], runs[3]]
    rest = [row["run_id"] async for row in client.rows(query.Runs(tenant="pages", limit=2, cursor=first.cursor))]
    assert rest == [runs[2], runs[1], runs[0]]
    seen = [*gates.rows, *[row async for row in client.rows(query.Gates(tenant="pages", limit=2, cursor=gates.cursor))]]
    assert [row["run_id"] for row in seen] == runs
    with pytest.raises(InvalidInput, match="1 to 1000 rows"):
        await client.query(query.Gates(limit=1_001))
    with pytest.raises(InvalidInput, match="no cursor"):
        await client.query(query.Events(run=runs[0], cursor="nowhere"))
    with pytest.raises(InvalidInput, match="no cursor"):
        await client.query(query.Workflows(cursor=f'["gated", {2**64}]'))
    with pytest.raises(NotFound, match="go on after"):
        await client.query(query.Gates(cursor=f"{runs[0]}:nothing"))


async def test_what_runs_share_is_said_and_asked(client: AsyncClient) -> None:
    await client.execute(command.SetPool(name="GPU", slots=4))
    await client.execute(command.SetPool(name="RPS", rate=10, per_s=1, counts="requests", of="anthropic"))
    assert [(row["name"], row["limit"]) for row in (await client.query(query.Pools())).rows] == [("GPU", 4), ("RPS", 10)]
    (gpu,) = (await client.query(query.Pool("GPU"))).rows
    assert gpu["shares"] == []
    await client.execute(command.RemovePool("GPU"))
    with pytest.raises(NotFound, match="no pool"):
        await client.query(query.Pool("GPU"))
    await client.execute(command.SetBudget("acme", "day", "5.00", "search"))
    (owner,) = (await client.query(query.Budget("acme", "search"))).rows
    assert [(book["period"], book["limit_usd"]) for book in owner["books"]] == [("day", "5.00"), ("month", None)]
    await client.execute(command.SetBudget("acme", "day", team="search", in_tokens=True, max_tokens=9000))
    (owner,) = (await client.query(query.Budget("acme", "search"))).rows
    assert [(book["max_tokens"], book["limit_usd"]) for book in owner["books"]] == [(9000, "5.00"), (None, None)]
    await client.execute(command.SetBudget("acme", "day", team="search", in_tokens=True))
    (owner,) = (await client.query(query.Budget("acme", "search"))).rows
    assert [book["max_tokens"] for book in owner["books"]] == [None, None]
    await client.execute(command.SetAdmission(runs=0, tenant="acme"))
    run = await started(client, "gated", by="ann", tenant="acme", team="search", queue=True)
    (admission,) = (await client.query(query.Admission("acme"))).rows
    assert (admission["cap"], admission["waiting"]) == (0, [run])
    await client.execute(command.SetAdmission(tenant="acme"))
    await gate_of(client, run)
    assert await client.query(query.Costs()) == Page([], None)
    assert await client.query(query.Doubts()) == Page([], None)
    assert await client.query(query.Queue()) == Page([], None)
    assert await client.query(query.Effects(run=run)) == Page([], None)


async def test_agents_are_given_a_budget_together(client: AsyncClient) -> None:
    agents: dict[str, TeamAgent | float] = {"writer": 1.5, "critic": TeamAgent(initial_allocation=0.25)}
    given = command.SetTeamBudget(name="papers", agents=agents, total_usd="0.02", total_tokens=1000, tenant="acme")
    await client.execute(given)
    assert (await client.query(query.TeamBudgets(tenant="acme"))).rows == [{"name": "papers", "tenant": "acme"}]
    (shown,) = (await client.query(query.TeamBudget(name="papers", tenant="acme"))).rows
    assert (shown["money"]["total_usd"], shown["money"]["agents"]["critic"]["allocated_usd"]) == ("0.02", "0.005")
    assert (shown["tokens"]["total_tokens"], shown["tokens"]["agents"]["writer"]["priority"]) == (1000, 1.5)
    await client.execute(command.RemoveTeamBudget("papers", "acme"))
    with pytest.raises(NotFound, match="has no team budget 'papers'"):
        await client.query(query.TeamBudget(name="papers", tenant="acme"))


async def test_calls_are_approved_beforehand_or_together(client: AsyncClient) -> None:
    when = (When("to", "matches", "a*"),)
    granted = await client.acting("ann", ["legal"]).execute(
        command.GrantApproval(tool="pay", for_s=3600, max_calls=9, when=when)
    )
    assert (granted["by"], granted["roles"], granted["max_calls"], granted["when"]) == (
        "ann",
        ["legal"],
        9,
        [{"argument": "to", "operator": "matches", "value": "a*"}],
    )
    run = await started(client, "payday", ["ada", "bob", "cid"], by="eve")
    gate = await gate_of(client, run)
    (asked,) = [row["asked_together"] for row in (await client.query(query.Gate(gate))).rows]
    bob, cid = (each["gate_id"] for each in asked["calls"])
    told = command.DecideTogether(bob, {bob: "approve", cid: command.GateAnswer("approve", reason="fine")}, "0" * 64)
    with pytest.raises(Conflict, match="Other calls are asked about"):
        await client.acting("ida").execute(told)
    await client.acting("ida").execute(msgspec.structs.replace(told, shown_hash=asked["shown_hash"]))
    assert (await rested(client, run))["output"] == ["paid ada", "paid bob", "paid cid"]
    await client.acting("bob").execute(command.RevokeApproval(granted["approval"]))
    (row,) = (await client.query(query.Approvals())).rows
    assert (row["state"], row["revoked_by"], row["used"]) == ("revoked", "bob", 1)


async def test_costs_are_counted_and_supervisors_listed(client: AsyncClient) -> None:
    assert await client.execute(command.RollUpCosts()) == {"up_to_date": True}
    assert await client.query(query.Supervisors()) == Page([], None)
    with pytest.raises(NotFound, match="no supervisor 'desk'"):
        await client.query(query.Supervisor(name="desk"))


async def test_shared_values_are_written_and_listed(client: AsyncClient) -> None:
    for number in (1, 2):
        told = command.WriteSharedValue(
            space="board", key="n", value={"n": number}, expected_version=number - 1, tenant="shares"
        )
        await client.execute(told)
    (row,) = (await client.query(query.SharedValues(tenant="shares"))).rows
    assert (row["version"], row["value"], row["by"]) == (2, {"n": 2}, "ann")
    rows = (await client.query(query.SharedVersions(space="board", key="n", tenant="shares"))).rows
    assert [each["version"] for each in rows] == [1, 2]
    with pytest.raises(InvalidInput, match="'board' is no space of cached answers"):
        await client.execute(command.ForgetCachedAnswer("board", "n", "shares"))
    with pytest.raises(NotFound, match="no cached answer 'n' in '!cache/a' of tenant 'shares'"):
        await client.execute(command.ForgetCachedAnswer("!cache/a", "n", "shares"))
    with pytest.raises(Conflict, match="is at version 2, and not at 1"):
        await client.execute(told)


async def test_schedules_are_set_paused_made_up_for_and_removed(client: AsyncClient) -> None:
    told = command.SetSchedule(name="nightly", workflow="gated", cron="30 2 * * *", tenant="nightly", overlap="queue")
    await client.execute(told)
    (row,) = (await client.query(query.Schedules(tenant="nightly"))).rows
    assert (row["by"], row["timezone"], row["catch_up_s"], row["overlap"]) == ("ann", "UTC", 3600, "queue")
    await client.execute(command.PauseSchedule("nightly", "nightly"))
    (row,) = (await client.query(query.Schedule(name="nightly", tenant="nightly"))).rows
    assert (row["paused"], row["next_times"]) == (True, [])
    await client.execute(command.ResumeSchedule("nightly", "nightly"))
    day_ms = 86_400_000
    now_ms = time.time_ns() // 1_000_000
    made_up = (await client.execute_many(command.Backfill("nightly", now_ms - 2 * day_ms, tenant="nightly"))).rows
    runs = (await client.query(query.Runs(tenant="nightly", workflow="gated"))).rows
    assert {row["run_id"] for row in made_up} == {row["run_id"] for row in runs}
    assert [row["time"][11:19] for row in made_up] == ["02:30:00", "02:30:00"]
    assert (
        await client.execute_many(command.Backfill("nightly", now_ms - 2 * day_ms, now_ms - 1000, "nightly"))
    ).rows == made_up
    await client.execute(command.RemoveSchedule("nightly", "nightly"))
    assert await client.query(query.Schedules(tenant="nightly")) == Page([], None)
    shares = {"team_budget": "research", "agent": "writer"}
    with pytest.raises(InvalidInput, match="'nightly' has no team budget 'research'"):
        await client.execute(command.SetSchedule(name="shared", workflow="gated", cron="0 0 * * *", tenant="nightly", **shares))
    with pytest.raises(InvalidInput, match="'nightly' has no team budget 'research'"):
        await client.execute(command.OpenConversation(name="shared", workflow="gated", tenant="nightly", **shares))
    with pytest.raises(InvalidInput, match="names a day that its months do not have"):
        await client.execute(command.SetSchedule(name="never", workflow="gated", cron="0 0 31 2 *"))


async def test_something_is_said_in_a_conversation_once(client: AsyncClient) -> None:
    await client.execute(
        command.OpenConversation(name="c", workflow="gated", tenant="talks", cost_limit_usd="0.50", max_tokens=700)
    )
    for _ in range(2):
        await client.execute(command.Say(conversation="c", text="hello", key="m1", tenant="talks"))
    (row,) = (await client.query(query.Conversations(tenant="talks"))).rows
    assert (row["name"], row["agent"], row["messages"], row["by"]) == ("c", "gated", 1, "ann")
    (talk,) = (await client.query(query.Conversation(name="c", tenant="talks"))).rows
    assert [(each["number"], each["text"], each["by"]) for each in talk["exchanges"]] == [(1, "hello", "ann")]
    assert (talk["limit_usd"], talk["spent_usd"], talk["max_tokens"]) == ("0.50", "0.00", 700)
    picture = {"type": "image", "data": base64.b64encode(media.png()).decode()}
    await client.execute(command.Say(conversation="c", text="See:", parts=[picture], tenant="talks"))
    (talk,) = (await client.query(query.Conversation(name="c", tenant="talks"))).rows
    assert [part["media_type"] for part in talk["exchanges"][1]["parts"]] == ["image/png"]
    await client.execute(command.Say(conversation="c", text="Quick!", on_busy="steer", tenant="talks"))
    (talk,) = (await client.query(query.Conversation(name="c", tenant="talks"))).rows
    assert [each["steers"] for each in talk["exchanges"]] == [None, None, 1]
    assert talk["exchanges"][2]["run"] == talk["exchanges"][0]["run"]
    with pytest.raises(NotFound, match="no conversation"):
        await client.execute(command.Say(conversation="c", text="hello", tenant="acme"))
    with pytest.raises(InvalidInput):
        await client.execute(command.Say(conversation="c", text=" ", tenant="talks"))
    with pytest.raises(Conflict, match="Nothing was deleted"):
        await client.execute(command.DeleteConversation("c", "talks"))
    await client.execute(command.OpenConversation(name="over", workflow="gated", tenant="talks"))
    await client.execute(command.DeleteConversation("over", "talks"))
    with pytest.raises(NotFound, match="no conversation"):
        await client.execute(command.DeleteConversation("over", "talks"))


async def test_a_start_has_caps_of_its_own_which_are_extended(client: AsyncClient) -> None:
    run = await started(client, "gated", by="ann", max_model_calls=3, max_tool_calls=2, max_wall_s=60.5, on_limit="record")
    gate = await gate_of(client, run)
    await client.execute(command.Extend(run, "model_calls", 9))
    await client.execute(command.Extend(run, "wall", 90))
    await client.acting("ida", ["legal"]).decide(gate, shown_hash=await hash_of(client, gate))
    told = [event async for event in client.watch(run)]
    said = {name: told[0][name] for name in ("max_model_calls", "max_tool_calls", "max_wall_s", "on_limit")}
    assert said == {"max_model_calls": 3, "max_tool_calls": 2, "max_wall_s": 60.5, "on_limit": "record"}
    assert [event["type"] for event in told].count("LimitRaised") == 2
    with pytest.raises(InvalidInput, match="on_limit"):
        await started(client, "gated", by="ann", on_limit="perhaps")


async def test_a_run_is_forked_and_its_tree_is_shown(client: AsyncClient) -> None:
    run = await started(client, "gated", by="ann", max_tokens=4000)
    gate = await gate_of(client, run)
    await client.acting("ida", ["legal"]).decide(gate, shown_hash=await hash_of(client, gate))
    await rested(client, run)
    (quote,) = (await client.query(query.RunQuote(run=run, action="fork", fields={"step": "ask#1"}))).rows
    fork = await client.execute(command.Fork(run=run, step="ask#1"))
    assert fork is not None
    assert fork["run_id"] not in (run, quote["fork"]["run_id"])
    await gate_of(client, fork["run_id"])  # a decision is never carried over
    (tree,) = (await client.query(query.Tree(run=run))).rows
    assert tree["runs"][0]["run_id"] == run
    assert (tree["tokens"], tree["max_tokens"]) == (0, 4000)
    (tree,) = (await client.query(query.Tree(run=fork["run_id"]))).rows
    assert tree["max_tokens"] == 4000, "a fork may use what its origin might"


async def failed(client: AsyncClient, tenant: str, address: str = "nowhere") -> str:
    run = await started(client, "posted", {"address": address}, tenant=tenant, by="ann")
    assert (await rested(client, run))["status"] == "failed"
    return run


async def test_a_dead_letter_is_shown_edited_replayed_and_resolved(client: AsyncClient) -> None:
    runs = [await failed(client, "letters") for _ in range(2)]
    (kind,) = (await client.query(query.DeadLetterSummary("letters"))).rows
    assert (kind["node"], kind["error_class"], kind["open"]) == ("post", "error", 2)
    listed = [row async for row in client.rows(query.DeadLetters(tenant="letters", node="post", limit=1))]
    assert [row["letter"] for row in listed] == [f"{run}:post#1" for run in runs]
    (shown,) = (await client.query(query.DeadLetter(letter=f"{runs[0]}:post#1"))).rows
    assert (shown["input"], shown["attempts"]) == ({"address": "nowhere"}, 1)
    await client.acting("grace").execute(command.EditDeadLetter(f"{runs[0]}:post#1", {"address": "a@example.org"}))
    replayed = await client.acting("grace").execute(command.RetryDeadLetter(f"{runs[0]}:post#1"))
    assert replayed is not None
    assert (await rested(client, runs[0]))["output"] == "posted to a@example.org"
    await client.acting("grace").execute(command.ResolveDeadLetter(f"{runs[1]}:post#1", reason="too late"))
    assert await client.query(query.DeadLetters(tenant="letters")) == Page([], None)
    for state in ("resolved", "any"):
        assert len((await client.query(query.DeadLetters(tenant="letters", state=state))).rows) == 2
    by = [row["by"] async for row in client.rows(query.Events(run=runs[1])) if row["type"] == "DeadLetterResolved"]
    assert by == ["grace"]
    with pytest.raises(NotFound, match="no dead letter"):
        await client.execute(command.RetryDeadLetter(f"{runs[0]}:nothing#1"))


async def test_the_same_is_done_to_many_a_page_at_a_time_and_a_dry_run_does_nothing(client: AsyncClient) -> None:
    runs = [await failed(client, "many") for _ in range(3)]

    async def done(bulk: command.Bulk | command.BulkDeadLetters) -> list[tuple[str, str, str | None]]:
        found: list[tuple[str, str, str | None]] = []
        while True:
            page = await client.execute_many(bulk)
            found += [(row["run_id"], row["status"], row["refused"]) for row in page.rows]
            if page.cursor is None:
                return found
            bulk = msgspec.structs.replace(bulk, cursor=page.cursor)

    would = await done(command.BulkDeadLetters(action="retry", tenant="many", limit=2, dry_run=True))
    assert would == [(run, "failed", None) for run in runs]
    assert len((await client.query(query.DeadLetters(tenant="many"))).rows) == 3
    assert await done(command.BulkDeadLetters(action="resolve", tenant="many", node="post", limit=2)) == would
    assert (await client.query(query.DeadLetters(tenant="many"))).rows == []
    would = await done(command.Bulk(action="fork", step="post#1", tenant="many", limit=2, dry_run=True))
    assert would == [(run, "failed", None) for run in reversed(runs)]
    assert len((await client.query(query.Runs(tenant="many"))).rows) == 3
    page = await client.execute_many(command.Bulk(action="fork", step="post#1", tenant="many"))
    assert [(await rested(client, row["fork"]))["status"] for row in page.rows] == ["failed"] * 3
    refused = await done(command.Bulk(action="pause", status=("failed",), tenant="many"))
    assert len(refused) == 6
    assert all(why for _, _, why in refused)
    with pytest.raises(InvalidInput, match="action"):
        await client.execute_many(command.Bulk(action="forget"))  # type: ignore[arg-type]


async def test_the_workflows_that_the_store_knows_are_listed_and_started(client: AsyncClient) -> None:
    seen = [row async for row in client.rows(query.Workflows(limit=4))]
    names = [row["workflow"] for row in seen]
    assert names == sorted(names)
    assert {"gated", "chain", "echo"} <= set(names)
    assert {row["processes"] for row in seen} == {1}
    (gated,) = (await client.query(query.Workflow(name="gated"))).rows
    assert (gated["input_schema"], [node["name"] for node in gated["definition"]["nodes"]]) == (None, ["ask"])
    with pytest.raises(NotFound, match="nowhere"):
        await client.query(query.Workflow(name="nowhere"))
    with pytest.raises(NotFound, match="nowhere"):
        await started(client, "nowhere")


async def test_what_cannot_be_is_refused_in_words(client: AsyncClient) -> None:
    run = await started(client, "gated", by="ann")
    for said, words in (
        (command.Extend(run, "patience", 1), "limit is 'patience'; it is one of steps, "),
        (command.SetPool(name="X"), "slots or a rate"),
        (command.SetAdmission(runs=2**64 - 1), "give a number from 0 to 1000000000"),
        (command.SetBudget("acme", "week", "1.00"), "period is 'week'; it is one of day, month"),  # type: ignore[arg-type]
        (command.SetBudget("acme", "day", max_tokens=5), "goes with in_tokens"),
        (command.SetBudget("acme", "day", in_tokens=True, max_tokens=2**63), "no number of tokens"),
    ):
        with pytest.raises(InvalidInput, match=words):
            await client.execute(said)
    with pytest.raises(NotFound):
        await client.execute(command.Pause("nobody"))


async def test_a_question_is_handed_on_and_given_to_others(client: AsyncClient) -> None:
    gate = await gate_of(client, await started(client, "gated"))
    with pytest.raises(DecisionRefused):
        await client.acting("eve").execute(command.Delegate(gate, ("bob",)))
    await client.acting("ida").execute(command.Delegate(gate, ("bob",), "I am away"))
    await client.execute(command.Reassign(gate, ("cid",)))
    shown = await hash_of(client, gate)
    with pytest.raises(DecisionRefused):
        await client.acting("bob").decide(gate, shown_hash=shown)
    assert (await client.acting("cid").decide(gate, shown_hash=shown, wait_s=WAIT_S))["status"] == "completed"


async def test_what_is_said_in_a_run_is_asked_page_by_page_while_it_comes(client: AsyncClient) -> None:
    run = await started(client, "chain", by="ann")
    page = await client.query(query.Streams(run=run, wait_s=0.05))
    await rested(client, run)
    assert page.rows == []
    assert (await client.query(query.Streams(run=run, cursor=page.cursor or "start"))).cursor is None
    with pytest.raises(InvalidInput, match="waited for 0 to 30"):
        await client.query(query.Streams(run=run, wait_s=31))
    with pytest.raises(InvalidInput, match="no place in the streams"):
        await client.query(query.Streams(run=run, cursor="nowhere"))


async def test_evaluations_that_were_kept_are_listed(port: Port, client: AsyncClient) -> None:
    wf = Workflow("w")
    wf.node("do")(task(lambda state: 1))
    judged = [ScenarioResult("good", "r1"), ScenarioResult("bad", "r2", ("It failed.",))]
    kept = await port.engine.keep_evaluation("a.yaml", wf, judged, min_passed=1, by="ann", tenant="nightly")
    (row,) = (await client.query(query.Evaluations(tenant="nightly"))).rows
    assert (row["evaluation_id"], row["suite"], row["met"]) == (kept.id, "a.yaml", False)
    (one,) = (await client.query(query.Evaluation(kept.id))).rows
    assert [each["misses"] for each in one["results"]] == [[], ["It failed."]]
    assert await client.query(query.Evaluations(tenant="nightly", workflow="order")) == Page([], None)
    with pytest.raises(NotFound, match="There is no evaluation 'none'"):
        await client.query(query.Evaluation("none"))
