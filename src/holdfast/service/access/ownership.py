"""Whose a thing is: the one place that finds out the tenant, the workflows and the tools that a command or query is about.

Never here: who may do what with it (permission).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.core.facts.state import TOOL_APPROVAL, Gate, State
from holdfast.core.rules.dead_letters import tools_that_failed
from holdfast.core.rules.questions import EFFECT_UNKNOWN, EXHAUSTED
from holdfast.core.values.access import ANY
from holdfast.core.values.ids import CallId, GateId, RunId, StepId, run_of
from holdfast.errors import KeyMissing, NotFound
from holdfast.ports import Opens
from holdfast.service.control.base import word
from holdfast.service.control.control import Control
from holdfast.service.declarations.command import ReplayDeadLetter
from holdfast.service.declarations.declaration import Thing

ANYTHING: Final = "*"
"""The pattern that stands for a tool that nobody can name: who has a say about all of them has one about it."""


class Person(NamedTuple):
    """Whose something is that is no other's: who was called so and came with the token or key of that `client`. None is not
    known: what an earlier version has kept is theirs who are called so."""

    name: str | None
    client: str | None


class Owned(NamedTuple):
    """Whose something is: of a `tenant`, None for all of them; about `workflows`, None for all that the tenant has; about calls
    of `tools`, which may be patterns; and of one `person` or program, None for all who reach the rest. `is_reach` says that the
    workflows are patterns too."""

    tenant: str | None
    workflows: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ()
    person: Person | None = None
    is_reach: bool = False


class Asked(NamedTuple):
    """A name that a field of a command or query has, for whom: the tenant that is meant, None for any."""

    value: Any
    tenant: str
    whole: Any
    """The command or query."""
    decides: bool
    """Whether it decides something about tools: then it takes a look to know which."""
    whose: str | None = None
    """The same tenant, None where the caller acts for all and has named none."""


class Ownership:
    """Finds owners in what an engine's store knows. `control` is the one that reads for the caller."""

    def __init__(self, control: Control, offered: Mapping[str, Any] | frozenset[str]) -> None:
        self._control = control
        self._offered = offered

    async def of(self, thing: Thing, asked: Asked) -> Owned | None:
        """Whose the thing is; None where there is none of that name. Raises NotFound for a run that is not there."""
        return await _FINDERS[thing](self, asked)

    # --- Runs, and what is in one --------------------------------------------------------------------------------------

    async def _run(self, asked: Asked) -> Owned:
        row = await self._control.find(asked.value)
        return Owned(row.tenant, (row.workflow,))

    async def _failed(self, asked: Asked) -> Owned:
        return await self._of_failures(asked, asked.value, None)

    async def _letter(self, asked: Asked) -> Owned:
        """A replay in a run that does not wait for it takes up all that failed."""
        run, _, step = asked.value.partition(":")
        return await self._of_failures(asked, run, StepId(step) if step else None)

    async def _of_failures(self, asked: Asked, run: str, step: StepId | None) -> Owned:
        owned = await self._run(asked._replace(value=run))
        if not asked.decides:
            return owned
        state = await self._control.run(run).state()
        found = None if step is None else state.step(step)
        is_of_all = isinstance(asked.whole, ReplayDeadLetter) and (found is None or not found.parked)
        return owned._replace(tools=tools_that_failed(state, None if is_of_all else step))

    async def _model_call(self, asked: Asked) -> Owned:
        return await self._run(asked._replace(value=run_of(CallId(asked.value))))

    async def _tool_call(self, asked: Asked) -> Owned:
        run = run_of(CallId(asked.value))
        owned = await self._run(asked._replace(value=run))
        called = (await self._control.run(run).state()).calls.get(CallId(asked.value)) if asked.decides else None
        return owned._replace(tools=(ANYTHING if called is None else called.name,))

    async def _gate(self, asked: Asked) -> Owned:
        run = run_of(GateId(asked.value))
        owned = await self._run(asked._replace(value=run))
        return owned._replace(tools=await self._tools(run, [asked.value])) if asked.decides else owned

    async def _gates(self, asked: Asked) -> Owned:
        """Gates of other runs are refused by what decides, and are none of these."""
        run = run_of(GateId(asked.whole.gate))
        tools = await self._tools(run, [each for each in asked.value if run_of(GateId(each)) == run])
        return (await self._run(asked._replace(value=run)))._replace(tools=tools)

    async def _tools(self, run: RunId, gates: list[str]) -> tuple[str, ...]:
        state = await self._control.run(run).state()
        found = [state.gates[GateId(each)] for each in gates if GateId(each) in state.gates]
        return tuple([each for gate in found for each in await self._asked_about(state, gate)])

    async def _asked_about(self, state: State, gate: Gate) -> Sequence[str]:
        """The tools that a gate asks about: of a step that has failed for good those whose calls it failed of."""
        opened = gate.opened
        if opened.reason == EXHAUSTED:
            return tools_that_failed(state, StepId(opened.subject or ""))
        called = state.calls.get(CallId(opened.subject or ""))
        if called is not None and called.kind == "effect":
            return [called.name]
        shown = await self._control.payloads.value(opened.shown, state.tenant)
        tool = shown.get("tool") if isinstance(shown, dict) else None
        unknown = [ANYTHING] if opened.reason in (TOOL_APPROVAL, EFFECT_UNKNOWN) else []
        return [tool] if isinstance(tool, str) else unknown

    # --- What a tenant has by name -------------------------------------------------------------------------------------

    async def _workflow(self, asked: Asked) -> Owned | None:
        """Code is the fleet's, and a submitted file its tenant's; of another tenant's there is none."""
        if asked.value in self._offered:
            return Owned(None, (asked.value,))
        try:
            found = await self._control.store.graphs.workflow(asked.value, tenant=asked.tenant)
        except NotFound:
            return None
        return Owned(found.tenant, (asked.value,))

    async def _runs(self, asked: Asked) -> Owned:
        return Owned(asked.tenant, (asked.value,))

    async def _schedule(self, asked: Asked) -> Owned | None:
        """One that cannot be read any more, because its key is gone, is for those who reach all workflows of its tenant."""
        try:
            found = await self._control.store.schedules.find(asked.tenant, word("name of the schedule", asked.value))
        except KeyMissing:
            return Owned(asked.tenant)
        return None if found is None else Owned(found.schedule.tenant, (found.schedule.workflow,))

    async def _conversation(self, asked: Asked) -> Owned | None:
        """One that cannot be read any more, because its key is gone, is for those who reach all workflows of its tenant."""
        try:
            found = await self._control.store.conversations.find(asked.tenant, word("name of the conversation", asked.value))
        except KeyMissing:
            return Owned(asked.tenant)
        if found is None:
            return None
        return Owned(found.tenant, (found.workflow,), person=Person(found.by, found.client) if found.is_private else None)

    async def _supervisor(self, asked: Asked) -> Owned | None:
        found = await self._control.store.supervisors.find(asked.tenant, word("name of the supervisor", asked.value))
        return None if found is None else Owned(found.tenant, tuple(each.workflow for each in found.workers))

    async def _evaluation(self, asked: Asked) -> Owned | None:
        found = await self._control.store.evaluations.found(asked.value)
        return None if found is None else Owned(found[0].tenant, (found[0].workflow,))

    async def _approval(self, asked: Asked) -> Owned | None:
        found = (await self._control.standing_approvals(tenant=asked.tenant)).get(asked.value)
        if found is None:
            return None
        workflow = found.workflow
        if workflow is None and found.run is not None:
            workflow = (await self._control.find(found.run)).workflow
        return Owned(asked.tenant, None if workflow is None else (workflow,), (found.tool,))

    async def _key(self, asked: Asked) -> Owned | None:
        known = await self._control.store.keys.named(asked.value, asked.whose, 1)
        if not known:
            return None
        found = known[0]
        if found.opens is not None:
            return await self._link(found.opens, found.tenant)
        return Owned(found.tenant, None if found.workflows == ANY else found.workflows, found.tools, is_reach=True)

    async def _link(self, opens: Opens, tenant: str | None) -> Owned:
        """A link is about the workflow of its run; of one whose run is gone nothing is known."""
        try:
            row = await self._control.find(opens[0] if isinstance(opens, tuple) else run_of(GateId(opens.gate)))
        except NotFound:
            return Owned(tenant)
        return Owned(tenant, (row.workflow,))

    async def _of_tools(self, asked: Asked) -> Owned:
        return Owned(asked.tenant, (), (asked.value,))


_Finder: TypeAlias = Callable[[Ownership, Asked], Awaitable[Owned | None]]
_FINDERS: Final[Mapping[Thing, _Finder]] = {
    Thing.RUN: Ownership._run,
    Thing.FAILED: Ownership._failed,
    Thing.LETTER: Ownership._letter,
    Thing.GATE: Ownership._gate,
    Thing.GATES: Ownership._gates,
    Thing.TOOL_CALL: Ownership._tool_call,
    Thing.MODEL_CALL: Ownership._model_call,
    Thing.WORKFLOW: Ownership._workflow,
    Thing.RUNS: Ownership._runs,
    Thing.SCHEDULE: Ownership._schedule,
    Thing.CONVERSATION: Ownership._conversation,
    Thing.SUPERVISOR: Ownership._supervisor,
    Thing.EVALUATION: Ownership._evaluation,
    Thing.APPROVAL: Ownership._approval,
    Thing.KEY: Ownership._key,
    Thing.TOOLS: Ownership._of_tools,
}
