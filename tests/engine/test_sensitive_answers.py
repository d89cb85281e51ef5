"""What somebody gives in the place of code is sealed as the type has it that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from holdfast import Context, Engine, Sensitive, Workflow, flow, map_node, step, task, tool
from holdfast.core.values.payload import SEALED
from holdfast.errors import InvalidInput, OutcomeUnknown
from holdfast.service.control.command import GateDecision
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


@tool(effect="once", approval=True)
def reveal(of: str) -> Card:
    """Reveal a card."""
    raise AssertionError("it is not called")


@flow(tools=[reveal])
async def revealing(ctx: Context, given: Any) -> str:
    card: Card = await ctx.tool(reveal, of="ann")
    SEEN.append(str(card.number))
    return "revealed"


@step
async def read(of: str) -> Card:
    """Read a card."""
    return Card(holder=of, number="0")


@flow
async def reading(ctx: Context, given: Any) -> str:
    SEEN.append(str((await read("bob")).number))
    return "read"


numbered = Workflow("numbered", on_exhausted="dead_letter")


@numbered.node("each")
@map_node(lambda state: [1])
@task
def each(state: Any, item: int) -> Card:
    if state.input:
        raise ValueError("not found")
    return Card(holder="bob", number="0")


@numbered.node("use")
@task
def use_each(state: Any) -> str:
    SEEN.extend(str(Card.model_validate(card).number) for card in state.events["each"].output)
    return "used"


numbered.edge("each", "use")

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
    await engine.signal(run.id, "card", {**GIVEN, "nubmer": GIVEN["number"]})
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


async def _answered_for_a_tool(engine: Engine) -> Any:
    run, gate = await _asked(engine, revealing)
    await engine.decide(gate, "answer", GIVEN)
    return run


async def _answered_together(engine: Engine) -> Any:
    run, gate = await _asked(engine, revealing)
    await engine.decide_together({gate: GateDecision("answer", GIVEN)})
    return run


async def _answered_for_an_item(engine: Engine) -> Any:
    run, gate = await _asked(engine, numbered)
    await engine.decide(gate, "answer", GIVEN)
    return run


async def _resolved(engine: Engine) -> Any:
    run, _ = await _asked(engine, parked)
    await engine.resolve_dead_letter(f"{run.id}:find#1", GIVEN)
    return run


async def _forked(engine: Engine, workflow: Any = parked, **how: Any) -> Any:
    first = await engine.start(workflow, {}, tenant="acme")
    await first.result()
    SEEN.clear()
    return await engine.fork(first.id, **how)


async def _forked_with_output(engine: Engine) -> Any:
    return await _forked(engine, step="find#1", output=GIVEN)


async def _forked_with_state(engine: Engine) -> Any:
    return await _forked(engine, step="use#1", state={"find": GIVEN})


async def _forked_at_an_operation(engine: Engine) -> Any:
    return await _forked(engine, reading, step="flow#1/0", output=GIVEN)


async def _forked_with_a_list(engine: Engine) -> Any:
    return await _forked(engine, numbered, step="use#1", state={"each": [GIVEN]})


WAYS = (
    _signalled,
    _responded,
    _answered,
    _answered_for_a_tool,
    _answered_together,
    _answered_for_an_item,
    _resolved,
    _forked_with_output,
    _forked_with_state,
    _forked_at_an_operation,
    _forked_with_a_list,
)
CODE = (hearing, ordering, parked, revealing, reading, numbered)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_given_in_the_place_of_code_is_sealed_as_its_type_says(
    tmp_path: Path, known: Settings, way: Callable[[Engine], Awaitable[Any]]
) -> None:
    file = tmp_path / "runs.db"
    async with Engine.open(str(file), workflows=CODE, settings=known) as engine:
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


async def _gate_of(engine: Engine, workflow: Any) -> str:
    return (await _asked(engine, workflow))[1]


@pytest.mark.parametrize("workflow", [ordering, parked, revealing, numbered])
async def test_what_does_not_fit_is_not_given_in_the_place_of_code(tmp_path: Path, known: Settings, workflow: Any) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=CODE, settings=known) as engine:
        gate = await _gate_of(engine, workflow)
        for wrong in ({"holder": "ann", "number": [CANARY]}, {"holder": CANARY}, [CANARY], CANARY):
            with pytest.raises(InvalidInput, match=r"number: .*Nothing was done|value: .*Nothing was done") as refused:
                await engine.decide(gate, "answer", wrong)
            assert CANARY not in refused.value.message
        assert gate in {each.gate for each, _ in await engine.gates()}


async def test_a_fork_takes_no_output_that_does_not_fit(tmp_path: Path, known: Settings) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=CODE, settings=known) as engine:
        for workflow, how in (
            (parked, {"step": "find#1", "output": {"holder": CANARY}}),
            (parked, {"step": "use#1", "state": {"find": {"holder": CANARY}}}),
            (reading, {"step": "flow#1/0", "output": {"holder": CANARY}}),
            (numbered, {"step": "use#1", "state": {"each": [{"holder": CANARY}]}}),
        ):
            with pytest.raises(InvalidInput, match="number: Field required"):
                await _forked(engine, workflow, **how)
        assert len(await engine.runs()) == 4, "and nothing was started"


@pytest.mark.parametrize("workflow", [ordering, parked, revealing])
async def test_no_text_is_given_where_the_sensitive_ones_are_unknown(tmp_path: Path, known: Settings, workflow: Any) -> None:
    """Another process than the one with the code is asked, and the store has keys."""
    async with Engine.open(str(tmp_path / "runs.db"), workflows=CODE, settings=known) as engine:
        gate = await _gate_of(engine, workflow)
        first = await engine.start(parked, {}, tenant="acme")
        await first.result()
    async with Engine.open(str(tmp_path / "runs.db"), settings=known) as engine:
        with pytest.raises(InvalidInput, match=r"has not the code .* give it to a process that has loaded the workflow"):
            await engine.decide(gate, "answer", GIVEN)
        with pytest.raises(InvalidInput, match="has not the code"):
            await engine.fork(first.id, "use#1", state={"find": GIVEN})
        await engine.decide(gate, "answer", [1, None])
        assert gate not in {each.gate for each, _ in await engine.gates()}, "numbers are no texts"
