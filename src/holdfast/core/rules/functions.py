"""The rules of functions that a flow calls as steps: what they came to is recorded, and what failed is tried again.

Like a task they run at least once, so no intent comes first. Never here: tools (calls), the step around them (steps).
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION, MAP, SLEEP, Step
from holdfast.core.rules import labelling, mapping, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends, match_operation
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import RATE_LIMIT, RetryPolicy, delay_ms, retries


def record_values(d: Decision, c: commands.RecordValues) -> None:
    step = d.current(c)
    for value in c.values:
        if value.kind == FUNCTION:
            match_operation(step, value.path, FUNCTION, value.name, value.args_hash)
        elif value.kind == SLEEP:
            match_operation(step, value.path, SLEEP, value.name, value.args_hash)
        elif value.kind == MAP:
            mapping.expect_results(step, value)
    labelling.record(d, c)
    waits.start_timers(d, step, c.timers)


def fail_function(d: Decision, c: commands.FailFunction) -> None:
    step = d.current(c)
    op = match_operation(step, c.path, FUNCTION, c.name, c.args_hash)
    if op is not None and op.status != "reopened":
        return  # it has come to something
    d.record(c.step, c.values)
    d.emit(ev.FunctionFailed(c.step, c.attempt, c.path, c.name, c.args_hash, c.error, c.took_ms))
    _schedule_retry(d, step, c.path, c.retry)


def retry_operation(d: Decision, c: commands.RetryOperation) -> None:
    _schedule_retry(d, d.current(c), c.path, c.retry)


def _schedule_retry(d: Decision, step: Step, path: Path, policy: RetryPolicy) -> None:
    op = step.journal.get(path)
    if op is None or op.status != "failed" or op.error is None:
        return
    failures = (op.rate_limited if op.error.error_class == RATE_LIMIT else op.failures) + 1
    if retries(policy, op.error, failures):
        wait_ms = delay_ms(policy, op.error, failures, f"{d.state.run}/{step.id}/{path}")
        d.emit(ev.RetryScheduled(step.id, path, d.now_ms + wait_ms))


def reuse_operation(d: Decision, c: commands.ReuseOperation) -> None:
    intends(d, c, c.path, c.kind, c.name, c.args_hash)
