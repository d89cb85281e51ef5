"""`holdfast approvals`: what people say beforehand about calls of tools.

Never here: which call an approval covers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import moment
from holdfast.cli.page.table import ID, Column
from holdfast.core.nouns.tool_policy import When
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d+)([mhd])")
_CONDITION: Final = re.compile(r"([\w.]+)\s*(==|!=|<=|>=|<|>|~)\s*(.+)")


def _seconds(text: str) -> int:
    """Return the seconds of a text like `8h`. Raises UsageError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"--for {text!r:.40} is not a time span; write it like 30m, 8h or 7d. Nothing was granted.")
    return int(found[1]) * _SECONDS[found[2]]


def _condition(text: str) -> When:
    """Return the condition of a text like `amount<=100`; `~` compares with a text with * and ?. Raises UsageError."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--when {text!r:.80} is not a condition; write it like 'amount<=100' or 'order~A-*'. Nothing was granted."
        )
    argument, operator, value = found.groups()
    if operator == "~":
        return When(argument, "matches", value)
    try:
        return When(argument, operator, json.loads(value))  # type: ignore[arg-type]
    except ValueError:
        return When(argument, operator, value)  # type: ignore[arg-type]


def _conditions(row: View) -> str:
    return ", ".join(f"{cond['argument']} {cond['operator']} {cond['value']}" for cond in row["when"]) or "always"


def _used(row: View) -> str:
    return str(row["used"]) if row["max_calls"] is None else f"{row['used']} of {row['max_calls']}"


def _state(row: View) -> str:
    by = row["revoked_by"]
    return row["state"].replace("_", " ") if by is None else f"revoked by {by}"


APPROVALS: Final = Noun("approvals")
app = APPROVALS.app

APPROVALS.verb(
    "grant",
    command.GrantApproval,
    words={
        "for_s": ArgumentSpec("--for TIME", read=_seconds, help="Lifetime of the approval: 30m, 8h, 7d."),
        "max_calls": "--max-calls N",
        "when": ArgumentSpec("--when CONDITION", read=_condition, help="Condition on an argument: 'amount<=100', 'order~A-*'."),
        "run": "--run RUN",
        "reason": "--reason TEXT",
    },
    says="Granted approval {approval} of {tool}.",
    signed=True,
    roles=True,
    make=True,
)
APPROVALS.list(
    query.Approvals,
    Column("approval", ID),
    Column("tool", 8),
    Column("when", 8, goes=1, of=_conditions),
    Column("used", of=_used),
    Column("until", goes=3, of=lambda row: moment.second(row["until"])),
    Column("by", 6, goes=2),
    Column("state", 6, of=_state),
    every=True,
)
APPROVALS.verb(
    "revoke",
    command.RevokeApproval,
    done="revoked",
    says="Revoked approval {approval}. Calls that it approved stay made.",
    signed=True,
)


EXAMPLES: Final = {
    "grant": "'mail_*' --for 8h --max-calls 50 --when 'amount<=100'",
    "list": "",
    "revoke": "019aa8b26f417c3e9d551b7e40c2aa10",
}
