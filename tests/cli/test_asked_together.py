"""`holdfast gates together`: calls that are asked about at the same time, decided in one commit."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Shell

PAYDAY = """
from holdfast import flow, tool


@tool(effect="once", approval=True)
def pay(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


@flow(tools=[pay])
async def payday(ctx, given):
    return await ctx.gather(*(ctx.tool(pay, to=name, amount=amount) for name, amount in given.items()))
"""


def test_what_is_asked_together_is_shown_and_decided_together(shell: Shell, home: Path) -> None:
    (home / "payday.py").write_text(PAYDAY)
    start = ("run", "payday.py:payday", "-i", '{"ada": 10, "bob": 2000, "cid": 3}', "--key", "may")
    shell(*start)
    run = shell(*start, "--detach").out.strip()
    shown = shell("gates", "show", run).out
    assert "Asked together, 3 calls" in shown
    assert '2  pay {"to": "bob", "amount": 2000}' in shown
    found = shell("gates", "show", run, "--json").data["asked_together"]
    assert [each["arguments"]["to"] for each in found["calls"]] == ["ada", "bob", "cid"]
    for bad, words in (
        (("--each", '{"4": "approve"}'), "There is no call '4'; `gates show` lists 1 to 3"),
        (("--each", '{"1": {"data": 1}}'), "give a decision, or an object with decision, data and reason"),
        (("edit",), "a decision for all calls is approve or reject"),
        ((), "Pass a decision for all calls"),
        (("approve", "--shown", "0" * 64), "Other calls are asked about together"),
    ):
        refused = shell("gates", "together", run, *bad)
        assert refused.code != 0
        assert words in refused.err
    each = '{"1": "approve", "2": {"decision": "edit", "data": {"amount": 200}}}'
    said = shell("gates", "together", run, "--each", each, "--shown", found["shown_hash"], "--as", "ann")
    assert (said.code, said.err.count("\n")) == (0, 2)
    assert shell("gates", "together", run, "approve", "--as", "ann", "--json").data == {found["calls"][2]["gate_id"]: "approve"}
    assert shell(*start).data == ["paid 10 to ada", "paid 200 to bob", "paid 3 to cid"]
