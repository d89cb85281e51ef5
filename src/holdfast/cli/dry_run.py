"""`--dry-run`: the quote of commands to runs, in words.

Never here: finding out what it does (service.preview).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import OK
from holdfast.service.declarations.quoting import quote_of

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.service.declarations.quoting import Quoted
    from holdfast.service.principal import Principal


_LISTS: Final = {
    "called_off": "called off",
    "goes_on": "would continue",
    "delivered_to": "would get the signal",
    "gates_withdrawn": "gates withdrawn",
}


async def tell_all(asking: QueryBackend, name: str, commands: Sequence[Quoted], as_json: bool) -> int:
    """Print what each command would do, of all that are called `name`."""
    found = [await asking.row(quote_of(command)) for command in commands]
    if as_json:
        terminal.emit(found)
        return OK
    for each in found:
        terminal.show(f"{each['run_id']}  {each['status']}")
        for line in _lines(each):
            terminal.show(f"  {line}")
    terminal.say(f"{name}: {len({each['run_id'] for each in found})} would be affected. Nothing was done.")
    return OK


async def tell_one(
    name: str, run: str, deeds: Sequence[Callable[[str], Quoted]], by: Principal, store: str | None, as_json: bool
) -> int:
    """Print what commands would do to one run, whose id may be only begun."""
    async with backend(store, by) as service:
        id_ = await reference.run_id(service, run)
        return await tell_all(service, name, [deed(id_) for deed in deeds], as_json)


def _lines(row: dict[str, Any]) -> list[str]:
    if row["refused"] is not None:
        return [f"refused: {row['refused']}"]
    lines = [f"{words}: {', '.join(row[name])}" for name, words in _LISTS.items() if row[name]]
    lines += [f"{call['name']} ({call['call']}) is called again under its key" for call in row["calls_again"]]
    for call in row["in_flight"]:
        policy = f", {call['policy']}" if call["policy"] else ""
        known = "its outcome is unknown" if call["doubted"] else "in flight; its outcome still counts"
        lines.append(f"{call['name']} ({call['call']}{policy}): {known}")
    for number, each in enumerate(row["compensated"], 1):
        by = "by itself" if each["with"] is None else f"with {each['with']}"
        lines.append(f"{number}. {each['tool']} ({each['call']}) is undone {by}")
    if row["asked"]:
        lines.append("if the outcome of a once-only call in flight is lost, a person is asked before the run ends")
    if row["action"] == "cancel":
        return lines or ["nothing is in flight, and nothing would be undone"]
    if row["action"] == "signal" and not row["delivered_to"]:
        lines.append("no step waits for it: the run would keep it")
    if row["action"] == "raise_budget":
        lines.append(f"it could spend ${row['spendable_usd']} more")
    return [*lines, f"it would be {row['status_after']}"]
