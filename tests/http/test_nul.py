"""The character NUL in what a caller says: refused where it is a name, before a store is asked, and kept in data."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from holdfast.core.values.access import Access
from holdfast.errors import Unstorable
from holdfast.http.route import ROUTES, Route
from holdfast.service.access.identity import Holder
from holdfast.service.declarations.command import Say
from tests.http.kit import Asked, Port, known, served
from tests.http.test_tenants import said_of

IDENTITY = known(acme=Holder("clients.acme", tenant="acme", access=Access(("admin",))), opsops=Holder("clients.ops"))
SAID = "x\0"


@pytest.fixture(params=["sqlite", "postgres"])
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Port]:
    store = tmp_path if request.param == "sqlite" else request.getfixturevalue("database")
    async with served(store, IDENTITY) as port:
        yield port


async def test_a_name_with_nul_is_refused_before_a_store_is_asked(port: Port) -> None:
    async with port.asked("acme" * 4) as acme, port.asked("opsops" * 4) as ops:
        count = 0
        for route in ROUTES:
            if route.method == "POST":
                for field, value in wrong(route):
                    for who in (acme, ops):
                        await refused(who, route, field, value)
                    count += 1
        assert count > 100


async def refused(who: Asked, route: Route, field: str, value: Any) -> None:
    path = route.path.format_map(dict.fromkeys(route.in_path, "x"))
    to = {"to": ["ida"]} if "to" in route.elsewhere else {}
    said = await who.said("POST", path, {**said_of(route), **to, field: value})
    assert (said.status_code, said.json()["code"]) == (422, "invalid_input"), (path, field, said.text)
    words = f"The field {field!r} holds the character NUL, which no store keeps in a name. Nothing was done."
    assert said.json()["detail"] == words, (path, field)
    assert [each["pointer"] for each in said.json()["errors"]] == [f"#/{field}"]


def wrong(route: Route) -> list[tuple[str, Any]]:
    """The fields of a route's body that are texts, each with a wrong value."""
    hints = get_type_hints(route.what, include_extras=True)
    found = []
    for field in sorted({*route.elsewhere} - ({"text"} if route.what is Say else set())):
        kind = get_args(hints[field])[0] if get_origin(hints[field]) is Annotated else hints[field]
        if kind == tuple[str, ...]:
            found.append((field, ["a", SAID]))
        elif kind is str or (str in get_args(kind) and get_origin(kind) is not tuple and get_origin(kind) is not dict):
            found.append((field, SAID))
    return found


async def test_data_with_nul_is_kept_as_it_is(port: Port) -> None:
    async with port.asked("acme" * 4) as acme:
        ended = await acme.post("/runs", {"workflow": "quick", "input": {SAID: SAID}}, wait_s=10)
        assert ended["output"] == {"did": {SAID: SAID}}
        await acme.post("/conversations", {"name": "talk", "workflow": "answering"})
        assert (await acme.post("/conversations/talk/messages", {"text": SAID}))["text"] == SAID


async def test_what_cannot_be_stored_names_no_address_of_the_store(database: str, tmp_path: Path) -> None:
    async with served(database, IDENTITY) as port:
        with pytest.raises(Unstorable, match=r"^This cannot be stored: .*Nothing of it was written") as refusal:
            await port.engine.store.keys.named(SAID, None, 1)
        assert "127.0.0.1" not in refusal.value.message
