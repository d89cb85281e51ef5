"""The contexts of expressions: the run's input, the jobs before, the combination, the steps so far; and the status functions.

Never here: what is done with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from holdfast.actions.expressions import ExpressionError, Template
from holdfast.actions.syntax.document import Amount, Flag, Minutes, Variable
from holdfast.actions.syntax.keys import LONGEST_MINUTES

Contexts = Mapping[str, Any]
Functions = Mapping[str, Callable[[], Any]]


def starting(inputs: Any, variables: Mapping[str, str]) -> dict[str, Any]:
    """Before any job has run. `variables` are what `vars` has."""
    return {"inputs": inputs, "vars": variables}


def deciding(contexts: Contexts, needs: Collection[str], before: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the contexts for the decision about a job. `before` are the outputs of the nodes of all jobs that come before
    it."""
    jobs = {id_: {"result": each["result"], "outputs": each["outputs"]} for id_, each in before.items()}
    return {**contexts, "needs": {id_: jobs[id_] for id_ in needs}, "jobs": jobs}


def of_results(results: Collection[str]) -> Functions:
    """The status functions in a job's `if`: of the results of all jobs before it. A run that is cancelled asks no more."""
    return {
        "success": lambda: all(result == "success" for result in results),
        "failure": lambda: "failure" in results,
        "cancelled": lambda: False,
        "always": lambda: True,
    }


def of_status(status: str) -> Functions:
    """The status functions in a step's `if`."""
    return {
        "success": lambda: status == "success",
        "failure": lambda: status == "failure",
        "cancelled": lambda: status == "cancelled",
        "always": lambda: True,
    }


def environment(variables: Collection[Variable], contexts: Contexts) -> dict[str, str]:
    """Raises ExpressionError."""
    return {each.name: each.value.render(contexts) for each in variables}


def flag(amount: Flag, contexts: Contexts, key: str) -> bool:
    """Raises ExpressionError for what is not true or false."""
    value = amount.evaluate(contexts) if isinstance(amount, Template) else amount
    if not isinstance(value, bool):
        raise ExpressionError(f"{key} is {value!r:.80}; it must be true or false. A text becomes one with fromJSON(...).", 0)
    return value


def minutes(amount: Minutes, contexts: Contexts) -> float:
    """Raises ExpressionError for what is no time."""
    value = amount.evaluate(contexts) if isinstance(amount, Template) else amount
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_MINUTES:
        raise ExpressionError(
            f"timeout-minutes is {value!r:.80}; it must be a number above 0, up to {LONGEST_MINUTES}. A text becomes one"
            " with fromJSON(...).",
            0,
        )
    return float(value)


def count(amount: Amount, contexts: Contexts, key: str, limit: int) -> int:
    """Raises ExpressionError for what is no whole number from 1 to `limit`."""
    value = amount.evaluate(contexts) if isinstance(amount, Template) else amount
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(1, limit + 1):
        raise ExpressionError(
            f"{key} is {value!r:.80}; it must be a whole number from 1 to {limit}. A text becomes one with fromJSON(...).", 0
        )
    return int(value)
