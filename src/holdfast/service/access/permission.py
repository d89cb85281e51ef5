"""The one check before anything is done or answered, for every transport: the grant, the tenant, the things that a command or
query is about, their workflows and tools, and whose each thing is. What is not declared is refused.

Never here: what a grant implies (core.values.access).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.core.facts.state import TOOL_APPROVAL, Gate, State
from holdfast.core.rules.dead_letters import tools_that_failed
from holdfast.core.rules.questions import EFFECT_UNKNOWN, EXHAUSTED
from holdfast.core.values.access import ANY
from holdfast.core.values.ids import CallId, GateId, RunId, StepId, run_of
from holdfast.engine.background.supervising import no_supervisor
from holdfast.errors import HoldfastError, InvalidInput, KeyMissing, NotFound, NotPermitted
from holdfast.ports import Opens
from holdfast.service.access.key import no_key
from holdfast.service.control.base import word
from holdfast.service.control.control import Control, limited_to
from holdfast.service.control.conversation import no_conversation
from holdfast.service.control.evaluation import not_there
from holdfast.service.control.gate import unknown_gate
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.control.notification import no_delivery
from holdfast.service.control.run_reader import no_call, no_run
from holdfast.service.control.schedule import no_schedule
from holdfast.service.control.standing_approval import no_approval
from holdfast.service.declarations.command import RetryDeadLetter
from holdfast.service.declarations.declaration import Declaration, GeneralSubject, Subject, declaration_of
from holdfast.service.declarations.query import View
from holdfast.service.principal import Principal

ANYTHING: Final = "*"
"""The pattern that stands for an unnamed tool: a caller with a say about all tools has one about it."""


class Person(NamedTuple):
    """The owner of private data: the person of that name who came with the token or key of that `client`. None means unknown:
    data that an earlier version stored belongs to everyone of that name."""

    name: str | None
    client: str | None


class Owner(NamedTuple):
    """The owner of a thing: a `tenant`, None for all of them. It is about `workflows`, None for all that the tenant has, and
    about calls of `tools`, which may be patterns. It belongs to one `person` or program, None for all who reach the rest.
    `is_reach` means that the workflows are patterns too."""

    tenant: str | None
    workflows: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ()
    person: Person | None = None
    is_reach: bool = False
    record: Any = None
    """The thing as the store has it, where it was read whole."""


class NamedValue(NamedTuple):
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

    async def of(self, thing: Subject, request: NamedValue) -> Owner | None:
        """Return the owner of the thing; None if no thing has that name. Raises NotFound for a run that does not exist."""
        return await _FINDERS[thing](self, request)

    # --- Runs, and what is in one --------------------------------------------------------------------------------------

    async def _run(self, request: NamedValue) -> Owner:
        row = await self._control.find(request.value)
        return Owner(row.tenant, (row.workflow,))

    async def _failed(self, request: NamedValue) -> Owner:
        return await self._of_failures(request, request.value, None)

    async def _letter(self, request: NamedValue) -> Owner:
        """A replay in a run that does not wait for it takes up all that failed."""
        run, _, step = request.value.partition(":")
        return await self._of_failures(request, run, StepId(step) if step else None)

    async def _of_failures(self, request: NamedValue, run: str, step: StepId | None) -> Owner:
        owned = await self._run(request._replace(value=run))
        if not request.decides:
            return owned
        state = await self._control.run(run).state()
        found = None if step is None else state.step(step)
        is_of_all = isinstance(request.whole, RetryDeadLetter) and (found is None or not found.parked)
        return owned._replace(tools=tools_that_failed(state, None if is_of_all else step))

    async def _model_call(self, request: NamedValue) -> Owner:
        return await self._run(request._replace(value=run_of(CallId(request.value))))

    async def _tool_call(self, request: NamedValue) -> Owner:
        run = run_of(CallId(request.value))
        owned = await self._run(request._replace(value=run))
        called = (await self._control.run(run).state()).calls.get(CallId(request.value)) if request.decides else None
        return owned._replace(tools=(ANYTHING if called is None else called.name,))

    async def _gate(self, request: NamedValue) -> Owner:
        run = run_of(GateId(request.value))
        owned = await self._run(request._replace(value=run))
        return owned._replace(tools=await self._tools(run, [request.value])) if request.decides else owned

    async def _gates(self, request: NamedValue) -> Owner:
        """Gates of other runs are refused by what decides, and are none of these."""
        run = run_of(GateId(request.whole.gate))
        tools = await self._tools(run, [each for each in request.value if run_of(GateId(each)) == run])
        return (await self._run(request._replace(value=run)))._replace(tools=tools)

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

    async def _workflow(self, request: NamedValue) -> Owner | None:
        """Code is the fleet's, and a submitted file its tenant's; of another tenant's there is none."""
        if request.value in self._offered:
            return Owner(None, (request.value,))
        try:
            found = await self._control.store.graphs.workflow(request.value, tenant=request.tenant)
        except NotFound:
            return None
        return Owner(found.tenant, (request.value,))

    async def _runs(self, request: NamedValue) -> Owner:
        return Owner(request.tenant, (request.value,))

    async def _schedule(self, request: NamedValue) -> Owner | None:
        """One that cannot be read any more, because its key is gone, is for those who reach all workflows of its tenant."""
        try:
            found = await self._control.store.schedules.find(request.tenant, word("name of the schedule", request.value))
        except KeyMissing:
            return Owner(request.tenant)
        return None if found is None else Owner(found.schedule.tenant, (found.schedule.workflow,), record=found.schedule)

    async def _conversation(self, request: NamedValue) -> Owner | None:
        """One that cannot be read any more, because its key is gone, is for those who reach all workflows of its tenant."""
        try:
            found = await self._control.store.conversations.find(
                request.tenant, word("name of the conversation", request.value)
            )
        except KeyMissing:
            return Owner(request.tenant)
        if found is None:
            return None
        person = Person(found.by, found.client) if found.is_private else None
        return Owner(found.tenant, (found.workflow,), person=person, record=found)

    async def _supervisor(self, request: NamedValue) -> Owner | None:
        found = await self._control.store.supervisors.find(request.tenant, word("name of the supervisor", request.value))
        return None if found is None else Owner(found.tenant, tuple(each.workflow for each in found.workers))

    async def _evaluation(self, request: NamedValue) -> Owner | None:
        found = await self._control.store.evaluations.find(request.value)
        return None if found is None else Owner(found[0].tenant, (found[0].workflow,))

    async def _approval(self, request: NamedValue) -> Owner | None:
        found = (await self._control.standing_approvals(tenant=request.tenant)).get(request.value)
        if found is None:
            return None
        workflow = found.workflow
        if workflow is None and found.run is not None:
            workflow = (await self._control.find(found.run)).workflow
        return Owner(request.tenant, None if workflow is None else (workflow,), (found.tool,))

    async def _delivery(self, request: NamedValue) -> Owner | None:
        found = await self._control.store.outbox.find(request.value)
        return None if found is None else Owner(found.tenant, None)

    async def _key(self, request: NamedValue) -> Owner | None:
        known = await self._control.store.keys.named(request.value, request.whose, 1)
        if not known:
            return None
        found = known[0]
        if found.opens is not None:
            return await self._link(found.opens, found.tenant)
        return Owner(found.tenant, None if found.workflows == ANY else found.workflows, found.tools, is_reach=True)

    async def _link(self, opens: Opens, tenant: str | None) -> Owner:
        """A link is about the workflow of its run; of one whose run is gone nothing is known."""
        try:
            row = await self._control.find(opens[0] if isinstance(opens, tuple) else run_of(GateId(opens.gate)))
        except NotFound:
            return Owner(tenant)
        return Owner(tenant, (row.workflow,))

    async def _of_tools(self, request: NamedValue) -> Owner:
        return Owner(request.tenant, (), (request.value,))


_Finder: TypeAlias = Callable[[Ownership, NamedValue], Awaitable[Owner | None]]
_FINDERS: Final[Mapping[Subject, _Finder]] = {
    Subject.RUN: Ownership._run,
    Subject.FAILED: Ownership._failed,
    Subject.LETTER: Ownership._letter,
    Subject.GATE: Ownership._gate,
    Subject.GATES: Ownership._gates,
    Subject.TOOL_CALL: Ownership._tool_call,
    Subject.MODEL_CALL: Ownership._model_call,
    Subject.WORKFLOW: Ownership._workflow,
    Subject.RUNS: Ownership._runs,
    Subject.SCHEDULE: Ownership._schedule,
    Subject.CONVERSATION: Ownership._conversation,
    Subject.SUPERVISOR: Ownership._supervisor,
    Subject.EVALUATION: Ownership._evaluation,
    Subject.APPROVAL: Ownership._approval,
    Subject.KEY: Ownership._key,
    Subject.DELIVERY: Ownership._delivery,
    Subject.TOOLS: Ownership._of_tools,
}


class Permission:
    """Checks what callers tell and ask, against what the store of `control` knows of its owners."""

    def __init__(self, control: Control, offered: Collection[str] = ()) -> None:
        """`offered` are the names of the workflows that each caller may start."""
        self._control = control
        self.offered = frozenset(offered)

    async def expect(self, principal: Principal, message: Any) -> Mapping[str, Any]:
        """Return the records of things that were read whole, by the fields that name them. Raises NotPermitted for a caller
        without the grant, and for what is not theirs to touch; NotFound for a thing that is not there for them, in the words
        for one that is not there at all; TypeError for what declares nothing."""
        declared = declaration_of(type(message))
        raise_if(problem_of_grants(principal, message, declared))
        if declared.whole is GeneralSubject.FLEET:
            raise_if(problem_of_fleet(principal, message))
        whose = principal.of_tenant(getattr(message, "tenant", None))
        tenant = whose or DEFAULT_TENANT
        ownership = Ownership(limited_to(self._control, principal.tenant), self.offered)
        is_named, records = False, dict[str, Any]()
        for field, thing, value in named(declared, message):
            try:
                owned = await ownership.of(thing, NamedValue(value, tenant, message, _decides(principal, declared), whose))
            except InvalidInput as problem:  # of a name that no store keeps
                problem.field = field
                raise
            except NotFound as lost:
                raise (_ABSENT[thing](value, tenant) if thing in _ABSENT else lost) from None
            is_new = field == declared.makes and (owned is None or principal.tenant not in (None, owned.tenant))
            if not is_new:
                raise_if(self._problem_of_owner(principal, thing, value, tenant, owned))
            if owned is not None and declared.is_command:
                raise_if(problem_of_tools(principal, message, owned))
            is_named = is_named or thing is not Subject.TOOLS
            if owned is not None and owned.record is not None:
                records[field] = owned.record
        if any(getattr(message, field) in values for field, values in declared.any_tool.items()):
            raise_if(problem_of_tools(principal, message, Owner(None, tools=(ANYTHING,))))
        if not is_named or filled_fields(declared.also, message):
            raise_if(problem_of_whole(principal, message, declared))
        return records

    async def reached(self, principal: Principal, message: Any, rows: list[View]) -> list[View]:
        """Return the rows of a list that a caller may see. A page may be left with few, and the list goes on. A row that
        contains runs is incomplete if some are left out."""
        declared = declaration_of(type(message))
        if declared.runs and principal.access.workflows != ANY:
            return [_with_reached(principal, row, declared.runs) for row in rows]
        if not declared.rows or _is_of_one(declared, message):
            return rows
        rows = [row for row in rows if is_own(principal, Person(row["by"], row["client"]) if row.get("private") else None)]
        if declared.offers:
            return [row for row in rows if self._is_startable_row(principal, row)]
        if principal.access.workflows == ANY:
            return rows
        runs: dict[str, str] = {}
        kept = []
        for row in rows:
            said = row.get(declared.rows)
            run = row.get("run_id")
            if run is not None and (said is None or said == run):
                said = runs[run] = runs.get(run) or (await self._control.find(run)).workflow
            workflows = [said] if isinstance(said, str) else said
            if workflows and is_there(principal, Owner(principal.tenant, tuple(workflows), is_reach=declared.reach)):
                kept.append(row)
        return kept

    def hides(self, principal: Principal, message: Any) -> bool:
        """True if a list that ends may have rows that a caller does not see, as `reached` says."""
        declared = declaration_of(type(message))
        is_some = principal.access.workflows != ANY or declared.offers or declared.rows == "agent"
        is_list = declared.ends and hasattr(message, "limit") and not _is_of_one(declared, message)
        return bool(declared.rows) and is_some and is_list

    def seals(self, principal: Principal, message: Any) -> bool:
        """True if the cursors of a list are sealed: for all but those who see everything, unless it is of one thing, of which
        a caller sees all."""
        sees_all = principal.tenant is None and principal.access.workflows == ANY and principal.access.allows("admin")
        return hasattr(message, "cursor") and not sees_all and not _is_of_one(declaration_of(type(message)), message)

    def is_startable(self, principal: Principal, workflow: str) -> bool:
        """True if a caller may start runs of the code of this name. A tenant's caller starts what is offered here, and what the
        operator of the fleet has named for them."""
        return principal.access.reaches(workflow) and (
            principal.tenant is None or workflow in self.offered or principal.access.names(workflow)
        )

    def _is_startable_row(self, principal: Principal, row: View) -> bool:
        if row["tenant"] is None:
            return self.is_startable(principal, row["workflow"])
        return principal.tenant in (None, row["tenant"]) and principal.access.reaches(row["workflow"])

    def _problem_of_owner(
        self, principal: Principal, thing: Subject, value: Any, tenant: str, owned: Owner | None
    ) -> HoldfastError | None:
        if thing is Subject.WORKFLOW:
            is_own = owned is not None and owned.tenant is not None and is_there(principal, owned)
            return None if is_own or self.is_startable(principal, value) else self._no_workflow(principal, value)
        if owned is not None and is_there(principal, owned):
            return None
        return _ABSENT[thing](value, tenant)

    def _no_workflow(self, principal: Principal, workflow: str) -> NotFound:
        known = ", ".join(sorted(each for each in self.offered if principal.access.reaches(each))) or "none"
        return NotFound(
            f"There is no workflow {workflow!r:.200} for {principal.claim}; there are: {known}. Nothing was started."
        )


# --- The rules --------------------------------------------------------------------------------------------------------


def problem_of_grants(principal: Principal, message: Any, declared: Declaration) -> NotPermitted | None:
    """Return why a caller's grants do not suffice."""
    needs = [declared.grants, *((declared.also[field],) for field in filled_fields(declared.also, message))]
    for grants in needs:
        if not any(principal.access.allows(grant) for grant in grants):
            may = ", ".join(principal.access.may) or "nothing"
            takes = " or ".join(grants)
            return NotPermitted(
                f"{type(message).__name__} takes the grant {takes}, and {principal.claim} has {may}. Nothing was done."
            )
    return None


def problem_of_fleet(principal: Principal, message: Any) -> NotPermitted | None:
    """Return why a caller may not touch what all tenants share."""
    if principal.tenant is None:
        return None
    return NotPermitted(
        f"{type(message).__name__} is about what all tenants share, and {principal.claim} acts for {principal.tenant!r} only."
        " Nothing was done."
    )


def problem_of_whole(principal: Principal, message: Any, declared: Declaration) -> NotPermitted | None:
    """Return why a caller who reaches some workflows only may not touch what is about all of them."""
    is_filtered = declared.whole in (GeneralSubject.ROWS, GeneralSubject.COUNTS)
    if principal.access.workflows == ANY or (is_filtered and not filled_fields(declared.also, message)):
        return None
    named_by = [field for field, thing in declared.about.items() if thing is Subject.RUNS]
    hint = f": name one of them as {named_by[0]}" if named_by else ""
    return NotPermitted(
        f"{principal.claim} reaches some workflows only, and {type(message).__name__} is about all of them{hint}."
        " Nothing was done."
    )


def problem_of_tools(principal: Principal, message: Any, owned: Owner) -> NotPermitted | None:
    """Return why a caller has no say about the tools that a command is about."""
    wrong = next((tool for tool in owned.tools if not principal.access.handles_all(tool)), None)
    if wrong is None:
        return None
    return NotPermitted(f"{principal.claim} has no say about the tool {wrong!r:.200}. Nothing was done.")


def is_there(principal: Principal, owned: Owner) -> bool:
    """True if something is there for a caller: of their tenant, and of workflows that they reach."""
    if principal.tenant is not None and principal.tenant != owned.tenant:
        return False
    if not is_own(principal, owned.person):
        return False
    if owned.workflows is None:
        return principal.access.workflows == ANY
    if owned.is_reach:
        return principal.access.reaches_all(owned.workflows)
    return all(map(principal.access.reaches, owned.workflows))


def is_own(principal: Principal, person: Person | None) -> bool:
    """True if a caller may see what belongs to a person, or to none (None); an admin of the whole fleet always may. A program
    that speaks for a person is not that person, and no other program."""
    if person is None or (principal.tenant is None and principal.access.allows("admin")):
        return True
    return person.name == principal.name and person.client in (None, principal.client)


def named(declared: Declaration, message: Any) -> Iterator[tuple[str, Subject, Any]]:
    """Yield the fields that name a thing, with the thing and its name."""
    for field, thing in declared.about.items():
        value = getattr(message, field)
        if value not in (None, "", msgspec.UNSET):
            yield field, thing, value


def _is_of_one(declared: Declaration, message: Any) -> bool:
    """True if a list is of one thing alone, of which a caller sees all."""
    return any(named(declared, message)) and not (declared.beyond and getattr(message, declared.beyond))


def _with_reached(principal: Principal, row: View, field: str) -> View:
    """The row with those of its runs that a caller reaches; what has not begun has no workflow yet."""
    kept = [run for run in row[field] if "workflow" in run and principal.access.reaches(run["workflow"])]
    return {**row, field: kept, "is_whole": row["is_whole"] and len(kept) == len(row[field])}


def filled_fields(also: Mapping[str, Any], message: Any) -> list[str]:
    """Return those of the fields that are given."""
    return [field for field in also if getattr(message, field) not in (None, "", msgspec.UNSET)]


def raise_if(problem: HoldfastError | None) -> None:
    """Raise the problem, if there is one."""
    if problem is not None:
        raise problem


def _decides(principal: Principal, declared: Declaration) -> bool:
    """True if it must be known which tools something is about."""
    return declared.is_command and principal.access.tools != ANY


_ABSENT: Final[Mapping[Subject, Callable[[Any, str], HoldfastError]]] = {
    Subject.RUN: lambda run, _: no_run(run),
    Subject.FAILED: lambda run, _: no_run(run),
    Subject.GATE: lambda gate, _: unknown_gate(gate),
    Subject.GATES: lambda gates, _: unknown_gate(next(iter(gates))),
    Subject.TOOL_CALL: lambda call, _: no_call(call),
    Subject.MODEL_CALL: lambda call, _: no_call(call),
    Subject.LETTER: lambda letter, _: no_run(letter.partition(":")[0]),
    Subject.RUNS: lambda workflow, _: NotFound(f"A workflow {workflow!r:.200} is not there. Nothing was done."),
    Subject.SCHEDULE: no_schedule,
    Subject.CONVERSATION: lambda name, _: no_conversation(name),
    Subject.SUPERVISOR: lambda name, _: no_supervisor(name),
    Subject.EVALUATION: lambda id_, _: not_there(id_),
    Subject.APPROVAL: no_approval,
    Subject.KEY: lambda name, _: no_key(name),
    Subject.DELIVERY: lambda id_, _: no_delivery(id_),
    Subject.TOOLS: lambda tool, _: NotPermitted(f"Nothing is known of the tool {tool!r:.200}. Nothing was done."),
}
"""The message for a hidden subject: the same as for a missing one."""
