"""Does what a principal tells, on an engine, and answers what he asks.

Never here: a transport's fields, how an answer is found (answers).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.control.base import NOT_GIVEN
from holdfast.control.command import DEFAULT_TENANT
from holdfast.control.control import Control
from holdfast.core.conversations import Exchange
from holdfast.core.ids import CallId, GateId, RunId, run_of
from holdfast.engine.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, NotFound, UsageError
from holdfast.service import command as cmd
from holdfast.service import view
from holdfast.service.answers import Answers, expect_statuses
from holdfast.service.command import Command, OfAll, OfLetter, OfMany, OfOne, OfRun, OfSchedule
from holdfast.service.principal import Principal
from holdfast.service.query import Page, View


class Service(Answers):
    """What stands between those who tell and ask, and an engine."""

    def __init__(
        self, control: Control, offered: Sequence[Workflow] = (), from_yaml: Callable[[str], Workflow] | None = None
    ) -> None:
        """`offered` are the workflows that everybody may start by their names. `from_yaml` makes one of a workflow file's text,
        durably; None where files are not taken."""
        super().__init__(control)
        self._offered = {(each.name, each.version): each for each in offered}
        self._from_yaml = from_yaml
        self._reading = asyncio.Lock()
        """One file at a time is read, in a thread: a large one takes a second."""

    # --- Telling ------------------------------------------------------------------------------------------------------

    async def tell(self, who: Principal, command: Command) -> RunId | None:
        """Do it, durably; the run that it was done to, or that it made, if there is one. Raises what the engine raises,
        NotPermitted, and NotFound for what is another tenant's."""
        if isinstance(command, cmd.Start):
            return await self._start(who, command)
        if isinstance(command, OfAll):
            await self._tell_all(who, command)
            return None
        if isinstance(command, cmd.OpenConversation):
            await self._open(who, command)
            return None
        if isinstance(command, cmd.DeleteConversation):
            await self.control.delete_conversation(command.name, tenant=who.of_tenant(command.tenant) or DEFAULT_TENANT)
            return None
        if isinstance(command, cmd.Say):
            return (await self.say(who, command)).run
        if isinstance(command, OfSchedule):
            await self._tell_schedule(who, command)
            return None
        if isinstance(command, cmd.Fork):
            return await self._fork(who, command)
        run = _run_of(command)
        await self.row(who, run)
        if isinstance(command, OfLetter):
            await self._tell_of_letter(who, command)
        else:
            await self._tell_run(who, command)
        return run

    async def tell_many(self, who: Principal, bulk: OfMany) -> Page:
        """Do the same to a page of runs or dead letters; a row for each says what became of it, or why it refused. Raises
        InvalidInput."""
        if isinstance(bulk, cmd.BulkDeadLetters):
            return await self._tell_letters(who, bulk)
        expect_statuses(bulk.status)
        found = await self.control.bulk(
            bulk.deed, step=bulk.step, fork_key=bulk.fork_key, reason=bulk.reason, repeat_effects=bulk.repeat_effects,
            dry_run=bulk.dry_run, by=who.claim, tenant=who.of_tenant(bulk.tenant), workflow=bulk.workflow,
            status=bulk.status or None, key=bulk.key, since_ms=bulk.since_ms, until_ms=bulk.until_ms, before=bulk.cursor,
            limit=bulk.limit,
        )  # fmt: skip
        rows = [view.of_outcome(each) for each in found]
        return Page(rows, found[-1].run if len(found) == bulk.limit else None)

    async def _tell_letters(self, who: Principal, bulk: cmd.BulkDeadLetters) -> Page:
        if bulk.run is not None:
            await self.row(who, bulk.run)
        found = await self.control.bulk_dead_letters(
            bulk.deed, _given(bulk.output), reason=bulk.reason, dry_run=bulk.dry_run, by=who.claim, run_id=bulk.run,
            tenant=who.of_tenant(bulk.tenant), workflow=bulk.workflow, node=bulk.node, error_class=bulk.error_class,
            since_ms=bulk.since_ms, until_ms=bulk.until_ms, after=bulk.cursor, limit=bulk.limit,
        )  # fmt: skip
        rows = [view.of_outcome(each) for each in found]
        return Page(rows, found[-1].letter if len(found) == bulk.limit else None)

    async def done(self, who: Principal, command: OfRun) -> View:
        """Tell a run something; how it stands afterwards."""
        await self.tell(who, command)
        return await self.run(who, _run_of(command))

    async def _start(self, who: Principal, command: cmd.Start) -> RunId:
        if not command.yaml:
            return await self._begin(who, await self._named(who, command), command)
        workflow = await self._of_file(command.yaml)
        async with self.control.lent(workflow):
            return await self._begin(who, workflow, command)

    async def _begin(self, who: Principal, workflow: Workflow | StoredWorkflow, command: cmd.Start) -> RunId:
        run = await self.control.start(
            workflow, command.input, tenant=who.of_tenant(command.tenant) or DEFAULT_TENANT, team=command.team,
            key=command.key, cost_limit_usd=command.cost_limit_usd, max_tokens=command.max_tokens,
            max_model_calls=command.max_model_calls, max_tool_calls=command.max_tool_calls, max_wall_s=command.max_wall_s,
            on_limit=command.on_limit, team_budget=command.team_budget, agent=command.agent, by=who.claim, queue=command.queue,
        )  # fmt: skip
        return RunId(run.id)

    async def _fork(self, who: Principal, command: cmd.Fork) -> RunId:
        row = await self.row(who, command.run)
        run = await self.control.fork(
            row.run, command.step, input=_given(command.input), output=_given(command.output), state=command.state,
            repeat_effects=command.repeat_effects, cost_limit_usd=command.cost_limit_usd, key=command.key, by=who.claim,
            queue=command.queue,
        )  # fmt: skip
        return RunId(run.id)

    async def _of_file(self, text: str) -> Workflow:
        if self._from_yaml is None:
            raise UsageError(
                "This server takes no workflow files: whoever submits one has commands run here. It was started without"
                " --yaml. Nothing was started."
            )
        async with self._reading:
            return await asyncio.to_thread(self._from_yaml, text)

    async def _named(self, who: Principal, command: cmd.Start) -> Workflow | StoredWorkflow:
        """One that is offered here, or else one that the store knows: of those nobody can tell whose they are, so who acts for
        a tenant starts none."""
        name, version = command.workflow, command.version
        versions = [known for known_name, known in self._offered if known_name == name]
        found = self._offered.get((name, version or max(versions, default=0)))
        if found is None and who.tenant is None:
            return await self.control.workflow(name, version or None)
        if found is None:
            known = ", ".join(f"{each} {number}" for each, number in sorted(self._offered)) or "none"
            asked = f"{name} {version}" if version else name
            raise NotFound(f"This server has no workflow {asked!r}; it has: {known}. Nothing was started.")
        return found

    async def _tell_run(self, who: Principal, command: OfOne) -> None:
        control, by = self.control, who.claim
        match command:
            case cmd.Pause(run):
                await control.pause(run, by=by)
            case cmd.Resume(run):
                await control.resume(run, by=by)
            case cmd.Retry(run):
                await control.retry(run, by=by)
            case cmd.Cancel(run, reason):
                await control.cancel(run, reason=reason, by=by)
            case cmd.Signal(run, name, data):
                await control.signal(run, name, data, by=by)
            case cmd.Extend(run, limit, value):
                await control.extend(run, limit, value, by=by)
            case cmd.RaiseBudget(run, limit_usd):
                await control.raise_budget(run, limit_usd, by=by)
            case cmd.Decide(gate, decision, data, reason, shown_hash):
                await control.decide(
                    gate, decision, _given(data), by=by, roles=who.roles, reason=reason, shown_hash=shown_hash
                )
            case cmd.Resolve(call, decision, response, reason):
                await control.resolve_effect(call, decision, _given(response), by=by, reason=reason)
            case cmd.Reconcile(call, cost_usd):
                await control.reconcile(call, cost_usd, by=by)

    async def _tell_of_letter(self, who: Principal, command: OfLetter) -> None:
        control, by = self.control, who.claim
        match command:
            case cmd.EditDeadLetter(letter, data, arguments):
                await control.edit_dead_letter(letter, _given(data), arguments=_given(arguments), by=by)
            case cmd.ReplayDeadLetter(letter):
                await control.replay_dead_letter(letter, by=by)
            case cmd.ResolveDeadLetter(letter, output, reason):
                await control.resolve_dead_letter(letter, _given(output), reason=reason, by=by)

    async def _tell_all(self, who: Principal, command: OfAll) -> None:
        control = self.control
        match command:
            case cmd.SetBudget(tenant, period, limit_usd, team, in_tokens, max_tokens):
                who.expect_everybody("What tenants may spend")
                if in_tokens:
                    await control.set_budget(tenant, period, max_tokens=max_tokens, team=team)
                elif max_tokens is not None:
                    raise InvalidInput("max_tokens goes with in_tokens. Nothing was changed.")
                else:
                    await control.set_budget(tenant, period, limit_usd, team=team)
            case cmd.SetAdmission(runs, tenant):
                who.expect_everybody("How many runs are active")
                await control.set_admission(runs, tenant=tenant)
            case cmd.SetPool():
                who.expect_everybody("A pool")
                await control.set_pool(**msgspec.structs.asdict(command))
            case cmd.RemovePool(name):
                who.expect_everybody("A pool")
                await control.remove_pool(name)
            case cmd.WriteSharedValue():
                given = msgspec.structs.asdict(command) | {"tenant": who.of_tenant(command.tenant) or DEFAULT_TENANT}
                await control.write_shared_value(**given, by=who.claim)

    async def _open(self, who: Principal, command: cmd.OpenConversation) -> None:
        await self._named(who, cmd.Start(workflow=command.workflow))
        given = msgspec.structs.asdict(command) | {"tenant": who.of_tenant(command.tenant) or DEFAULT_TENANT}
        await self.control.open_conversation(**given, by=who.claim)

    async def say(self, who: Principal, command: cmd.Say) -> Exchange:
        """Say something; how the message stands. Raises what the engine raises, and NotPermitted."""
        given = msgspec.structs.asdict(command) | {"tenant": who.of_tenant(command.tenant) or DEFAULT_TENANT}
        text, parts = given.pop("text"), given.pop("parts")
        said = text if not parts else [text, *parts]
        return await self.control.say(given.pop("conversation"), said, **given, by=who.claim)

    async def _tell_schedule(self, who: Principal, command: OfSchedule) -> None:
        control, tenant = self.control, who.of_tenant(command.tenant) or DEFAULT_TENANT
        match command:
            case cmd.SetSchedule():
                meant = await self._named(who, cmd.Start(workflow=command.workflow, version=command.version or 0))
                # By its name, so that a later version is taken up.
                how = msgspec.structs.asdict(command) | {"tenant": tenant, "workflow": meant.name}
                await control.set_schedule(**how, by=who.claim)
            case cmd.PauseSchedule(name):
                await control.pause_schedule(name, tenant=tenant)
            case cmd.ResumeSchedule(name):
                await control.resume_schedule(name, tenant=tenant)
            case cmd.RemoveSchedule(name):
                await control.remove_schedule(name, tenant=tenant)
            case cmd.Backfill(name, since_ms, until_ms):
                await control.backfill_schedule(name, since_ms, until_ms, tenant=tenant)


def _given(value: Any) -> Any:
    return NOT_GIVEN if value is msgspec.UNSET else value


def _run_of(command: OfRun) -> RunId:
    match command:
        case cmd.Decide(gate):
            return run_of(GateId(gate))
        case cmd.Resolve(call) | cmd.Reconcile(call):
            return run_of(CallId(call))
        case cmd.EditDeadLetter(letter) | cmd.ReplayDeadLetter(letter) | cmd.ResolveDeadLetter(letter):
            return RunId(letter.partition(":")[0])
        case _:
            return RunId(command.run)
