"""Repair of runs that failed or went wrong: fork one from a step, settle its dead letters.

Never here: resuming a failed run, answering a question (command), what a fork has of the original run (core.rules.forking).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import Event
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import Operation, State
from holdfast.core.rules.dead_letters import failed_call
from holdfast.core.rules.forking import MAX_INHERITED, Fork, ForkRequest, forked, operation_at
from holdfast.core.rules.questions import EXHAUSTED
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import GateId, NodeName, Path, RunId, StepId, node_of
from holdfast.core.values.payload import Payload, digest
from holdfast.core.views.projection import RunRow
from holdfast.engine.background.stuck import StuckRun
from holdfast.engine.runs.starting import NewRun, start_once
from holdfast.engine.runs.stored_workflow import MAX_LOOKS, StoredWorkflow
from holdfast.errors import Conflict, InvalidInput, Misfit, NotFound, SchemaMismatch
from holdfast.ports import Letter
from holdfast.service.control.base import NOT_GIVEN, start_key
from holdfast.service.control.command import Commands
from holdfast.service.control.declared import type_of_node, type_of_operation
from holdfast.service.control.handle import Run
from holdfast.service.control.naming import letter_named
from holdfast.service.control.tree import quiet_children


def _misfits(schema: dict[str, Any], value: Any) -> Sequence[Misfit]:
    """Return what does not fit, by field; nothing where the schema does not say it."""
    from holdfast.core.values import schema as schemas  # noqa: PLC0415 - the validator takes 30 ms to load

    with contextlib.suppress(schemas.TooMuch):
        return schemas.problems(schema, value, looks=MAX_LOOKS)
    return ()


class Repairs(Commands):
    """Each is durable when its call returns."""

    async def wake_stuck_runs(self) -> Sequence[StuckRun]:
        """Start the steps that wait for nothing again, in all runs of the store. Return these runs; a worker with their
        workflow continues them."""
        found, _ = await self.stuck_runs()
        for each in found:
            with contextlib.suppress(Conflict, NotFound):  # it has gone on meanwhile
                await self.runtime.runs.send(each.run, cmd.Tick())
        return found

    async def fork(
        self,
        run_id: str,
        step: str,
        *,
        input: Any = NOT_GIVEN,  # noqa: A002 - the word of the public surface
        output: Any = NOT_GIVEN,
        state: Mapping[str, Any] | None = None,
        repeat_effects: bool = False,
        cost_limit_usd: float | str | Decimal | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        queue: bool = False,
    ) -> Run:
        """Start a run with the history of another run before a step. The original run must have ended or be paused.

        A call that the fork makes as the original did, at the same place, takes the recorded outcome: it is neither made nor
        paid again. Any other call is new. A new call of a once-only tool needs a person's approval, unless `repeat_effects` is
        set. People are asked again.

        Money counts in the scopes of the original run, those above its root or conversation included.

        Args:
            state: Outputs of other nodes to use instead of the original ones, by node name.

        Raises:
            NotFound: The step has not begun in the original run.
            Conflict: The original run is in progress, or has an effect of unknown outcome.
            InvalidInput: An output was passed for a step that decides.
            TooManyRuns: Too many runs are active.
        """
        plan = await self.fork_plan(run_id, step, output=output, state=state, repeat_effects=repeat_effects, by=by)
        began, graph = plan.began, await self.graph_of(plan.graph_hash)
        given = [None if each is NOT_GIVEN else self.payloads.clean(each).decode() for each in (input, output, state or {})]
        payload = (
            began.input
            if input is NOT_GIVEN
            else await self._store_value(await self._valid(graph, input, began.tenant), began.tenant)
        )
        limit = began.limit_nanousd if cost_limit_usd is None else self._cost_limit(cost_limit_usd)
        payload, *inherits = await self._here([payload, *plan.events], began.tenant)
        start = cmd.StartRun(
            plan.began.run,
            began.tenant,
            payload,
            digest(["fork", began.run, step, repeat_effects, *given]),
            limit,
            None if key is None else start_key(key),
            self._claim(by),
            self.executor.services.gateway.price_fingerprint,
            began.team,
            queue,
            tuple(inherits),
            shared=began.shared,
            naming=began.naming,
            contributors=plan.contributors,
            makers=plan.makers,
            **began.terms(),
        )

        async def make() -> NewRun:
            return NewRun(graph, start)

        return self._same(start.key, await start_once(self.runtime, began.tenant, start.key, make), start.input_digest)

    async def fork_plan(
        self,
        run_id: str,
        step: str,
        *,
        input: Any = NOT_GIVEN,  # noqa: A002 - the word of the public surface
        output: Any = NOT_GIVEN,
        state: Mapping[str, Any] | None = None,
        repeat_effects: bool = False,
        by: str | Actor | None = None,
    ) -> Fork:
        """Return what `fork` would begin with, without forking: what it keeps, reuses (with its cost) and does again. An input
        is only checked.

        Raises:
            NotFound, Conflict, InvalidInput: As `fork` raises them.
        """
        row = await self.find(run_id)
        id_, _, path = step.partition("/")
        graph, history = await self.graph_of(row.graph_hash), await self.store.log.events(row.run)
        if input is not NOT_GIVEN:
            await self._valid(graph, input, row.tenant)
        operation = partial(operation_at, history, StepId(id_), Path(path)) if path else None
        said = None
        if output is not NOT_GIVEN:
            said = await self._in_the_place_of(row, node_of(StepId(id_)), output, operation)
        reply = None if said is None or not path else self.executor.services.gateway.encode_reply(output)
        wish = ForkRequest(
            StepId(id_),
            Path(path) if path else None,
            said,
            {NodeName(name): await self._in_the_place_of(row, NodeName(name), value) for name, value in (state or {}).items()},
            repeat_effects,
            self._claim(by),
            None if reply is None else await self._store_value(reply, row.tenant),
            await quiet_children(self.store, history),
        )
        # A long history holds no other up.
        plan: Fork = await self.executor.services.threads.run(partial(forked, graph, history, wish), {})
        return plan

    async def _in_the_place_of(
        self, row: RunRow, node: NodeName, value: Any, operation: Callable[[], Operation | None] | None = None
    ) -> Payload:
        """Return what a person says that a node comes to, or an operation in it, as the code would have written it."""
        catalog = self.runtime.catalog
        if operation is None:
            declared = type_of_node(catalog, row.graph_hash, node)
        else:
            declared = type_of_operation(catalog, row.graph_hash, node, await self.executor.services.threads.run(operation, {}))
        return await self._store_value(self._sealed_as(declared, value, row.tenant), row.tenant)

    # --- Dead letters -------------------------------------------------------------------------------------------------

    async def dead_letter(self, letter: str | Letter) -> tuple[Letter, State]:
        """Return a dead letter's row and its run's state.

        Args:
            letter: Id of the dead letter, `RUN:STEP`, or of a run that has one open. A row is read again.

        Raises:
            NotFound: The dead letter does not exist.
            Conflict: The run has several.
        """
        run, step = _named(letter_named(letter))
        known = await self.dead_letters(run_id=run, state="open" if step is None else None, limit=MAX_INHERITED)
        found = [each for each in known if step in (None, each.letter.step)]
        if not found:
            raise NotFound(
                f"There is no dead letter {letter_named(letter)} in this store; `holdfast dead-letters list` shows those that"
                " are."
            )
        if len(found) > 1:
            names = ", ".join(each.id for each in found)
            raise Conflict(f"Run {run} has {len(found)} dead letters; say which: {names}. Nothing was done.")
        return found[0], await self.run(run).state()

    async def edit_dead_letter(
        self,
        letter: str | Letter,
        input: Any = NOT_GIVEN,  # noqa: A002 - the word of the public surface
        *,
        arguments: Any = NOT_GIVEN,
        by: str | Actor | None = None,
    ) -> None:
        """Change the input of the run, or the arguments of the failed tool call, for the next attempt of a step. Replay the
        dead letter afterwards.

        Completed operations that the step asks for again keep their keys and outcomes. Other calls, and the edited one, have
        new keys and are approved again. Completed steps stay as they are.

        Raises:
            NotFound: The dead letter does not exist.
            InvalidInput: The input or the arguments do not fit. Without the tool's code here, arguments are checked at the
                attempt.
            Conflict: An effect of the step is in doubt, or no tool call has failed.
            RunEnded: The run was compensated.
        """
        if input is NOT_GIVEN and arguments is NOT_GIVEN:
            raise InvalidInput("Say what is to be otherwise: input=, arguments=, or both. Nothing was changed.")
        found, state = await self.dead_letter(letter)
        await self._expect_in_tables(state.run)
        data = asked = None
        if input is not NOT_GIVEN:
            data = await self._store_value(
                await self._valid(await self.graph_of(state.graph_hash), input, state.tenant), state.tenant
            )
        if arguments is not NOT_GIVEN:
            asked = await self._store_value(self._fitting(state, found.letter.step, arguments), state.tenant)
        command = cmd.EditDeadLetter(found.letter.step, data, self._claim(by), asked)
        await self.runtime.runs.send(state.run, command)

    def _fitting(self, state: State, letter: StepId, arguments: Any) -> Any:
        """Arguments that the tool takes of which the step has failed, if it is known here. Raises InvalidInput, Conflict."""
        step = state.step(letter)
        if step is None or state.graph_hash not in self.runtime.catalog.workflows:
            return arguments
        _, op = failed_call(step)
        tool = self.runtime.catalog.tools_of(state.graph_hash).get(op.name)
        try:
            return arguments if tool is None else tool.arguments(arguments)
        except SchemaMismatch as problem:
            assert tool is not None
            words = f"These are no arguments of {op.name!r}: {problem.message} Nothing was changed."
            raise InvalidInput(words, field="arguments", misfits=_misfits(tool.schema, arguments)) from None

    async def retry_dead_letter(self, letter: str | Letter, *, by: str | Actor | None = None) -> None:
        """Try a permanently failed step again. If its run has failed, every failed step of the run is tried again.

        Completed operations keep their keys. A call of unknown outcome is made again if that is harmless: an `idempotent` one
        under its key, a `verify` one after its lookup.

        Raises:
            NotFound: The dead letter does not exist.
            Conflict: A call is in doubt that may not be made twice.
            RunEnded: As `retry` raises it.
        """
        found, state = await self.dead_letter(letter)
        step = found.letter.step
        expect_settled(state, step)
        gate = _gate_about(state, step)
        if gate is not None:
            await self.decide(gate, "retry", by=by)
        elif found.resolved_at_ms is None:
            await self._expect_in_tables(state.run)
            await self.runtime.runs.send(state.run, cmd.RetryDeadLetter(step, self._claim(by)))
        elif state.ended != "failed":
            raise Conflict(f"The dead letter {found.id} is resolved, and its run goes on. Nothing was changed.")
        else:
            await self.retry(state.run, by=by)

    async def resolve_dead_letter(
        self, letter: str | Letter, output: Any = NOT_GIVEN, *, reason: str | None = None, by: str | Actor | None = None
    ) -> None:
        """Close a dead letter without another attempt. A run that waits gets `output`, or fails without one. Closed dead
        letters stay listed for three days."""
        found, state = await self.dead_letter(letter)
        gate = _gate_about(state, found.letter.step)
        if gate is not None and output is not NOT_GIVEN:
            await self.decide(gate, "answer", output, by=by, reason=reason)
        elif gate is not None:
            await self.decide(gate, "reject", by=by, reason=reason)
        elif output is not NOT_GIVEN and not found.letter.asked:
            raise Conflict(
                f"Run {state.run} has failed, and waits for no output. Nothing was changed: retry the dead letter, or fork the"
                " run with that output."
            )
        else:
            command = cmd.ResolveDeadLetter(found.letter.step, self._clean(reason), self._claim(by))
            await self._expect_in_tables(state.run)
            await self.runtime.runs.send(state.run, command)

    async def _expect_in_tables(self, run: RunId) -> None:
        if await self.store.log.is_archived(run):
            raise Conflict(f"Run {run} is archived with its month, and final. Nothing was changed: start another run.")

    async def _store_value(self, value: Any, tenant: str) -> Payload:
        with self.sensitive(tenant):
            return await self.payloads.keep(value, tenant, self.now_ms())

    async def _valid(self, graph: Graph, raw: Any, tenant: str) -> Any:
        """An input as the workflow takes it. Raises InvalidInput."""
        definition = graph.definition
        known: Workflow | StoredWorkflow | None = self.runtime.catalog.workflows.get(graph.hash)
        known = known or await self.workflow(definition.name, definition.version, tenant=tenant)
        with self.sensitive(tenant):
            return await self.executor.services.threads.run(known.validated_input, {"raw": raw})

    async def _here(self, value: Sequence[Any], tenant: str) -> list[Any]:
        """The same with the large values that are another month's kept for this one too: a run refers to none that was kept
        before it began, so that a month can go with its runs."""
        fresh: dict[str, Payload] = {}
        for payload in {each.blob: each for some in value for each in _payloads(some)}.values():
            if payload.blob is not None:
                content = (await self.payloads.fetch([payload], tenant))[payload.blob]
                fresh[payload.blob] = await self.payloads.put(content, tenant, self.now_ms())
        return [_with(each, fresh) for each in value] if fresh else [*value]


def _payloads(payload: Payload | Event) -> Iterator[Payload]:
    if isinstance(payload, Payload):
        yield payload
        return
    for name in payload.__struct_fields__:
        value = getattr(payload, name)
        for each in value.values() if isinstance(value, dict) else (value,):
            if isinstance(each, Payload):
                yield each


def _with(value: Any, fresh: Mapping[str, Payload]) -> Any:
    """Return the given data, its large values replaced."""
    if isinstance(value, Payload):
        return value if value.blob is None else fresh[value.blob]
    if isinstance(value, dict):
        return {name: _with(each, fresh) for name, each in value.items()}
    if isinstance(value, Event):
        return msgspec.structs.replace(value, **{name: _with(getattr(value, name), fresh) for name in value.__struct_fields__})
    return value


def expect_settled(state: State, step: StepId) -> None:
    """Raise Conflict while the outcome of an effect that cannot be done twice is unknown: of the step, or of any if the run is
    failing and goes on as a whole."""
    for id_, call in state.calls.items():
        is_concerned = call.step == step or state.phase == "failing"
        if call.kind == "effect" and is_concerned and not call.is_harmless:
            raise Conflict(
                f"Resolve the call {id_} of {call.name!r} first (`holdfast effects resolve '{id_}'`). Its outcome is unknown,"
                " and it may not be made twice. Nothing was changed."
            )


def _named(letter: str) -> tuple[RunId, StepId | None]:
    run, _, step = letter.partition(":")
    return RunId(run), StepId(step) if step else None


def _gate_about(state: State, step: StepId) -> GateId | None:
    """The question about a step that has failed for good, where the run waits for the answer."""
    asked = {gate.opened.subject: id_ for id_, gate in state.gates.items() if gate.opened.reason == EXHAUSTED}
    return asked.get(step)
