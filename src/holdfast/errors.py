"""Every error Holdfast raises, drawn once; an error says what happened, what it means and what to do.

    HoldfastError
    ├── UsageError                     the caller's mistake; nothing was done
    │   ├── InvalidWorkflow            the graph cannot be run; lists every problem at once
    │   ├── InvalidInput               data that does not fit its model, or cannot be stored
    │   ├── InvalidDecision            an answer the gate does not take
    │   ├── InvalidFile                a workflow file with mistakes; lists all of them, with their places
    │   ├── ExpressionError            an expression of a workflow file cannot be read, or has no value
    │   ├── MissingExtra               a package is not installed that only this needs
    │   ├── UnknownPrice               no price, so no limit can be kept
    │   └── UnboundableRequest         no upper bound of its cost can be computed
    ├── NotPermitted                   the principal may not do this; nothing was done
    ├── Unauthorized                   a server does not know the token; nothing was done
    ├── Unreachable                    a server cannot be reached, or does not answer
    ├── NotFound                       no such run, gate, call or workflow
    ├── TooMuch                        a caller has its share of what a server does at a time; nothing was done
    ├── Conflict                       another was first; nothing was written
    │   ├── SeqConflict                the run is not where the append expected it (reload and decide again)
    │   ├── StaleAttempt               the step has moved on to another attempt
    │   ├── AlreadyDecided             the gate has its answer; names who gave it
    │   ├── DecisionRefused            not by this person, or not of what was shown; the gate is still open
    │   ├── AlreadyClosed              the call has its outcome
    │   ├── EffectKeyTaken             a tenant-wide effect is another run's
    │   ├── SharedValueMoved           a shared value has another version than its writer has seen
    │   ├── SharedLockLost             the lock under which a shared value was to be written is over
    │   ├── OverLimit                  a scope above the run has no room for what this append would hold
    │   ├── TooManyRuns                as many runs are active as may be; says when to try again
    │   ├── KeyReused                  the same start key or effect key with another request
    │   ├── MonthHeld                  a month cannot be archived or removed yet; names the runs that hold it back
    │   ├── StillInUse                 processes of an older version still work on what is to go
    │   └── RunEnded                   the run has ended; its history takes no such event
    ├── Suspended                      nothing new may begin in this run for now
    ├── CallsStopped                   a program's model calls are refused from here on; says why
    ├── PlaceLost                      the connected worker that did a step's work is gone
    ├── StepError                      what can go wrong inside a step; becomes an ErrorRecord in the run's state
    │   ├── NonDeterministicStep       the code no longer matches the journal
    │   ├── OperationFailed            a journaled operation ended in an error
    │   ├── RemoteFailed               a connected worker says that its task failed
    │   ├── SchemaMismatch             a model's answer or a tool's arguments do not fit their schema
    │   ├── ToolFailed                 the tool reports: it did not happen
    │   ├── OutcomeUnknown             the tool cannot say whether it happened
    │   ├── TransitionDenied           a guard does not allow it
    │   ├── BlobLost                   a large payload that the run refers to is missing or damaged
    │   └── MissingSecret              a secret that is asked for by name is not there
    ├── RunFailed                      a run with a waiting caller did not complete
    ├── ModelError                     a model call that gave no usable reply
    │   ├── ModelRefused               the provider refused it: certainly nothing was spent
    │   │   └── ModelRateLimited       refused until `retry_after_s` has passed
    │   └── ModelUncertain             it is unknown whether it was spent
    ├── PoolLineFull                   too many calls wait for a pool already
    └── StoreError                     the store cannot do its work
        ├── StoreTooNew, NotAStore, StoreFull, StoreBusy
        ├── StoreUnreadable            it cannot be opened, read or written
        │   └── StoreGone              its file was taken away while it was in use; no waiting brings it back
        ├── Unstorable                 this content cannot be stored; nothing is wrong with the store
        ├── UnknownCommit              the reply of a commit was lost
        ├── CursorLost                 a tail cannot go on from a cursor without missing events
        └── CorruptHistory             events that no version of Holdfast can have written
            └── KeyMissing             what is stored, or is to be, needs a key that is not there

Nothing else belongs here: no handling, no translation, no formatting for a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self


class HoldfastError(Exception):
    """Something in Holdfast went wrong."""

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        """`message` defaults to the class's docstring; `facts` become attributes of the error."""
        super().__init__(message or (type(self).__doc__ or type(self).__name__).strip())
        for name, value in facts.items():
            setattr(self, name, value)

    @property
    def message(self) -> str:
        """Text of the error."""
        return str(self.args[0]) if self.args else (type(self).__doc__ or type(self).__name__).strip()

    @property
    def parts(self) -> Sequence[str]:
        """Parts of the message that are printed on lines of their own."""
        return (self.message,)


def code_of(kind: type[HoldfastError]) -> str:
    """The name of a class of errors as programs compare it: `not_found`."""
    return _CAPITAL.sub("_", kind.__name__).lower()


_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class UsageError(HoldfastError):
    """The call is wrong; nothing was done."""


class InvalidWorkflow(UsageError):
    """The workflow cannot be run."""

    def __init__(self, workflow: str, problems: Sequence[str]) -> None:
        self.workflow = workflow
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"Workflow {workflow!r} cannot be run; {len(self.problems)} thing(s) to mend:{lines}")


class InvalidFile(UsageError):
    """The file describes no workflow that could be run. Nothing was done."""

    def __init__(self, file: str, mistakes: Sequence[Any], *, is_complete: bool = True) -> None:
        """`mistakes` have `line`, `column`, `path`, `message`, `example`. There may be more where they are not complete."""
        self.file = file
        self.mistakes = tuple(mistakes)
        self.is_complete = is_complete
        lines = "".join(f"\n{file}:{mistake}" for mistake in self.mistakes)
        count = f"{'' if is_complete else 'at least '}{len(self.mistakes)}"
        super().__init__(f"{file} has {count} mistake(s):{lines}\nNothing was done.")

    @property
    def parts(self) -> Sequence[str]:
        head, _, _ = self.message.partition("\n")
        return (head, *(f"{self.file}:{mistake}" for mistake in self.mistakes), "Nothing was done.")


class Misfit(str):
    """One thing about some data that does not fit, in words; `path` are the keys and positions that lead to it."""

    __slots__ = ("path",)
    path: tuple[str | int, ...]

    def __new__(cls, words: str, path: Iterable[str | int] = ()) -> Self:
        made = super().__new__(cls, words)
        made.path = tuple(path)
        return made


class InvalidInput(UsageError):
    """This data does not fit; nothing was stored."""

    field: str = ""
    """The argument that does not fit, by its name: `input`. Empty if the paths of the misfits begin with such names."""
    misfits: Sequence[Misfit] = ()
    """Each part of it that does not fit, with its place."""


class InvalidDecision(UsageError):
    """The gate does not take this answer; it is still open."""

    field: str = ""
    misfits: Sequence[Misfit] = ()
    """See InvalidInput."""


class ExpressionError(UsageError):
    """An expression of a workflow file cannot be read, or has no value."""

    def __init__(self, message: str, offset: int) -> None:
        """`offset`: characters before the place in the text that was given."""
        self.offset = offset
        super().__init__(message)


class MissingExtra(UsageError):
    """A package is not installed that only this needs. Attributes: the `extra` that brings it, and the `module`."""

    extra: str
    module: str


class UnknownPrice(UsageError):
    """The model has no known price, so no limit can be kept for it. Nothing was called."""


class UnboundableRequest(UsageError):
    """No upper bound of this request's cost can be computed. Nothing was called."""


class NotPermitted(HoldfastError):
    """The principal may not do this. Nothing was done."""


class Unauthorized(HoldfastError):
    """The server does not know this token. Nothing was done."""


class Unreachable(HoldfastError):
    """The server cannot be reached, or does not answer as one of Holdfast does."""


class NotFound(HoldfastError):
    """There is no such thing in this store."""


class Conflict(HoldfastError):
    """Another writer was first; nothing was written."""


class SeqConflict(Conflict):
    """The run is not where this append expected it. Nothing was written: reload and decide again."""


class StaleAttempt(Conflict):
    """The step has moved on to another attempt; this one's result no longer counts."""


class AlreadyDecided(Conflict):
    """The gate has been decided."""


class DecisionRefused(Conflict):
    """This person cannot decide this, or decides about something else than what was shown; the gate is still open."""


class AlreadyClosed(Conflict):
    """The call already has its outcome."""


class EffectKeyTaken(Conflict):
    """A tenant-wide effect that this append would intend is another run's. Nothing was written.

    Attributes: its `key`, the `call` that has it, the `args_hash` of its request and, if it came, its `response`.
    """

    key: str
    call: str
    args_hash: str
    response: Any


class SharedValueMoved(Conflict):
    """A shared value that this append would write has another version by now than its writer has seen, or it is later than the
    write was to be. Nothing was written."""


class SharedLockLost(Conflict):
    """The lock on a shared value under which this append would write it is over, or another's. Nothing was written."""


class OverLimit(Conflict):
    """A scope above the run has no room for what this append would hold. Nothing was written.

    Attributes: `scope`, its `limit`, what is `used` of it and, of that, `held` by calls in flight; `wanted` by the append.
    Where it is an agent's of a team budget, `team` are the agents of that, each a core.nouns.team_budgets.Lender.
    """

    scope: str
    limit: int
    used: int
    held: int
    wanted: int
    team: Sequence[Any] = ()


class TooMuch(HoldfastError):
    """You have your share of what this server does at a time. Nothing was done: try again after `retry_after_s`."""

    retry_after_s: int = 1


class TooManyRuns(Conflict):
    """As many runs are active as may be. Nothing was started: try again after `retry_after_s`, or have it queued."""

    scope: str
    limit: int
    retry_after_s: int


class KeyReused(Conflict):
    """The same key was used for another request."""


class MonthHeld(Conflict):
    """Runs hold this month back; it was left as it is. `runs` are the first of them, `count` is how many there are."""

    runs: Sequence[Any] = ()
    count: int = 0


class StillInUse(Conflict):
    """Processes of an older version still use this; nothing was done."""


class RunEnded(Conflict):
    """The run has ended."""


class Suspended(HoldfastError):
    """The run is paused or ending; nothing new begins."""


class CallsStopped(HoldfastError):
    """Model calls of this program are refused from here on; nothing was called.

    Attribute `reason`: `limit` (the run's budget), `difference` (the program asks for something else than its journal holds) or
    `left` (the step is over, or its process ends).
    """

    reason: str = "left"


class PlaceLost(HoldfastError):
    """The connected worker that did this step's work is gone; the step is given to another."""


class StepError(HoldfastError):
    """A step could not do its work."""


class NonDeterministicStep(StepError):
    """The step's code no longer asks for what its journal holds."""


class OperationFailed(StepError):
    """An operation inside a step ended in an error; `error` is its record."""


class RemoteFailed(StepError):
    """A connected worker says that its task failed. Attributes: `error_class` (see core.values.policies), `retryable`."""

    error_class: str = "error"
    retryable: bool = False


class SchemaMismatch(StepError):
    """Data does not fit its schema."""


class ToolFailed(StepError):
    """The tool says that it failed and that nothing happened outside."""


class OutcomeUnknown(StepError):
    """The tool cannot say whether it happened; a person or its `verify` lookup must."""


class TransitionDenied(StepError):
    """A guard does not allow this transition."""


class NotRecorded(StepError):
    """A run that is replayed asks for what its record does not have."""

    error_class = "validation"


class BlobLost(StepError):
    """A large payload that the run refers to is missing or damaged."""


class MissingSecret(StepError):
    """A secret is not set."""


class RunFailed(HoldfastError):
    """The run did not complete."""


class ModelError(HoldfastError):
    """A model call gave no usable reply.

    Attributes: `error_class` (see core.values.policies.ErrorClass), `retryable`, `status_code` (None without an HTTP reply).
    """

    error_class: str = "model"
    retryable: bool = False
    status_code: int | None = None


class ModelRefused(ModelError):
    """The provider refused the call, or was never reached: nothing was spent."""


class ModelRateLimited(ModelRefused):
    """The provider refuses calls for now."""

    error_class = "rate_limit"
    retryable = True
    retry_after_s: float | None = None


class ModelUncertain(ModelError):
    """The call's reply was lost or is unreadable; what it cost is unknown and counts as spent."""

    error_class = "model_transient"
    retryable = True


class PoolLineFull(HoldfastError):
    """Too many calls wait for this pool already."""


class StoreError(HoldfastError):
    """The store cannot do its work. `passes` says that it may be over when it is tried again."""

    passes: bool = False


class StoreTooNew(StoreError):
    """The store was written by a newer Holdfast."""


class NotAStore(StoreError):
    """The file is not a Holdfast store."""


class StoreFull(StoreError):
    """The disk is full; nothing was written."""

    passes = True


class StoreBusy(StoreError):
    """Another process holds the store's write lock."""


class StoreUnreadable(StoreError):
    """The store cannot be opened or written."""


class StoreGone(StoreUnreadable):
    """The store's file was deleted, moved or replaced while it was in use."""


class Unstorable(StoreError):
    """This cannot be stored; nothing is wrong with the store. Nothing was written."""


class UnknownCommit(StoreError):
    """The reply of a commit was lost: append again under the same append id."""


class CursorLost(StoreError):
    """A tail cannot go on from this cursor: events may have been missed."""


class CorruptHistory(StoreError):
    """This history cannot have been written by Holdfast."""


class KeyMissing(CorruptHistory):
    """An encryption key is missing: stored data needs one that is not there, or data to be stored has none. Nothing was
    done."""
