"""However many workflows, tenants, models and calls there are: the series and the memory of a process are bounded."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State, Step
from holdfast.core.values.ids import CallId, NodeName, Path, StepId
from holdfast.core.values.payload import NULL
from holdfast.observe import meter as meter_
from holdfast.observe import metrics
from holdfast.observe.meter import LabelValues, Meter
from holdfast.ports.observer import AppendsFlushed, EventsCommitted, RequestAnswered


def committed(meter: Meter, state: dict[str, Any], *events: Any, own: bool = True) -> None:
    meter(EventsCommitted(State(**state), events, own))


def called(meter: Meter, model: str, tenant: str, call: str) -> None:
    held = ev.ModelCallHeld(CallId(call), StepId("n#1"), 1, Path("0"), model, "", 10)
    settled = ev.ModelCallSettled(CallId(call), 7, 3, 2, NULL)
    committed(meter, {"tenant": tenant, "workflow": "w"}, held, settled)


def test_the_first_values_of_a_label_stand_alone_and_the_rest_are_other() -> None:
    values = LabelValues(2)
    assert [values[each] for each in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]
    assert LabelValues(2)["x" * 500] == "x" * metrics.MAX_CHARS


def test_costs_of_many_tenants_and_models_are_bounded_series_with_the_whole_sum() -> None:
    meter = Meter()
    for number in range(200):
        called(meter, f"model-{number}", f"tenant-{number}", f"call-{number}")
    costs = [each for each in meter.samples() if each.metric is metrics.COST]
    assert len(costs) <= metrics.MAX_VALUES["model"] * metrics.MAX_VALUES["tenant"]
    assert sum(each.value for each in costs if isinstance(each.value, int)) == 200 * 7
    assert ("other", "other") in [each.labels for each in costs]


def test_nodes_of_many_workflows_are_bounded_series() -> None:
    meter = Meter()
    for number in range(500):
        node = f"n{number}"
        state = State(workflow="w", at_ms=2_000)
        state.steps[NodeName(node)] = Step(StepId(f"{node}#1"), began_ms=1_000)
        meter(EventsCommitted(state, [ev.StepCompleted(StepId(f"{node}#1"), 1, NULL)], True))
    durations = [each for each in meter.samples() if each.metric is metrics.STEP_DURATION]
    assert len(durations) == metrics.MAX_VALUES["node"] + 1
    assert sum(sum(each.value.counts) for each in durations) == 500  # type: ignore[union-attr]


def test_calls_under_way_are_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_, "MAX_OPEN", 3)
    meter = Meter()
    for number in range(10):
        held = ev.ModelCallHeld(CallId(f"c{number}"), StepId("n#1"), 1, Path("0"), "m", "", 10)
        committed(meter, {"tenant": "t", "workflow": "w"}, held)
    assert len(meter._began) == 3
    committed(meter, {"tenant": "t", "workflow": "w"}, ev.ModelCallSettled(CallId("c0"), 7, 3, 2, NULL))
    (cost,) = [each for each in meter.samples() if each.metric is metrics.COST]
    assert cost.labels == ("other", "t"), "its model is not known any more, its cost is"


def test_what_other_processes_commit_is_not_counted_again() -> None:
    meter = Meter()
    committed(meter, {"tenant": "t", "workflow": "w"}, ev.RunCompleted(), own=False)
    assert not [each for each in meter.samples() if each.metric is metrics.RUN_DURATION]


def test_a_lost_attempt_is_recovered_with_its_next_start() -> None:
    meter = Meter()
    lost = ev.AttemptLost(StepId("n#1"), 1, "s")  # type: ignore[arg-type]
    committed(meter, {"workflow": "w", "at_ms": 1_000}, lost)
    committed(meter, {"workflow": "w", "at_ms": 3_000}, ev.StepStarted(StepId("n#1"), 2, "t"))  # type: ignore[arg-type]
    (recovery,) = [each.value for each in meter.samples() if each.metric is metrics.RECOVERY]
    assert (sum(recovery.counts), recovery.total) == (1, 2.0)  # type: ignore[union-attr]


def test_refused_appends_are_counted() -> None:
    meter = Meter()
    meter(AppendsFlushed(5, 3, 0.02))
    (refused,) = [each.value for each in meter.samples() if each.metric is metrics.APPENDS_REFUSED]
    assert refused == 2


def test_every_metric_has_a_name_with_a_unit_and_a_meaning() -> None:
    for name, metric in metrics.ALL.items():
        assert name.startswith("holdfast_"), name
        assert metric.help.endswith("."), name
        assert (metric.kind == "counter") == name.endswith("_total"), name
        assert bool(metric.bounds) == (metric.kind == "histogram"), name
        assert list(metric.bounds) == sorted(metric.bounds), name
        assert not {"run", "step", "call", "by", "person"} & {*metric.labels}, name


@pytest.mark.parametrize(
    ("request_", "labels"),
    [
        (RequestAnswered(True, 201, 0.1), ("command", "answered")),
        (RequestAnswered(True, 422, 0.1), ("command", "answered")),
        (RequestAnswered(True, 204, 5.1), ("command", "slow")),
        (RequestAnswered(True, 201, 20.0, waits=True), ("command", "answered")),
        (RequestAnswered(False, 200, 5.1), ("query", "answered")),
        (RequestAnswered(True, 429, 5.1), ("command", "limited")),
        (RequestAnswered(True, 503, 0.1), ("command", "failed")),
        (RequestAnswered(False, 500, 5.1), ("query", "failed")),
    ],
)
def test_requests_are_counted_by_what_their_sender_got(request_: RequestAnswered, labels: tuple[str, str]) -> None:
    meter = Meter()
    meter(request_)
    assert [(each.labels, each.value) for each in meter.samples() if each.metric is metrics.REQUESTS] == [(labels, 1)]
