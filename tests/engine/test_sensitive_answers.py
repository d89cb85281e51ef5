"""What somebody gives in the place of code is sealed as the type has it that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from holdfast import Context, Engine, Sensitive, Workflow, flow, task, tool
from holdfast.core.values.payload import SEALED
from holdfast.errors import InvalidInput, OutcomeUnknown
from holdfast.settings import Settings
from tests.engine.test_encryption import written

CANARY = "4111-1111-1111-1111"
SEEN: list[str] = []


class Card(BaseModel):
    holder: str
    number: Annotated[str, Sensitive]


GIVEN = {"holder": "ann", "number": CANARY}


@tool(effect="idempotent")
def lookup(of: str) -> Card:
    """Look a card up."""
    raise ValueError("away")


@tool(effect="once")
def order(of: str) -> Card:
    """Order a card."""
    raise OutcomeUnknown("nobody knows")


@flow
async def hearing(ctx: Context, given: Any) -> str:
    card = await ctx.wait_signal("card", type=Card)
    SEEN.append(str(card.number))
    return "heard"


@flow(tools=[order])
async def ordering(ctx: Context, given: Any) -> str:
    card: Card = await ctx.tool(order, of="ann")
    SEEN.append(str(card.number))
    return "ordered"


parked = Workflow("parked", on_exhausted="dead_letter")


@parked.node("find")
@task
def find(state: Any) -> Card:
    if state.input:
        raise ValueError("not found")
    return Card(holder="bob", number="0")


@parked.node("use")
@task
def use(state: Any) -> str:
    SEEN.append(str(Card.model_validate(state.events["find"].output).number))
    return "used"


parked.edge("find", "use")


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    SEEN.clear()
    return Settings(key_file=written(tmp_path / "keys.toml", "default", "acme").key_file)


async def _signalled(engine: Engine) -> Any:
    run = await engine.start(hearing, {}, tenant="acme")
    await run.until(lambda state: bool(state.timed()))
    with pytest.raises(InvalidInput, match="fits what run"):
        await engine.signal(run.id, "card", {"holder": "ann"})
    await engine.signal(run.id, "card", GIVEN)
    return run


async def _asked(engine: Engine, workflow: Any) -> tuple[Any, str]:
    run = await engine.start(workflow, {"x": 1}, tenant="acme")
    await run.until(lambda state: bool(state.gates))
    return run, (await engine.gates(run.id))[0][0].gate


async def _responded(engine: Engine) -> Any:
    run, gate = await _asked(engine, ordering)
    await engine.decide(gate, "answer", GIVEN)
    return run


async def _answered(engine: Engine) -> Any:
    run, gate = await _asked(engine, parked)
    await engine.decide(gate, "answer", GIVEN)
    return run


async def _resolved(engine: Engine) -> Any:
    run, _ = await _asked(engine, parked)
    await engine.resolve_dead_letter(f"{run.id}:find#1", GIVEN)
    return run


async def _forked(engine: Engine, **how: Any) -> Any:
    first = await engine.start(parked, {}, tenant="acme")
    assert await first.result() == "used"
    SEEN.clear()
    return await engine.fork(first.id, **how)


async def _forked_with_output(engine: Engine) -> Any:
    return await _forked(engine, step="find#1", output=GIVEN)


async def _forked_with_state(engine: Engine) -> Any:
    return await _forked(engine, step="use#1", state={"find": GIVEN})


WAYS = (_signalled, _responded, _answered, _resolved, _forked_with_output, _forked_with_state)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_given_in_the_place_of_code_is_sealed_as_its_type_says(
    tmp_path: Path, known: Settings, way: Callable[[Engine], Awaitable[Any]]
) -> None:
    file = tmp_path / "runs.db"
    async with Engine.open(str(file), workflows=[hearing, ordering, parked], settings=known) as engine:
        async with asyncio.timeout(60):
            run = await way(engine)
            await run.result()
        shown = (
            repr(await run.events()) + repr(await engine.effects(run.id)) + repr(await engine.gates(run.id, open_only=False))
        )
    assert SEEN == [CANARY], "the code that declares it has the text"
    files = [each for each in tmp_path.iterdir() if each.is_file() and each.name.startswith("runs.db")]
    kept = "".join(each.read_bytes().decode("utf-8", "replace") for each in files)
    assert SEALED in kept
    assert CANARY not in shown + kept


async def test_what_is_given_in_the_place_of_code_takes_a_key(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[parked]) as engine:
        run, gate = await _asked(engine, parked)
        with pytest.raises(InvalidInput, match="no key file is set here"):
            await engine.decide(gate, "answer", GIVEN)
        assert (await run.state()).gates
