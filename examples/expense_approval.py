"""An expense report as a fully typed workflow.

A model reads the receipt, a rule decides if a person must approve, and the money is paid back once. This file passes
`mypy --strict`.

    holdfast run examples/expense_approval.py:wf -i '{"employee": "ada", "receipt": "Train to Lyon, 2nd class, 84.00 EUR"}'
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel

from holdfast import Context, StateView, Workflow, branch, human_gate, task, tool, tool_node


class Report(BaseModel):
    """What an employee hands in."""

    employee: str
    receipt: str


class Expense(BaseModel):
    """What the model reads on the receipt."""

    amount_eur: Decimal
    purpose: str


class Verdict(BaseModel):
    """What a reviewer may change."""

    amount_eur: Decimal
    note: str = ""


wf = Workflow(name="expense-approval", input=Report, cost_limit_usd="0.05")


@tool(effect="once")
def pay_back(employee: str, amount_eur: Decimal, key: str) -> dict[str, str]:
    """Ask the bank for one transfer; `key` names it for ever."""
    print(f"{key[:8]}: {amount_eur} EUR to {employee}")
    return {"transfer": key[:8]}


@wf.node("read")
@task
async def read(state: StateView, ctx: Context) -> dict[str, str]:
    expense = await ctx.model(
        "claude-haiku-4-5", state.input.receipt, system="Read the amount and the purpose.", output=Expense, max_tokens=200
    )
    return {"amount_eur": str(expense.amount_eur), "purpose": str(expense.purpose)}


@wf.node("route")
@branch
def route(state: StateView) -> str:
    return "large" if Decimal(state.events["read"].output.amount_eur) > 50 else "small"


@wf.node("review")
@human_gate(form=Verdict, timeout_days=3)
def review(state: StateView) -> dict[str, str]:
    receipt = state.events["read"].output
    return {"employee": state.input.employee, "amount_eur": receipt.amount_eur, "purpose": receipt.purpose}


@wf.node("pay")
@tool_node(name="pay_back")
def pay(state: StateView) -> dict[str, str]:
    agreed = state.events["review"].payload or state.events["read"].output  # a review that was passed by has none
    return {"employee": state.input.employee, "amount_eur": str(agreed.amount_eur)}


wf.edge("read", "route")
wf.edge("route", "review", when="large")
wf.edge("route", "pay", when="small")
wf.edge("review", "pay")
