"""The same request twice: under an idempotency key it is done once, whoever answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.http import once
from holdfast.service.identity import Holder
from tests.http.kit import Asked, known, served

START = {"workflow": "quick", "input": 1}


async def test_the_same_request_is_done_once_and_answered_alike(api: Asked) -> None:
    first = await api.said("POST", "/runs", START, idempotency_key="k1")
    again = await api.said("POST", "/runs", START, idempotency_key="k1")
    assert (first.status_code, again.status_code, first.json()) == (201, 201, again.json())
    assert (again.headers["idempotency-replayed"], again.headers["location"]) == ("true", first.headers["location"])
    assert len(await api.rows("/runs")) == 1
    assert await api.refused("POST", "/runs", {**START, "input": 2}, idempotency_key="k1") == (
        422,
        "idempotency_key_reused",
    )
    await api.post("/runs", START, idempotency_key="k2")
    assert len(await api.rows("/runs")) == 2
    for wrong in ("", "x" * 256):
        assert await api.refused("POST", "/runs", START, idempotency_key=wrong) == (400, "invalid_idempotency_key")


async def test_of_many_at_once_one_is_done(api: Asked) -> None:
    said = await asyncio.gather(*(api.said("POST", "/runs", START, idempotency_key="k") for _ in range(20)))
    runs = {each.json()["run_id"] for each in said if each.status_code == 201}
    assert len(runs) == 1
    assert {each.json().get("code") for each in said if each.status_code != 201} <= {"in_flight"}
    assert len(await api.rows("/runs")) == 1


async def test_what_was_refused_frees_its_key(api: Asked) -> None:
    order = {"workflow": "order", "input": {}}
    assert await api.refused("POST", "/runs", order, idempotency_key="k") == (422, "invalid_input")
    assert (await api.post("/runs", {**order, "input": {"item": "tea"}}, idempotency_key="k"))["workflow"] == "order"


async def test_what_broke_off_is_told_and_not_done_again(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process dies between the deed and its answer."""

    async def dies(*_: object) -> None:
        raise RuntimeError("the process dies here")

    with monkeypatch.context() as broken:
        broken.setattr("holdfast.http.api._standing", dies)
        assert await api.refused("POST", "/runs", START, idempotency_key="k") == (500, "internal")
    assert len(await api.rows("/runs")) == 1
    assert await api.refused("POST", "/runs", START, idempotency_key="k") == (409, "in_flight")
    monkeypatch.setattr(once, "_LOST_MS", 0)
    assert await api.refused("POST", "/runs", START, idempotency_key="k") == (409, "broken_off")
    assert len(await api.rows("/runs")) == 1


async def test_a_key_is_its_callers_own_and_of_one_route(tmp_path: Path) -> None:
    identity = known(anns=Holder("clients.ann"), bobs=Holder("clients.bob"))
    async with served(tmp_path, identity) as port, port.asked("anns" * 4) as ann, port.asked("bobs" * 4) as bob:
        runs = [(await each.post("/runs", START, idempotency_key="k"))["run_id"] for each in (ann, bob, ann)]
        assert runs[0] == runs[2] != runs[1]
        other = await ann.post("/runs", START, idempotency_key="k", holdfast_as="carl")
        assert other["run_id"] not in runs
        done = await ann.post(f"/runs/{runs[0]}/scores", {"name": "good", "value": 1}, idempotency_key="k")
        assert done["run_id"] == runs[0]


async def test_an_answer_is_found_at_another_process(tmp_path: Path) -> None:
    async with served(tmp_path) as port, port.asked() as api:
        first = await api.post("/runs", START, idempotency_key="k")
    async with served(tmp_path) as port, port.asked() as api:
        assert await api.post("/runs", START, idempotency_key="k") == first
