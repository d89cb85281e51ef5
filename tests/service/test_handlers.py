"""Handlers are found by what they take, and each command and query has one."""

from __future__ import annotations

import pytest

from holdfast.service import handler, service
from holdfast.service.declarations.command import Pause
from holdfast.service.declarations.declaration import declared
from holdfast.service.handler import Request, handlers, handles


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
