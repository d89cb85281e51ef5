"""Who made a key acts along with it: what is done with one under a rule of four eyes, its maker has done too."""

from __future__ import annotations

from typing import Any

from holdfast import Tool, ToolRule, Workflow, tool, tool_node
from holdfast.core.claim import Claim
from tests.engine.kit import opened

KEY = Claim("keys.k", "", "keys.k", maker="alice")
FOR_ZED = Claim("zed", "", "keys.k", maker="alice")
RULES = [ToolRule("pay", "ask", four_eyes=True)]


@tool(effect="once")
async def pay(to: str, amount: int) -> str:
    """Send money."""
    return f"paid {to} {amount}"


def paying(pay: Tool = pay) -> Workflow:
    wf = Workflow("paying", tools=[pay], tool_rules=RULES)
    wf.node("pay")(tool_node(name=pay)(lambda state: {"to": "alice", "amount": 5}))
    return wf


async def asks(run: Any) -> bool:
    """Return True if a run asks somebody, rather than coming to its end."""
    return bool((await run.settled()).gates)


async def test_what_a_key_approves_beforehand_its_maker_has_approved(store: str) -> None:
    async with opened(store) as engine:
        for by in (KEY, FOR_ZED):
            granted = await engine.grant_approval("pay", for_s=600, by=by)
            for starter in ("alice", KEY, Claim("keys.other", maker="Alice")):
                assert await asks(await engine.start(paying(), by=starter)), (by, starter)
            signalled = await engine.start(paying(), by="bob")
            assert await signalled.result() == "paid alice 5"
            await engine.revoke_approval(granted, by="bob")
        await engine.grant_approval("pay", for_s=600, by=Claim("keys.k", maker="eve"))
        assert await (await engine.start(paying(), by="alice")).result() == "paid alice 5"
