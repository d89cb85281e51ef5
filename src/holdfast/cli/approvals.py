"""`holdfast approvals`: what people say beforehand about calls of tools.

Never here: which call an approval covers.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import moment, table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Reason, Roles, Store, Tenant, Who
from holdfast.cli.table import ID, Column
from holdfast.errors import UsageError
from holdfast.service import query

if TYPE_CHECKING:
    from holdfast.core.nouns.tool_policy import When
    from holdfast.service.command import GrantApproval
    from holdfast.service.principal import Principal
    from holdfast.service.query import View

app = typer.Typer(help="Say beforehand which calls of tools need not be asked about.", no_args_is_help=True)

APPROVALS: Final = (
    Column("approval", ID),
    Column("tool", 8),
    Column("when", 8, goes=1),
    Column("used"),
    Column("until", goes=3),
    Column("by", 6, goes=2),
    Column("state", 6),
)
_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d+)([mhd])")
_CONDITION: Final = re.compile(r"([\w.]+)\s*(==|!=|<=|>=|<|>|~)\s*(.+)")


@app.command()
def grant(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool's name, with * for any rest.")],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long it stands: 30m, 8h, 7d.")],
    most: Annotated[
        int | None, typer.Option("--most", metavar="N", help="How many calls it stands for; else any number.")
    ] = None,
    when: Annotated[
        list[str] | None,
        typer.Option("--when", metavar="CONDITION", help="Only where an argument is so: 'amount<=100', 'order~A-*'. Repeated."),
    ] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="Only in runs of this workflow.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only in this run.")] = None,
    reason: Reason = None,
    tenant: Tenant = None,
    by: Who = None,
    role: Roles = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Approve calls of a tool before they are asked about. What the workflow's rules deny stays denied."""
    from holdfast.service.command import GrantApproval

    given = GrantApproval(
        tool=tool,
        for_s=_seconds(for_),
        most=most,
        when=tuple(map(_condition, when or ())),
        workflow=workflow,
        run=run,
        reason=reason or "",
        tenant=tenant,
    )
    found = asyncio.run(_grant(given, who(by, role), store))
    if as_json:
        terminal.emit(found)
    else:
        terminal.say(f"Approval {found['approval']} of {tool} stands.")


@app.command("list")
def list_(tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """List the standing approvals, with how often each was used, also those that stand for nothing more."""
    found = asyncio.run(_list(tenant, store))
    if as_json:
        terminal.emit(found)
        return
    table.show(
        APPROVALS,
        [
            (
                each["approval"],
                each["tool"],
                ", ".join(f"{cond['argument']} {cond['compared']} {cond['value']}" for cond in each["when"]) or "always",
                f"{each['used']} of {each['most']}" if each["most"] is not None else str(each["used"]),
                moment.clock(moment.ms(each["until"])),
                each["by"],
                _state(each),
            )
            for each in found
        ],
    )


@app.command()
def revoke(
    approval: Annotated[str, typer.Argument(metavar="APPROVAL", help="Its id.")],
    tenant: Tenant = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Have an approval stand for nothing more. Calls that were made by it stay made."""
    asyncio.run(_revoke(approval, tenant, who(by), store))
    if as_json:
        terminal.emit({"approval": approval, "revoked": True})
    else:
        terminal.say(f"Approval {approval} stands for nothing more.")


async def _grant(given: GrantApproval, by: Principal, store: str | None) -> View:
    async with backend(store, by, make=True) as service:
        found = await service.tell(given)
        assert found is not None
        return found


async def _list(tenant: str | None, store: str | None) -> list[View]:
    async with backend(store, who(None)) as service:
        return await service.rows(query.Approvals(tenant=tenant))


async def _revoke(approval: str, tenant: str | None, by: Principal, store: str | None) -> None:
    from holdfast.service.command import RevokeApproval

    async with backend(store, by) as service:
        await service.tell(RevokeApproval(approval, tenant))


def _state(approval: View) -> str:
    by = approval["revoked_by"]
    return str(approval["state"]).replace("_", " ") if by is None else f"revoked by {by}"


def _seconds(text: str) -> int:
    """What `8h` is. Raises UsageError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"--for {text!r:.40} is no time; write it like 30m, 8h or 7d. Nothing was granted.")
    return int(found[1]) * _SECONDS[found[2]]


def _condition(text: str) -> When:
    """What `amount<=100` says; `~` is for a text with * and ?. Raises UsageError."""
    from holdfast.core.nouns.tool_policy import When

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
