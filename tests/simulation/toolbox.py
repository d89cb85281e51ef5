"""The tools that random programs use: every effect policy, named and unnamed, plain and async, priced and not, with and without a
way back. Each does its work in the simulated world.

Never here: what goes wrong (world), which program uses which (program).
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.authoring.tool import Tool, tool
from tests.simulation.world import SETTLES_S, here

Answer = dict[str, Any]


@tool(effect="read", timeout_s=30, price_usd="0.002")
async def look(item: str, step: str, key: str) -> Any:
    """Look something up."""
    return await here().act("look", "read", key, {"item": item, "step": step})


@tool(effect="idempotent", timeout_s=60, price_usd="0.003")
async def put(item: str, step: str, key: str) -> Any:
    """Put something somewhere; twice is once."""
    return await here().act("put", "idempotent", key, {"item": item, "step": step})


@tool(effect="idempotent")
def note(item: str, step: str, key: str) -> Any:
    """Note something down, in a plain function."""
    return here().act_at_once("note", "idempotent", key, {"item": item, "step": step})


async def find_post(key: str) -> Any:
    return await here().look_up("post", key)


@tool(effect="verify", verify=find_post, settles_within_s=SETTLES_S, timeout_s=20, price_usd="0.001")
async def post(item: str, step: str, key: str) -> Any:
    """Post something, which can be looked up afterwards."""
    return await here().act("post", "verify", key, {"item": item, "step": step})


@tool(timeout_s=90, price_usd="0.004")
async def mail(item: str, step: str, key: str) -> Any:
    """Send something that cannot be called back."""
    return await here().act("mail", "once", key, {"item": item, "step": step})


@tool
def stamp(item: str, step: str, key: str) -> Any:
    """Stamp something, in a plain function; once."""
    return here().act_at_once("stamp", "once", key, {"item": item, "step": step})


@tool(irreversible=True, timeout_s=30)
async def pay(item: str, step: str, key: str) -> Any:
    """Pay for something, when somebody has said yes."""
    return await here().act("pay", "once", key, {"item": item, "step": step})


@tool(effect="idempotent", approval=lambda arguments: arguments["item"] in ("item0", "item1"), timeout_s=30)
async def sign(item: str, step: str, key: str) -> Any:
    """Sign something; for some things somebody must have said yes."""
    return await here().act("sign", "idempotent", key, {"item": item, "step": step})


@tool(effect="idempotent", timeout_s=30)
async def unbook(item: str, step: str, key: str) -> Any:
    """Take a booking back."""
    return await here().act("unbook", "idempotent", key, {"item": item, "step": step})


@tool(effect="idempotent", compensation=unbook, timeout_s=30)
async def book(item: str, step: str, key: str) -> Any:
    """Book something, which can be undone."""
    return await here().act("book", "idempotent", key, {"item": item, "step": step})


@tool(timeout_s=30)
async def recall(item: str, response: Answer, key: str) -> Any:
    """Call something back that was shipped; once."""
    return await here().act("recall", "once", key, {"item": item, "response": response})


@tool(compensation=recall, timeout_s=30)
async def ship(item: str, step: str, key: str) -> Any:
    """Ship something, which can be called back; once."""
    return await here().act("ship", "once", key, {"item": item, "step": step})


TOOLS: Final[tuple[Tool, ...]] = (look, put, note, post, mail, stamp, pay, sign, book, ship)
APPROVED: Final = {"pay": frozenset({"item0", "item1", "item2", "item3"}), "sign": frozenset({"item0", "item1"})}
"""What nobody may do unasked."""
