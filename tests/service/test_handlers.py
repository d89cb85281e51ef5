"""Handlers are found by what they take, and each command and query has one."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from holdfast.service import handler, service
from holdfast.service.declarations.command import MakeKey, Pause
from holdfast.service.declarations.declaration import Answer, declared
from holdfast.service.handler import Request, handlers, handles, rows_of
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
