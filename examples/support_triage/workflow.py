"""Support triage: a ticket is classified and answered by models, a person approves, one e-mail goes out.

Below are the tools it may use and what the writing model is told; then the workflow itself.

    holdfast run examples/support_triage/workflow.py:wf -i '{"ticket_text": "...", "customer_email": "..."}'

`claude-sonnet-4-7` is in no price list, so holdfast.toml beside this file says what it costs: run `holdfast` here.
"""

from __future__ import annotations

import json
import os
import re
import smtplib
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from holdfast import Workflow, llm_node, tool_node, human_gate, branch, task, check, tool  # noqa: F401 # isort: skip

HERE = Path(__file__).resolve().parent
SENDER = "Pinbarrow support <support@pinbarrow.example>"
SMTP_TIMEOUT_S = 20.0
MAX_SECTIONS = 3

REPLY_SYSTEM_PROMPT = """\
You write the reply of Pinbarrow's support desk. Pinbarrow is the booking and job software of small repair workshops.

You are given what kind of ticket it is. Look up what the handbook says with search_kb; where money or data may be
concerned, look at the account with fetch_account. Promise no dates and no amounts: a person reads your reply, may edit
it, and answers for it. Plain text, at most 120 words, no subject line. Sign as "The Pinbarrow team".
"""


# --- Tools ------------------------------------------------------------------------------------------------------------


@tool(effect="read")
async def search_kb(query: str) -> list[dict[str, str]]:
    """Search the support handbook; the best sections first."""
    words = re.findall(r"\w+", query)
    if not words:
        return []
    # Every word is quoted: what a customer writes is never a search expression.
    wanted = " OR ".join(f'"{word}"' for word in words)
    found = _handbook().execute(
        "select title, body from handbook where handbook match ? order by rank limit ?", (wanted, MAX_SECTIONS)
    )
    return [{"title": str(title), "text": str(body)} for title, body in found.fetchall()]


@cache
def _handbook() -> apsw.Connection:
    """The handbook in SQLite's full-text index, in memory."""
    database = apsw.Connection(":memory:")
    database.execute("create virtual table handbook using fts5(title, body, tokenize = 'porter unicode61')")
    for page in sorted((HERE / "handbook").glob("*.md")):
        title, _, body = page.read_text(encoding="utf-8").partition("\n")
        database.execute("insert into handbook values (?, ?)", (title.lstrip("# "), body.strip()))
    return database


@tool(effect="read")
def fetch_account(email: str) -> dict[str, Any]:
    """The customer's account: workshop, plan, people and whether it is paid. An unknown address has none."""
    accounts: dict[str, Any] = json.loads((HERE / "accounts.json").read_text(encoding="utf-8"))
    known: dict[str, Any] | None = accounts.get(email.strip().lower())
    return {"email": email, "known": known is not None, **(known or {})}


@tool(effect="once")
def send_email(to: str, body: str, key: str) -> dict[str, Any]:
    """Send one e-mail from the support desk. `key` names this e-mail for ever, in our books and in its own header."""
    message = EmailMessage()
    message["From"] = SENDER
    message["To"] = to
    message["Subject"] = "Your message to Pinbarrow"
    message["Message-ID"] = message_id = f"<{key[:32]}@pinbarrow.example>"
    message["Idempotency-Key"] = key
    message.set_content(body)
    host, port = os.environ["SMTP_HOST"], int(os.environ["SMTP_PORT"])
    with smtplib.SMTP(host, port, local_hostname="localhost", timeout=SMTP_TIMEOUT_S) as server:
        server.send_message(message)
    return {"to": to, "message_id": message_id}


# --- The workflow -----------------------------------------------------------------------------------------------------

# fmt: off

wf = Workflow(name="support-triage", version=4, cost_limit_usd=1.00)

@wf.node("classify")
@llm_node(model="claude-haiku-4-5", tools=["search_kb"])
async def classify(state):
    return {
        "system": "Classify the ticket as: bug, feature, billing, or other.",
        "user":   state.input["ticket_text"],
    }

@wf.node("draft_reply")
@llm_node(model="claude-sonnet-4-7", tools=["search_kb", "fetch_account"])
async def draft_reply(state):
    return {
        "system": REPLY_SYSTEM_PROMPT,
        "user":   state.events["classify"].output,
    }

@wf.node("approval")
@human_gate(timeout_days=3)
async def approval(state):
    return {"reviewers": ["support-leads@"], "diff": state.events["draft_reply"].output}

@wf.node("send_reply")
@tool_node(name="send_email")
async def send_reply(state):
    return {"to": state.input["customer_email"], "body": state.events["approval"].payload["edited_body"]}

# Edges
wf.edge("classify", "draft_reply")
wf.edge("draft_reply", "approval")
wf.edge("approval", "send_reply")
