"""A workflow whose tool cannot be taken back, for the kill tests: it says each payment to a file that the test reads."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from holdfast import Workflow, tool, tool_node

VERSION = int(os.environ.get("PAYMENTS_VERSION", "1"))
"""The second asks for something else at the same place."""


@tool(effect="once", irreversible=True)
def pay(order: str, amount: int, file: str) -> str:
    """Pay, once and for good."""
    with Path(file).open("a") as ledger:  # one line is one write
        ledger.write(f"{order} {amount}\n")
    time.sleep(0.02)  # what was done is not told at once, so that a death may come in between
    return f"paid {amount}"


payment = Workflow("payment", version=1)


@payment.node("pay")
@tool_node(name=pay)
def arguments(state: Any) -> Any:
    return {**state.input, "amount": state.input["amount"] * VERSION}
