"""The spans of a run over HTTP: each once, page by page, those that are open at the end."""

from __future__ import annotations

from tests.http.kit import Asked

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_spans_are_listed_page_by_page_and_open_ones_come_last(api: Asked) -> None:
    run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10, traceparent=CALLER))["run_id"]
    path = f"/runs/{run}/spans"
    whole = (await api.get(path))["rows"]
    assert await api.rows(path, limit=1) == whole
    assert {row["trace_id"] for row in whole} == {CALLER.split("-")[1]}
    assert [row["parent_id"] for row in whole if row["kind"] == "run"] == [CALLER.split("-")[2]]
    kinds = [row["kind"] for row in whole]
    assert kinds[-1] == "wait"
    assert {"run", "step", "attempt"} <= {*kinds}
    last = whole[-1]
    assert (last["ended_at"], last["took_ms"], last["outcome"], last["facts"]["wait"]) == (None, None, "open", "person")
    assert all("session" not in row["facts"] for row in whole)
