"""Kinds of errors, and what is done about each: which are tried again, when, and how often.

Never here: a clock or a random number. Jitter is derived from ids, so that a replay waits exactly as the run did.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from holdfast.core.values.payload import Payload

# The stable classes of errors. A new one is an addition to the public surface: docs/reference/codes.md lists them all.
TIMEOUT: Final = "timeout"
"""The operation took too long."""
NETWORK: Final = "network"
"""The connection failed or broke."""
RATE_LIMIT: Final = "rate_limit"
"""The provider, or an HTTP tool's service, takes no calls for now. Its Retry-After is kept. Tried ten times."""
MODEL_TRANSIENT: Final = "model_transient"
"""The provider has a temporary problem."""
TEMPORARY: Final = "temporary"
"""A node reports that another attempt may help: `NodeResult(status="retryable_error")`. Or others wrote a shared value first,
100 times in a row."""
SCHEMA: Final = "schema"
"""Data does not fit its schema. A model has had one chance of correction."""
VALIDATION: Final = "validation"
"""The request cannot be made (no price, no bound, wrong input), or an HTTP service refused it."""
AUTHORIZATION: Final = "authorization"
"""A key or a permission is missing, or a secret is not set."""
DENIED: Final = "denied"
"""The node does not list the tool, a handler raised `TransitionDenied`, or an address or redirect is not allowed."""
REJECTED: Final = "rejected"
"""A person rejected it."""
EXPIRED: Final = "expired"
"""A gate had no answer before the time from which none counts."""
TOOL: Final = "tool"
"""The tool reports that it failed. Retried only if repeating is safe."""
NON_DETERMINISTIC: Final = "non_deterministic"
"""Operations overlap, or a person refused to continue a step whose code has changed."""
LOOP_EXHAUSTED: Final = "loop_exhausted"
"""A loop has reached its `max_visits`."""
CONFLICT: Final = "conflict"
"""A shared value has another version than expected."""
CHECK_FAILED: Final = "check_failed"
"""A check did not pass, and no edge is for that."""
ROUTING: Final = "routing"
"""A branch chose an edge that does not exist."""
JOIN: Final = "join"
"""The time limit of a join passed."""
GUARD: Final = "guard"
"""A guard raised an error."""
LIMIT: Final = "limit"
"""A limit was reached and not raised, or a model took too many turns."""
CHILD_FAILED: Final = "child_failed"
"""A child of the run failed; its own run has the cause. A retry continues it where it failed."""
UNKNOWN: Final = "unknown"
"""The outcome of a tool call is unknown. The call is made again under its key if that is harmless."""
LOST: Final = "lost"
"""The process lost its lease before a call left, or died in five attempts of one step in a row."""
CANCELLED: Final = "cancelled"
"""The operation was cancelled, because its result is no longer needed."""
CALLED_OFF: Final = "called_off"
"""A flow went on without the operation: a time limit of its own ran out, or it cancelled a task."""
MODEL: Final = "model"
"""The reply cannot be used."""
ERROR: Final = "error"
"""The user's code raised an exception."""

TRANSIENT: Final = frozenset({TIMEOUT, NETWORK, RATE_LIMIT, MODEL_TRANSIENT, TEMPORARY, UNKNOWN, LOST})
"""Classes of transient errors, which are retried by default ("Agent Workflow Orchestration" §18)."""

NEVER_RETRIED: Final = frozenset(
    {SCHEMA, VALIDATION, AUTHORIZATION, DENIED, REJECTED, NON_DETERMINISTIC, LOOP_EXHAUSTED}
    | {CHECK_FAILED, ROUTING, JOIN, GUARD, LIMIT, CANCELLED, CALLED_OFF}
)
"""What the same try cannot mend, whatever a policy asks for."""

_NAMES: Final = {
    **{each: frozenset({each}) for each in (*TRANSIENT, *NEVER_RETRIED, TOOL, CONFLICT, CHILD_FAILED, MODEL, ERROR)},
    "temporary_unavailable": frozenset({MODEL_TRANSIENT, NETWORK, TEMPORARY}),
}
"""What `retryable_errors` may name, and the classes that each name means."""


def gravest(classes: Sequence[str]) -> str:
    """Return the class of several errors at once: of the first that no try can mend, or else that does not pass by itself."""
    return max(classes, key=lambda each: 2 if each in NEVER_RETRIED else each not in TRANSIENT)


MAX_LOST_ATTEMPTS: Final = 5
"""A step whose process died this often, one time after another without getting further, is taken for the cause of it."""

LONGEST_RETRY_AFTER_S: Final = 31 * 86_400.0
"""What a provider may ask for at most; the longest quotas are a month's."""


class RaisedError(msgspec.Struct, frozen=True, omit_defaults=True):
    """The exception behind an error: its class, by module and name, and the plain data among its arguments and attributes."""

    module: str
    name: str
    data: Payload | None = None
    bases: tuple[tuple[str, str], ...] = ()
    """The classes that it inherits from, the nearest first: one of them catches it where its own is not loaded."""


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data in the run's state."""

    node: str
    """Name of the node."""
    error_class: str
    """Class of the error, like `timeout` or `tool`."""
    message: str
    """Message of the error."""
    retryable: bool
    """True if another attempt may help."""
    at_ms: int
    """Time in Unix milliseconds."""
    tool: str | None = None
    """Name of the tool that failed, if one did."""
    retry_after_s: float | None = None
    """Seconds after which the service allows another attempt."""
    trace: str | None = None
    """Place in the user's code, as a Python traceback."""
    exception: RaisedError | None = None
    """Exception that code raised, by its class; code can catch it as that, besides OperationFailed."""


EffectPolicy = Literal["read", "idempotent", "verify", "once"]
"""The meaning of a lost outcome of a tool."""
OnLimit = Literal["ask", "fail", "record"]
"""What becomes of a run at a limit: it stops and asks, it fails, or it goes on and only tells that it would have stopped."""


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule for further attempts after a failure. Attempts after a rate limit are counted apart, because only waiting
    helps."""

    max_attempts: int = 3
    """Maximum number of attempts, the first included."""
    backoff: Literal["fixed", "exponential"] = "exponential"
    """Growth of the delay between attempts."""
    initial_s: float = 0.2
    """First delay in seconds."""
    max_s: float = 30.0
    """Longest delay in seconds."""
    jitter: float = 0.1
    """Random part of a delay, 0 to 1."""
    rate_limit_attempts: int = 10
    """Maximum number of attempts that a rate limit ends."""
    only_transient: bool = False
    """True to retry transient errors only, as the default policy does."""
    retryable_errors: Sequence[str] | None = None
    """Error classes to retry, like `["timeout", "tool"]`. `temporary_unavailable` stands for `model_transient`, `network` and
    `temporary`. Errors that no attempt can fix are refused."""

    @classmethod
    def documented(cls) -> RetryPolicy:
        """Return the policy of "Agent Workflow Orchestration" §18. It makes three attempts, after delays of 200 ms to 2 s, at
        `timeout`, `rate_limit` and `temporary_unavailable`."""
        passing = ("timeout", "rate_limit", "temporary_unavailable")
        return cls(max_s=2.0, jitter=0.0, rate_limit_attempts=3, retryable_errors=passing)

    def problems(self) -> list[str]:
        """Return each problem of the policy, as text."""
        found = []
        if self.max_attempts < 1 or self.rate_limit_attempts < 1:
            found.append("needs at least one attempt")
        if not 0 <= self.initial_s <= self.max_s < math.inf:
            found.append("needs 0 ≤ initial_s ≤ max_s, both finite")
        if not 0 <= self.jitter <= 1:
            found.append("needs a jitter between 0 and 1")
        if isinstance(self.retryable_errors, str):
            return [*found, f"needs a list in retryable_errors, like [{self.retryable_errors!r}]"]
        for name in self.retryable_errors or ():
            if name not in _NAMES:
                found.append(f"names {name!r} in retryable_errors, which is none of {', '.join(sorted(_NAMES))}")
            elif name in NEVER_RETRIED:
                found.append(f"names {name!r} in retryable_errors, which another try cannot mend")
        return found

    def takes_up(self, error_class: str) -> bool:
        """Return True if another attempt may follow an error. After the loss of a process one always may.

        Args:
            error_class: Class of the error.
        """
        if error_class in NEVER_RETRIED:
            return False
        if self.retryable_errors is not None:
            return error_class == LOST or any(error_class in _NAMES.get(name, ()) for name in self.retryable_errors)
        return error_class in TRANSIENT or not self.only_transient


DEFAULT_RETRY: Final = RetryPolicy(only_transient=True)


def retries(policy: RetryPolicy, error: ErrorRecord, failures: int) -> bool:
    """True if another attempt follows after `failures` failed ones, the last with `error`.

    Rate limits are counted apart from all other failures: `failures` are those of the kind of `error`.
    """
    if not error.retryable or not policy.takes_up(error.error_class):
        return False
    most = max(policy.max_attempts, policy.rate_limit_attempts) if error.error_class == RATE_LIMIT else policy.max_attempts
    return failures < most


def delay_ms(policy: RetryPolicy, error: ErrorRecord, failures: int, identity: str) -> int:
    """Return how long to wait before the next attempt, in milliseconds; `identity` (the step in its run) decides the jitter.

    A provider's Retry-After is a floor: an earlier attempt would be refused again.
    """
    grown = policy.initial_s if policy.backoff == "fixed" else policy.initial_s * 2 ** min(failures - 1, 62)
    base_s = min(grown, policy.max_s)
    digest = hashlib.sha256(f"{identity}/{failures}".encode()).digest()
    part = int.from_bytes(digest[:8], "big") / 2**64
    wait_s = base_s * (1 + policy.jitter * part)
    if error.retry_after_s is not None:
        wait_s = max(wait_s, min(error.retry_after_s, LONGEST_RETRY_AFTER_S) * (1 + policy.jitter * part * 0.1))
    return int(wait_s * 1000) + 1
