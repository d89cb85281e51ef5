"""The same request twice: under an idempotency key it is done once, whoever answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response

from holdfast.core.values.access import Access
from holdfast.errors import AlreadyDecided, StoreUnreadable
from holdfast.http import idempotency
from holdfast.service.access.identity import Holder
from holdfast.service.declarations import command
from holdfast.service.service import Service
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.postgres_server import FAST, PostgresServer
from tests.http.kit import Asked, known, served

START = {"workflow": "quick", "input": 1}
MAX_TRIES = 600
MAX_S = 60


async def test_the_same_request_is_done_once_and_answered_alike(api: Asked) -> None:
    first = await api.said("POST", "/runs", START, idempotency_key="k1")
    again = await api.said("POST", "/runs", START, idempotency_key="k1")
    assert (first.status_code, again.status_code, first.json()) == (201, 201, again.json())
    assert (again.headers["idempotency-replayed"], again.headers["location"]) == ("true", first.headers["location"])
    assert len(await api.rows("/runs")) == 1
    assert await api.refused("POST", "/runs", {**START, "input": 2}, idempotency_key="k1") == (422, "idempotency_key_reused")
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


@pytest.mark.parametrize("first", ["refused", "answered"])
async def test_of_two_at_once_the_answer_is_kept_though_the_first_is_refused(tmp_path: Path, first: str) -> None:
    """The second has decided, so the first is refused: whichever of them ends first, a third gets the answer."""
    decide = command.Decide(gate="run:gate")
    begun = {name: asyncio.Event() for name in ("refused", "answered")}
    ends = {name: asyncio.Event() for name in begun}

    async def allowed() -> None:
        pass

    async def refused(_: Any) -> Response:
        begun["refused"].set()
        await ends["refused"].wait()
        raise AlreadyDecided("Another has decided.")

    async def answered(_: Any) -> Response:
        begun["answered"].set()
        await ends["answered"].wait()
        return Response(b"decided")

    store = await SqliteStore.connect(tmp_path / "runs.db")
    try:
        now_ms = store.clock.now_ms()

        def asked(answer: Any) -> asyncio.Task[Response]:
            return asyncio.create_task(idempotency.once(store.replies, None, now_ms, ["name"], decide, answer, allowed))

        both = {}
        for name, answer in (("refused", refused), ("answered", answered)):
            both[name] = asked(answer)
            await asyncio.wait_for(begun[name].wait(), MAX_S)
        for name in sorted(both, key=lambda each: each != first):
            ends[name].set()
            await asyncio.wait([both[name]])
        assert both["answered"].result().body == b"decided"
        if first == "answered":
            assert both["refused"].result().body == b"decided"
        third = await asked(refused)
        assert (third.body, third.headers["idempotency-replayed"]) == (b"decided", "true")
    finally:
        await store.aclose()


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As when the process dies between a deed and its answer."""

    async def dies(*_: object) -> None:
        raise RuntimeError("the process dies here")

    with monkeypatch.context() as broken:
        broken.setattr(Service, "execute", after(Service.execute, dies))
        yield


def after(deed: Any, dies: Any) -> Any:
    async def done(*arguments: Any, **named: Any) -> Any:
        await deed(*arguments, **named)
        await dies()

    return done


async def test_what_broke_off_is_done_once_where_the_same_again_is_asked_for(
    api: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = (await api.post("/runs", START, wait_s=10))["run_id"]
    run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
    gate = await api.gate(run)
    for path, body, rows in (
        ("/runs", START, "/runs"),
        (f"/runs/{ended}/fork", {"step": "do#1"}, "/runs"),
        (f"/runs/{run}/signals/more", {"data": 1}, f"/runs/{run}/events"),
        (f"/gates/{gate}/decision", await api.seen(gate), f"/runs/{run}/events"),
    ):
        with dying(monkeypatch):
            assert await api.refused("POST", path, body, idempotency_key=path, holdfast_as="ida") == (500, "internal")
        if path.endswith("/decision"):
            assert await api.refused("POST", path, body, idempotency_key=path, holdfast_as="ida") == (409, "in_flight")
            monkeypatch.setattr(idempotency, "_LOST_MS", 0)
            assert await api.refused("POST", path, body, idempotency_key=path, holdfast_as="ida") == (409, "already_decided")
            continue
        done = len(await api.rows(rows))
        first = await api.said("POST", path, body, idempotency_key=path, holdfast_as="ida")
        again = await api.said("POST", path, body, idempotency_key=path, holdfast_as="ida")
        assert (first.is_success, again.json(), len(await api.rows(rows))) == (True, first.json(), done), path


async def test_what_broke_off_and_may_not_be_repeated_is_reported_and_not_done_again(
    api: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (await api.post("/runs", START, wait_s=10))["run_id"]
    said = ("POST", f"/runs/{run}/scores", {"name": "good", "value": 1})
    with dying(monkeypatch):
        assert await api.refused(*said, idempotency_key="k", holdfast_as="ann") == (500, "internal")
    assert len(await api.rows(f"/runs/{run}/scores")) == 1
    assert await api.refused(*said, idempotency_key="k", holdfast_as="ann") == (409, "in_flight")
    monkeypatch.setattr(idempotency, "_LOST_MS", 0)
    assert await api.refused(*said, idempotency_key="k", holdfast_as="ann") == (409, "broken_off")
    assert len(await api.rows(f"/runs/{run}/scores")) == 1


async def test_a_failure_of_the_store_after_a_deed_does_not_free_its_key(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the database goes away between the start of a run and the look at how it stands."""

    async def away(*_: object) -> None:
        raise StoreUnreadable("the database cannot be reached")

    with monkeypatch.context() as broken:
        broken.setattr("holdfast.http.api._standing", away)
        assert (await api.refused("POST", "/runs", START, idempotency_key="k"))[0] == 503
    again = await api.post("/runs", START, idempotency_key="k")
    assert [row["run_id"] for row in await api.rows("/runs")] == [again["run_id"]]


async def test_a_key_is_free_again_after_its_time_and_means_another_run(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await api.post("/runs", START, idempotency_key="nightly")
    monkeypatch.setattr(idempotency, "KEPT_MS", -1)
    assert (await api.post("/runs", START, idempotency_key="nightly"))["run_id"] != first["run_id"]


async def test_a_store_that_is_away_for_a_while_uses_up_no_key() -> None:
    """Clients that try again as they are told, while the database is stopped in the middle of what they ask for."""
    with PostgresServer(settings=FAST) as server:
        async with served(server.url) as port, port.asked() as api:
            started, stopped = asyncio.Event(), asyncio.Event()

            async def client(number: int) -> set[str]:
                runs = set()
                for turn in range(100):
                    key, code = f"{number}-{turn}", ""
                    for _ in range(MAX_TRIES):
                        said = await api.said("POST", "/runs", START, idempotency_key=key)
                        if said.is_success:
                            runs.add(said.json()["run_id"])
                            break
                        code = said.json()["code"]
                        assert (said.status_code, code) in ((503, "store_unreadable"), (503, "store_busy")), said.text
                        await asyncio.sleep(0.05)
                    else:
                        raise AssertionError(f"{key}: {code}")
                    if turn == 2:
                        started.set()
                    if stopped.is_set():
                        break
                assert len(runs) == turn + 1
                return runs

            clients = [asyncio.ensure_future(client(number)) for number in range(10)]
            await asyncio.wait_for(started.wait(), MAX_S)
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            await asyncio.to_thread(server.restart)
            stopped.set()
            runs = set().union(*await asyncio.gather(*clients))
            assert {row["run_id"] for row in await api.rows("/runs", limit=1000)} == runs


async def test_a_key_is_its_callers_own_and_of_one_route(tmp_path: Path) -> None:
    identity = known(anns=Holder("clients.ann"), bobs=Holder("clients.bob"))
    async with served(tmp_path, identity) as port, port.asked("anns" * 4) as ann, port.asked("bobs" * 4) as bob:
        runs = [(await each.post("/runs", START, idempotency_key="k"))["run_id"] for each in (ann, bob, ann)]
        assert runs[0] == runs[2] != runs[1]
        other = await ann.post("/runs", START, idempotency_key="k", holdfast_as="carl")
        assert other["run_id"] not in runs
        done = await ann.post(f"/runs/{runs[0]}/scores", {"name": "good", "value": 1}, idempotency_key="k")
        assert done["run_id"] == runs[0]


@pytest.mark.parametrize(
    ("access", "refused"),
    [(Access(("viewer",), ("other",)), (403, "not_permitted")), (Access(("operator",), ("other",)), (404, "not_found"))],
)
async def test_an_answer_of_before_is_for_who_may_still_ask_for_it(
    tmp_path: Path, access: Access, refused: tuple[int, str]
) -> None:
    async with served(tmp_path, known(anns=Holder("clients.ann", tenant="acme"))) as port, port.asked("anns" * 4) as ann:
        first = await ann.post("/runs", START, idempotency_key="k")
        note = f"/runs/{first['run_id']}/scores", {"name": "good", "value": 1}
        await ann.post(*note, idempotency_key="s")
    less = known(anns=Holder("clients.ann", tenant="acme", access=access))
    async with served(tmp_path, less) as port, port.asked("anns" * 4) as ann:
        assert await ann.refused("POST", "/runs", START, idempotency_key="k") == refused
        assert await ann.refused("POST", *note, idempotency_key="s") == refused
    async with served(tmp_path, known(anns=Holder("clients.ann", tenant="acme"))) as port, port.asked("anns" * 4) as ann:
        assert await ann.post("/runs", START, idempotency_key="k") == first


async def test_an_answer_is_found_at_another_process(tmp_path: Path) -> None:
    async with served(tmp_path) as port, port.asked() as api:
        first = await api.post("/runs", START, idempotency_key="k")
    async with served(tmp_path) as port, port.asked() as api:
        assert await api.post("/runs", START, idempotency_key="k") == first
