"""The consequences of a gate's decisions and the call that it asks about, in words.

Never here: finding them out (core.people.consequences).
"""

from __future__ import annotations

from typing import Final

from holdfast.cli.page.count import counted
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.service.declarations.query import View

_WORDS: Final = {
    "counted": "counts as one approval; the gate stays open",
    "asked_again": "shows the changes to another person, who decides",
    "call_made": "calls {tool}",
    "call_not_made": "does not call {tool}; the step gets the rejection as an error",
    "answered": "does not call {tool}; the data is its response",
    "step_goes_on": "continues",
    "step_retried": "tries the step again",
    "step_restarted": "begins the step again",
    "step_fails": "fails the step; the run continues",
    "run_fails": "fails the run, which undoes what it can",
    "version_released": "releases the version; the run begins, and those that wait like it",
    "limit_raised": "raises the limit; the run continues",
    "run_ends": "ends the run as it is",
}

_OF_UNKNOWN: Final = {
    "answer": ("--happened", "the call took effect; the step gets your response"),
    "reject": ("--did-not", "the call did not take effect; the step gets an error"),
    "retry": ("--again", "makes the call again, with the same key"),
}
"""The options of `effects resolve`, with which such a gate is decided, instead of its decisions."""


def follows(gate: View) -> list[tuple[str, str]]:
    """Return each decision that a gate takes, or the option for it, with its consequence."""
    if gate["reason"] == EFFECT_UNKNOWN:
        return [_OF_UNKNOWN[each["decision"]] for each in gate["consequences"]]
    tool = gate["call"]["tool"] if gate["call"] is not None else "the tool"
    return [(each["decision"], _in_words(each, tool)) for each in gate["consequences"]]


def _in_words(row: View, tool: str) -> str:
    said = _WORDS[row["follows"]].format(tool=tool)

    to = f" to {', '.join(row['nodes'])}" if row["nodes"] else ""
    more = f", and {counted(row['more'], 'more approval')} must follow" if row["more"] else ""
    return f"{said}{to}{more}"


def of_call(call: View) -> str:
    """Return what a tool declares of its call: `once; refund undoes it if the run fails; costs 0.10 dollars`."""
    parts = [f"effect {call['policy']}" if call["policy"] is not None else "effect policy unknown"]
    if call["undone_by"] is not None:
        parts.append(f"{call['undone_by']} undoes it if the run fails or is cancelled")
    elif call["irreversible"]:
        parts.append("nothing can undo it")
    else:
        parts.append("no tool undoes it")
    if call["price_usd"] not in (None, "0.00"):
        parts.append(f"costs at most {call['price_usd']} dollars")
    return "; ".join(parts)
