"""Commands to runs: start, with its options as a type checker sees them; pause, go on, end; a person's decisions, a program's
signals, the truth about a call.

Never here: what an option means, what follows from a command (core).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol, TypedDict, Unpack, get_args, overload

import msgspec
from typing_extensions import TypeVar

from holdfast.authoring.context import Context
from holdfast.authoring.signal import Signal
from holdfast.authoring.user_arguments import workflow_of
from holdfast.authoring.values.plain import encode, refusal
from holdfast.authoring.values.sensitive import sealed_by
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.contribution import shown_now
from holdfast.core.facts.events import GateOpened
from holdfast.core.facts.state import TOOL_APPROVAL, State
from holdfast.core.nouns.evaluations import Release
from holdfast.core.nouns.labels import checked, expect_few, merged
from holdfast.core.people.gates import asked_together, expect_fields, no_gate, offered
from holdfast.core.rules.forking import questions
from holdfast.core.rules.limits import whole_tokens
from holdfast.core.rules.questions import EFFECT_UNKNOWN, EXHAUSTED, VERSION_HELD, asks_about
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, GateId, RunId, StepId, node_of, root_of, run_of
from holdfast.core.values.money import nanousd
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import OnLimit
from holdfast.engine.background.kin import contributors_of_kin
from holdfast.engine.operations import signalling
from holdfast.engine.runs.starting import NewRun, StartedRun, scopes_of_run, start_once
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import AlreadyDecided, Conflict, InvalidDecision, InvalidInput, KeyReused, NotFound, UsageError
from holdfast.ports import MAX_LISTED
from holdfast.service.control.base import NOT_GIVEN, ControlBase, named_budget, start_key, word
from holdfast.service.control.gate import Gate, Story, approved, gate_of, run_that_asks, story_of
from holdfast.service.control.handle import Run, output
from holdfast.service.control.naming import DEFAULT_TENANT, call_named, gate_named, run_named
from holdfast.service.control.run_reader import no_call
from holdfast.service.control.tree import quiet_children

Returned_co = TypeVar("Returned_co", covariant=True)

_MAX_WAITING: Final = 10_000
"""Open gates of a tenant that are looked through when a version is released."""
MAX_TAGS: Final = 20
MAX_OF_TAG: Final = 100
"""Characters."""


class WithoutInput(Protocol[Returned_co]):
    """A flow whose parameters besides `ctx` all have a default, or that has none."""

    @property
    def hash(self) -> str: ...

    def __call__(self, ctx: Context, /) -> Coroutine[Any, Any, Returned_co]: ...


class TermOptions(TypedDict, total=False):
    """The options that a run carries unchanged, as its terms (core.facts.terms)."""

    max_tokens: int | None
    max_model_calls: int | None
    max_tool_calls: int | None
    max_wall_s: float | None
    on_limit: OnLimit | None
    tags: Sequence[str]
    labels: Mapping[str, str]
    on_end: str | None


class StartOptions(TermOptions, total=False):
    """The options of `Engine.start`."""

    version: int | None
    tenant: str
    cost_limit_usd: float | str | Decimal | None
    team: str | None
    team_budget: str | None
    agent: str | None
    key: str | None
    by: str | Actor | None
    queue: bool


def read_terms(options: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the terms that are given, as a run carries them. Raises InvalidInput."""
    if unknown := sorted(options.keys() - _READ.keys()):
        raise TypeError(f"start() got an unexpected keyword argument {unknown[0]!r}")
    found: dict[str, Any] = {}
    for name, given in options.items():
        if given is not None:
            try:
                found[name] = _READ[name](given, redact)
            except InvalidInput as problem:
                problem.field = problem.field or name
                raise
    return found


def _tokens(value: Any, _: Any) -> int:
    try:
        return whole_tokens(value)
    except ValueError as problem:
        words = f"The limit on tokens cannot be used: {problem}. No run was started."
        raise InvalidInput(words, field="max_tokens") from None


def _calls(name: str) -> Callable[[Any, Any], int]:
    def read(value: Any, _: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name} is {value!r:.80}; it is a whole number of calls, at least 1. No run was started.")
        return value

    return read


def _wall_s(value: Any, _: Any) -> float:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidInput(f"max_wall_s is {value!r:.80}; it is seconds, above zero. No run was started.")
    return float(value)


def _on_limit(value: Any, _: Any) -> OnLimit:
    if value not in get_args(OnLimit):
        raise InvalidInput(f"on_limit is {value!r:.80}; it is one of {', '.join(get_args(OnLimit))}. No run was started.")
    how: OnLimit = value
    return how


def _tags(value: Any, redact: Callable[[str], str]) -> tuple[str, ...]:
    """Words by which a run is found, each once, in their order."""
    tags = sorted({redact(word("tag", tag)) for tag in ([value] if isinstance(value, str) else value)})
    for tag in tags:
        if not tag.strip() or len(tag) > MAX_OF_TAG:
            raise InvalidInput(f"The tag {tag!r:.50} is no word of 1 to {MAX_OF_TAG} characters. No run was started.")
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"{len(tags)} tags: a run has up to {MAX_TAGS}. No run was started.")
    return tuple(tags)


def _labels(value: Any, redact: Callable[[str], str]) -> dict[str, str]:
    found = merged({}, checked(value, redact))
    expect_few(found)
    return found


_READ: Final[Mapping[str, Callable[[Any, Callable[[str], str]], Any]]] = {
    "max_tokens": _tokens,
    "max_model_calls": _calls("max_model_calls"),
    "max_tool_calls": _calls("max_tool_calls"),
    "max_wall_s": _wall_s,
    "on_limit": _on_limit,
    "tags": _tags,
    "labels": _labels,
    "on_end": lambda value, redact: redact(word("on_end", value)),
}
"""How each term is read."""


Input = TypeVar("Input", default=Any)
Output = TypeVar("Output", default=Any)

_IN_THE_PLACE_OF_CODE: Final = (EXHAUSTED, EFFECT_UNKNOWN, TOOL_APPROVAL)
"""The questions to which an answer stands for what code returns, whatever form they have."""


class GateDecision(NamedTuple):
    """The decision at one gate among several."""

    decision: str
    """Decision that the gate allows."""
    data: Any = NOT_GIVEN
    """Data of the decision, as of `Engine.decide`."""
    reason: str | None = None
    """Reason, kept in the run's history."""


class AskedCall(NamedTuple):
    """The call of a tool that a gate asks about."""

    gate: str
    tool: str
    arguments: Any


class AskedTogether(NamedTuple):
    """Calls that are asked about at the same time; `shown_hash` is of all that is shown of them."""

    calls: list[AskedCall]
    shown_hash: str


class Commands(ControlBase):
    """Each is durable when its call returns."""

    @overload
    async def start(
        self,
        workflow: WithoutInput[Output] | Workflow[[], Output] | StoredWorkflow | str,
        input: None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Output]: ...

    @overload
    async def start(
        self, workflow: Workflow[[Input], Output] | StoredWorkflow | str, input: Input, **options: Unpack[StartOptions]
    ) -> Run[Output]: ...

    @overload
    async def start(
        self, workflow: Workflow[..., Output], input: Mapping[str, Any], **options: Unpack[StartOptions]
    ) -> Run[Output]: ...

    async def start(
        self,
        workflow: Workflow | WithoutInput[Any] | StoredWorkflow | str,
        input: Any = None,  # noqa: A002 - the word of the public surface
        *,
        version: int | None = None,
        tenant: str = DEFAULT_TENANT,
        cost_limit_usd: float | str | Decimal | None = None,
        team: str | None = None,
        team_budget: str | None = None,
        agent: str | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        queue: bool = False,
        **terms: Unpack[TermOptions],
    ) -> Run[Any]:
        """Start a run. It is durable when the call returns.

        Money counts in the limits of the tenant, and of `team` if you pass one (`set_budget`). With a `team_budget` it counts
        there as the agent's (`set_team_budget`). A fork has the original run's tags and labels, a child none.

        Args:
            workflow: The workflow, or the name of one that some process has loaded. By name, the definition loaded last is
                used.
            version: Version of a workflow that you name; by default the highest.
            input: Input of the run, which must fit the workflow's input model or its JSON Schema.
            by: Name of the person or service that starts the run, or an `Actor`. A workflow with four eyes requires a person.
            queue: True to queue the run while too many runs are active; by default it is refused.

        Raises:
            NotFound: No workflow of this name and version is known.
            InvalidInput: The input or an option cannot be used.
            KeyReused: The key belongs to a run with another input.
            TooManyRuns: Too many runs are active; `retry_after_s` says when to try again.
        """
        runtime = self.runtime
        meant = await self._resolve_workflow(workflow, version, tenant)
        with self.sensitive(tenant):
            valid = await self._valid_input(meant, input)
            try:
                encoded = encode(valid)  # refuse what cannot be stored before anything is
            except InvalidInput as problem:
                raise InvalidInput(refusal(f"The input of {meant.name!r}", problem.message) + " No run was started.") from None
        tenant, key = word("tenant", tenant), None if key is None else start_key(key)
        team = None if team is None else word("team", team)
        shared = await scopes_of_run(runtime.store, tenant, named_budget(team_budget), agent, meant.graph)
        limit = None if cost_limit_usd is None else self._cost_limit(cost_limit_usd)
        carried = read_terms(terms, self.payloads.redact)
        if "on_end" in carried:
            self.executor.services.notifications.at_end(tenant, carried["on_end"])
        if isinstance(meant, Workflow):
            await runtime.catalog.add(meant)
        input_digest = digest([meant.name, encoded.decode()])

        async def make() -> NewRun:
            with self.sensitive(tenant):
                payload = await self.payloads.keep(valid, tenant, runtime.store.clock.now_ms())
            start = cmd.StartRun(
                RunId(""),
                tenant,
                payload,
                input_digest,
                limit,
                by=self._claim(by),
                price_fingerprint=self.executor.services.gateway.price_fingerprint,
                team=team,
                queue=queue,
                shared=shared,
                agent=agent,
                **carried,
            )
            return NewRun(meant.graph, start)

        return self._same(key, await start_once(runtime, tenant, key, make), input_digest)

    def _cost_limit(self, cost_limit_usd: float | str | Decimal) -> int:
        try:
            return nanousd(cost_limit_usd)
        except ValueError as problem:
            words = f"The cost limit cannot be used: {problem}. No run was started."
            raise InvalidInput(words, field="cost_limit_usd") from None

    async def _resolve_workflow(
        self, workflow: Workflow | WithoutInput[Any] | StoredWorkflow | str, version: int | None, tenant: str
    ) -> Workflow | StoredWorkflow:
        """Return the workflow that a name means to a tenant; its code, where that is here."""
        if version is not None and not isinstance(workflow, str):
            raise UsageError(f"version={version} goes with a workflow's name. Nothing was started.")
        if not isinstance(workflow, StoredWorkflow | str):
            return workflow_of(workflow)
        stored = await self.workflow(workflow, version, tenant=tenant) if isinstance(workflow, str) else workflow
        return self.runtime.catalog.workflows.get(stored.hash, stored)

    async def _valid_input(self, workflow: Workflow | StoredWorkflow, value: Any) -> Any:
        """An input as a run starts with it. Raises InvalidInput."""
        if isinstance(workflow, StoredWorkflow):
            return await self.executor.services.threads.run(workflow.validated_input, {"raw": value})
        return workflow.validated_input(value)

    def _same(self, key: str | None, started: StartedRun, input_digest: str) -> Run[Any]:
        """Return the run of a start key. Raises KeyReused, whose words do not name the run: it may be of a workflow that the
        caller does not reach."""
        if started.input_digest != input_digest:
            raise KeyReused(
                f"The key {key!r} has started a run of another workflow or with another input. Nothing was started: use another"
                " key.",
                run=started.run,
            )
        return Run(self.executor, started.run)

    def run(self, run_id: str) -> Run[Any]:
        """Return the handle of a run."""
        return Run(self.executor, run_named(run_id), self.store.log)

    async def output(self, state: State) -> Any:
        """Return a completed run's result.

        Args:
            state: State of the run.
        """
        return await output(self.payloads, state)

    async def decide(
        self,
        gate_id: str,
        decision: str = "approve",
        data: Any = NOT_GIVEN,
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        reason: str | None = None,
        shown_hash: str | None = None,
    ) -> None:
        """Decide a gate.

        `by` is compared with the gate's reviewers, and with four eyes with those who contributed to the run. An approval may
        fill in fields that the form left open; to change others, use `edit`.

        Raises:
            NotFound: The gate does not exist.
            AlreadyDecided: The gate is decided; the error names by whom.
            DecisionRefused: `by` may not decide it.
            InvalidDecision: The gate does not take this decision or this data.
            Conflict: The gate shows something else than `shown_hash`.
        """
        gate = gate_named(gate_id)
        given = data is not NOT_GIVEN
        if decision == "answer":
            await self._expect_no_question(gate)
        plain = await self._answer(gate, decision, data) if given else None
        command = cmd.DecideGate(
            gate,
            decision,
            plain,
            self._claim(by),
            self._clean(reason),
            shown_hash,
            given,
            self._roles(roles),
            await self._kin_of(gate),
        )
        try:
            if asks_about(gate, VERSION_HELD):
                await self._decide_version(command)
            else:
                await self.runtime.runs.send(run_of(gate), command)
        except NotFound:
            raise no_gate(gate) from None

    async def _decide_version(self, command: cmd.DecideGate) -> None:
        """Decide the gate of a held version. An approval releases the version, and is given at the gates of the tenant's other
        runs that wait for it too. If this process dies in between, these stay open, and any of them can be approved."""
        state = await self.runtime.runs.state(run_of(command.gate))
        asked = state.gates.get(command.gate)
        await self.runtime.runs.send(state.run, command)
        if asked is None or command.decision != "approve":
            return
        version = asked.opened.shown.value()["graph_hash"]
        release = Release(state.workflow, state.version, command.gate, command.by.name or "", self.now_ms())
        await self.runtime.version_gate.release(state.tenant, version, release)
        after = None
        for _ in range(_MAX_WAITING // MAX_LISTED):
            page = [row for row, _ in await self.gates(tenant=state.tenant, after=after)]
            for row in page:
                if asks_about(row.gate, VERSION_HELD):
                    await self._approve_too(row.gate, version, command)
            if len(page) < MAX_LISTED:
                return
            after = page[-1].gate

    async def _approve_too(self, gate: GateId, version: str, command: cmd.DecideGate) -> None:
        with suppress(Conflict, NotFound):  # decided or withdrawn meanwhile
            asked = (await self.runtime.runs.state(run_of(gate))).gates.get(gate)
            if asked is not None and asked.opened.shown.value()["graph_hash"] == version:
                await self.runtime.runs.send(run_of(gate), msgspec.structs.replace(command, gate=gate, shown_hash=None))

    async def _kin_of(self, gate_id: str) -> tuple[str, ...] | None:
        """Return who contributed to the runs above and below that of an open gate with four eyes; None where not all are
        known."""
        try:
            state = await self.runtime.runs.state(run_of(gate_named(gate_id)))
        except NotFound:  # as the sender of the decision is answered
            return ()
        asked = state.gates.get(GateId(gate_id))
        return await contributors_of_kin(self.runtime.runs, state) if asked is not None and asked.opened.four_eyes else ()

    async def _answer(self, gate: GateId, decision: str, data: Any) -> Any:
        """Return the data of an answer as it is kept: as the code would have written it whose place it takes, or sealed where
        the gate's form says that it is sensitive. Raises InvalidInput, InvalidDecision."""
        try:
            state = await self.runtime.runs.state(run_of(gate))
        except NotFound:  # as the sender of the decision is answered
            return self.payloads.plain(data)
        asked = state.gates.get(gate)
        if asked is None:
            return self.payloads.plain(data)
        opened = asked.opened
        if decision == "answer" and opened.reason in _IN_THE_PLACE_OF_CODE:
            return self._sealed_as(await self._answer_of(state, opened), data, state.tenant)
        with self.sensitive(state.tenant):
            plain = self.payloads.plain(data)
            if opened.form is None:
                return plain
            expect_fields(gate, opened.form, plain)
            return sealed_by(opened.form, plain)

    async def _expect_no_question(self, gate: GateId) -> None:
        """Raise InvalidDecision for the output of a failed step in which a person was asked, by it or by a child."""
        try:
            asked = (await self.runtime.runs.state(run_of(gate))).gates.get(gate)
        except NotFound:  # as the sender of the decision is answered
            return
        if asked is None or asked.opened.reason != EXHAUSTED:
            return
        opened, history = asked.opened, await self.store.log.events(run_of(gate))
        node = root_of(node_of(StepId(opened.subject or "")))
        if any(root_of(node_of(each)) == node for each in questions(history, await quiet_children(self.store, history))):
            others = ", ".join(each for each in opened.allowed if each != "answer")
            raise InvalidDecision(
                f"Gate {opened.gate} takes {others}, not 'answer': a person was asked in {opened.subject} or in a child of it,"
                " and no output is taken in the place of what people decide. Nothing was decided."
            )

    async def delegate(
        self,
        gate_id: str,
        to: Sequence[str],
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        reason: str | None = None,
    ) -> None:
        """Ask more reviewers to decide a gate, beside the current ones. `by` must be one of its reviewers.

        Raises:
            NotFound: The gate does not exist.
            AlreadyDecided: The gate is decided.
            DecisionRefused: `by` is not one of its reviewers.
            InvalidInput: `to` names no person or role that can be asked.
        """
        await self._assign(gate_id, to, by, roles, reason, delegates=True)

    async def reassign(
        self, gate_id: str, to: Sequence[str], *, by: str | Actor | None = None, reason: str | None = None
    ) -> None:
        """Replace the reviewers of a gate.

        Raises:
            NotFound: The gate does not exist.
            AlreadyDecided: The gate is decided.
            InvalidInput: `to` names no person or role that can be asked.
        """
        await self._assign(gate_id, to, by, (), reason, delegates=False)

    async def _assign(
        self,
        gate_id: str,
        to: Sequence[str],
        by: str | Actor | None,
        roles: Sequence[str],
        reason: str | None,
        *,
        delegates: bool,
    ) -> None:
        gate, asked = gate_named(gate_id), self._roles(to)
        command = cmd.AssignGate(
            gate, asked, delegates, self._claim(by), self._clean(reason), self._roles(roles), await self._kin_of(gate)
        )
        try:
            await self.runtime.runs.send(run_of(gate), command)
        except NotFound:
            raise no_gate(gate) from None

    async def decide_together(
        self,
        decisions: Mapping[str, GateDecision | str],
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        shown_hash: str | None = None,
    ) -> None:
        """Decide several tool calls that one step asks about at the same time, in one commit. All of the decisions take effect,
        or none. Gates that you do not name stay open.

        Raises:
            InvalidDecision: The gates were not asked together, or one does not take its decision.
            AlreadyDecided, DecisionRefused, NotFound, Conflict: As `decide` raises them.
        """
        if not decisions:
            raise InvalidInput("No gate was named, so nothing was decided.")
        claim, kept = self._claim(by), self._roles(roles)
        first = next(iter(decisions))
        await self._expect_run_of(gate_named(first), no_gate)
        if shown_hash is not None and shown_hash != (await self.asked_together(first)).shown_hash:
            raise Conflict(
                f"Other calls are asked about together with {first} by now than were decided about. Nothing was decided: look"
                " again."
            )
        commands = []
        for gate, given in decisions.items():
            said = given if isinstance(given, GateDecision) else GateDecision(given)
            has_data = said.data is not NOT_GIVEN
            plain = await self._answer(gate_named(gate), said.decision, said.data) if has_data else None
            reason = self._clean(said.reason)
            kin = await self._kin_of(gate)
            commands.append(
                cmd.DecideGate(gate_named(gate), said.decision, plain, claim, reason, given=has_data, roles=kept, kin=kin)
            )
        await self.runtime.runs.send(run_of(gate_named(first)), cmd.DecideTogether(tuple(commands)))

    async def asked_together(self, gate_id: str) -> AskedTogether:
        """Return the tool calls that a step asks about at the same time as this one, with a hash of all that they show.

        Args:
            gate_id: Id of one of the gates.

        Raises:
            NotFound: The gate is not open, or asks about something else.
        """
        state = await self.runtime.runs.state(run_of(gate_named(gate_id)), fresh=True)
        found = asked_together(state, gate_named(gate_id))
        if not found:
            raise NotFound(f"Gate {gate_id} is no open question about the call of a tool.")
        opened = [state.gates[each].opened for each in found]
        calls = [
            AskedCall(each.gate, (shown := (await self._gate_content(state, each))[0])["tool"], shown["arguments"])
            for each in opened
        ]
        return AskedTogether(calls, digest([each.shown_hash for each in opened]))

    async def gate(self, gate_id: str) -> Gate:
        """Return a gate: what it shows, its hash for `decide(shown_hash=)`, its form, decisions and reviewers.

        A gate that no longer is open is returned too, with its decision and the person who decided.

        Args:
            gate_id: Id of the gate.

        Raises:
            NotFound: The gate does not exist.
        """
        gate = gate_named(gate_id)
        run = await run_that_asks(self, gate)
        state = await self.runtime.runs.state(run.run, fresh=True)
        if (known := state.gates.get(gate)) is not None:  # without its history, which may be long
            story = Story(known.opened, known.at_ms, known.reminders, known.escalated_at_ms, None, None)
            return await gate_of(self, story, run, state, offered(state, known.opened), [each.by for each in known.approvals])
        story = await story_of(self, gate)
        names = [by for each in story.approvals if (by := approved(each).by) is not None]
        return await gate_of(self, story, run, state, story.opened.allowed, names)

    async def _gate_content(self, state: State, opened: GateOpened) -> tuple[Any, Any]:
        """Return what a question shows now, and what its form begins with."""
        shown, filled = [await self.payloads.value(each, state.tenant) for each in (opened.shown, opened.filled)]
        return shown_now(opened, shown, filled), filled

    def _roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        payloads = self.payloads
        return tuple(payloads.redact(role) for role in ([roles] if isinstance(roles, str) else roles))

    @overload
    async def signal(
        self, run_id: str, name: Signal[Output], data: Output, *, key: str | None = None, by: str | Actor | None = None
    ) -> None: ...

    @overload
    async def signal(
        self, run_id: str, name: str, data: Any = None, *, key: str | None = None, by: str | Actor | None = None
    ) -> None: ...

    async def signal(
        self, run_id: str, name: str | Signal[Any], data: Any = None, *, key: str | None = None, by: str | Actor | None = None
    ) -> None:
        """Send a signal to a run. The run keeps it until a step asks for it.

        Args:
            name: Name of the signal, or a Signal.

        Raises:
            NotFound: The run does not exist.
            InvalidInput: The data does not fit what the run expects, or what its code declares under this name.
            KeyReused: The key belongs to a signal with another name or other data.
        """
        run = await self.find(run_id)
        word("name of the signal", name.name if isinstance(name, Signal) else name)
        key = None if key is None else word("key", key)
        sent = await signalling.addressed(self.runtime, self.payloads, run, name, data, self._claim(by), key)
        await self.runtime.runs.send(run.run, sent)

    async def label_run(self, run_id: str, labels: Mapping[str, str | None], *, by: str | Actor | None = None) -> None:
        """Change labels of a run, in progress or ended.

        Raises:
            NotFound: The run does not exist.
            InvalidInput: A label cannot be used.
            Conflict: The run is archived.
        """
        run = await self._of_tables(run_id)
        await self.runtime.runs.send(run, cmd.LabelRun(checked(labels, self.payloads.redact, removes=True), self._claim(by)))

    async def pause(self, run_id: str, *, by: str | Actor | None = None) -> None:
        """Pause a run. Steps in progress may finish, and no new step starts."""
        await self.runtime.runs.send(run_named(run_id), cmd.PauseRun(self._claim(by)))

    async def resume(self, run_id: str, *, by: str | Actor | None = None) -> None:
        """Resume a paused run."""
        await self.runtime.runs.send(run_named(run_id), cmd.ResumeRun(self._claim(by)))

    async def retry(self, run_id: str, *, by: str | Actor | None = None) -> None:
        """Retry a failed run from where it failed. Completed steps and spent money stay as they are. The run may have to wait
        for its place again.

        Raises:
            RunEnded: The run completed, was cancelled, was compensated, or failed by a person's decision.
            Conflict: The run has not ended, or is archived.
        """
        await self.runtime.runs.send(await self._of_tables(run_id), cmd.RetryRun(self._claim(by)))

    async def _of_tables(self, run_id: str) -> RunId:
        """Return a run that may still change. Raises NotFound, and Conflict for one that is archived."""
        run = await self.find(run_id)
        if await self.store.log.is_archived(run.run):
            raise Conflict(f"Run {run.run} is archived with its month, and final. Nothing was changed: start another run.")
        return run.run

    async def cancel(self, run_id: str, *, reason: str = "cancelled", by: str | Actor | None = None) -> None:
        """Cancel a run. No new step starts, effects are compensated, and then the run ends."""
        command = cmd.CancelRun(self.payloads.redact(reason), self._claim(by), insists=True)
        await self.runtime.runs.send(run_named(run_id), command)

    async def extend(self, run_id: str, limit: str, value: int, *, by: str | Actor | None = None) -> None:
        """Raise a limit of a run.

        Args:
            limit: Limit to raise: `steps`, `tokens`, `model_calls`, `tool_calls`, `active`, `wall`, `lifespan` or `cost`.
            value: New limit: a number; seconds for `active`, `wall` and `lifespan`; nano-dollars for `cost`.
        """
        await self.runtime.runs.send(run_named(run_id), cmd.RaiseLimit(limit, value, self._claim(by)))

    async def raise_budget(self, run_id: str, limit_usd: float | str | Decimal, *, by: str | Actor | None = None) -> None:
        """Set the cost limit of a run. A run that waits for money goes on."""
        try:
            value = nanousd(limit_usd)
        except ValueError as problem:
            raise InvalidInput(f"The limit cannot be used: {problem}.") from None
        await self.extend(run_id, "cost", value, by=by)

    async def reconcile(self, call: str, cost_usd: float | str | Decimal, *, by: str | Actor | None = None) -> None:
        """Record the actual cost of a model call whose cost is unknown, as the provider's bill shows it."""
        id_ = call_named(call)
        try:
            value = nanousd(cost_usd)
        except ValueError as problem:
            raise InvalidInput(f"The cost cannot be used: {problem}. Nothing was reconciled.") from None
        await self._expect_run_of(id_, no_call)
        await self.runtime.runs.send(run_of(id_), cmd.ReconcileCall(id_, value, self._claim(by)))

    async def _expect_run_of(self, id_: CallId | GateId, absent: Callable[[Any], NotFound]) -> None:
        """Raise NotFound for a call or gate whose run is not there, in the words for one that is `absent`."""
        try:
            await self.find(run_of(id_))
        except NotFound:
            raise absent(id_) from None

    async def resolve_effect(
        self,
        call: str,
        decision: str,
        response: Any = NOT_GIVEN,
        *,
        by: str | Actor | None = None,
        reason: str | None = None,
        shown_hash: str | None = None,
    ) -> None:
        """Record the outcome of a tool call whose outcome is unknown. It decides the gate that asks about the call.

        Raises:
            Conflict: No gate asks about the call.
            AlreadyDecided, DecisionRefused, InvalidDecision, NotFound: As `decide` raises them.
        """
        gate = await self.gate_about(call)
        await self.decide(gate, decision, response, by=by, reason=reason, shown_hash=shown_hash)

    async def gate_about(self, call: str) -> GateId:
        """Return the open gate that asks what became of a call.

        Args:
            call: Id of the call.

        Raises:
            NotFound: The call does not exist.
            AlreadyDecided: The question about it was answered.
            Conflict: No gate asks about it.
        """
        await self._expect_run_of(call_named(call), no_call)
        state = await self.runtime.runs.state(run_of(call_named(call)))
        for gate_id, gate in state.gates.items():
            if gate.opened.reason == EFFECT_UNKNOWN and gate.opened.subject == call:
                return gate_id
        for row, change in await self.gates(run_of(call_named(call)), order="closed"):
            if row.reason == EFFECT_UNKNOWN and row.subject == call and change is not None and change.decision is not None:
                who = change.by or "somebody"
                raise AlreadyDecided(
                    f"No question is open about the call {call} any more: {who} has decided {change.decision!r}. Nothing was"
                    " done."
                )
        raise Conflict(f"No question is open about the call {call}: `holdfast effects list` shows what became of it.")

    async def migrate(self, run_id: str, workflow: Workflow | StoredWorkflow, *, by: str | Actor | None = None) -> None:
        """Continue a run with another definition of its workflow.

        Args:
            workflow: The other definition.
        """
        if isinstance(workflow, Workflow):
            await self.runtime.catalog.add(workflow)
        await self.runtime.runs.send(run_named(run_id), cmd.MigrateRun(self._claim(by)), workflow.graph)
