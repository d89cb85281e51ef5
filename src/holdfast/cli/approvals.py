"""`holdfast approvals`: what people say beforehand about calls of tools.

Never here: which call an approval covers.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import table, terminal
from holdfast.cli.given import who
from holdfast.cli.moment import clock
from holdfast.cli.opening import acting, asking
from holdfast.cli.option import AsJson, Reason, Roles, Store, Who
from holdfast.cli.table import ID, Column
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.tool_policy import StandingApproval, When
    from holdfast.service.principal import Principal

app = typer.Typer(help="Say beforehand which calls of tools need not be asked about.", no_args_is_help=True)

APPROVALS: Final = (
    Column("approval", ID), Column("tool", 8), Column("when", 8, goes=1), Column("used"), Column("until", goes=3),
    Column("by", 6, goes=2), Column("state", 6),
)  # fmt: skip
_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d+)([mhd])")
_CONDITION: Final = re.compile(r"([\w.]+)\s*(==|!=|<=|>=|<|>|~)\s*(.+)")

Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose it is.")]


@app.command()
def grant(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool's name, with * for any rest.")],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long it stands: 30m, 8h, 7d.")],
    most: Annotated[
        int | None, typer.Option("--most", metavar="N", help="How many calls it stands for; else any number.")
    ] = None,
    when: Annotated[
        list[str] | None,
        typer.Option(
            "--when", metavar="CONDITION", help="Only where an argument is so: 'amount<=100', 'order~A-*'. Repeated."
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="NAME", help="Only in runs of this workflow.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only in this run.")] = None,
    reason: Reason = None,
    tenant: Tenant = "default",
    by: Who = None,
    role: Roles = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Approve calls of a tool before they are asked about. What the workflow's rules deny stays denied."""
    given: dict[str, object] = {
        "most": most, "when": [_condition(each) for each in when or ()], "workflow": workflow, "run_id": run,
        "reason": reason or "", "tenant": tenant,
    }  # fmt: skip
    found = asyncio.run(_grant(tool, _seconds(for_), given, who(by, role), store))
    if as_json:
        terminal.emit({"approval": found})
    else:
        terminal.say(f"Approval {found} of {tool} stands.")


@app.command("list")
def list_(tenant: Tenant = "default", as_json: AsJson = False, store: Store = None) -> None:
    """List the standing approvals, with how often each was used, also those that stand for nothing more."""
    found = asyncio.run(_list(tenant, store))
    if as_json:
        import msgspec

        terminal.emit([{"approval": key, **msgspec.to_builtins(each)} for key, each in found.items()])
        return
    now_ms = time.time_ns() // 1_000_000
    table.show(APPROVALS, [
        (
            key, each.tool, ", ".join(f"{cond.argument} {cond.compared} {cond.value}" for cond in each.when) or "always",
            f"{each.used} of {each.most}" if each.most is not None else str(each.used), clock(each.until_ms), each.by,
            _state(each, now_ms),
        )
        for key, each in found.items()
    ])  # fmt: skip


@app.command()
def revoke(
    approval: Annotated[str, typer.Argument(metavar="APPROVAL", help="Its id.")], tenant: Tenant = "default", by: Who = None,
    as_json: AsJson = False, store: Store = None,
) -> None:  # fmt: skip
    """Have an approval stand for nothing more. Calls that were made by it stay made."""
    asyncio.run(_revoke(approval, tenant, who(by), store))
    if as_json:
        terminal.emit({"approval": approval, "revoked": True})
    else:
        terminal.say(f"Approval {approval} stands for nothing more.")


async def _grant(tool: str, for_s: int, given: dict[str, object], by: Principal, store: str | None) -> str:
    async with acting(store, make=True) as service:
        more: dict[str, object] = {**given, "for_s": for_s, "by": by.claim, "roles": by.roles}
        return await service.control.grant_approval(tool, **more)  # type: ignore[arg-type]


async def _list(tenant: str, store: str | None) -> Mapping[str, StandingApproval]:
    async with asking(store) as engine:
        return await engine.standing_approvals(tenant=tenant)


async def _revoke(approval: str, tenant: str, by: Principal, store: str | None) -> None:
    async with acting(store) as service:
        await service.control.revoke_approval(approval, by=by.claim, tenant=tenant)


def _state(approval: StandingApproval, now_ms: int) -> str:
    if approval.revoked_by is not None:
        return f"revoked by {approval.revoked_by}"
    return "stands" if approval.stands(now_ms) else "used up" if approval.left == 0 else "over"


def _seconds(text: str) -> int:
    """What `8h` is. Raises UsageError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"--for {text!r:.40} is no time; write it like 30m, 8h or 7d. Nothing was granted.")
    return int(found[1]) * _SECONDS[found[2]]


def _condition(text: str) -> When:
    """What `amount<=100` says; `~` is for a text with * and ?. Raises UsageError."""
    from holdfast.core.tool_policy import When

    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--when {text!r:.80} is no condition; write it like 'amount<=100' or 'order~A-*'. Nothing was granted."
        )
    argument, compared, value = found.groups()
    if compared == "~":
        return When(argument, "matches", value)
    try:
        return When(argument, compared, json.loads(value))  # type: ignore[arg-type]
    except ValueError:
        return When(argument, compared, value)  # type: ignore[arg-type]
