"""Judges what a fleet did by the journals outside and by its own histories. Never here: anything that changes anything."""

from __future__ import annotations

from collections import Counter, defaultdict

from holdfast import Engine
from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.state import State
from holdfast.core.values.ids import RunId
from holdfast.core.values.money import nanousd
from holdfast.core.views.status import status
from holdfast.testing.journal_file import read_journal
from holdfast.testing.model_server import CallRecord, read_calls
from tests.chaos.flows import LIMIT_USD, PROMISED
from tests.chaos.load import NAME, Load
from tests.crash.person import price_nanousd
from tests.crash.world import World


class Outside:
    """What the journals say, by run."""

    def __init__(self, world: World) -> None:
        self.arrived: dict[str, Counter[str]] = defaultdict(Counter)
        """How often each effect's key arrived."""
        self.done: dict[str, Counter[str]] = defaultdict(Counter)
        """Effects by tool, each key once."""
        for entry in read_journal(world.directory / "tools.jsonl"):
            run = entry["arguments"]["run"]
            self.arrived[run][entry["key"]] += 1
            self.done[run][entry["tool"]] += not entry["repeats"]
        self.calls: dict[str, list[CallRecord]] = defaultdict(list)
        for call in read_calls(world.directory / "models.jsonl"):
            self.calls[call.user.partition(":")[0]].append(call)


async def judge(engine: Engine, load: Load, world: World) -> list[str]:
    """Everything that is wrong, in words; empty when all promises were kept."""
    outside = Outside(world)
    wrong = list(load.wrong)
    for key, run in load.started.items():
        if run not in load.ended:
            wrong.append(await _unended(engine, run))
            continue
        known = await engine.runtime.store.log.run_of_key("default", key)
        if known is None or known[0] != run:
            wrong.append(f"the start {key} was acknowledged as {run} and is {known}")
        wrong += [f"{run}: {problem}" for problem in await _judge_run(engine, run, outside, load)]
    return wrong


async def _unended(engine: Engine, run: RunId) -> str:
    """What such a run is at: its last events, what it waits for, and the questions that nobody has answered."""
    row, last = await engine.find(run), list(await engine.run(run).events())[-4:]
    gates = [gate.gate for gate, _ in await engine.gates() if gate.run == run]
    return (
        f"{run} of {row.workflow} has not ended: {status(await engine.run(run).state())}, due at {row.due_at_ms}, waits for"
        f" {row.waiting_for!r}, open gates {gates}; its last events: {last}"
    )


async def _judge_run(engine: Engine, run: RunId, outside: Outside, load: Load) -> list[str]:
    recorded = list(await engine.run(run).events())
    state = State()
    wrong = [f"event {each.seq} at place {place}" for place, each in enumerate(recorded, 1) if each.seq != place]
    for each in recorded:
        evolve(state, each.event, each.at_ms)
    row = await engine.find(run)
    if (row.seq, row.status, row.settled_nanousd) != (state.seq, status(state), state.budget.settled_nanousd):
        wrong.append("its row is not what its history says")
    if state.ended != "completed":
        wrong.append(f"it {state.ended}: {state.error or state.reason}")
    elif (promised := PROMISED[row.workflow].output) is not None and await engine.output(state) != promised:
        wrong.append(f"it returned {await engine.output(state)}")
    return [
        *wrong,
        *_effects(recorded, run, row.workflow, outside),
        *_money(state, recorded, run, outside),
        *_gates(recorded, load),
    ]


def _effects(recorded: list[Recorded], run: RunId, workflow: str, outside: Outside) -> list[str]:
    wrong: list[str] = []
    intents: Counter[str] = Counter()
    keys: dict[str, str] = {}
    completed: set[str] = set()
    for each in recorded:
        match each.event:
            case ev.EffectIntended(call=call, key=key):
                if key in completed:
                    wrong.append(f"the completed effect {key} was begun again")
                intents[key] += 1
                keys[call] = key
            case ev.EffectCompleted(call=call):
                completed.add(keys[call])
            case _:
                pass
    for key, times in outside.arrived[run].items():
        if times > intents[key]:
            wrong.append(f"the effect {key} was sent {times} times and intended {intents[key]} times")
    for tool, times in PROMISED[workflow].happens.items():
        if outside.done[run][tool] != times:
            wrong.append(f"{tool} happened {outside.done[run][tool]} times")
    return wrong


def _money(state: State, recorded: list[Recorded], run: RunId, outside: Outside) -> list[str]:
    wrong: list[str] = []
    limit = nanousd(LIMIT_USD)
    book = state.budget
    spoken_for = book.settled_nanousd + book.held_nanousd + book.in_doubt_nanousd
    billed = sum(price_nanousd(call) for call in outside.calls[run])
    if spoken_for > limit:
        wrong.append(f"{spoken_for} nano-dollars are spoken for, under a limit of {limit}")
    if billed > spoken_for:
        wrong.append(f"the provider bills {billed} nano-dollars, and {spoken_for} are accounted for")
    holds = sum(isinstance(each.event, ev.ModelCallHeld) for each in recorded)
    if len(outside.calls[run]) > holds:
        wrong.append(f"{len(outside.calls[run])} model calls arrived, and money was held for {holds}")
    return wrong


def _gates(recorded: list[Recorded], load: Load) -> list[str]:
    decided: Counter[str] = Counter()
    for each in recorded:
        if isinstance(each.event, ev.GateDecided):
            decided[each.event.gate] += 1
    wrong = [f"gate {gate} was decided {times} times" for gate, times in decided.items() if times > 1]
    opened = {each.event.gate for each in recorded if isinstance(each.event, ev.GateOpened)}
    lost = [gate for gate, by in load.decided.items() if gate in opened and (by != NAME or gate not in decided)]
    return wrong + [f"the decision on {gate} was acknowledged and is gone" for gate in lost]
