"""Handlers are found by what they take, and each command and query has one."""

from __future__ import annotations

import functools
import inspect
from typing import Any, get_type_hints

import pytest

from holdfast.core.values.ids import RunId
from holdfast.service import handler, service
from holdfast.service.control.control import Control
from holdfast.service.declarations.command import Cancel, MakeKey, Pause
from holdfast.service.declarations.declaration import Answer, declaration_of, declared
from holdfast.service.handler import Request, handlers, handles, rows_of
from holdfast.service.handlers import forwarded
from holdfast.service.principal import Principal
from holdfast.service.view import NewLinkRow


def test_each_command_and_query_has_one_handler() -> None:
    assert {*handlers()} == {*declared()}
    assert {each.__module__ for each in handlers().values()} == {room.__name__ for room in service.ROOMS}


def test_a_command_without_a_handler_is_refused_when_the_service_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(handler._HANDLERS, Pause)
    with pytest.raises(TypeError, match="Nothing handles Pause"):
        handlers()


def test_a_second_handler_of_a_command_is_refused() -> None:
    async def pause(request: Request, command: Pause) -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=r"Pause is handled by pause already"):
        handles(pause)


def test_a_handler_that_returns_something_else_than_its_command_declares_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make_key(request: Request, command: MakeKey) -> NewLinkRow:
        """Do nothing."""

    async def pause(request: Request, command: Pause) -> None:
        """Do nothing."""

    for wrong, words in ((make_key, "NewKeyRow"), (pause, "RunId")):
        monkeypatch.delitem(handler._HANDLERS, get_type_hints(wrong, globals() | locals())["command"])
        with pytest.raises(TypeError, match=f"{wrong.__name__} must return .*{words}"):
            handles(wrong)


def test_each_answer_is_one_of_the_rows() -> None:
    """The names of rows are in quotes, so a wrong one would come out late."""
    for kind, declaration in declared().items():
        assert [row.__name__ for row in rows_of(kind)] == [*declaration.answer]
        assert bool(declaration.answer) is (declaration.answers is not Answer.NOTHING), kind.__name__


def test_a_method_takes_each_field_of_the_command_that_it_does() -> None:
    with pytest.raises(TypeError, match=r"\.pause takes no 'reason', a field of Cancel: write a handler for it"):
        forwarded._forward(Cancel, Control.pause)


@pytest.mark.parametrize("kind", forwarded._METHODS, ids=lambda kind: str(kind.__name__))
async def test_a_command_reaches_its_method_with_its_fields_and_its_caller(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    method, seen = forwarded._METHODS[kind], dict[str, Any]()

    @functools.wraps(method)
    async def method_called(*given: Any, **named: Any) -> None:
        seen.update(inspect.signature(method).bind(*given, **named).arguments)

    monkeypatch.delitem(handler._HANDLERS, kind)
    forwarded._forward(kind, method_called)
    who = Principal("ann", "acme", ("legal",))
    request = Request(who, "acme", *[None] * 7)  # type: ignore[arg-type]
    command = kind(**{name: f"0190:{name}" for name in kind.__struct_fields__})
    found = await handler._HANDLERS[kind](request, command)
    taken = {name for name in inspect.signature(method).parameters if name in seen}
    first, *rest = kind.__struct_fields__
    assert f"0190:{first}" in seen.values()
    for name in rest:
        assert seen[name] == ("acme" if name == "tenant" else f"0190:{name}")
    assert {"by", "roles"} & {*inspect.signature(method).parameters} <= taken
    assert seen.get("by", who.claim) == who.claim
    assert found == (RunId("0190") if declaration_of(kind).answers is Answer.RUN else None)
