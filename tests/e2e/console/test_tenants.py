"""Two tenants at one server, one after the other in one browser: the second walks every page, and sees nothing of the first's."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import pytest

from tests.e2e.console.conftest import MOST_MS, ROOT, WATCH, Errors, until
from tests.http.kit import NO_TLS
from tests.wire.kit import ended, holdfast

GLOBEX: Final = "globex-token-of-some-length"
ACME: Final = "acme-token-of-some-length"
SECRET: Final = "only-of-globex"
NAME: Final = "plan"
"""Of what the first tenant names. It stands in addresses, and a page may repeat its address."""
HERE: Final = Path(__file__).parent
WORKFLOWS: Final = (
    f"{HERE / 'flows.py'}:asks",
    *(f"{ROOT / 'tests' / 'http' / 'flows.py'}:{name}" for name in ("broken", "answering")),
)
SHOW_IT: Final = {
    "/runs",
    "/runs/:run",
    "/inbox",
    "/inbox/:gate",
    "/conversations/:id",
    "/dead-letters/:letter",
    "/budgets/:name",
}
"""Pages that show the secret to the one who may see it."""

SETTLED: Final = """() => {
  const main = document.querySelector("main");
  return main?.querySelector("h1") && !/Loading/.test(main.innerText);
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that knows a token of each tenant."""
    folder = tmp_path_factory.mktemp("tenants")
    tokens = folder / "tokens.toml"
    tokens.touch(0o600)
    tenants = {"globex": GLOBEX, "acme": ACME}
    clients = (f'[clients.{name}]\nmay = "admin"\ntoken = "{token}"\ntenant = "{name}"\n' for name, token in tenants.items())
    tokens.write_text("".join(clients))
    words = ("--http", "127.0.0.1:0", "--port", "0", "--tokens", str(tokens), "--store", str(folder / "runs.db"))
    server = holdfast("serve", *WORKFLOWS, *words, folder=folder)
    with ended(server):
        yield server.says(r"HTTP on (http://\S+)/api/v1\.")[1]


def pages() -> list[str]:
    """Paths of the table of pages, as the router has them, without the sign-in."""
    table = (ROOT / "console" / "src" / "pages.ts").read_text()
    return [path for path in re.findall(r'\bpath: "([^"]+)"', table) if path != "/sign-in"]


def fill(address: str) -> dict[str, str]:
    """Make something of each kind for the first tenant, with the secret in it. Return the ids, by their names in the paths."""
    with httpx2.Client(
        base_url=f"{address}/api/v1", headers={"authorization": f"Bearer {GLOBEX}"}, verify=NO_TLS, timeout=60
    ) as http:

        def post(path: str, body: Any) -> Any:
            answer = http.post(path, json=body)
            assert answer.is_success, answer.text
            return answer.json() if answer.content else None

        def first(path: str) -> Any:
            late_s = time.monotonic() + MOST_MS / 1000
            while not (rows := http.get(path).json()["rows"]):
                assert time.monotonic() < late_s, f"nothing at {path}"
                time.sleep(0.05)
            return rows[0]

        run = post("/runs", {"workflow": "asks", "input": {"text": SECRET}, "key": SECRET, "labels": {"a": SECRET}})["run_id"]
        other = post("/runs", {"workflow": "broken", "input": SECRET, "key": f"{SECRET} too"})["run_id"]
        post("/conversations", {"name": NAME, "workflow": "answering"})
        post(f"/conversations/{NAME}/messages", {"text": SECRET})
        post("/schedules", {"name": NAME, "workflow": "broken", "cron": "0 9 * * *", "input": SECRET})
        post("/team-budgets", {"name": NAME, "agents": {SECRET: 1}, "total_usd": "7"})
        letter, gate = first("/dead-letters")["letter"], first("/gates")["gate_id"]
    return {"run": run, "other": other, "gate": gate, "letter": letter, "id": NAME, "name": NAME, "evaluation": "none"}


def sign_in(page: Any, address: str, token: str) -> None:
    """Sign in by the form."""
    page.goto(f"{address}/sign-in")
    page.get_by_label("API token or key").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs")


def at(path: str, ids: dict[str, str]) -> str:
    """Return the path with the ids of the first tenant."""
    return re.sub(r":(\w+)", lambda found: quote(ids[found[1]], safe=""), path)


def test_a_second_tenant_sees_nothing_of_the_first_s_on_any_page(address: str, browser: Any, errors: Errors) -> None:
    ids = fill(address)
    errors.expected += ["401", "403", "404"]
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(MOST_MS)
    context.add_init_script(WATCH)
    context.on("page", errors.watch)
    page = context.new_page()
    sign_in(page, address, GLOBEX)
    for path in sorted(SHOW_IT):
        page.goto(address + at(path, ids))
        page.locator("main").filter(has_text=SECRET).wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in?**")
    sign_in(page, address, ACME)
    seen, walked = [], pages()
    assert set(walked) >= SHOW_IT
    for path in walked:
        page.goto(address + at(path, ids))
        until(page, SETTLED)
        seen += [path] if "globex" in page.content() else []
    context.close()
    assert seen == []
    assert errors.unexpected() == []
