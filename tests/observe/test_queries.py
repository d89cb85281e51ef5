"""Every query of the dashboard and of the alerts asks for metrics that there are, by labels that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import promql_parser as promql
import pytest

from holdfast.observe import metrics
from tests.observe.queries import DASHBOARD, RUNBOOKS, alerts, panels

OF_PROMETHEUS: Final = {"up": {"job", "instance"}}
OF_EVERY: Final = {"job", "instance"}
_SUFFIXES: Final = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
SERIES: Final = OF_PROMETHEUS | {
    f"{name}{suffix}": {*metric.labels, *OF_EVERY, *(["le"] if suffix == "_bucket" else [])}
    for name, metric in metrics.ALL.items()
    for suffix in _SUFFIXES[metric.kind]
}
QUERIES: Final = [(name, rule["expr"]) for name, rule in alerts().items()]
QUERIES.extend((title, query) for title, queries in panels().items() for query in queries)


def selectors(part: Any) -> Iterator[Any]:
    """The series that an expression asks for."""
    if isinstance(part, promql.VectorSelector):
        yield part
    for inner in ("lhs", "rhs", "expr", "vector_selector", "args", "param"):
        found = getattr(part, inner, None)
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, promql.Expr):
                yield from selectors(each)


def grouped(part: Any) -> Iterator[tuple[set[str], Any]]:
    """The labels by which each aggregation groups, with what it aggregates."""
    if isinstance(part, promql.AggregateExpr) and part.modifier is not None:
        yield {*part.modifier.labels}, part.expr
    for inner in ("lhs", "rhs", "expr", "args"):
        found = getattr(part, inner, None)
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, promql.Expr):
                yield from grouped(each)


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_a_query_asks_for_metrics_and_labels_that_exist(name: str, query: str) -> None:
    parsed = promql.parse(query)
    found = [*selectors(parsed)]
    assert found, query
    for each in found:
        assert each.name in SERIES, f"{name}: there is no series {each.name}"
        assert {matcher.name for matcher in each.matchers.matchers} <= SERIES[each.name], query
    for labels, inner in grouped(parsed):
        for each in selectors(inner):
            assert labels <= SERIES[each.name], f"{name}: {each.name} is not by {labels - SERIES[each.name]}"


@pytest.mark.parametrize("query", ["sum(", "rate(holdfast_steps[1m])", "sum by (run) (holdfast_runs)"])
def test_a_query_that_cannot_answer_is_found(query: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        test_a_query_asks_for_metrics_and_labels_that_exist("mistaken", query)


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    pages = {}
    for name, rule in alerts().items():
        (page,) = re.findall(
            r"\{\{ \$externalLabels\.holdfast_docs \}\}/runbooks/([a-z-]+)\.html", rule["annotations"]["runbook_url"]
        )
        pages[page] = name
    titles = {
        file.stem: file.read_text().splitlines()[0].removeprefix("# ") for file in RUNBOOKS.glob("*.md") if file.stem != "index"
    }
    assert titles == pages
    assert {
        name: len(file.read_text().split())
        for name in pages
        if (file := RUNBOOKS / f"{name}.md") and len(file.read_text().split()) > 180
    } == {}


def test_every_metric_is_shown_or_watched() -> None:
    shown = " ".join(query for _, query in QUERIES)
    # Figures of one process, which a fleet's panels have from its leader; and how often model calls waited.
    alone = {
        "worker_slots",
        "worker_slots_free",
        "worker_runs_waiting",
        "connected_workers",
        "connected_slots",
        "connected_jobs",
    }
    alone |= {"workers", "pool_waits_total", "metrics_look_duration_seconds", "doubts_total", "dead_letters_total"}
    assert {name for name in metrics.ALL if not re.search(rf"\b{name}(_bucket|_sum|_count)?\b", shown)} == {
        f"holdfast_{name}" for name in alone
    }


def test_panels_do_not_overlap_and_have_a_unit() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24, panel["title"]
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"], panel["title"]
