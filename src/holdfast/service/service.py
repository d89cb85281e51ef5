"""Does what a principal tells, on an engine, and answers what he asks.

Never here: a transport's fields, how an answer is found (answers).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.control.base import NOT_GIVEN, word
from holdfast.control.command import GateDecision
from holdfast.control.control import Control
from holdfast.control.naming import DEFAULT_TENANT
from holdfast.core.nouns.conversations import Exchange
from holdfast.core.values.access import Access
from holdfast.core.values.audit import DONE, Entry
from holdfast.core.values.claim import folded
from holdfast.core.values.ids import CallId, GateId, RunId, run_of
from holdfast.engine.runs.catalog import record_of
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound, NotPermitted, StoreError, UsageError, code_of
from holdfast.ports import ApiKey, ToDecide
from holdfast.service import command as cmd
from holdfast.service import view
from holdfast.service.answers import Answers
from holdfast.service.command import Command, OfAll, OfGate, OfKey, OfLetter, OfMany, OfOne, OfRow, OfRun, OfSchedule, OfTenant
from holdfast.service.declaration import declaration_of
from holdfast.service.gate import decidable, expect_hash
from holdfast.service.key import ApiKeys, expect_roles
from holdfast.service.listing import expect_statuses, sought
from holdfast.service.log_in import LOG_IN, FailedLogIns
from holdfast.service.principal import Principal
from holdfast.service.query import Page, Query, View
from holdfast.service.turn import Turns

log = logging.getLogger("holdfast")

COUNT_S: Final = 20.0
"""How long costs are counted before somebody who asks for that is answered."""

Recorder: TypeAlias = Callable[[Control, cmd.ExportRun], Awaitable[Callable[[], bytes]]]
"""Reads a run; what comes of it makes the record, as JSON, and takes a while. Raises NotPermitted, and UsageError for a run
that has not ended."""

_Told = TypeVar("_Told")
_Made = TypeVar("_Made")


class Service(Answers):
    """What stands between those who tell and ask, and an engine."""

    def __init__(
        self,
        control: Control,
        offered: Sequence[Workflow] = (),
        from_yaml: Callable[[str], Workflow] | None = None,
        recorder: Recorder | None = None,
        has_shells_of: Callable[[str], bool] = lambda _: False,
        turns: Turns | None = None,
    ) -> None:
        """`offered` are the workflows that everybody may start by their names. `from_yaml` makes one of a workflow file's text;
        None where files are not taken. `has_shells_of` says whether what a tenant submits runs at workers of that tenant: from
        others none is taken. `recorder` makes the records of runs that leave; None where none do. `turns` are those of all
        ports."""
        super().__init__(control, [each.name for each in offered])
        self._offered = {(each.name, each.version): each for each in offered}
        self.keys = ApiKeys(control.store)
        self.failed_log_ins = FailedLogIns(control.now_ms, self._record_log_in)
        self.turns = Turns() if turns is None else turns
        self._from_yaml = from_yaml
        self._has_shells_of = has_shells_of
        self._reading = asyncio.Lock()
        """One file at a time is read, in a thread: a large one takes a second."""
        self._recorder = recorder
        self._recording = asyncio.Lock()
        """One record at a time is made: a large one takes 64 MiB and more."""

    # --- Telling ------------------------------------------------------------------------------------------------------

    async def tell(self, who: Principal, command: Command) -> RunId | None:
        """Do it, durably; the run that it was done to, or that it made, if there is one. Raises what the engine raises,
        NotPermitted, and NotFound for what is another tenant's."""
        return await self._audited(who, command, self._do)

    async def _audited(self, who: Principal, told: _Told, do: Callable[[Principal, _Told], Awaitable[_Made]]) -> _Made:
        """Do what one who may has told, and write down that it was done, or refused. A process that dies in between has
        done it, and its history says so; the audit log does not."""
        outcome, about = "unknown", _about(told)
        try:
            await self.expect(who, told)
            made = await do(who, told)
            outcome, about = DONE, str(made) if isinstance(told, cmd.Start | cmd.Fork) else about
            return made
        except HoldfastError as refused:
            outcome = code_of(type(refused))
            raise
        finally:
            if not getattr(told, "dry_run", False):
                await self._record(who, type(told).__name__, about, outcome)

    async def _record(self, who: Principal, deed: str, about: str, outcome: str) -> None:
        entry = Entry(
            self.control.now_ms(),
            deed,
            about,
            outcome,
            who.name or "",
            who.verified,
            who.client,
            who.os_user,
            who.origin,
            who.tenant or "",
            who.trace_id or "",
        )
        clean = self.control.payloads.redact
        try:
            entry = entry._replace(about=clean(entry.about), name=clean(entry.name)).bounded()
            await self.control.store.audit.append(entry)
        except StoreError as problem:
            log.error("holdfast could not write down in the audit log: %s: %s", entry, problem.message)

    async def _record_log_in(self, origin: str, about: str) -> None:
        await self._record(Principal(origin=origin), LOG_IN, about, "unauthorized")

    async def _do(self, who: Principal, command: Command) -> RunId | None:
        if isinstance(command, cmd.Start):
            return await self._start(who, command)
        if isinstance(command, OfAll):
            await self._tell_all(who, command)
            return None
        if isinstance(command, OfTenant):
            await self._tell_tenant(who, command)
            return None
        if isinstance(command, cmd.OpenConversation):
            await self._open(who, command)
            return None
        if isinstance(command, cmd.DeleteConversation):
            await self.control.delete_conversation(command.name, tenant=who.of_tenant(command.tenant) or DEFAULT_TENANT)
            return None
        if isinstance(command, cmd.Say):
            return (await self._say(who, command)).run
        if isinstance(command, OfSchedule):
            await self._tell_schedule(who, command)
            return None
        if isinstance(command, cmd.Fork):
            return await self._fork(who, command)
        run = _run_of(command)
        if isinstance(command, OfLetter):
            await self._tell_of_letter(who, command)
        elif isinstance(command, OfGate):
            await self._tell_gate(who, command)
        else:
            await self._tell_run(who, command)
        return run

    async def tell_many(self, who: Principal, bulk: OfMany) -> Page:
        """Do the same to a page of runs or dead letters, or for the times of a schedule; a row for each says what became of it,
        or why it refused. Raises InvalidInput, NotPermitted, NotFound."""
        if isinstance(bulk, cmd.Backfill):
            return await self._audited(who, bulk, self._backfill)
        return await self._audited(who, bulk, self._told_many)

    async def _told_many(self, who: Principal, bulk: cmd.Bulk | cmd.BulkDeadLetters) -> Page:
        if isinstance(bulk, cmd.BulkDeadLetters):
            return await self._tell_letters(who, bulk)
        expect_statuses(bulk.status)
        found = await self.control.of_tenant(who.tenant).bulk(
            bulk.deed,
            step=bulk.step,
            fork_key=bulk.fork_key,
            reason=bulk.reason,
            repeat_effects=bulk.repeat_effects,
            dry_run=bulk.dry_run,
            by=who.claim,
            **sought(bulk, who.of_tenant(bulk.tenant), bulk.limit),
        )
        rows = [view.of_outcome(each) for each in found]
        return Page(rows, found[-1].run if len(found) == bulk.limit else None)

    async def _tell_letters(self, who: Principal, bulk: cmd.BulkDeadLetters) -> Page:
        found = await self.control.of_tenant(who.tenant).bulk_dead_letters(
            bulk.deed,
            _given(bulk.output),
            reason=bulk.reason,
            dry_run=bulk.dry_run,
            by=who.claim,
            run_id=bulk.run,
            tenant=who.of_tenant(bulk.tenant),
            workflow=bulk.workflow,
            node=bulk.node,
            error_class=bulk.error_class,
            since_ms=bulk.since_ms,
            until_ms=bulk.until_ms,
            after=bulk.cursor,
            limit=bulk.limit,
        )
        rows = [view.of_outcome(each) for each in found]
        return Page(rows, found[-1].letter if len(found) == bulk.limit else None)

    async def done(self, who: Principal, command: OfRun) -> View:
        """Tell a run something; how it stands afterwards."""
        await self.tell(who, command)
        return await self.run(who, _run_of(command))

    async def _start(self, who: Principal, command: cmd.Start) -> RunId:
        tenant = who.of_tenant(command.tenant) or DEFAULT_TENANT
        if not command.yaml:
            meant = await self._named(who, command.workflow, command.version, tenant)
            return await self._begin(who, meant, command)
        workflow = await self._of_file(who, command.yaml)
        async with self.control.lent(workflow):
            return await self._begin(who, await self._submitted(workflow, tenant), command)

    async def _submitted(self, workflow: Workflow, tenant: str) -> StoredWorkflow:
        """A workflow whose file a tenant submits, as theirs. Raises Conflict for the name of code."""
        catalog = self.control.runtime.catalog
        code = [each.hash for (name, _), each in self._offered.items() if name == workflow.name]
        record = record_of(workflow, tenant)
        is_other = code and workflow.hash not in code
        if is_other or not await self.control.store.graphs.submit_workflow(record, workflow.graph.encoded):
            raise Conflict(
                f"{workflow.name!r:.200} is the name of a workflow of this fleet, and a file never stands for that. Nothing was"
                " started: give the file another name."
            )
        await catalog.adopt(workflow, is_learned=True)
        return StoredWorkflow.of(record, workflow.graph)

    async def _begin(self, who: Principal, workflow: Workflow | StoredWorkflow, command: cmd.Start) -> RunId:
        run = await self.control.start(
            workflow,
            command.input,
            tenant=who.of_tenant(command.tenant) or DEFAULT_TENANT,
            team=command.team,
            key=command.key,
            cost_limit_usd=command.cost_limit_usd,
            max_tokens=command.max_tokens,
            max_model_calls=command.max_model_calls,
            max_tool_calls=command.max_tool_calls,
            max_wall_s=command.max_wall_s,
            on_limit=command.on_limit,
            team_budget=command.team_budget,
            agent=command.agent,
            tags=command.tags,
            by=who.claim,
            queue=command.queue,
        )
        return RunId(run.id)

    async def _fork(self, who: Principal, command: cmd.Fork) -> RunId:
        run = await self.control.fork(
            command.run,
            command.step,
            input=_given(command.input),
            output=_given(command.output),
            state=command.state,
            repeat_effects=command.repeat_effects,
            cost_limit_usd=command.cost_limit_usd,
            key=command.key,
            by=who.claim,
            queue=command.queue,
        )
        return RunId(run.id)

    async def _of_file(self, who: Principal, text: str) -> Workflow:
        if self._from_yaml is None:
            raise UsageError(
                "This server takes no workflow files: whoever submits one has commands run here. It was started without"
                " --yaml. Nothing was started."
            )
        if who.tenant is not None and not self._has_shells_of(who.tenant):
            raise NotPermitted(
                f"This server takes no workflow files of the tenant {who.tenant!r}: their commands would run where those of"
                " others do. Nothing was started: start it with --no-shell, and workers with a shell for that tenant alone."
            )
        async with self._reading:
            return await asyncio.to_thread(self._from_yaml, text)

    async def _named(self, who: Principal, name: str, version: int, tenant: str) -> Workflow | StoredWorkflow:
        """What a name means for a tenant: what is offered here, or else what the store knows."""
        versions = [known for known_name, known in self._offered if known_name == name]
        found = self._offered.get((name, version or max(versions, default=0)))
        if found is not None:
            return found
        if name in self.permission.offered and who.tenant is not None and not who.access.unoffered:
            raise NotFound(f"This server has no version {version} of workflow {name!r}. Nothing was started.")
        return await self.control.workflow(name, version or None, tenant=tenant)

    async def _tell_run(self, who: Principal, command: OfOne) -> None:
        control, by = self.control, who.claim
        match command:
            case cmd.Pause(run):
                await control.pause(run, by=by)
            case cmd.Resume(run):
                await control.resume(run, by=by)
            case cmd.Retry(run):
                await control.retry(run, by=by)
            case cmd.Migrate(run, version):
                row = await control.find(run)
                meant = await self._named(who, row.workflow, version, row.tenant)
                await control.migrate(run, meant, by=by)
            case cmd.Cancel(run, reason):
                await control.cancel(run, reason=reason, by=by)
            case cmd.Signal(run, name, data, key):
                await control.signal(run, name, data, key=key, by=by)
            case cmd.GiveScore(run, name, value, source, comment):
                await control.score(run, name, value, by=by, source=source, comment=comment)
            case cmd.Extend(run, limit, value):
                await control.extend(run, limit, value, by=by)
            case cmd.RaiseBudget(run, limit_usd):
                await control.raise_budget(run, limit_usd, by=by)
            case cmd.Resolve(call, decision, response, reason, shown_hash):
                gate = await control.gate_about(call)
                await self._tell_gate(who, cmd.Decide(gate, decision, response, reason, shown_hash))
            case cmd.Reconcile(call, cost_usd):
                await control.reconcile(call, cost_usd, by=by)

    async def _tell_gate(self, who: Principal, command: OfGate) -> None:
        control, by = self.control, who.claim
        run, decisions = run_of(GateId(command.gate)), getattr(command, "decisions", {})
        match command:
            case cmd.DecideTogether(_, _, shown_hash):
                if wrong := next((gate for gate in decisions if run_of(GateId(gate)) != run), None):
                    raise InvalidInput(f"{wrong!r:.200} is no gate of run {run}. Nothing was decided.")
                await expect_hash(control, map(GateId, decisions), shown_hash)
                await control.decide_together(
                    {gate: _answer(said) for gate, said in decisions.items()}, by=by, roles=who.acts_as, shown_hash=shown_hash
                )
            case cmd.Decide(gate, decision, data, reason, shown_hash):
                await expect_hash(control, [GateId(gate)], shown_hash)
                await control.decide(
                    gate, decision, _given(data), by=by, roles=who.acts_as, reason=reason, shown_hash=shown_hash
                )
            case cmd.Delegate(gate, to, reason):
                await control.delegate(gate, to, by=by, roles=who.acts_as, reason=reason)
            case cmd.Reassign(gate, to, reason):
                await control.reassign(gate, to, by=by, reason=reason)

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
                if in_tokens:
                    await control.set_budget(tenant, period, max_tokens=max_tokens, team=team)
                elif max_tokens is not None:
                    raise InvalidInput("max_tokens goes with in_tokens. Nothing was changed.")
                else:
                    await control.set_budget(tenant, period, limit_usd, team=team)
            case cmd.SetAdmission(runs, tenant):
                await control.set_admission(runs, tenant=tenant)
            case cmd.SetPool():
                await control.set_pool(**msgspec.structs.asdict(command))
            case cmd.RemovePool(name):
                await control.remove_pool(name)

    async def _tell_tenant(self, who: Principal, command: OfTenant) -> None:
        control, tenant = self.control, who.of_tenant(command.tenant) or DEFAULT_TENANT
        given = msgspec.structs.asdict(command) | {"tenant": tenant}
        match command:
            case cmd.WriteSharedValue():
                await control.write_shared_value(**given, by=who.claim)
            case cmd.ForgetCachedAnswer(space, key):
                await control.forget_cached_answer(space, key, tenant=tenant)
            case cmd.SetTeamBudget():
                await control.set_team_budget(**given)
            case cmd.RemoveTeamBudget(name):
                await control.remove_team_budget(name, tenant=tenant)
            case cmd.RevokeApproval(approval):
                await self.control.revoke_approval(approval, by=who.claim, tenant=tenant)

    async def open_private(self, who: Principal, command: cmd.OpenConversation) -> None:
        """Open a conversation that is there for nobody but who opens it. Raises what the engine raises, and NotPermitted."""
        await self._audited(who, command, partial(self._open, private=True))

    async def _open(self, who: Principal, command: cmd.OpenConversation, *, private: bool = False) -> None:
        tenant = who.of_tenant(command.tenant) or DEFAULT_TENANT
        await self._named(who, command.workflow, 0, tenant)
        given = msgspec.structs.asdict(command) | {"tenant": tenant}
        await self.control.open_conversation(**given, private=private, by=who.claim)

    async def say(self, who: Principal, command: cmd.Say, **brought: Any) -> Exchange:
        """Say something; how the message stands. `brought` are the `tools` and `context` of a front end. Raises what the
        engine raises, and NotPermitted."""
        return await self._audited(who, command, partial(self._say, **brought))

    async def _say(self, who: Principal, command: cmd.Say, **brought: Any) -> Exchange:
        given = msgspec.structs.asdict(command) | {"tenant": who.of_tenant(command.tenant) or DEFAULT_TENANT}
        text, parts = given.pop("text"), given.pop("parts")
        said = text if not parts else [text, *parts]
        return await self.control.say(given.pop("conversation"), said, **given, **brought, by=who.claim)

    async def said(self, who: Principal, command: cmd.Say) -> View:
        """The same as plain data."""
        return view.of_exchange(await self.say(who, command))

    async def tell_row(self, who: Principal, command: OfRow) -> View:
        """Do what is answered with a row: the approval that was granted, whether the costs are up to date, or a key as it is,
        with what it is shown once where it is new. Raises NotPermitted, InvalidInput, NotFound, Conflict."""
        return await self._audited(who, command, self._row_of)

    async def _row_of(self, who: Principal, command: OfRow) -> View:
        match command:
            case cmd.GrantApproval():
                return await self._grant(who, command)
            case cmd.RollUpCosts():
                return {"up_to_date": await self.control.roll_up_costs(COUNT_S)}
            case cmd.ExportRun():
                return await self._export(who, command)
            case _:
                return await self._told_of_key(who, command)

    async def _export(self, who: Principal, command: cmd.ExportRun) -> View:
        if self._recorder is None:
            raise UsageError("No records of runs are made here: `holdfast serve` makes them. Nothing was exported.")
        async with self._recording:
            make = await self._recorder(self.control.of_tenant(who.tenant), command)
            return {"run_id": command.run, "record": msgspec.Raw(await asyncio.to_thread(make))}

    async def _grant(self, who: Principal, command: cmd.GrantApproval) -> View:
        tenant, given = who.of_tenant(command.tenant) or DEFAULT_TENANT, msgspec.structs.asdict(command)
        if (run := given.pop("run")) is not None:
            tenant = (await self.control.find(run)).tenant
        how = given | {"run_id": run, "tenant": tenant}
        id_ = await self.control.grant_approval(**how, by=who.claim, roles=who.acts_as)
        kept = (await self.control.standing_approvals(tenant=tenant))[id_]
        return view.of_approval(id_, kept, tenant, self.control.now_ms())

    async def _told_of_key(self, who: Principal, command: OfKey) -> View:
        match command:
            case cmd.MakeKey():
                return await self.keys.make(who, command)
            case cmd.MakeLink(run, name, life_s):
                row = await self.control.find(run)
                return await self.keys.link(who, row.tenant, (row.run, name), life_s)
            case cmd.MakeGateLink():
                row = await self.control.find(run_of(GateId(command.gate)))
                opens = await self._to_decide(who, command)
                return await self.keys.link(who, row.tenant, opens, command.life_s, command.roles)
            case cmd.RotateKey(name, tenant):
                return await self.keys.rotate(who, name, tenant)
            case cmd.RevokeKey(name, tenant):
                return await self.keys.revoke(who, name, tenant)

    async def _to_decide(self, who: Principal, asked: cmd.MakeGateLink) -> ToDecide:
        """What a link may be made for. Who has it in hand can use it, so it allows its maker nothing that they may not do
        already. Raises InvalidInput, NotPermitted, NotFound, AlreadyDecided, DecisionRefused."""
        gate = GateId(asked.gate)
        by = word("name of the reviewer", self.control.payloads.redact(asked.reviewer))
        if not folded(by):
            raise InvalidInput("A link decides in somebody's name: say whose, as reviewer. Nothing was made.")
        if not (who.answers_for_callers or who.may_speak_for(by)):
            raise NotPermitted(
                f"{who.claim} speaks for nobody else, and could use a link for {by!r}. Nothing was made: a program makes it,"
                " with a token or key of its own and without saying for whom it acts, or a person who is an admin."
            )
        expect_roles(who, asked.roles)
        return await decidable(self.control, gate, by, asked.roles, who.name, who.maker)

    async def tell_by_link(self, key: ApiKey, told: cmd.Decide | cmd.Signal, origin: str, trace_id: str) -> View:
        """Do what a link is for, as its body said; how the run stands then. The link is over. Raises what the engine raises."""
        assert key.opens is not None
        client = f"keys.{key.name}"
        name = key.opens.by if isinstance(key.opens, ToDecide) else client
        who = Principal(
            name,
            key.tenant,
            key.roles,
            client=client,
            origin=origin,
            trace_id=trace_id,
            access=Access(key.may),
            maker=key.maker,
        )
        found = await self.done(who, told)
        await self.keys.used(key)
        return {"run_id": found["run_id"], "status": found["status"]}

    async def _backfill(self, who: Principal, command: cmd.Backfill) -> Page:
        tenant = who.of_tenant(command.tenant) or DEFAULT_TENANT
        until_ms = self.control.now_ms() if command.until_ms is None else command.until_ms
        found = await self.control.backfill_schedule(command.name, command.since_ms, until_ms, tenant=tenant, by=who.claim)
        return Page([view.of_backfilled(each) for each in found], None)

    async def _tell_schedule(self, who: Principal, command: OfSchedule) -> None:
        control, tenant = self.control, who.of_tenant(command.tenant) or DEFAULT_TENANT
        match command:
            case cmd.SetSchedule():
                meant = await self._named(who, command.workflow, command.version or 0, tenant)
                # By its name, so that a later version is taken up.
                how = msgspec.structs.asdict(command) | {"tenant": tenant, "workflow": meant.name}
                await control.set_schedule(**how, by=who.claim)
            case cmd.PauseSchedule(name):
                await control.pause_schedule(name, tenant=tenant)
            case cmd.ResumeSchedule(name):
                await control.resume_schedule(name, tenant=tenant)
            case cmd.RemoveSchedule(name):
                await control.remove_schedule(name, tenant=tenant)


def _about(told: Any) -> str:
    """What a command is done to, by the name that it says."""
    named = (getattr(told, field, None) for field in _NAMES)
    return next((each for each in named if isinstance(each, str) and each), "")


_NAMES: Final = (
    "gate",
    "call",
    "letter",
    "approval",
    "tool",
    "run",
    "name",
    "conversation",
    "space",
    "deed",
    "tenant",
    "workflow",
)


def _given(value: Any) -> Any:
    return NOT_GIVEN if value is msgspec.UNSET else value


def _answer(said: str | cmd.GateAnswer) -> GateDecision | str:
    return said if isinstance(said, str) else GateDecision(said.decision, _given(said.data), said.reason)


def _run_of(command: OfRun) -> RunId:
    match command:
        case cmd.Decide(gate) | cmd.DecideTogether(gate) | cmd.Delegate(gate) | cmd.Reassign(gate):
            return run_of(GateId(gate))
        case cmd.Resolve(call) | cmd.Reconcile(call):
            return run_of(CallId(call))
        case cmd.EditDeadLetter(letter) | cmd.ReplayDeadLetter(letter) | cmd.ResolveDeadLetter(letter):
            return RunId(letter.partition(":")[0])
        case _:
            return RunId(command.run)


TAKES: Final = {kind: declaration_of(kind) for told in (Command, cmd.OfRow, cmd.OfMany, Query) for kind in get_args(told)}
"""What each command and query takes. Without that it is none: this module does not import."""
