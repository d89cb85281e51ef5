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
from holdfast.core.nouns.memory import MAX_ENTRIES
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


Mappable: TypeAlias = "Callable[[Item], Awaitable[Output]] | Callable[[Context, Item], Awaitable[Output]]"
"""The code that may be done for an item: a step, a tool, or a function `async def f(ctx, item)` with operations of its own."""


class Answer(Protocol):
    """A person's answer to `ctx.ask`."""

    decision: str
    """Decision: `answer`, `approve`, `edit`, `reject`, or one of the question's own."""
    data: Any
    """Data that fit the form, as plain data; fields of objects are attributes too."""
    by: str | None
    """Name of the person who decided; with a quorum, of the last one."""
    reason: str | None
    """Reason that the person gave."""
    approvers: list[str]
    """Names of all who approved, in order: two for a question with `quorum=2`."""


class Stream(Protocol):
    """A stream of a run: values for those who watch it, in one sequence for all its steps."""

    async def write(self, value: Any) -> None:
        """Append a value to the stream. It is stored before the step ends, and once: a repeated attempt does not write it
        again. Secrets in it are replaced.

        Args:
            value: JSON data, at most 64 KiB.

        Raises:
            InvalidInput: The value is no JSON data, or too large.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """At the end of the block, what was written is in the store."""
        ...


class SharedSpace(Protocol):
    """A space of values that the runs and agents of a tenant share, by key. Each write makes a new version. Reads and writes
    are recorded: a replay sees what the step saw, and writes nothing again."""

    async def read(self, key: str, *, type: Any = None) -> SharedValue | None:  # noqa: A002
        """Return the latest version of a value as this step saw it here, or None. It has `value`, `version`, `by`, `run` and
        `at_ms`.

        Args:
            key: Key of the value.
            type: Type to make of the value; by default it stays plain data.

        Raises:
            SchemaMismatch: The value does not fit `type`.
        """
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
        """Write a new version and return it. The write and the event that records it are one commit.

        Args:
            key: Key of the value.
            value: JSON data, or a value of `type`; at most 64 KiB.
            expected_version: Version that this code has read, 0 for none; by default the write ignores the current version.
            strategy: Rule if the current version is another one. `reject` raises OperationFailed, `first_write` skips the write
                and returns None, `last_write` writes, `merge` adds to objects the keys they lack. Both sides stay in the
                history.
            type: Type of `value`; by default it is plain data.

        Raises:
            OperationFailed: Class `conflict`: `strategy` is `reject` and the version is another one.
        """
        ...

    async def delete(
        self, key: str, *, expected_version: int | None = None, strategy: Strategy = "reject"
    ) -> SharedValue | None:
        """Delete a value with its versions. A version without a value (`gone`) takes their place, so version numbers go on, and
        those who wait for a change get it.

        Args:
            key: Key of the value.
            expected_version: As in `write`.
            strategy: As in `write`.
        """
        ...

    async def update(self, key: str, change: Callable[[Any], Any]) -> SharedValue:
        """Write what `change` makes of the latest value, and return the new version.

        Args:
            key: Key of the value.
            change: Pure function of the latest value (None if none exists). It is called again if the value changes meanwhile.
        """
        ...

    def lock(self, key: str, *, wait_s: float = LOCK_WAIT_S, lease_s: float = LOCK_LEASE_S) -> AbstractAsyncContextManager[Any]:
        """Lock a value for a block: `async with board.lock("case"):`. Of all steps that take the lock, only this one writes
        meanwhile. Blocks on the same value may be nested.

        A step that waits inside the block releases the lock and takes it again. So a write in the block expects the version
        that the block has read.

        Args:
            key: Key of the value.
            wait_s: Longest wait for the lock, in seconds.
            lease_s: Lifetime of the lock in seconds, by the store's clock.

        Raises:
            OperationFailed: Class `timeout`: the lock was not free in time. Class `conflict`: a write under a lock that has
                expired, or after another write.
        """
        ...

    async def changed(self, key: str, *, after: int = 0, timeout_s: float | None = None) -> SharedValue:
        """Wait for a version later than `after` and return it. The step holds no slot meanwhile.

        Args:
            key: Key of the value.
            after: Version that the code knows; 0 waits for the first one.
            timeout_s: Longest wait in seconds; by default no limit.

        Raises:
            OperationFailed: Class `timeout`: no later version came in time.
        """
        ...

    async def versions(self, key: str) -> list[SharedValue]:
        """Return the last 20 versions, the latest last, as of now. It is not recorded: use `read` for what the code decides by.

        Args:
            key: Key of the value.
        """
        ...


class Context(Protocol):
    """The operations of a step. Each operation is recorded in the step's journal.

    A handler runs again after a wait, a failure or a crash. It then gets the recorded outcome of each operation it has
    completed, and continues at the first one without an outcome.

    A failed operation raises OperationFailed with the recorded error. Operations run one after the other; use `gather` to run
    them at the same time.
    """

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...

    @property
    def step_id(self) -> str:
        """Id of the step: a visit of its node, `draft#2`. A flow is one step, `flow#1`."""
        ...

    @property
    def tenant(self) -> str:
        """Tenant of the run."""
        ...

    @property
    def started_by(self) -> StartedBy:
        """Caller who started the run: `name`, `roles`, `verified`, `tenant`. For a child, the caller of its root."""
        ...

    async def left(self) -> LimitsLeft:
        """Return what is left of the run's limits. A replay gets the same values.

        `cost_usd`, `tokens`, `model_calls`, `tool_calls`, `steps`, `active_s` and `wall_s` are None without a limit. Amounts
        reserved by calls in flight are not left. `percent_used` is of the most used limit; `wraps_up` is true from 80 on.
        `above` has the budgets above the run. `spendable_usd` and `spendable_tokens` are the least of all of them.
        """
        ...

    @property
    def failures(self) -> int:
        """Number of failed attempts of this step so far. Lost and suspended attempts do not count."""
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
        """Call a model once and return its reply. A reply that does not fit `output` gets one chance of correction.

        Args:
            model: Name of the model, `provider:name`, or a Router that chooses one.
            user: Prompt: a text, a list of texts and content parts (`Image`, `Audio`, `Document`), or a `Chat`, all of whose
                messages the model gets.
            output: Pydantic model of the reply; by default the reply is text.

        Raises:
            OperationFailed: The model did not answer, the reply did not fit, or a limit was reached.
        """
        ...

    @overload
    async def agent(self, model: str | Router, user: Any, *, output: type[Model], **options: Unpack[AgentOptions]) -> Model: ...

    @overload
    async def agent(self, model: str | Router, user: Any, *, output: None = None, **options: Unpack[AgentOptions]) -> str: ...

    @spelled_out
    async def agent(
        self, model: str | Router, user: Any, *, output: type[Model] | None = None, **options: Unpack[AgentOptions]
    ) -> Model | str:
        """Run an agent loop and return the final answer. The model is called, then the tools that it asks for, then the model
        again, until it answers. Each call is an operation.

        A flow may offer every tool it passes as an object, and by name those that it lists. A node may offer those that it
        lists. A workflow among the tools runs as a child. With a `Handoff` another agent takes the conversation over, and its
        answer is returned.

        Args:
            model: Name of the model, `provider:name`, or a Router that chooses one.
            user: Prompt: a text, a list of texts and content parts, or a `Chat`.
            output: Pydantic model of the answer; by default the answer is text. An answer that does not fit gets one chance of
                correction.

        Raises:
            OperationFailed: Class `limit`: no answer within `max_turns`. Class `validation`: two tools have one name. Otherwise
                as of `ctx.model`.
        """
        ...

    @overload
    async def step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **keywords: P.kwargs
    ) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **keywords: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """Call a function and record its result, as `@step` does. It runs at least once; once recorded, it does not run again
        at this place.

        Args:
            name: Name of the operation.
            function: Function to call; `step(retry=3)(function)` sets its options.
            args: Positional arguments of the function.
            keywords: Named arguments of the function.

        Raises:
            OperationFailed: The function failed; it has the recorded error.
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
        """Call a tool and return its response. A node calls tools that it lists; a flow also any tool it passes as an object.

        Args:
            name: The tool, or its name.
            arguments: Arguments of the tool, as an object.
            key: Name of the effect by its meaning. Two calls with one key share one outcome, and the second waits for the
                first.
            unique: Where the key is unique: in the `run` or in the `tenant`.
            named: Arguments of the tool, by name, instead of `arguments`.

        Raises:
            OperationFailed: The call failed, was rejected, or the tool is not allowed here.
        """
        ...

    @overload
    async def map(
        self, function: Mappable[Item, Output], items: Sequence[Item], /, **options: Unpack[MapOptions]
    ) -> list[Output]: ...

    @overload
    async def map(
        self,
        function: Mappable[Item, Output],
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
        function: Mappable[Item, Output],
        items: Sequence[Item],
        /,
        *,
        min_successful: int | None = None,
        tolerated_failures: int | float | None = None,
        collect: Join | str = "all",
        **options: Unpack[MapOptions],
    ) -> list[Any]:
        """Process a list and return the results in the order of the items. Each item is a step of its own, with its own
        attempts. This step holds no slot meanwhile.

        The list has None for an item that failed and was tolerated, or was not needed any more.

        Args:
            function: Step (`@step`), tool (the item is its arguments), or `async def f(ctx, item)` with operations of its own.
                Any process finds it by its name.
            items: Items, as JSON data or typed values.
            retry: Attempts per item, as a number or a RetryPolicy; by default those of the step.
            demand: Resources of each item besides a slot, or a function of the item that returns them.

        Raises:
            OperationFailed: Class `join`: more items failed than tolerated, or too few finished in time.
        """
        ...

    async def sleep(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Wait. The step holds no slot meanwhile; a wait may last months.

        Args:
            seconds: Seconds to wait.
            minutes: Minutes to add.
            hours: Hours to add.
            days: Days to add.
        """
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
        """Ask a person and return the answer. The step holds no slot meanwhile.

        Args:
            question: Data that the person is shown: any JSON data or typed object. Fields named like `proposed_action`,
                `evidence_ids` and `risk_level` fill these parameters.
            form: Pydantic model of the answer. Its fields begin with those of `question` that have the same name.
            timeout_s: Deadline in seconds; it escalates the question and decides nothing.
            decisions: Allowed decisions; words of your own are possible.
            not_by: Persons who may not decide: `not_by=[first.by]` asks another person than the one who gave the answer
                `first`.
            evidence_ids: Ids of the evidence, shown in lists of questions.

        Raises:
            OperationFailed: Class `expired`: no answer within `expires_after_s`.
        """
        ...

    @overload
    async def wait_signal(self, name: Signal[T], *, timeout_s: float | None = None) -> T: ...

    @overload
    async def wait_signal(self, name: str, *, timeout_s: float | None = None, type: type[T]) -> T: ...

    @overload
    async def wait_signal(self, name: str, *, timeout_s: float | None = None, type: Any = None) -> Any: ...

    async def wait_signal(self, name: str | Signal[Any], *, timeout_s: float | None = None, type: Any = None) -> Any:  # noqa: A002
        """Wait for the next signal of a name and return its data. Data that does not fit is refused when it is sent.

        Args:
            name: Name of the signal, or a Signal, which declares the type.
            timeout_s: Longest wait in seconds; by default no limit.
            type: Type of the data; by default plain data.

        Raises:
            OperationFailed: Class `timeout`: no signal came in time.
            SchemaMismatch: Data that was sent before the wait does not fit.
        """
        ...

    @overload
    async def signal(self, run_id: str, name: Signal[T], data: T) -> None: ...

    @overload
    async def signal(self, run_id: str, name: str, data: Any = None) -> None: ...

    async def signal(self, run_id: str, name: str | Signal[Any], data: Any = None) -> None:
        """Send a signal to another run of this tenant. It arrives once, whatever happens to this step. It is an idempotent
        effect, `send_signal`, and counts as a tool call.

        Args:
            run_id: Id of the run.
            name: Name of the signal, or a Signal.
            data: Data of the signal.

        Raises:
            OperationFailed: Class `validation`: the run does not exist, has ended, or expects other data.
        """
        ...

    def stream(self, name: str) -> Stream:
        """Return a stream of this run: `await ctx.stream("progress").write(50)`. Any process can watch it while the run goes
        on, and read it as long as the run is kept.

        Args:
            name: Name of the stream.

        Raises:
            ValueError: The name cannot be used.
        """
        ...

    def shared(self, space: str, *, agent: str | None = None) -> SharedSpace:
        """Return a space of values that the runs and agents of this tenant share.

        Args:
            space: Name of the space.
            agent: Name to record as the author of writes; by default the node's.

        Raises:
            InvalidInput: A name cannot be used.
        """
        ...

    async def embed(self, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> list[list[float]]:
        """Return a vector of length one for each text. It is one recorded model call, reserved and paid like any other.

        Args:
            texts: Texts, 1 to 256.
            model: Name of the embedding model, like `openai:text-embedding-3-small`.
            dimensions: Numbers per vector, for models that offer a choice; by default the model's.

        Raises:
            InvalidInput: The texts, the model or the dimensions cannot be used.
            OperationFailed: The model did not answer.
        """
        ...

    def memory(
        self, agent: str, *, user: str | None = None, embedder: Embedder | None = None, most: int = MAX_ENTRIES
    ) -> AgentMemory:
        """Return the memory of an agent of this tenant.

        Args:
            agent: Name of the agent.
            user: User whose memories are kept apart; by default the agent's own memory.
            embedder: Embedder with which memories are recalled by meaning; by default by words.
            most: Maximum number of entries, at most 10,000.
        """
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
        """Run another workflow as a child and return its result. This step holds no slot meanwhile.

        The limits on money and tokens of this run hold for all runs below it together. Pausing or cancelling this run does the
        same to its children.

        Args:
            workflow: The workflow, or the name of one that some process has loaded.
            input: Input of the child, which must fit its input model.
            on_failure: `raise` raises OperationFailed if the child does not complete; `return` returns a ChildOutcome in any
                case.
            background: True to return a ChildHandle at once. The run still completes only after the child has ended.

        Raises:
            OperationFailed: Class `child_failed` or `cancelled`: the child did not complete.
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
        """Run operations at the same time and return their results in order. If several fail, the first one by position raises.

        Args:
            branches: Operations, as awaitables.
        """
        ...

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run operations at a place with a name instead of a position. The operations before it may then differ from attempt to
        attempt.

        Args:
            name: Name of the place.
            branch: Operations, as an awaitable.
        """
        ...

    async def record(self, name: str, result: Any) -> None:
        """Keep a result under a name, for later attempts of this step.

        Args:
            name: Name of the result.
            result: JSON data, not null.
        """
        ...

    async def recorded(self, name: str) -> Any:
        """Return what an earlier attempt of this step recorded under a name, or None.

        Args:
            name: Name of the result.
        """
        ...

    async def label(self, labels: Mapping[str, str | None] = {}, /, **named: str | None) -> None:
        """Set labels of this run, by which it is found and counted: `await ctx.label(stage="review")`. A replay does not repeat
        it.

        Args:
            labels: Labels by key; None removes one.
            named: Labels by name, instead of `labels`.

        Raises:
            InvalidInput: A label cannot be used, or the run has too many.
        """
        ...

    def now(self) -> datetime.datetime:
        """Return the current time, in UTC. A replay gets the same."""
        ...

    def uuid(self) -> uuid.UUID:
        """Return a UUID. A replay gets the same at this place."""
        ...

    def version(self, name: str, latest: int) -> int:
        """Return the version of the code that this run continues with. New runs get `latest`; runs that passed this place
        before the question existed get 1, always.

            if ctx.version("tax", 2) >= 2:
                total = await with_tax(total)

        A later change at this place asks for 3; a run that got 2 keeps 2.

        Args:
            name: Name of one place in the flow, or in one branch of `gather`, without '.' and ':'. A loop counts as one place.
            latest: Highest version that the code knows.
        """
        ...

    def secret(self, name: str) -> str:
        """Return the value of a secret. It is replaced wherever it would be stored.

        Args:
            name: Name of the secret.

        Raises:
            MissingSecret: The secret is not set.
        """
        ...

    def redact(self, text: str) -> str:
        """Return a text without the values of known secrets. Use it for text that leaves the process outside the history.

        Args:
            text: Text to redact.
        """
        ...
