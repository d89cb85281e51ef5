"""Options in groups: a command shows them as its own, and gets them as one value."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
import typer.testing

from holdfast.cli.group import Group, expanded

Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="A name.")]
Size = Annotated[int, typer.Option("--size", metavar="N", help="A size.")]
THING = Group(lambda **given: given, name=(Name, None), size=(Size, 3))


def act(run: str = "r", *, thing: Annotated[dict[str, Any], THING], last: bool = False) -> dict[str, Any]:
    """Act."""
    return {"run": run, "last": last, **thing}


def test_a_group_stands_in_the_place_of_its_parameter() -> None:
    assert list(inspect.signature(expanded(act)).parameters) == ["run", "name", "size", "last"]
    assert expanded(act)(run="a", name=None, size=5, last=True) == {"run": "a", "last": True, "name": None, "size": 5}


def test_a_command_without_groups_is_as_it_was() -> None:
    def bare(name: Name = None) -> None: ...

    assert expanded(bare) is bare


def test_the_options_of_a_group_have_their_names_defaults_and_help() -> None:
    app = typer.Typer()
    app.command()(expanded(act))
    told = typer.testing.CliRunner().invoke(app, ["--help"]).output
    assert "--name" in told
    assert "A size." in told
    assert "3" in told


def test_a_group_may_be_taken_without_some_of_its_options() -> None:
    assert THING.without("size").options.keys() == {"name"}
    assert THING.options.keys() == {"name", "size"}
