"""`Context`: what a handler that takes `ctx` may do, as a type.

The promise alone, light to import, so that a file of handlers can name it. Never here: doing any of it (context).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeAlias, Unpack, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from holdfast.authoring.agents.embedder import Embedder
from holdfast.authoring.agents.memory import AgentMemory
from holdfast.authoring.agents.router import Router
from holdfast.authoring.child import ChildHandle, ChildOutcome
from holdfast.authoring.options import AgentOptions, ChildOptions, MapOptions, ModelOptions, spelled_out
from holdfast.authoring.signal import Signal
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.view import StartedBy
from holdfast.core.facts.graph import Join
from holdfast.core.nouns.memory import MOST_ENTRIES
from holdfast.core.nouns.shared_values import LOCK_LEASE_S, LOCK_WAIT_S, SharedValue, Strategy
from holdfast.core.rules.limits import LimitsLeft
from holdfast.core.values.ids import Unique
from holdfast.core.values.proposal import RiskLevel

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow

P = ParamSpec("P")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
Model = TypeVar("Model", bound=BaseModel)
Item = TypeVar("Item")
Input = TypeVar("Input", default=Any)
Output = TypeVar("Output", default=Any)


Mapped: TypeAlias = "Callable[[Item], Awaitable[Output]] | Callable[[Context, Item], Awaitable[Output]]"
"""The code that may be done for an item: a step, a tool, or a function `async def f(ctx, item)` with operations of its own."""


class Answer(Protocol):
    """The answer of a person to `ctx.ask`."""

    decision: str
    """`answer`, `approve`, `edit` or `reject`."""
    data: Any
    """The data that fit the form; plain data, objects with their fields as attributes."""
    by: str | None
    """The person who decided; of several the last."""
    reason: str | None
    approvers: list[str]
    """All who approved it or approved it with changes, in their order; of a question with `quorum=2` two."""


class Stream(Protocol):
    """Values for those who watch a run, in one sequence for all its steps."""

    async def write(self, value: Any) -> None:
        """Have a value (JSON data, 64 KiB at most) stand next in the stream. It is there soon, for certain before the step has
        ended, and once: code that runs again, after a wait, a failure or a crash, writes nothing again that it wrote at the
        same place. Secrets are replaced. Raises InvalidInput.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """At the end of the block, what was written is in the store."""
        ...


class SharedSpace(Protocol):
    """Values that the runs and agents of a tenant share, by key, each write a version of its own. What is read and written
    stands in the journal: a replay sees what the step saw, and writes nothing again."""

    async def read(self, key: str, *, type: Any = None) -> SharedValue | None:  # noqa: A002
        """The latest version (`value`, `version`, `by`, `run`, `at_ms`), as this step saw it at this place; None where there is
        none. With a `type` its value is one; raises SchemaMismatch where it does not fit."""
        ...

    async def write(
        self,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        strategy: Strategy = "reject",
        type: Any = None,  # noqa: A002
    ) -> SharedValue | None:
        """Write a version (JSON data, or a value of `type`; 64 KiB at most), in one commit with the event that says so; the new
        version.

        `expected_version` is the one that this code has read, 0 for none. Where another is there, `strategy` says what becomes
        of the write: `reject` raises OperationFailed (class `conflict`), `first_write` leaves it out and returns None,
        `last_write` writes, `merge` adds to objects what is not in them, deeply, and keeps what is. Both sides stand in the
        history. Without `expected_version` the write counts whatever is there.
        """
        ...

    async def delete(
        self, key: str, *, expected_version: int | None = None, strategy: Strategy = "reject"
    ) -> SharedValue | None:
        """Delete a value and its versions, by the rules of a write. A version without a value (`gone`) stands in their place.
        So a later version is never taken for an earlier one, and a reader that waits for a later version gets it."""
        ...

    async def update(self, key: str, change: Callable[[Any], Any]) -> SharedValue:
        """Write the result of `change` for the latest value (None if there is none). If the value changes meanwhile, `change`
        is called again with the new one: so it should do nothing but compute."""
        ...

    def lock(self, key: str, *, wait_s: float = LOCK_WAIT_S, lease_s: float = LOCK_LEASE_S) -> AbstractAsyncContextManager[Any]:
        """Lock a value: in the block only this step may write it, among all who take its lock: `async with
        board.lock("case"):`.

        The step waits `wait_s` for it (then OperationFailed, class `timeout`). The lock lasts `lease_s` by the store's clock; a
        write under a lock that is over fails (class `conflict`). Blocks on the same value may be nested. A step that waits
        gives the lock back, and takes it again when it goes on inside the block. So a write in the block expects the version
        that it read, and fails (class `conflict`) if another writer came in between.
        """
        ...

    async def changed(self, key: str, *, after: int = 0, timeout_s: float | None = None) -> SharedValue:
        """Wait until there is a later version than `after`, and return it; nothing is held meanwhile. Raises OperationFailed
        (class `timeout`) after `timeout_s` seconds."""
        ...

    async def versions(self, key: str) -> list[SharedValue]:
        """The last 20 versions, the latest last, as of now: for people and reports; what decides should be read."""
        ...


class Context(Protocol):
    """The operations of a step. Each has its place in the step's journal: a handler that runs again, after a wait, a
    failure or a crash, gets the recorded outcome of every operation that it has come through, and carries on at the first
    that has none.

    An operation that has failed raises OperationFailed with the recorded error. Operations run one after the other;
    `gather` is for those that are to run at the same time.
    """

    @property
    def run_id(self) -> str:
        """The run that this step is of."""
        ...

    @property
    def step_id(self) -> str:
        """The step itself: a visit of its node, `draft#2`. A flow is one step, `flow#1`."""
        ...

    @property
    def tenant(self) -> str:
        """The tenant of the run."""
        ...

    @property
    def started_by(self) -> StartedBy:
        """The caller who started the run: `name`, `roles`, `verified`, `tenant`. For a child it is the caller of its root."""
        ...

    async def left(self) -> LimitsLeft:
        """Return the rest of the run's own limits: `cost_usd`, `tokens`, `model_calls`, `tool_calls`, `steps`, `active_s` and
        `wall_s`, each None if it has no limit. Amounts held by calls in flight are not left. `percent_used` is that of the
        limit of which most is used; `wraps_up` is true if that is 80 or more. `above` has the rest of each limited budget above
        the run. `spendable_usd` and `spendable_tokens` are the least of all. A replay gets the same values."""
        ...

    @property
    def failures(self) -> int:
        """The number of attempts of this step that have failed so far; lost and suspended ones do not count."""
        ...

    @overload
    async def model(
        self, model: str | Router, user: Any = None, *, output: type[Model], **options: Unpack[ModelOptions]
    ) -> Model: ...

    @overload
    async def model(
        self, model: str | Router, user: Any = None, *, output: None = None, **options: Unpack[ModelOptions]
    ) -> str: ...

    @spelled_out
    async def model(
        self, model: str | Router, user: Any = None, *, output: type[Model] | None = None, **options: Unpack[ModelOptions]
    ) -> Model | str:
        """Call a model once and return its reply: as text, or as an instance of `output`, with one chance to correct it.

        `user` may be a list of texts and content parts (`Image`, `Audio`, `Document`), or a `Chat`: then the model gets all
        of its messages."""
        ...

    @overload
    async def agent(self, model: str | Router, user: Any, *, output: type[Model], **options: Unpack[AgentOptions]) -> Model: ...

    @overload
    async def agent(self, model: str | Router, user: Any, *, output: None = None, **options: Unpack[AgentOptions]) -> str: ...

    @spelled_out
    async def agent(
        self, model: str | Router, user: Any, *, output: type[Model] | None = None, **options: Unpack[AgentOptions]
    ) -> Model | str:
        """Run the agent loop: the model, the tools that it asks for, the model again, until it answers in words; each of these
        is an operation. Return the answer: as text, or as an instance of `output`, with one chance to correct it. `user` may be
        a `Chat`. All else is as of `llm_node`.

        `tools` are tools, workflows and handoffs: what is asked of a workflow is done by a child, and with a `Handoff` the
        model may hand the conversation over, whereupon the other agent's answer is this one's. A flow may offer any that it
        gives as itself, and by their names the tools that it lists; a node those that it lists. Where two have one name,
        nothing is called (class `validation`). What the model does not finish within `max_turns` fails (class `limit`).
        """
        ...

    @overload
    async def step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **given: P.kwargs
    ) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **given: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **given: Any) -> Any:
        """Call a function and record what it returns, as `@step` does: it runs at least once, and what it returned is recorded
        once. `name` says what it is; `step(retry=3)(function)` is tried again.

        Raises OperationFailed with the recorded error where it failed.
        """
        ...

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
        """Call a tool that this node lists, its arguments as an object or by name; what it returned. A flow may call any tool
        that it gives as itself.

        `key` names the effect by what it is, `unique` in the run or in the tenant: two calls that mean the same thing get the
        same outcome, and waits for it while another has it in flight.
        """
        ...

    @overload
    async def map(
        self, function: Mapped[Item, Output], items: Sequence[Item], /, **options: Unpack[MapOptions]
    ) -> list[Output]: ...

    @overload
    async def map(
        self,
        function: Mapped[Item, Output],
        items: Sequence[Item],
        /,
        *,
        min_successful: int | None = None,
        tolerated_failures: int | float | None = None,
        collect: Join | str = "all",
        **options: Unpack[MapOptions],
    ) -> list[Output | None]: ...

    @spelled_out
    async def map(
        self,
        function: Mapped[Item, Output],
        items: Sequence[Item],
        /,
        *,
        min_successful: int | None = None,
        tolerated_failures: int | float | None = None,
        collect: Join | str = "all",
        **options: Unpack[MapOptions],
    ) -> list[Any]:
        """Have a list done item by item, each as a step of its own, with its own attempts; the results in the order of the
        items. Meanwhile this step holds nothing.

        `function` is a step (@step), a tool, which is called with the item as its arguments, or `async def f(ctx, item)`, which
        has operations of its own; whichever process does an item finds it by its name. `demand` is what each item asks for
        besides a slot, or a function of the item that says it; `retry` is how often an item is tried, if not as its step
        says. All else is as of `map_node`: in the place of an item that failed, and might, or that was not needed any
        more, the list has None.

        Raises OperationFailed (class `join`) where more failed than may, or not enough were done in time.
        """
        ...

    async def sleep(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Wait, for seconds or months; nothing is held meanwhile."""
        ...

    async def ask(
        self,
        question: Any,
        *,
        form: type[BaseModel] | None = None,
        reviewers: Sequence[str] = (),
        timeout_s: float | None = None,
        remind_every_s: float | None = None,
        cancel_after_s: float | None = None,
        expires_after_s: float | None = None,
        decisions: Sequence[str] = ("answer", "approve", "edit", "reject"),
        four_eyes: bool = False,
        not_by: Sequence[str | None] = (),
        quorum: int = 1,
        hash_optional: bool = False,
        proposed_action: str | None = None,
        evidence_ids: Sequence[str] = (),
        risk_level: RiskLevel | None = None,
    ) -> Answer:
        """Ask a person, as `human_gate` does: `form` is the shape of the answer, whose fields are filled in from those of
        `question` with the same name. Nothing is held while nobody answers. `decisions` may be words of your own. Nobody whom
        `not_by` names can decide: `not_by=[first.by]` asks another person than the one who gave the answer `first`. With
        `quorum=2` two different persons approve, who are the answer's `approvers`; one is enough to reject. With
        `hash_optional` a decision that comes to a server may leave out the hash of what was shown.
        People find and filter their questions by `proposed_action`, `evidence_ids` and `risk_level`; what is left out of these
        is taken from fields of `question` of the same name.

        Raises OperationFailed (class `expired`) after `expires_after_s` without an answer: none counts any more."""
        ...

    @overload
    async def wait_signal(self, name: Signal[T], *, timeout_s: float | None = None) -> T: ...

    @overload
    async def wait_signal(self, name: str, *, timeout_s: float | None = None, type: type[T]) -> T: ...

    @overload
    async def wait_signal(self, name: str, *, timeout_s: float | None = None, type: Any = None) -> Any: ...

    async def wait_signal(self, name: str | Signal[Any], *, timeout_s: float | None = None, type: Any = None) -> Any:  # noqa: A002
        """Return the data of the next signal `name`, as a `type` if one is given, or as a Signal declares. Other data sent
        meanwhile are refused. Raises OperationFailed (class `timeout`) after `timeout_s` seconds, SchemaMismatch for data that
        came earlier and does not fit."""
        ...

    @overload
    async def signal(self, run_id: str, name: Signal[T], data: T) -> None: ...

    @overload
    async def signal(self, run_id: str, name: str, data: Any = None) -> None: ...

    async def signal(self, run_id: str, name: str | Signal[Any], data: Any = None) -> None:
        """Send another run of this tenant a signal. It arrives once, whatever happens to this step: it is an effect of the
        policy `idempotent`, called `send_signal`, and counts as a tool call. Raises OperationFailed where there is no such
        run, or it has ended, or waits for other data (class `validation`)."""
        ...

    def stream(self, name: str) -> Stream:
        """A stream of this run: what is written to it can be watched from any process while the run goes on, and read for as
        long as the run is kept. `await ctx.stream("progress").write(50)`. Raises ValueError for a name that is none."""
        ...

    def shared(self, space: str, *, agent: str | None = None) -> SharedSpace:
        """A space of values that the runs and agents of this tenant share. `agent` is the name by which writes are known, the
        node's unless it is given. Raises InvalidInput for what is no name."""
        ...

    async def embed(self, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> list[list[float]]:
        """A vector of length one of each of 1 to 256 texts, by a provider's model like `openai:text-embedding-3-small`, with
        `dimensions` numbers where it can make others than its own. One call, held and paid for as any other, whose outcome is
        recorded. Raises InvalidInput, and OperationFailed where the model does not answer."""
        ...

    def memory(
        self, agent: str, *, user: str | None = None, embedder: Embedder | None = None, most: int = MOST_ENTRIES
    ) -> AgentMemory:
        """Return the memory of an agent of this tenant, or of it and one `user`, and of no other. With an `embedder` it is
        recalled by meaning. It holds `most` entries, 10,000 at most."""
        ...

    @overload
    async def child(
        self,
        workflow: Workflow[[Input], Output] | str,
        input: Input,
        *,
        on_failure: Literal["raise"] = "raise",
        background: Literal[False] = False,
        **options: Unpack[ChildOptions],
    ) -> Output: ...

    @overload
    async def child(
        self,
        workflow: Workflow[..., Output] | str,
        input: Mapping[str, Any] | None = None,
        *,
        on_failure: Literal["raise"] = "raise",
        background: Literal[False] = False,
        **options: Unpack[ChildOptions],
    ) -> Output: ...

    @overload
    async def child(
        self,
        workflow: Workflow[[Input], Output] | str,
        input: Input,
        *,
        on_failure: Literal["return"],
        background: Literal[False] = False,
        **options: Unpack[ChildOptions],
    ) -> ChildOutcome[Output]: ...

    @overload
    async def child(
        self,
        workflow: Workflow[..., Output] | str,
        input: Mapping[str, Any] | None = None,
        *,
        on_failure: Literal["return"],
        background: Literal[False] = False,
        **options: Unpack[ChildOptions],
    ) -> ChildOutcome[Output]: ...

    @overload
    async def child(
        self,
        workflow: Workflow[[Input], Output] | str,
        input: Input,
        *,
        on_failure: Literal["raise", "return"] = "raise",
        background: Literal[True],
        **options: Unpack[ChildOptions],
    ) -> ChildHandle[Output]: ...

    @overload
    async def child(
        self,
        workflow: Workflow[..., Output] | str,
        input: Mapping[str, Any] | None = None,
        *,
        on_failure: Literal["raise", "return"] = "raise",
        background: Literal[True],
        **options: Unpack[ChildOptions],
    ) -> ChildHandle[Output]: ...

    @spelled_out
    async def child(
        self,
        workflow: Workflow[..., Output] | str,
        input: Any = None,  # noqa: A002
        *,
        on_failure: Literal["raise", "return"] = "raise",
        background: bool = False,
        **options: Unpack[ChildOptions],
    ) -> Output | ChildOutcome[Output] | ChildHandle[Output]:
        """Have another workflow do something, in a run of its own: what it returned. Nothing is held meanwhile.

        `workflow` is one, or the name of one that some process has loaded (in `version`, or the highest). `input` has to fit
        its model. `key` names the child by what it is, in this run: who asks again for the same gets the same child.
        The money of a run and of everything below it counts in one scope, and its tokens in another, whose limits are the
        run's; `cost_limit_usd` and `max_tokens` bound the child by itself, below that.

        Where the child fails or is cancelled, OperationFailed is raised (class `child_failed` or `cancelled`); with
        `on_failure="return"` the result is a ChildOutcome, whatever becomes of it. With `background` the result is a handle
        at once, and the child goes on; the run does not complete before it has ended. Pausing and cancelling the run go
        down to its children.
        """
        ...

    @overload
    async def gather(self, b1: Awaitable[T1], /) -> tuple[T1]: ...

    @overload
    async def gather(self, b1: Awaitable[T1], b2: Awaitable[T2], /) -> tuple[T1, T2]: ...

    @overload
    async def gather(self, b1: Awaitable[T1], b2: Awaitable[T2], b3: Awaitable[T3], /) -> tuple[T1, T2, T3]: ...

    @overload
    async def gather(
        self, b1: Awaitable[T1], b2: Awaitable[T2], b3: Awaitable[T3], b4: Awaitable[T4], /
    ) -> tuple[T1, T2, T3, T4]: ...

    @overload
    async def gather(
        self, b1: Awaitable[T1], b2: Awaitable[T2], b3: Awaitable[T3], b4: Awaitable[T4], b5: Awaitable[T5], /
    ) -> tuple[T1, T2, T3, T4, T5]: ...

    @overload
    async def gather(
        self,
        b1: Awaitable[T1],
        b2: Awaitable[T2],
        b3: Awaitable[T3],
        b4: Awaitable[T4],
        b5: Awaitable[T5],
        b6: Awaitable[T6],
        /,
    ) -> tuple[T1, T2, T3, T4, T5, T6]: ...

    @overload
    async def gather(self, *branches: Awaitable[T]) -> list[T]: ...

    async def gather(self, *branches: Awaitable[Any]) -> Any:
        """Run operations at the same time; their results in order. The first branch that failed, by position, raises."""
        ...

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run operations at a place that has a name instead of a position: what comes before it may differ from attempt to
        attempt."""
        ...

    async def record(self, name: str, result: Any) -> None:
        """Keep a result (JSON data, not null) under a name, for later attempts of this step."""
        ...

    async def recorded(self, name: str) -> Any:
        """Return what an earlier attempt of this step has recorded under a name; None if none has."""
        ...

    async def label(self, labels: Mapping[str, str | None] = {}, /, **named: str | None) -> None:
        """Set labels of this run, by which people find and count it: `await ctx.label(stage="review")`. None removes one. It is
        done once: a replay does not repeat it. Raises InvalidInput for what cannot be a label."""
        ...

    def now(self) -> datetime.datetime:
        """The time, in UTC; a replay sees the same."""
        ...

    def uuid(self) -> uuid.UUID:
        """A UUID that belongs to this place in this step: a replay gets the same."""
        ...

    def version(self, name: str, latest: int) -> int:
        """Return the version of the code to go on with: `latest`. A run that passed this place with code that did not ask gets
        1, for ever. So new code stands beside runs begun with the old:

            if ctx.version("tax", 2) >= 2:
                total = await with_tax(total)

        A name stands for one place in its flow, or in its branch of a gather, also if that is a loop; it has no '.' and no ':'.
        A later change there asks for 3: a run that went on with 2 stays with 2.
        """
        ...

    def secret(self, name: str) -> str:
        """A secret's value, which is replaced wherever it would be stored. Raises MissingSecret."""
        ...

    def redact(self, text: str) -> str:
        """`text` without the value of any known secret, for what leaves by another way than the history."""
        ...
