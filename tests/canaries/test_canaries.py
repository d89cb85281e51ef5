"""Canaries in prompts, arguments, results, errors, headers, forms, labels and secrets, and no place has one that it should not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.app import GROUPS
from holdfast.platform.masking import forms
from tests.canaries.table import COMMANDS_ABOUT_A_RUN, COMMANDS_ABOUT_THE_STORE, OF_COMMANDS, OTHER_COMMANDS, PLACES, SINKS
from tests.canaries.world import KINDS, World

ROOT = Path(holdfast.__file__).parent


def found(said: bytes) -> dict[str, str]:
    """The kinds of canaries in what was said, each with its surroundings."""
    places = {}
    for kind, canary in KINDS.items():
        for form in sorted(forms(canary), key=len, reverse=True):
            if (at := said.find(form)) >= 0:
                places[kind] = said[max(0, at - 120) : at + len(form) + 40].decode("utf-8", "replace")
                break
    return places


def faults(place: str, said: bytes) -> list[str]:
    """What is wrong with what was said at a place."""
    there, allowed = found(said), PLACES[place]
    wrong = [f"{place} has {kind!r}: …{around}…" for kind, around in there.items() if kind not in allowed.may_hold]
    return wrong + [f"{place} lacks {kind!r}, so this looks in the wrong place" for kind in allowed.holds - there.keys()]


def test_no_place_has_a_canary_that_it_should_not(world: World) -> None:
    assert [place for place, said in world.places.items() if not said.strip()] == []
    assert [fault for place, said in world.places.items() for fault in faults(place, said)] == []
    assert PLACES.keys() - world.places.keys() == {*OF_COMMANDS}


@pytest.mark.long
def test_no_command_shows_a_canary_that_it_should_not(world: World) -> None:
    said = dict.fromkeys(OF_COMMANDS, "")
    for run in world.runs:
        world.command(f"runs export {run} --to exported-{run}.json")
        for words in COMMANDS_ABOUT_A_RUN:
            said["commands about a run"] += world.command(words.replace("RUN", run))
    said["redacted exports"] = "".join(file.read_text() for file in world.folder.glob("exported-*"))
    for words in COMMANDS_ABOUT_THE_STORE:
        said["commands about the store"] += world.command(words)
    said["log lines for people"] = world.command("worker flows.py:planted flows.py:failing --until-idle")
    (world.folder / "crash.py").write_text(
        f"import os\nraise RuntimeError('{KINDS['exception']}', os.environ['ANTHROPIC_API_KEY'])\n"
    )
    said["output of a crash"] = world.command("run crash.py:one")
    assert [fault for place, texts in said.items() for fault in faults(place, texts.encode())] == []


def sinks() -> Iterable[str]:
    """What takes committed events, or messages, out of the house."""
    for file in sorted(ROOT.rglob("*.py")):
        room = file.relative_to(ROOT)
        if room.parts[0] in ("ports", "testing", "core"):
            continue
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"async def (take|send)\(", text) else ():
            if isinstance(node, ast.ClassDef):
                takes = [
                    (each.name, each.args.args[-1].arg)
                    for each in node.body
                    if isinstance(each, ast.AsyncFunctionDef) and each.args.args
                ]
                if {("take", "events"), ("send", "message")} & {*takes}:
                    yield f"{'.'.join(room.with_suffix('').parts)}.{node.name}"


def test_each_way_out_of_the_house_has_a_place_in_the_table() -> None:
    known = {*sinks()}
    assert known - SINKS.keys() == set(), "a new sink: say in tests/canaries/table.py what it may hold"
    assert SINKS.keys() - known == set()
    assert {*SINKS.values()} <= PLACES.keys() - {*OF_COMMANDS}


def test_each_command_has_a_place_in_the_table() -> None:
    asked = {words.split()[0] for words in (*COMMANDS_ABOUT_A_RUN, *COMMANDS_ABOUT_THE_STORE)}
    commands = {name for group in GROUPS.values() for name in group}
    assert commands - asked - OTHER_COMMANDS == set(), "a new command: say in tests/canaries/table.py what it may show"


def test_each_canary_is_found_in_each_of_its_forms() -> None:
    for kind, canary in KINDS.items():
        assert found(f"before {canary} after".encode()).keys() == {kind}
        for form in forms(canary):
            assert found(b"\x00" + form + b"\x00").keys() == {kind}
