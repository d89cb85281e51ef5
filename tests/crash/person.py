"""A truthful person: answers what a run asks, and looks at the journals outside before saying what has happened.

Never here: what Holdfast believes about the world.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from holdfast import Engine, Run
from holdfast.core.facts.events import ModelCallHeld, ModelCallReconciled, ModelCallSettled
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import State
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.money import usd
from holdfast.core.views.status import status, waiting_for
from holdfast.models.prices import Prices
from holdfast.ports import Usage
from holdfast.testing.model_server import CallRecord
from tests.crash.boundary import Boundaries, traces
from tests.crash.world import Seen

NAME = "ann"
MAX_ROUNDS = 20


def price_nanousd(call: CallRecord) -> int:
    """What the provider charges for a call."""
    used = call.used
    if used is None:
        return 0
    usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
    return Prices({}).of(call.model).cost_nanousd(usage)


class Person:
    def __init__(self, engine: Engine, run: Run, boundaries: Boundaries, journals: Path, directory: Path) -> None:
        """`journals` are the world's; `directory` is the case's, with the traces of its earlier lives."""
        self._engine = engine
        self._run = run
        self._boundaries = boundaries
        self._journals = journals
        self._directory = directory
        self._case = directory.name

    async def see_through(self) -> State:
        """Answer until the run has ended."""
        for _ in range(MAX_ROUNDS):
            state = await self._run.settled()
            if state.ended == "failed" and COMPENSATE not in state.steps:
                if not state.reopened:  # once: what fails is asked for under another name then, and fails once more
                    for letter, _ in await self._engine.dead_letters(run_id=self._run.id):
                        given = await self._engine.payloads.value(state.input, state.tenant)
                        await self._engine.edit_dead_letter(f"{letter.run}:{letter.step}", given, by=NAME)
                        self._boundaries.note(edited=letter.step)
                await self._engine.retry(self._run.id, by=NAME)
                self._boundaries.note(retried=self._run.id)
                continue
            if state.ended:
                return state
            if any(wait.kind == "signal" for wait in waiting_for(state)):
                await self._engine.signal(self._run.id, "go", "4b", by=NAME)
            for gate_id, gate in list(state.gates.items()):
                match gate.opened.reason:
                    case "approval" | "tool_approval" | "question":
                        await self._engine.decide(gate_id, "approve", by=NAME)
                        self._boundaries.note(decided=gate_id)
                    case reason if reason == EFFECT_UNKNOWN:
                        await self._tell_effect(state, gate.opened.subject or "")
                        self._boundaries.note(decided=gate_id)
                    case "budget":
                        await self._tell_costs(state)
                    case reason:
                        raise AssertionError(f"nobody expected to be asked about {reason}")
        raise AssertionError(f"the run still asks after {MAX_ROUNDS} rounds: {status(state)}")

    async def _tell_effect(self, state: State, call: str) -> None:
        self._boundaries.note(asked=call, status=status(state))
        answer = Seen(self._journals, self._case).answer(state.calls[call].key or "")
        if answer is None:
            await self._engine.resolve_effect(call, "retry", by=NAME)
        else:
            await self._engine.resolve_effect(call, "answer", answer, by=NAME)

    async def _tell_costs(self, state: State) -> None:
        """Reconcile each call in doubt with the provider's bill: those that are not on it never arrived."""
        events = [each.event for each in await self._run.events()]
        held = {event.call: event for event in events if isinstance(event, ModelCallHeld)}
        paid = Counter(
            held[event.call].args_hash
            for event in events
            if isinstance(event, ModelCallSettled | ModelCallReconciled) and event.cost_nanousd
        )
        doubted = [call for call in held if call in state.calls and state.calls[call].doubted]
        assert doubted, "the run wants money, and none is in doubt"
        for call in doubted:
            args_hash = held[call].args_hash
            unpaid = self._bills(args_hash)[paid[args_hash] :]
            await self._engine.reconcile(call, usd(unpaid[0] if unpaid else 0), by=NAME)
            paid[args_hash] += bool(unpaid)

    def _bills(self, args_hash: str) -> list[int]:
        """What the provider charges for each call of this request that arrived, by what earlier lives say they asked."""
        asked = {tuple(line["asked"]) for line in traces(self._directory) if line.get("args_hash") == args_hash}
        calls = Seen(self._journals, self._case).calls
        return [price_nanousd(call) for call in calls if (call.user, call.turn) in asked]
