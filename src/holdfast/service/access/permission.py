"""The one check before anything is done or answered, for every transport: the grant, the tenant, the things that a command or
query is about, their workflows and tools. What is not declared is refused.

Never here: what a grant implies (core.values.access), whose a thing is (ownership).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.values.access import ANY
from holdfast.core.values.ids import CallId, GateId, run_of
from holdfast.engine.background.supervising import no_supervisor
from holdfast.errors import HoldfastError, NotFound, NotPermitted
from holdfast.service.access.key import no_key
from holdfast.service.access.ownership import ANYTHING, Asked, Owned, Ownership, Person
from holdfast.service.control.control import Control
from holdfast.service.control.conversation import no_conversation
from holdfast.service.control.evaluation import not_there
from holdfast.service.control.inquiry import no_run
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.control.schedule import no_schedule
from holdfast.service.control.standing_approval import no_approval
from holdfast.service.declarations.declaration import Declaration, Thing, Whole, declaration_of
from holdfast.service.declarations.query import View
from holdfast.service.principal import Principal


class Permission:
    """Checks what callers tell and ask, against what the store of `control` knows of its owners."""

    def __init__(self, control: Control, offered: Collection[str] = ()) -> None:
        """`offered` are the names of the workflows that each caller may start."""
        self._control = control
        self.offered = frozenset(offered)

    async def expect(self, who: Principal, asked: Any) -> None:
        """Raises NotPermitted for a caller without the grant, and for what is not theirs to touch; NotFound for a thing that is
        not there for them, in the words for one that is not there at all; TypeError for what declares nothing."""
        declared = declaration_of(type(asked))
        raise_if(problem_of_grants(who, asked, declared))
        if declared.whole is Whole.FLEET:
            raise_if(problem_of_fleet(who, asked))
        whose = who.of_tenant(getattr(asked, "tenant", None))
        tenant = whose or DEFAULT_TENANT
        ownership = Ownership(self._control.of_tenant(who.tenant), self.offered)
        is_named = False
        for field, thing, value in named(declared, asked):
            owned = await ownership.of(thing, Asked(value, tenant, asked, _decides(who, declared), whose))
            is_new = field == declared.makes and (owned is None or who.tenant not in (None, owned.tenant))
            if not is_new:
                raise_if(self._problem_of_owner(who, thing, value, tenant, owned))
            if owned is not None and declared.is_command:
                raise_if(problem_of_tools(who, asked, owned))
            is_named = is_named or thing is not Thing.TOOLS
        if any(getattr(asked, field) in values for field, values in declared.any_tool.items()):
            raise_if(problem_of_tools(who, asked, Owned(None, tools=(ANYTHING,))))
        if not is_named or given(declared.also, asked):
            raise_if(problem_of_whole(who, asked, declared))

    async def reached(self, who: Principal, asked: Any, rows: list[View]) -> list[View]:
        """Those rows of a list that a caller may see. A page may be left with few, and the list goes on. A row
        with runs in it is not whole where some are left out."""
        declared = declaration_of(type(asked))
        if declared.runs and who.access.workflows != ANY:
            return [_with_reached(who, row, declared.runs) for row in rows]
        if not declared.rows or any(named(declared, asked)):
            return rows
        rows = [row for row in rows if is_own(who, Person(row["by"], row["client"]) if row.get("private") else None)]
        if declared.offers:
            return [row for row in rows if self._is_startable_row(who, row)]
        if who.access.workflows == ANY:
            return rows
        runs: dict[str, str] = {}
        kept = []
        for row in rows:
            said = row.get(declared.rows)
            run = row.get("run_id")
            if run is not None and (said is None or said == run):
                said = runs[run] = runs.get(run) or (await self._control.find(run)).workflow
            workflows = [said] if isinstance(said, str) else said
            if workflows and is_there(who, Owned(who.tenant, tuple(workflows), is_reach=declared.reach)):
                kept.append(row)
        return kept

    def hides(self, who: Principal, asked: Any) -> bool:
        """True if a list that ends may have rows that a caller does not see, as `reached` says."""
        declared = declaration_of(type(asked))
        is_some = who.access.workflows != ANY or declared.offers or declared.rows == "agent"
        is_list = declared.ends and hasattr(asked, "limit") and not any(named(declared, asked))
        return bool(declared.rows) and is_some and is_list

    def seals(self, who: Principal, asked: Any) -> bool:
        """True if the cursors of a list are sealed: for all but those who see everything, unless it is of one thing, of which
        a caller sees all."""
        sees_all = who.tenant is None and who.access.workflows == ANY and who.access.allows("admin")
        return hasattr(asked, "cursor") and not sees_all and not any(named(declaration_of(type(asked)), asked))

    def is_startable(self, who: Principal, workflow: str) -> bool:
        """True if a caller may start runs of the code that is called so. Who acts for a tenant starts what is offered here, and
        what whoever runs the fleet has named for them."""
        return who.access.reaches(workflow) and (who.tenant is None or workflow in self.offered or who.access.names(workflow))

    def _is_startable_row(self, who: Principal, row: View) -> bool:
        if row["tenant"] is None:
            return self.is_startable(who, row["workflow"])
        return who.tenant in (None, row["tenant"]) and who.access.reaches(row["workflow"])

    def _problem_of_owner(
        self, who: Principal, thing: Thing, value: Any, tenant: str, owned: Owned | None
    ) -> HoldfastError | None:
        if thing is Thing.WORKFLOW:
            is_own = owned is not None and owned.tenant is not None and is_there(who, owned)
            return None if is_own or self.is_startable(who, value) else self._no_workflow(who, value)
        if owned is not None and is_there(who, owned):
            return None
        return _ABSENT[thing](value, tenant)

    def _no_workflow(self, who: Principal, workflow: str) -> NotFound:
        known = ", ".join(sorted(each for each in self.offered if who.access.reaches(each))) or "none"
        return NotFound(f"There is no workflow {workflow!r:.200} for {who.claim}; there are: {known}. Nothing was started.")


# --- The rules --------------------------------------------------------------------------------------------------------


def problem_of_grants(who: Principal, asked: Any, declared: Declaration) -> NotPermitted | None:
    """Return why a caller's grants do not suffice."""
    needs = [declared.grants, *((declared.also[field],) for field in given(declared.also, asked))]
    for grants in needs:
        if not any(who.access.allows(grant) for grant in grants):
            may = ", ".join(who.access.may) or "nothing"
            takes = " or ".join(grants)
            return NotPermitted(f"{type(asked).__name__} takes the grant {takes}, and {who.claim} has {may}. Nothing was done.")
    return None


def problem_of_fleet(who: Principal, asked: Any) -> NotPermitted | None:
    """Return why a caller may not touch what all tenants share."""
    if who.tenant is None:
        return None
    return NotPermitted(
        f"{type(asked).__name__} is about what all tenants share, and {who.claim} acts for {who.tenant!r} only."
        " Nothing was done."
    )


def problem_of_whole(who: Principal, asked: Any, declared: Declaration) -> NotPermitted | None:
    """Return why a caller who reaches some workflows only may not touch what is about all of them."""
    is_filtered = declared.whole in (Whole.ROWS, Whole.COUNTS)
    if who.access.workflows == ANY or (is_filtered and not given(declared.also, asked)):
        return None
    named_by = [field for field, thing in declared.about.items() if thing is Thing.RUNS]
    hint = f": name one of them as {named_by[0]}" if named_by else ""
    return NotPermitted(
        f"{who.claim} reaches some workflows only, and {type(asked).__name__} is about all of them{hint}. Nothing was done."
    )


def problem_of_tools(who: Principal, asked: Any, owned: Owned) -> NotPermitted | None:
    """Return why a caller has no say about the tools that a command is about."""
    wrong = next((tool for tool in owned.tools if not who.access.handles_all(tool)), None)
    if wrong is None:
        return None
    return NotPermitted(f"{who.claim} has no say about the tool {wrong!r:.200}. Nothing was done.")


def is_there(who: Principal, owned: Owned) -> bool:
    """True if something is there for a caller: of their tenant, and of workflows that they reach."""
    if who.tenant is not None and who.tenant != owned.tenant:
        return False
    if not is_own(who, owned.person):
        return False
    if owned.workflows is None:
        return who.access.workflows == ANY
    if owned.is_reach:
        return who.access.reaches_all(owned.workflows)
    return all(map(who.access.reaches, owned.workflows))


def is_own(who: Principal, person: Person | None) -> bool:
    """True if what is a person's, or nobody's own (None), is there for a caller: also for an admin of the whole fleet. A
    program that speaks for somebody is not they, and no other program."""
    if person is None or (who.tenant is None and who.access.allows("admin")):
        return True
    return person.name == who.name and person.client in (None, who.client)


def named(declared: Declaration, asked: Any) -> Iterator[tuple[str, Thing, Any]]:
    """Yield the fields that name a thing, with the thing and its name."""
    for field, thing in declared.about.items():
        value = getattr(asked, field)
        if value not in (None, "", msgspec.UNSET):
            yield field, thing, value


def _with_reached(who: Principal, row: View, field: str) -> View:
    """The row with those of its runs that a caller reaches; what has not begun has no workflow yet."""
    kept = [run for run in row[field] if "workflow" in run and who.access.reaches(run["workflow"])]
    return {**row, field: kept, "is_whole": row["is_whole"] and len(kept) == len(row[field])}


def given(also: Mapping[str, Any], asked: Any) -> list[str]:
    """Return those of the fields that are given."""
    return [field for field in also if getattr(asked, field) not in (None, "", msgspec.UNSET)]


def raise_if(problem: HoldfastError | None) -> None:
    """Raise the problem, if there is one."""
    if problem is not None:
        raise problem


def _decides(who: Principal, declared: Declaration) -> bool:
    """True if it must be known which tools something is about."""
    return declared.is_command and who.access.tools != ANY


_ABSENT: Final[Mapping[Thing, Callable[[Any, str], HoldfastError]]] = {
    Thing.RUN: lambda run, _: no_run(run),
    Thing.FAILED: lambda run, _: no_run(run),
    Thing.GATE: lambda gate, _: no_run(run_of(GateId(gate))),
    Thing.GATES: lambda gates, _: no_run(run_of(GateId(next(iter(gates))))),
    Thing.TOOL_CALL: lambda call, _: no_run(run_of(CallId(call))),
    Thing.MODEL_CALL: lambda call, _: no_run(run_of(CallId(call))),
    Thing.LETTER: lambda letter, _: no_run(letter.partition(":")[0]),
    Thing.RUNS: lambda workflow, _: NotFound(f"A workflow {workflow!r:.200} is not there. Nothing was done."),
    Thing.SCHEDULE: no_schedule,
    Thing.CONVERSATION: lambda name, _: no_conversation(name),
    Thing.SUPERVISOR: lambda name, _: no_supervisor(name),
    Thing.EVALUATION: lambda id_, _: not_there(id_),
    Thing.APPROVAL: no_approval,
    Thing.KEY: lambda name, _: no_key(name),
    Thing.TOOLS: lambda tool, _: NotPermitted(f"Nothing is known of the tool {tool!r:.200}. Nothing was done."),
}
"""What is said where a thing is not there for somebody: what is said where it is not there at all."""
