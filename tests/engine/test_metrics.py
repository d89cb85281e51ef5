"""What a process counts is what its runs' histories say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Context, Demand, Workflow, flow, human_gate, step, task
from holdfast.compose.metrics import ProcessMetrics, look_of_engine, of_engine, pushing
from holdfast.core.facts import events as ev
from holdfast.errors import RunFailed, StoreError
from holdfast.models.providers import Providers
from holdfast.observe import metrics
from holdfast.observe.health import prometheus_text
from holdfast.observe.meter import Meter
from holdfast.observe.store_look import StoreLook
from holdfast.ports.metric import Distribution
from holdfast.settings import PoolRules, Settings, TelemetryRules
from holdfast.telemetry.names import CONVENTIONS, ConventionName
from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests.engine.kit import bounded, gate_of, opened
from tests.engine.test_model_calls import HAIKU
from tests.engine.test_observers import bill
from tests.engine.test_outbox import delivery
from tests.telemetry.receiver import grpc_receiver, values


def figures(meter: Meter) -> dict[tuple[str, ...], float]:
    """The values by name without `holdfast_` and labels; of a histogram, how many measurements there are."""
    return {
        (each.metric.name.removeprefix("holdfast_"), *each.labels): sum(each.value.counts)
        if isinstance(each.value, Distribution)
        else each.value
        for each in meter.samples()
    }


@bounded
async def test_counts_are_those_of_the_history(
    tmp_path: Path, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.add(Rule(text="Yes."))
    meter = Meter()
    async with opened(str(tmp_path / "store.db"), model=model, observers=[meter]) as engine:
        run = await engine.start(bill(), tenant="ada")
        await engine.decide(await gate_of(run), "approve")
        await run.result()
        history = [each.event for each in await run.events()]
    (settled,) = [each for each in history if isinstance(each, ev.ModelCallSettled)]
    found = figures(meter)
    expected = {
        ("runs_started_total", "bill"): 1,
        ("run_start_delay_seconds", "bill"): 1,
        ("run_duration_seconds", "bill", "completed"): 1,
        ("steps_total", "bill", "completed"): 4,
        ("steps_total", "bill", "retrying"): 1,
        **{("step_duration_seconds", "bill", node): 1 for node in ("read", "judge", "pay", "sign")},
        ("model_calls_total", HAIKU, "completed"): 1,
        ("model_call_duration_seconds", HAIKU): 1,
        ("model_tokens_total", HAIKU, "ada", "input"): settled.input_tokens,
        ("model_tokens_total", HAIKU, "ada", "output"): settled.output_tokens,
        ("cost_nanodollars_total", HAIKU, "ada"): settled.cost_nanousd,
        ("tool_calls_total", "pay", "completed"): 1,
        ("holds_total", "held"): 1,
        ("gates_opened_total", "approval"): 1,
        ("gates_closed_total", "decided"): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["commit_duration_seconds",] == found["flush_size_appends",] > 5
    with monkeypatch.context() as patch:
        patch.setenv("OTLP_TOKEN", "s3cret")
        sent = {each: await pushed(meter, each, tmp_path) for each in CONVENTIONS}
    about = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": HAIKU}
    (duration,) = sent["1.41.0"]["gen_ai.client.operation.duration"].histogram.data_points
    assert (values(duration.attributes), duration.count) == (about, 1)
    tokens = sent["1.41.0"]["gen_ai.client.token.usage"]
    assert (tokens.unit, [*tokens.histogram.data_points[0].explicit_bounds][:3]) == ("{token}", [1, 4, 16])
    assert [(values(each.attributes), each.sum) for each in tokens.histogram.data_points] == [
        ({**about, "gen_ai.token.type": "input"}, settled.input_tokens),
        ({**about, "gen_ai.token.type": "output"}, settled.output_tokens),
    ]
    later = sent["genai-0.1"]
    assert [values(each.attributes) for each in later["gen_ai.client.inference.duration"].histogram.data_points] == [about]
    used = {name: each.sum.data_points[0].as_int for name, each in later.items() if ".inference.usage." in name}
    assert used == {
        "gen_ai.client.inference.usage.input_tokens": settled.input_tokens,
        "gen_ai.client.inference.usage.output_tokens": settled.output_tokens,
        "gen_ai.client.inference.usage.cache_read.input_tokens": settled.cache_read_tokens,
        "gen_ai.client.inference.usage.cache_write.input_tokens": settled.cache_write_tokens,
    }


async def pushed(meter: Meter, convention: ConventionName, folder: Path) -> dict[str, Any]:
    """The metrics that a receiver gets over gRPC, by name."""
    async with grpc_receiver() as (endpoint, received):
        rules = TelemetryRules(
            endpoint=endpoint,
            protocol="grpc",
            conventions=convention,
            metrics_every_s=60,
            headers={"Authorization": "OTLP_TOKEN"},
        )
        async with pushing(ProcessMetrics(meter, ()), Settings(telemetry=rules), str(folder / "store.db"), lambda: 1_000):
            pass
    assert {headers["authorization"] for headers in received.headers} == {"s3cret"}
    (resource,) = received.metrics[-1].resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.schema_url == CONVENTIONS[convention].schema_url
    assert values(resource.resource.attributes)["service.name"] == "holdfast"
    return {each.name: each for each in scope.metrics}


@bounded
async def test_a_call_that_fails_is_measured_with_its_class_of_error(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(fault=Fault("status", status=400)))
    meter = Meter()
    async with opened(str(tmp_path / "store.db"), model=model, observers=[meter]) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(bill())).result()
    assert [each.labels for each in meter.usage()] == [(HAIKU, "validation")]


@bounded
async def test_functions_of_a_flow_are_steps_and_the_flow_is_none(tmp_path: Path) -> None:
    @step
    async def add(one: int) -> int:
        return one + 1

    @flow
    async def both(ctx: Context) -> int:
        return await add(await add(1))

    meter = Meter()
    async with opened(str(tmp_path / "store.db"), observers=[meter]) as engine:
        assert await (await engine.start(both)).result() == 3
    found = figures(meter)
    assert found["steps_total", "both", "completed"] == 2
    assert {key: value for key, value in found.items() if key[0] == "step_duration_seconds"} == {
        ("step_duration_seconds", "both", "add"): 2
    }


@bounded
async def test_a_process_has_its_lease_and_its_look_among_its_gauges(tmp_path: Path) -> None:
    wf = Workflow("plain")
    wf.node("only", demand=Demand(labels=("gpu",)))(task(lambda state: 42))
    meter = Meter()
    async with opened(str(tmp_path / "store.db"), workflows=[wf], slots=7, labels=["gpu"], observers=[meter]) as engine:
        assert await (await engine.start(wf)).result() == 42
        text = prometheus_text(await ProcessMetrics(meter, [lambda: of_engine(engine)]).samples()).decode()
    assert figure(text, "holdfast_worker_slots") == 7
    assert 0 <= figure(text, "holdfast_lease_age_seconds") < 10
    assert 0 <= figure(text, "holdfast_sweep_age_seconds") < 10
    assert 'holdfast_step_wait_seconds_count{reason="worker"} 1.0' in text
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert names <= {*metrics.ALL}, "every metric is named in one place"


@bounded
async def test_a_look_into_the_store_shows_what_waits_and_what_is_left(tmp_path: Path) -> None:
    wf = Workflow("asks")
    wf.node("sign")(human_gate()(lambda state: "Is it paid?"))
    known = Settings(pools={"GPU": PoolRules(slots=3)})
    meter = Meter()
    async with opened(str(tmp_path / "store.db"), workflows=[wf], slots=4, settings=known, observers=[meter]) as engine:
        look = look_of_engine(engine)
        followers, before = engine.store.followers, await engine.store.tail.end()
        for _ in range(2):
            await gate_of(await engine.start(wf))
        await engine.store.outbox.add([delivery()])
        (claimed,) = await engine.store.outbox.claim("ops", 1, 60_000)
        assert await engine.store.outbox.failed(claimed, "ops", "no recipient", None, disable=False)
        for name, cursor in {
            "behind": before,
            "unfed": before,
            "done": await engine.store.tail.end(),
            "other": "1/a/2/3",
        }.items():
            await followers.begin(name, cursor)
            if name != "unfed":
                await followers.hold(name, "a process", 60_000)
        found = {(each.metric.name.removeprefix("holdfast_"), *each.labels): each.value for each in await look.samples()}
        (worker,) = [key for key in found if key[0] == "worker_utilization_ratio"]
        expected = {
            ("runs", "waiting"): 2,
            ("runs_waiting", "gate"): 2,
            ("gates_open", "approval", "under_1h"): 2,
            ("queue_depth", "slot"): 0,
            ("queue_depth", "money"): 0,
            ("pool_limit", "GPU"): 3,
            ("pool_headroom", "GPU"): 3,
            ("sweep_lag_seconds",): 0,
            ("dead_letters_open",): 0,
            ("outbox_oldest_age_seconds", "ops"): 0,
            ("notifications_total", "ops", "sent"): 0,
            ("notifications_total", "ops", "failed"): 1,
            ("notifications_total", "ops", "dead"): 1,
            ("follower_lag_seconds", "done"): 0,
        }
        assert {key: found.get(key) for key in expected} == expected
        assert [key[1] for key in found if key[0] == "follower_lag_seconds"] == ["behind", "done"], "others have no figure"
        assert found["follower_lag_seconds", "behind"] > 0, "an event that waits has an age from the first look"
        assert worker[2] == "default"
        assert found[worker] in (0, 0.25), "a report may be a second old"
        await gate_of(await engine.start(wf))
        again = {(each.metric.name, *each.labels): each.value for each in await look.samples()}
        assert again["holdfast_runs", "waiting"] == 2, "the store is not asked again within 15 seconds"
        assert look._task is None, "no other look has begun"
        await look.aclose()


@bounded
async def test_a_look_that_fails_or_is_another_process_shows_nothing_stale(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "store.db")) as engine:
        runtime, wanted = engine.runtime, [True]
        look = StoreLook(runtime.store, runtime.clock, lambda: wanted[0])
        assert await look.samples()
        wanted.clear()
        wanted.append(False)
        assert await look.samples() == ()

        class Broken:
            async def counts(self) -> None:
                raise StoreError("It is away.")

        broken = msgspec.structs.replace(runtime.store, census=Broken())
        look = StoreLook(broken, runtime.clock, lambda: True)
        assert await look.samples() == ()


def figure(text: str, name: str) -> float:
    (found,) = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found)
