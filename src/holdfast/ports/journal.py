"""One step's journal, as those see it who make its calls.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, NoReturn, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts.commands import CallCandidate
from holdfast.core.facts.state import OpenCall
from holdfast.core.nouns.model_estimates import Experience
from holdfast.core.nouns.tool_policy import StandingApproval, ToolRule, ToolTerms
from holdfast.core.values.content import ContentPart
from holdfast.core.values.ids import CallId, EffectKey, Path, RunId, Unique
from holdfast.core.values.policies import ErrorRecord
from holdfast.errors import OperationFailed
from holdfast.ports.lending import Reservation
from holdfast.ports.model import Usage

T = TypeVar("T")


class Recall(msgspec.Struct, frozen=True):
    """The content of a journal at a place: an outcome, an error, or a call whose outcome only the tool itself knows."""

    value: Any = None
    error: ErrorRecord | None = None
    unverified: OpenCall | None = None
    call: CallId | None = None
    child: RunId | None = None
    """The run from which it came."""


class CacheUse(TypedDict, total=False):
    """The part of a call's input that the provider read from its cache or wrote to it, and the money that the call would have
    cost less with its whole input read from there."""

    cache_read_tokens: int
    cache_write_tokens: int
    cacheable_nanousd: int


class EditedCall(NamedTuple):
    """Arguments that a person has given a call, and the number of the edit, which the call's key is tied to."""

    arguments: Any
    number: int


class RateLimiter(Protocol):
    """Keeps a step's model calls within what was reserved for it."""

    @property
    def pools(self) -> Collection[str]:
        """Of which something was reserved."""
        ...

    def call(self, names: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Inside, one call may be on its way to a model that has these names. Waits until it may leave."""
        ...

    def unsent(self, names: Collection[str]) -> None:
        """A call that had its turn has not left."""
        ...

    def used(self, names: Collection[str], usage: Usage) -> None:
        """Record the tokens that an answered call has used."""
        ...


class Journal(Protocol):
    """One step's journal, for those who make its calls: an intent before each call, its outcome after.

    Whatever waits (for money, for a person, for another's call) leaves the step by an exception of the engine's own,
    which is to be let through.
    """

    run: RunId
    tenant: str

    @property
    def pace(self) -> RateLimiter | None:
        """None where nothing was reserved for the step."""
        ...

    async def recall(self, path: Path, kind: str, name: str, args_hash: str, request: Any = None) -> Recall | None:
        """Return the record at `path`, or None if the operation is still to be made. Leaves the step if the record is of
        another operation. `request` are the arguments, for the question that a person then gets."""
        ...

    async def contents(self, parts: Sequence[ContentPart]) -> Mapping[str, bytes]:
        """The bytes of content parts, by their hash. Raises BlobLost for one that is missing or damaged."""
        ...

    def error(
        self,
        error_class: str,
        message: str,
        *,
        retryable: bool = False,
        tool: str | None = None,
        retry_after_s: float | None = None,
        problem: BaseException | None = None,
    ) -> ErrorRecord:
        """An error of this step, at this moment, with no secret in it; `problem` is the exception of user code behind it."""
        ...

    def failure(self, error: ErrorRecord, path: Path | None) -> OperationFailed:
        """The exception to raise for a recorded error: its own class catches it, where that is loaded."""
        ...

    async def counted_pools(self) -> Sequence[DeclaredPool]:
        """The pools that count something of providers' models, as of a few seconds ago at most."""
        ...

    async def reserve(self, path: Path, model: str, amounts: Mapping[str, int]) -> Reservation:
        """Wait until the call of `model` at `path` can have all these amounts of pools. Raises PoolLineFull."""
        ...

    def unable(self, path: Path) -> Collection[str]:
        """The models that could not answer what is asked at `path`, as far as that still counts."""
        ...

    async def experience(self) -> Experience:
        """Return the measured behavior of models where this step calls them, as of some seconds ago."""
        ...

    def learn(self, model: str, usage: Usage, took_s: float, quoted_nanousd: int, cost_nanousd: int) -> None:
        """A reply came after so long, was quoted at so much by the bound of its request, and has cost so much."""
        ...

    def close_pool(self, name: str, for_s: float) -> None:
        """Close the pool of a provider that takes no more for so long: no process lets anything out of it meanwhile."""
        ...

    def may_send(self) -> bool:
        """Return True if this process still holds its lease. Check it right before a call leaves."""
        ...

    def stood_in(
        self, path: Path, kind: str, name: str, args_hash: str, hold_nanousd: int = 0, request: Any = None
    ) -> Recall | None:
        """Return the outcome of a call in a replayed run, or None if the call is really to be made. Raises NotRecorded."""
        ...

    async def outside(self, call: Coroutine[Any, Any, T]) -> T:
        """Make an outside call and record its outcome, so that what has left brings it home even without a waiting caller."""
        ...

    async def hold(
        self, path: Path, model: str, args_hash: str, offers: Sequence[CallCandidate], request: Any = None
    ) -> tuple[CallId, int, CallCandidate]:
        """The call that may now be made, which of the offers it is (the first that fits the money that is left), and what was
        held for it: more than was offered, where its model has billed a call of the run above its bound. `request` is the
        request, which the history keeps as its workflow's policy has it."""
        ...

    async def settle(
        self, call: CallId, cost_nanousd: int, input_tokens: int, output_tokens: int, output: Any, **cache: Unpack[CacheUse]
    ) -> Any:
        """Returns `output` as the journal keeps it: what a replay would return."""
        ...

    async def refuse(self, call: CallId, error: ErrorRecord) -> None: ...

    async def unsent(self, call: CallId, error: ErrorRecord) -> NoReturn:
        """The call never left, for a reason of this process's own: gives the money back and leaves the step, whose next
        attempt makes the call."""
        ...

    async def withdraw(self, call: CallId, error: ErrorRecord) -> None:
        """The call was certainly not made, and will be later: gives its money back, durably, and leaves its place in the
        journal open for the next."""
        ...

    async def pass_on(
        self,
        call: CallId,
        error: ErrorRecord,
        fallbacks: Sequence[CallCandidate],
        *,
        doubted: bool,
        partial: str | None = None,
        cost_nanousd: int | None = None,
    ) -> bool:
        """Choose a fallback for a model that cannot answer for now: one of `fallbacks` that fits what is left. Without one the
        operation has failed with `error`. `doubted`: the cost of the call is unknown; all else is as of `doubt`."""
        ...

    async def doubt(
        self,
        call: CallId,
        error: ErrorRecord,
        output: Any = None,
        *,
        reopens: bool = False,
        partial: str | None = None,
        cost_nanousd: int | None = None,
    ) -> Any:
        """Record a model call of unknown cost. `reopens`: no outcome has been reported, so the next attempt makes another call
        instead of an error. `partial` is the part of the reply that arrived, and `cost_nanousd` what its provider had already
        counted in all."""
        ...

    def tells(self, call: CallId) -> Callable[[str, str], None]:
        """Return the function that takes the words of a call as they come, for listeners. It takes the part that they belong to
        ("" for the reply's text), and the next words of it. It returns at once."""
        ...

    async def intend(
        self,
        path: Path,
        tool: str,
        policy: str,
        args_hash: str,
        request: Any,
        *,
        key_name: str | None,
        unique: Unique,
        settles_within_s: float | None,
        compensation: str | None,
        compensates: CallId | None,
        hold_nanousd: int = 0,
    ) -> CallId | Recall:
        """The call that may now be made; a Recall where a named effect already has its outcome. `unique` says how far
        the name reaches."""
        ...

    def key_of(self, call: CallId) -> EffectKey: ...

    def sent_at_ms(self, call: CallId) -> int: ...

    async def complete(self, call: CallId, response: Any) -> Any:
        """Returns `response` as the journal keeps it."""
        ...

    async def fail(self, call: CallId, error: ErrorRecord) -> None: ...

    async def release(self, call: CallId) -> NoReturn:
        """The call never left. Leaves the step: the holder of the lease goes on with it."""
        ...

    async def doubt_effect(self, call: CallId, error: ErrorRecord, *, reopens: bool = False) -> None:
        """Record a tool call of unknown outcome. `reopens`: no outcome has been reported, so the next attempt calls again if a
        repeat is harmless."""
        ...

    async def reopen(self, call: CallId) -> None: ...

    def abandon(self, error: ErrorRecord) -> NoReturn:
        """Fail the attempt, whatever its code makes of errors: this one is in no journal, so no replay would see it."""
        ...

    async def deny(self, path: Path, tool: str, args_hash: str, error: ErrorRecord) -> None: ...

    async def approve(
        self,
        path: Path,
        tool: str,
        args_hash: str,
        arguments: dict[str, Any],
        form: dict[str, Any],
        rule: ToolRule | None,
        terms: ToolTerms,
    ) -> dict[str, Any]:
        """Ask a person about a call, as the `rule` that asks says, with the tool's schema as the form and its `terms` beside:
        `{"decision", "data", "by", "reason"}`. Raises OperationFailed (class `expired`) without an answer in time."""
        ...

    async def standing(
        self, path: Path, tool: str, arguments: Mapping[str, Any], rule: ToolRule | None
    ) -> StandingApproval | None:
        """The standing approval by which a call is made, whose use is recorded; None where a person is to be asked."""
        ...

    @property
    def tool_rules(self) -> Sequence[ToolRule]:
        """The workflow's rules for calls of tools."""
        ...

    async def edited(self, path: Path, tool: str) -> EditedCall | None:
        """Return the arguments that a person has set for the tool's call there. They replace those of the code."""
        ...

    def repeats(self, path: Path, tool: str, args_hash: str) -> bool:
        """Return True if, in a fork, this once-only call could repeat an effect of the original run. A person must then approve
        it."""
        ...

    async def wait_until(self, path: Path, due_at_ms: int) -> None: ...
