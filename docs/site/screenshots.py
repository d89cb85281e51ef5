"""Pictures of the console's pages in docs/images, from a real `holdfast dev` with runs of the examples: `make screenshots`.

No key is needed: models and mail are servers of the test kit. One letter is refused, one is taken without an acknowledgement,
and some drafts wait for a person. Never here: words about the pages.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from playwright.sync_api import sync_playwright

from holdfast.testing.mail_sink import MailRule, MailSink
from holdfast.testing.model_server import ModelServer, Rule
from tests.e2e.console.conftest import FLAGS, chromium
from tests.e2e.console.server import TOKEN, DevServer

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples"
IMAGES: Final = ROOT / "docs" / "images"
MOST_BYTES: Final = 200_000
WITHIN_S: Final = 60.0
WIDE: Final = {"width": 1280, "height": 720}
NARROW: Final = {"width": 390, "height": 844}
DARK: Final = ("/costs", "/runs/:run")
ON_A_TELEPHONE: Final = ("/runs", "/inbox/:gate")
WORKFLOWS: Final = ("support_triage/workflow.py:wf", "expense_approval.py:wf", "chat.py:librarian")
TICKETS: Final = 9
APPROVED: Final = 5
CHAT: Final = "evening"
RULES: Final = (
    Rule(system="amount and the purpose", user="Lyon", output={"amount_eur": "84.00", "purpose": "Train to Lyon"}),
    Rule(system="amount and the purpose", user="Coffee", output={"amount_eur": "12.50", "purpose": "Coffee with a customer"}),
    Rule(system="amount and the purpose", output={"amount_eur": "236.40", "purpose": "Two nights in Porto"}),
    Rule(system="librarian", text="Middlemarch stands in fiction, on shelf 9. It is not lent to anyone today."),
)
RECEIPTS: Final = ("Train to Lyon, 2nd class, 84.00 EUR", "Coffee, 12.50 EUR", "Hotel in Porto, 2 nights, 236.40 EUR")
CHANNEL: Final = """
[channels.desk]
kind = "mail"
host = "127.0.0.1"
port = {port}
security = "none"
sender = "holdfast@example.com"
to = ["leads@example.com"]
allow_private = ["127.0.0.0/8"]

[notifications.asked]
occasions = ["gate_opened", "run_failed"]
channel = "desk"
digest_s = 0
"""
REDACT: Final = """(name) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(name, "workshop");
}"""
"""The name of this machine stands in the names of its workers."""


@contextmanager
def served(folder: Path) -> Iterator[DevServer]:
    """A `holdfast dev` of copies of the examples in this folder, with its model server and mail server."""
    shutil.copytree(EXAMPLES / "support_triage", folder / "support_triage")
    for name in ("expense_approval.py", "chat.py", "support_triage/holdfast.toml"):
        shutil.copy(EXAMPLES / name, folder)
    mail = (MailRule(to="bright-ovens", refuses=550), MailRule(to="holt-cycles", drops_reply=True))
    rules = json.loads((EXAMPLES / "support_triage" / "model_rules.json").read_text("utf-8"))["rules"]
    with MailSink(journal=folder / "mail.jsonl", rules=mail) as letters, ModelServer(journal=folder / "calls.jsonl") as models:
        models.script.add(*RULES, *msgspec.convert(rules, list[Rule]))
        with (folder / "holdfast.toml").open("a") as settings:
            settings.write(CHANNEL.format(port=letters.port))
        environment = {"SMTP_HOST": letters.host, "SMTP_PORT": str(letters.port), **models.environment}
        server = DevServer(folder, WORKFLOWS, **environment)
        try:
            yield server
        finally:
            server.end()


def filled(server: DevServer) -> dict[str, str]:
    """Have the examples run up to where they wait, and return what stands for the parameters of the pages' paths."""
    server.request("POST", "/pools", {"name": "LETTERS", "slots": 4})
    server.request("POST", "/budgets", {"tenant": "default", "period": "day", "limit_usd": "5"})
    cron = {"name": "weekly-tickets", "workflow": "support-triage", "cron": "0 9 * * 1", "timezone": "Europe/Lisbon"}
    tickets = json.loads((EXAMPLES / "support_triage" / "tickets.json").read_text("utf-8"))[:TICKETS]
    server.request("POST", "/schedules", {**cron, "input": tickets[0]})
    for ticket in tickets:
        server.start("support-triage", ticket, key=ticket["id"])
    for number, receipt in enumerate(RECEIPTS):
        server.start(
            "expense-approval", {"employee": ("ada", "grace", "mira")[number], "receipt": receipt}, key=f"E-{number + 17}"
        )
    server.request("POST", "/conversations", {"name": CHAT, "workflow": "librarian"})
    server.request("POST", f"/conversations/{CHAT}/messages", {"text": "Where does Middlemarch stand?"})
    await_(lambda: len(rows(server, "/gates")) == TICKETS + 2)
    gates = {gate["run_id"]: gate for gate in rows(server, "/gates")}
    runs = {run["key"]: run["run_id"] for run in rows(server, "/runs") if run.get("key")}
    for ticket in tickets[:APPROVED]:
        gate = server.request("GET", f"/gates/{quote(gates[runs[ticket['id']]]['gate_id'], safe='')}")
        body = {"decision": "approve", "shown_hash": gate["shown_hash"]}
        server.request(
            "POST",
            f"/gates/{quote(gate['gate_id'], safe='')}/decision",
            body,
            **{"holdfast-as": "mira", "holdfast-roles": "support-leads@"},
        )
    await_(lambda: rows(server, "/effects?state=in_doubt"))
    await_(lambda: rows(server, "/runs?status=failed"))
    await_(lambda: len(rows(server, "/runs?status=completed")) >= APPROVED - 2)
    waiting = gates[runs["E-19"]]
    return {
        "/doubts": "/doubts?of=tools",
        "/runs/:run": f"/runs/{runs[tickets[2]['id']]}",
        "/inbox/:gate": f"/inbox/{quote(waiting['gate_id'], safe='')}",
        "/conversations/:id": f"/conversations/{CHAT}",
        "/schedules/:name": "/schedules/weekly-tickets",
        "/workflows/:name": "/workflows/support-triage",
        "/pools/:name": "/pools/LETTERS",
    }


def rows(server: DevServer, path: str) -> list[Any]:
    """Return the rows of a list."""
    listed: list[Any] = server.request("GET", path)["rows"]
    return listed


def await_(met: Callable[[], Any]) -> None:
    """Look until it is so. Raises TimeoutError after a while."""
    late_s = time.monotonic() + WITHIN_S
    while not met():
        if time.monotonic() > late_s:
            raise TimeoutError("the examples did not come as far as the pictures need")
        time.sleep(0.1)


def paths() -> list[str]:
    """Return the paths of the pages inside the frame, in the order of the navigation."""
    found = re.findall(r'path: "(/[^"]*)"', (ROOT / "console/src/pages.ts").read_text("utf-8"))
    return [path for path in found if path != "/sign-in"]


def name_of(path: str) -> str:
    """`/runs/:run` is run, `/runs` is runs."""
    noun, _, parameter = path[1:].partition("/:")
    return {"id": "conversation", "name": noun.removesuffix("s")}.get(parameter, parameter) if parameter else noun


def take(context: Any, address: str, file: Path, folder: Path) -> None:
    """Take a picture of a page that has come to rest. Raises ValueError for one that is too large or says too much."""
    page = context.new_page()
    page.goto(address)
    page.get_by_role("main").wait_for()
    page.wait_for_load_state("load")
    page.wait_for_timeout(1500)  # drawings and charts move into their place
    page.evaluate(REDACT, socket.gethostname())
    text = page.inner_text("body")
    if said := [word for word in (socket.gethostname(), str(folder), str(ROOT), str(Path.home()), TOKEN) if word in text]:
        raise ValueError(f"{file.name} shows {len(said)} words that belong to this machine")
    page.screenshot(path=file)
    page.close()
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file.name} has {file.stat().st_size} bytes, more than {MOST_BYTES}")
    sys.stdout.write(f"{file.relative_to(ROOT)} {file.stat().st_size}\n")


def main() -> None:
    """Take all pictures."""
    if chromium() is None:
        sys.exit("screenshots: there is no Chromium: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, served(folder := Path(place)) as server, sync_playwright() as started:
        pages = {path: path for path in paths() if ":" not in path} | filled(server)
        browser = started.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        first = browser.new_context()
        opened = first.new_page()
        opened.goto(server.once)
        opened.wait_for_url("**/runs")
        signed_in = first.storage_state()
        first.close()
        looks: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
            ("", tuple(pages), {"viewport": WIDE}),
            ("-dark", DARK, {"viewport": WIDE, "color_scheme": "dark"}),
            ("-narrow", ON_A_TELEPHONE, {"viewport": NARROW}),
        )
        for suffix, chosen, options in looks:
            context = browser.new_context(storage_state=signed_in, timezone_id="Europe/Lisbon", **options)
            for path in chosen:
                take(context, f"{server.address}{pages[path]}", IMAGES / f"console-{name_of(path)}{suffix}.png", folder)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
