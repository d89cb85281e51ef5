"""`ctx`: what a step's code may do, each operation at its place in the step's journal.

Never here: how an operation is recorded (journal), where the code is (cursor), what several of them are (branches).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Unpack

from pydantic import BaseModel

from holdfast.authoring.agents.cache import SemanticCache
from holdfast.authoring.agents.chat import Chat
from holdfast.authoring.agents.embedder import Embedder
from holdfast.authoring.agents.offer import Handoff
from holdfast.authoring.agents.router import Route, Router
from holdfast.authoring.mapping import PARALLEL, DemandSource, MapDefinition, Mappable, terms
from holdfast.authoring.options import AgentOptions, ModelOptions
from holdfast.authoring.signal import Signal
from holdfast.authoring.step import EffectStep, Step, outside_of_flows, step_of
from holdfast.authoring.tool import Tool, returned
from holdfast.authoring.values.adapter import adapter_of
from holdfast.authoring.values.view import fields
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.graph import Join
from holdfast.core.facts.state import LABEL, NOW
from holdfast.core.nouns import conversations
from holdfast.core.nouns.labels import checked
from holdfast.core.nouns.memory import MAX_ENTRIES, namespace
from holdfast.core.nouns.shared_values import expect_space, unpacked
from holdfast.core.people.gates import APPROVAL
from holdfast.core.rules.limits import LimitsLeft
from holdfast.core.values.demand import NOTHING
from holdfast.core.values.ids import CallId, Path, RunId, Unique
from holdfast.core.values.payload import NULL, digest
from holdfast.core.values.policies import RetryPolicy
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.attempt_context import AttemptContext
from holdfast.engine.attempts.cursor import cursor, note_calls, note_step_calls
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.operations import asking, branches, budget, child, embedding, exchange, function, mapping, signalling
from holdfast.engine.operations.child import OnFailure, Request
from holdfast.engine.operations.exchange import RequestOptions
from holdfast.engine.operations.forwarding import OnChange, ProgramCalls, program_calls
from holdfast.engine.operations.memory import AgentMemory
from holdfast.engine.operations.semantic_cache import CachedAnswers
from holdfast.engine.operations.shared_lock import SharedLocks
from holdfast.engine.operations.shared_space import SharedSpace
from holdfast.engine.operations.stream import Stream, tell_result
from holdfast.engine.operations.version import Versions
from holdfast.errors import OperationFailed
from holdfast.ports import ModelReply, ModelRequest, RecordedCall, ToolReply

if TYPE_CHECKING:
    from holdfast.authoring.context import Context
    from holdfast.authoring.step import Caller

T = TypeVar("T")

_LONGEST_WAIT_S: Final = 10 * 366 * 86_400
_RESULT: Final = "result"
"""The kind of what `record` keeps."""


Thread: TypeAlias = Callable[["StepContext", RequestOptions], Awaitable[Any]]
"""One exchange with a model inside a step, or an agent loop, as `conversation.talk` has it."""


class StepContext(AttemptContext):
    """The `ctx` of a handler."""

    def __init__(self, attempt: Attempt, journal: StepJournal, talk: Thread) -> None:
        """`talk` has an exchange with a model, operation by operation of this very context."""
        super().__init__(attempt, journal)
        self._talk = talk

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self._journal)

    @cached_property
    def _locks(self) -> SharedLocks:
        return SharedLocks(self._journal)

    def now(self) -> datetime.datetime:
        """The time, in UTC; a replay sees the same. Recorded with the next commit."""
        with cursor().place() as path:
            op = self._journal.find(path, NOW, NOW)
            if op is None or op.outcome is None:
                at_ms = self._services.runtime.store.clock.now_ms()
                self._journal.note(cmd.Value(path, NOW, at_ms))
            else:
                at_ms = op.outcome.value()
        return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)

    async def left(self) -> LimitsLeft:
        """Return what is left of the run's limits; a replay sees the same. Recorded with the next commit."""
        with cursor().place() as path:
            return await budget.left(self._journal, path)

    def uuid(self) -> uuid.UUID:
        """A UUID that belongs to this place in this step: a replay gets the same."""
        with cursor().place() as path:
            self._journal.find(path, "uuid", "uuid")
            return uuid.uuid5(uuid.NAMESPACE_OID, f"{self.run_id}/{self.step_id}/{path}")

    def version(self, name: str, latest: int) -> int:
        """Return the version of the code that goes on at the place of that name; see Context. Recorded with the next commit."""
        if latest < 1:
            raise ValueError(f"version({name!r}, {latest!r}): versions are numbers from 1, which is the code without it")
        return self._versions.at(*cursor().versioned(name), name, latest)

    async def model(
        self, model: str | Router, user: Any = None, *, output: type[BaseModel] | None = None, **options: Unpack[ModelOptions]
    ) -> Any:
        """One model call: its text, or with `output` an instance of that model (with one chance to mend the reply)."""
        return adapter_of(output).load(await self._talk(self, exchange.of_call(model, user, output, options)))

    async def agent(
        self, model: str | Router, user: Any, *, output: type[BaseModel] | None = None, **options: Unpack[AgentOptions]
    ) -> Any:
        """The agent loop: the model, the tools that it asks for, the model, until it stops; see Context."""
        asked = exchange.of_loop(self._attempt, model, user, output, options)
        return adapter_of(output).load(await self._talk(self, asked))

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **value: Any) -> Any:
        """Call a function whose result is recorded, as a step of that name."""
        return await self.call_step(step_of(name, function), args, value)

    async def tool(
        self,
        name: str | Tool,
        arguments: dict[str, Any] | None = None,
        /,
        *,
        key: str | None = None,
        unique: Unique = "run",
        **named: Any,
    ) -> Any:
        """Call a tool that this node lists, its arguments as an object or by name; see Context."""
        label = name.name if isinstance(name, Tool) else name
        if unique not in ("run", "tenant") or (unique == "tenant" and key is None):
            raise ValueError(f"unique={unique!r}: an effect's key is unique in the 'run' or, where one is given, 'tenant'")
        allowed = exchange.allowed(self._attempt, name) if isinstance(name, Tool) else None
        answer = await self.call_tool(label, {**(arguments or {}), **named}, key=key, unique=unique, allowed=allowed)
        return returned(name if isinstance(name, Tool) else self._attempt.tools.get(name), answer)

    async def map(
        self,
        function: Mappable,
        items: Sequence[Any],
        /,
        *,
        key: str | Callable[[Any], Any] | None = None,
        max_parallel: int = PARALLEL,
        min_successful: int | None = None,
        tolerated_failures: int | float | None = None,
        collect: Join | str = "all",
        demand: DemandSource = NOTHING,
        retry: RetryPolicy | int | None = None,
        fail_fast: bool = False,
    ) -> list[Any]:
        """Have a list done item by item, each as a step of its own; the results in the order of the items. With `fail_fast`
        one that is `provisional` asks the others to end (`stopping`); None stands for what never began."""
        said = terms(key, max_parallel, min_successful, tolerated_failures, collect)
        with cursor().place() as path:
            return await mapping.over(self._journal, path, function, items, said, demand, retry, fail_fast=fail_fast)

    async def sleep(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Wait, for seconds or months; nothing is held meanwhile."""
        wait_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if not 0 <= wait_s <= _LONGEST_WAIT_S:
            raise ValueError(f"a step can sleep for 0 to {_LONGEST_WAIT_S} seconds, not for {wait_s}")
        with cursor().place() as path:
            await self._journal.sleep(path, digest(["sleep", wait_s]), int(wait_s * 1000))

    async def ask(self, question: Any, **options: Any) -> Any:
        """Ask a person; returns `decision`, `data`, `by` and `reason`. Raises OperationFailed; see Context."""
        with cursor().place() as path:
            return fields(await asking.ask(self._journal, path, question, **options))

    async def wait_signal(self, name: str | Signal[Any], *, timeout_s: float | None = None, type: Any = None) -> Any:  # noqa: A002
        """The data of the next signal `name`, as a `type`. Raises OperationFailed (class `timeout`) after `timeout_s`."""
        with cursor().place() as path:
            return await signalling.wait(self._journal, path, name, timeout_s, type)

    async def signal(self, run_id: str, name: str | Signal[Any], data: Any = None) -> None:
        """Send another run a signal, once; see Context."""
        with cursor().place() as path:
            await signalling.send(self._journal, path, run_id, name, data)

    def stream(self, name: str) -> Stream:
        """Return a stream of this run, to which values are written for watchers."""
        return Stream(self._journal, name)

    def shared(self, space: str, *, agent: str | None = None) -> SharedSpace:
        """Values that the runs and agents of this tenant share."""
        return SharedSpace(self._journal, self._locks, expect_space(space), agent)

    async def embed(self, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> list[list[float]]:
        """A vector of each text; see Context."""
        request = embedding.build_request(texts, model, dimensions)
        with cursor().place() as path:
            reply = await self._services.gateway.embed(self._journal, path, request)
        return [[*unpacked(each)] for each in reply.vectors]

    def memory(
        self, agent: str, *, user: str | None = None, embedder: Embedder | None = None, most: int = MAX_ENTRIES
    ) -> AgentMemory:
        """Return the memory of an agent of this tenant, or of it and one user."""
        space = SharedSpace(self._journal, self._locks, namespace(agent, user), None)
        return AgentMemory(self._journal, space, agent, user, embedder, most)

    async def child(
        self,
        workflow: Workflow | str,
        input: Any = None,  # noqa: A002
        *,
        key: str | None = None,
        version: int | None = None,
        cost_limit_usd: float | str | Decimal | None = None,
        max_tokens: int | None = None,
        on_failure: OnFailure = "raise",
        background: bool = False,
        tenant: str | None = None,
    ) -> Any:
        """Have another workflow do something, in a run of its own; see Context."""
        if tenant not in (None, self.tenant):
            raise ValueError(f"A child is of its parent's tenant, {self.tenant!r}, not of {tenant!r}. No child was started.")
        asked = Request(workflow, input, version, key, cost_limit_usd, max_tokens=max_tokens, is_typed=True)
        with cursor().place() as path:
            return await child.request(self._journal, path, asked, background=background, on_failure=on_failure)

    async def gather(self, *request: Awaitable[Any]) -> Any:
        """Run operations at the same time, each branch with a place of its own; their results in order.

        Every branch gets as far as it can, at most 200 of them at a time: more than that begin as others end or have to
        wait. Then the first branch without a result (by position, so that a replay sees the same) decides: its error is
        raised, or the step waits for it.
        """
        return await branches.gather(self._journal, *request)

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run operations at a place that has a name instead of a position: what comes before it may differ from attempt
        to attempt. A name stands for one place in its step, or in its branch of a gather; it has no '.' and no ':'.

        Branches under different names may run at the same time.
        """
        return await branches.apart(name, branch)

    async def record(self, name: str, result: Any) -> None:
        """Keep what this step, or its branch of a gather, has come to under a name: from now on `recorded` gives it to every
        later attempt, also to one that follows a failure. `result` is JSON data, not null."""
        path, kept = cursor().named(name), await self._attempt.store_value(result)
        await self._journal.record(cmd.Value(path, _RESULT, None, kept))

    async def recorded(self, name: str) -> Any:
        """Return what an earlier attempt of this step has recorded at this place under a name; None if none has."""
        op = self._journal.find(cursor().named(name), _RESULT, _RESULT)
        return None if op is None else await self._attempt.value(op.outcome or NULL)

    async def label(self, labels: Mapping[str, str | None] = {}, /, **named: str | None) -> None:
        """Set labels of this run, once; see Context."""
        changes = checked({**labels, **named}, self._services.payloads.redact, removes=True)
        with cursor().place() as path:
            if await self._journal.recall(path, LABEL, LABEL, "") is None:
                await self._journal.record(cmd.Value(path, LABEL, changes))

    # --- What the steps of a flow call ---------------------------------------------------------------------------------

    async def call_step(self, step: Step[Any, T], args: tuple[Any, ...], arguments: Mapping[str, Any]) -> T:
        with cursor().place() as path:
            if step.demand is not NOTHING:
                alone: T = await mapping.alone(self._journal, path, step, step.bound(args, arguments))
                return alone
            result: T = step.load(await function.call(self._journal, path, step, args, arguments))
        return result

    async def call_effect(self, step: EffectStep[Any, T], args: tuple[Any, ...], values: Mapping[str, Any]) -> T:
        arguments = step.bound(args, values)
        if step.demand is NOTHING:
            return await self.effect(step, arguments)
        with cursor().place() as path:
            alone: T = await mapping.alone(self._journal, path, step, arguments)
        return alone

    async def effect(self, step: EffectStep[Any, T], arguments: dict[str, Any]) -> T:
        """Call a step that touches the world, here."""
        with cursor().place() as path, outside_of_flows():
            try:
                answer = await self._services.tools.call(
                    self._journal,
                    path,
                    step.name,
                    arguments,
                    allowed=exchange.allowed(self._attempt, step),
                    key=step.key_for(arguments),
                    unique=step.unique,
                )
            except OperationFailed as failed:
                await function.retry(self._journal, path, step.retry)
                setattr(failed, "spent", True)  # noqa: B010 - a fact of this error, not of its class
                raise
        result: T = step.load(answer)
        return result

    # --- What the engine's own steps call ----------------------------------------------------------------------------

    async def call_model(
        self,
        request: ModelRequest,
        cheaper: Sequence[ModelRequest] = (),
        *,
        stream: bool = False,
        route: Route | None = None,
        fallbacks: Sequence[str] = (),
    ) -> tuple[ModelReply, CallId | None]:
        """The reply, and with `stream` the call that those who watch have heard it of."""
        with cursor().place() as path:
            reply = await self._services.gateway.call(
                self._journal, path, request, cheaper, stream=stream, route=route, fallbacks=fallbacks
            )
            return reply, await self._journal.call_at(path) if stream else None

    def program_calls(self, name: str, **options: Any) -> AbstractAsyncContextManager[ProgramCalls]:
        """The model calls of a program that runs inside, at places below `name`; `options` as of ProgramCalls."""
        return program_calls(self._journal, name, **options)

    async def tell_result(self, call: CallId | None, reply: ToolReply, message: str) -> ToolReply:
        """Return a model's reply to a request; readers of the request get it too."""
        return await tell_result(self._journal, call, reply, message)

    def cached_answers(self, cache: SemanticCache, request: ModelRequest) -> CachedAnswers:
        return CachedAnswers(self._journal, self._locks, cache, request)

    async def ahead(self, prepare: Callable[[StepJournal, Path], Awaitable[T]]) -> T:
        """Return the result of `prepare`, beside the operation that comes next, whose place it gets."""
        with cursor().ahead() as path:
            return await prepare(self._journal, path)

    async def call_tool(
        self,
        name: str,
        arguments: Any,
        *,
        key: str | None = None,
        unique: Unique = "run",
        compensates: CallId | None = None,
        allowed: Mapping[str, Tool] | None = None,
    ) -> Any:
        asked = self._services.payloads.redact(name)  # of a tool that was not offered, any text
        with cursor().place() as path, outside_of_flows():
            return fields(
                await self._services.tools.call(
                    self._journal,
                    path,
                    asked,
                    arguments,
                    allowed=self._attempt.tools if allowed is None else allowed,
                    key=key,
                    unique=unique,
                    compensates=compensates,
                )
            )

    async def retell(self, call: RecordedCall) -> None:
        """Record a call that the step made in the run that is replayed."""
        await self._services.tools.retell(self._journal, call)

    @asynccontextmanager
    async def program_variables(
        self, name: str, *, on_change: OnChange, on_difference: Callable[[], None] | None = None
    ) -> AsyncIterator[Mapping[str, str | None]]:
        """The variables that lead the model calls of a program, which runs inside, to the gateway: None for those that would
        lead them past it. `on_difference` is called when its calls are refused as they differ from the recorded ones. At the
        end the step may be left, for want of money."""
        opened = self.program_calls(name, on_change=on_change, on_difference=on_difference)
        async with opened as calls, self._services.programs.open(calls) as variables:
            yield variables

    async def hand_over(self, handoff: Handoff, chat: Chat) -> Any:
        """Return another agent's answer to a conversation. It is filtered once: the child's input already was."""
        to, shared = handoff.workflow, (await self._attempt.state()).shared
        assert isinstance(to, str | Workflow)
        if (talk := conversations.named_by(shared)) is not None:
            chat = chat.model_copy(update={"conversation": talk[1]})
        return await self.call_child(Request(to, chat, None, None, None, handoff), "raise")

    async def call_child(self, request: Request, on_failure: OnFailure) -> Any:
        """Have a child do something; what it returned, as plain data."""
        with cursor().place() as path:
            return await child.request(self._journal, path, request, background=False, on_failure=on_failure)

    async def undo_child(self, run: RunId, workflow: str) -> None:
        """Have a child that has completed undo what it did."""
        with cursor().place() as path:
            await child.undone(self._journal, path, run, workflow)

    async def map_items(self, definition: MapDefinition, items: Callable[[], Awaitable[Any]]) -> list[Any]:
        """The map that is the whole step."""
        return await mapping.of_node(self._journal, definition, items)

    async def open_gate(self, content: dict[str, Any], **options: Any) -> None:
        """The gate that is the whole step; the person's decision completes it."""
        args_hash = digest(["gate", content])
        self._journal.find(Path("0"), "gate", APPROVAL, args_hash, content)
        await self._journal.open_gate(Path("0"), APPROVAL, args_hash, content=content, completes_step=True, **options)


_OPERATIONS: Final = [
    "left",
    "model",
    "agent",
    "step",
    "tool",
    "map",
    "sleep",
    "ask",
    "wait_signal",
    "signal",
    "embed",
    "child",
    "record",
    "recorded",
    "label",
]


note_calls(StepContext, "ctx", *_OPERATIONS)
note_calls(StepContext, "ctx", "gather", "apart", of_branches=True)
note_step_calls(StepContext, "call_step", "call_effect")


if TYPE_CHECKING:
    _promised: type[Context] = StepContext
    _calling: type[Caller] = StepContext
