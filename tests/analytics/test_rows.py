"""Events as rows for ClickHouse, without a server: names, times and amounts, and never what users wrote."""

from __future__ import annotations

import socket
from pathlib import Path as File
from typing import Any

import msgspec
import pytest

from holdfast import Engine, Workflow, task
from holdfast.analytics.clickhouse import Address, ClickHouse, migrations, token_of
from holdfast.analytics.row import COLUMNS, cost_of, row_of
from holdfast.compose.clickhouse import clickhouse_sinks, redaction
from holdfast.core.facts import events as ev
from holdfast.core.facts.costs import Tally
from holdfast.core.values.ids import CallId, EffectKey, Path, RunId, Seq, SessionId, StepId
from holdfast.core.values.payload import NULL, inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.ports import CommittedEvent, SinkUnavailable
from holdfast.settings import ClickHouseRules, Secrets, Settings
from tests.engine.kit import bounded

RUN = RunId("0190d3a0-0000-7000-8000-000000000001")
STEP = StepId("review[3]#1")
CANARY = "the-canary-4711"


def committed(event: ev.Event, seq: int = 1) -> CommittedEvent:
    return CommittedEvent(RUN, "acme", "flow", 2, ev.Recorded(Seq(seq), 1_700_000_000_123, event, "4bf9"))


def call(path: str) -> CallId:
    return CallId(f"{RUN}:{STEP}:{path}:1")


def story() -> list[ev.Event]:
    """One of each kind of event that says something about money, with something private in each text of users."""
    private = inline({"text": CANARY})
    lost = ErrorRecord("n", "timeout", CANARY, True, 1)
    intended = {"step": STEP, "attempt": 1, "policy": "read", "key": EffectKey("k"), "args_hash": "h", "request": private}
    return [
        ev.RunStarted(RUN, "acme", "flow", 2, "h", private, None, 9, team="search", key=CANARY, by=CANARY),
        ev.StepStarted(STEP, 1, SessionId("s")),
        ev.ModelCallHeld(call("0"), STEP, 1, Path("0"), "m", "h", 60, sent_to="n"),
        ev.ModelCallSettled(call("0"), 45, 5, 7, private, cache_read_tokens=3, cacheable_nanousd=2),
        ev.ModelCallHeld(call("1"), STEP, 1, Path("1"), "m", "h", 50),
        ev.ModelCallInDoubt(call("1"), lost),
        ev.ModelCallReconciled(call("1"), 50, by=CANARY),
        ev.EffectIntended(call("2"), path=Path("2"), tool="fetch", hold_nanousd=7, **intended),
        ev.EffectFailed(call("2"), lost, cost_nanousd=7),
        ev.EffectIntended(call("3"), path=Path("3"), tool="send", hold_nanousd=9, **intended),
        ev.EffectIntended(
            call("4"), path=Path("3"), tool="send", hold_nanousd=9, given_up={call("3"): ev.Hold(9, 1)}, **intended
        ),
        ev.EffectCompleted(call("4"), private, hold=ev.Hold(9, 1)),
        ev.StepFailed(STEP, 1, lost, output=private),
        ev.RunFailed(lost),
    ]


def test_a_row_has_names_times_and_amounts() -> None:
    rows = {row.type: row for row in map(row_of, map(committed, story()))}
    settled = rows["ModelCallSettled"]
    assert (settled.tenant, settled.workflow, settled.version, str(settled.run), settled.seq) == ("acme", "flow", 2, RUN, 1)
    assert (settled.step, settled.node, settled.call, settled.outcome) == (STEP, "review", call("0"), "completed")
    assert (settled.cost_nanousd, settled.input_tokens, settled.output_tokens, settled.cache_read_tokens) == (45, 5, 7, 3)
    assert (settled.at.isoformat(), settled.trace) == ("2023-11-14T22:13:20.123000+00:00", "4bf9")
    assert (rows["ModelCallHeld"].model, rows["EffectIntended"].model) == ("m", "tool send")
    assert rows["EffectIntended"].given_up == {call("3"): 9}
    assert (rows["RunStarted"].team, rows["RunFailed"].outcome, rows["StepFailed"].error_class) == (
        "search",
        "failed",
        "timeout",
    )


def test_the_costs_of_rows_are_those_that_the_roll_up_counts() -> None:
    tally = Tally(Seq(0))
    tally.take([committed(event, n).recorded for n, event in enumerate(story(), 1)])
    assert (
        sum(cost_of(event) for event in story()) == sum(each.cost.cost_nanousd for each in tally.costs()) == 45 + 50 + 7 + 9 + 9
    )


def test_a_row_holds_nothing_that_users_wrote_unless_it_is_to() -> None:
    rows = [row_of(committed(event)) for event in story()]
    assert CANARY not in repr(rows)
    assert {row.payload for row in rows} == {""}
    whole = row_of(committed(story()[0]), lambda event: event.replace(CANARY.encode(), b"[redacted]"))
    assert msgspec.json.decode(whole.payload)["input"] == {"json": {"text": "[redacted]"}}


def test_a_payload_is_exported_without_secrets_addresses_and_numbers() -> None:
    secrets = Secrets(environment={"TOKEN": CANARY})
    secrets.get("TOKEN")
    private = inline({"a": f"key {CANARY}", "b": "ann@example.com", "c": "4111 1111 1111 1111", "d": 7})
    row = row_of(committed(ev.RunCompleted(private)), redaction(secrets))
    assert not [word for word in (CANARY, "ann@example.com", "4111 1111") if word in row.payload]
    assert msgspec.json.decode(row.payload)["output"]["json"]["d"] == 7


def test_a_batch_has_the_same_token_whenever_it_is_given_and_no_other_batch_has_it() -> None:
    rows = [row_of(committed(event, n)) for n, event in enumerate(story(), 1)]
    assert token_of(rows) == token_of([row_of(committed(event, n)) for n, event in enumerate(story(), 1)])
    assert len({token_of(rows), token_of(rows[1:]), token_of(rows[:-1])}) == 3


def test_each_column_of_the_table_of_events_is_one_of_a_row() -> None:
    ((version, statements),) = migrations()
    assert version == 1
    (events,) = [each for each in statements if "create table if not exists events (" in each]
    columns = [line.split()[0] for line in events.partition("events (\n")[2].partition("\n)")[0].splitlines()]
    assert tuple(columns) == COLUMNS
    assert all("if not exists" in each for each in statements), "each may be repeated"
    tables = [each for each in statements if "engine = " in each]
    assert all("non_replicated_deduplication_window" in each for each in tables)


@pytest.mark.parametrize(
    "url", ["clickhouse:8123", "tcp://c:9000", "http://me:word@c:8123", "http://c:8123/path?x=1", "http://"]
)
def test_what_is_no_address_of_an_http_interface_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        ClickHouseRules(url=url)


async def test_an_amount_that_no_column_holds_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    sink = ClickHouse("clickhouse", Address("http://127.0.0.1:9", "d", "u", str), 10)
    dear = committed(ev.ModelCallSettled(call("0"), 2**63, 1, 1, NULL))
    assert await sink.take([dear]) == 1
    assert "leaves out event 1" in caplog.text


def dead_port() -> str:
    """An address at which nobody answers."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


async def test_a_missing_password_is_a_reason_to_wait_and_not_to_stop() -> None:
    (sink, _) = clickhouse_sinks(ClickHouseRules(url=dead_port(), secret="CLICKHOUSE_PASSWORD"), Secrets(environment={}))
    with pytest.raises(SinkUnavailable, match="no secret 'CLICKHOUSE_PASSWORD'"):
        await sink.take([committed(story()[0])])
    await sink.aclose()


async def test_a_server_that_is_away_is_asked_again_later() -> None:
    sink = ClickHouse("clickhouse", Address(dead_port(), "d", "u", str), 10)
    with pytest.raises(SinkUnavailable, match="ClickHouse"):
        await sink.take([committed(story()[0])])


@bounded
async def test_runs_go_on_while_the_server_is_away_and_the_store_says_why_nothing_comes(tmp_path: File) -> None:
    wf = Workflow("quick")

    @wf.node("only")
    @task
    async def only(state: Any) -> dict[str, Any]:
        return {}

    settings = Settings(clickhouse=ClickHouseRules(url=dead_port()))
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[wf], settings=settings) as engine:
        await (await engine.start(wf, {})).result()
        followers = engine.runtime.store.followers
        while not any(row.problem for row in await followers.listed()):
            await engine.runtime.clock.sleep(0.02)
        rows = {row.name: row for row in await followers.listed()}
        assert "ClickHouse" in rows["clickhouse"].problem
        assert rows["clickhouse"].taken == 0
