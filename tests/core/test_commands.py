"""A command is a complete value: it cannot be changed, and what an attempt says names its step and attempt."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.facts import commands as cmd


def kinds_of(kind: type[cmd.Command]) -> list[type[cmd.Command]]:
    return [each for below in kind.__subclasses__() for each in (below, *kinds_of(below))]


@pytest.mark.parametrize("kind", kinds_of(cmd.Command), ids=lambda kind: kind.__name__)
def test_no_command_can_be_changed(kind: type[cmd.Command]) -> None:
    assert kind.__struct_config__.frozen


@pytest.mark.parametrize("kind", kinds_of(cmd.AttemptCommand), ids=lambda kind: kind.__name__)
def test_what_an_attempt_says_names_its_step_and_attempt(kind: type[cmd.Command]) -> None:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    assert required[:2] == ["step", "attempt"]


@pytest.mark.parametrize("kind", kinds_of(cmd.CallCommand), ids=lambda kind: kind.__name__)
def test_what_became_of_a_call_names_the_call(kind: type[cmd.Command]) -> None:
    assert next(field.name for field in msgspec.structs.fields(kind) if field.required) == "call"
