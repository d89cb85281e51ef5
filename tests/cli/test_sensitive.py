"""What commands show of a run with sensitive fields: the sealed text, never the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.values.payload import SEALED
from tests.cli.conftest import Shell
from tests.engine.test_encryption import TENANTS, written

CANARY = "canary-4711"
FILE = """
from typing import Annotated

from pydantic import BaseModel

from holdfast import Context, Sensitive, flow, tool


class Card(BaseModel):
    number: Annotated[str, Sensitive]


@tool(effect="once")
def charge(card: Card) -> Card:
    return card


@flow(tools=[charge])
async def pay(ctx: Context, card: Card) -> Card:
    await ctx.tool(charge, card=card)
    await ctx.stream("told").write(card)
    await ctx.shared("board").write("card", card)
    await ctx.ask({"card": card}, form=Card, proposed_action=card.number)
    return card


@flow(on_exhausted="dead_letter")
async def fail(ctx: Context, card: Card) -> None:
    raise ValueError(card)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (home / "pay.py").write_text(FILE)
    known = written(home / "keys.toml", *TENANTS)
    monkeypatch.setenv("HOLDFAST_KEY_FILE", str(known.key_file))
    monkeypatch.setenv(
        "HOLDFAST_STORE",
        request.getfixturevalue("database") if request.param == "postgres" else f"sqlite:///{home}/holdfast.db",
    )
    return str(request.param)


@pytest.mark.usefixtures("place")
def test_no_command_shows_a_sensitive_text(shell: Shell, home: Path) -> None:
    given = f'{{"number": "{CANARY}"}}'
    said = [shell("run", f"pay.py:{name}", "-i", given, "--detach") for name in ("pay", "fail")]
    said.append(shell("worker", "pay.py:pay", "pay.py:fail", "--until-idle"))
    paid, failed = [row["run_id"] for row in reversed(shell("runs", "list", "--json").data)]
    gate = shell("gates", "list", "--run", paid, "--json").data[0]["gate_id"]
    for words in (
        ["runs", "show", paid],
        ["runs", "show", paid, "--trace"],
        ["runs", "show", failed],
        ["runs", "events", paid],
        ["runs", "events", failed],
        ["runs", "stream", paid, "told"],
        ["runs", "export", paid],
        ["gates", "list"],
        ["gates", "show", gate],
        ["effects", "list"],
        ["shared", "list"],
        ["shared", "show", "board", "card"],
        ["dead-letters", "list"],
        ["dead-letters", "show", failed],
        ["runs", "tail"],
    ):
        said += [shell(*words), shell(*words, "--json")]
    said += [shell("gates", "answer", gate, "--data", given, "--as", "ann"), shell("worker", "pay.py:pay", "--until-idle")]
    said += [shell("runs", "show", paid, "--json"), shell("replay", "pay.py:pay")]
    for each in said:
        assert CANARY not in each.out + each.err
    assert SEALED in "".join(each.out for each in said)
    for file in home.rglob("*"):
        assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
