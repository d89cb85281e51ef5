"""The console in a real browser, against a real server: Debian's Chromium, driven by Playwright on the built bundle.

A test fails with any violation of the content security policy and any error on the browser's console. Never here: what a page
is to show.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.http import console
from tests.e2e.console.server import DevServer

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make setup")

ROOT: Final = Path(__file__).parents[3]
AXE: Final = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MOST_MS: Final = 15_000
"""Bound on each wait of a page."""
WATCH: Final = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
_SERIOUS: Final = {"serious", "critical"}
_SHORT: Final = "test_first_run.py"
"""The selection that every run of the suite has."""


def chromium() -> str | None:
    """Return the browser of this machine."""
    return os.environ.get("HOLDFAST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the console but the first to `make e2e`, or to one who names them. Skip them where there is no browser
    or no build, and say which."""
    here = Path(__file__).parent
    ours = [each for each in items if each.path.parent == here]
    if os.environ.get("HOLDFAST_E2E") != "all" and not any("e2e/console" in name for name in config.args):
        left = [each for each in ours if each.path.name != _SHORT]
        gone = {id(each) for each in left}
        items[:] = [each for each in items if id(each) not in gone]
        config.hook.pytest_deselected(items=left)
        ours = [each for each in ours if id(each) not in gone]
    missing = None
    if chromium() is None:
        missing = "there is no Chromium: apt-get install chromium"
    elif not console.find().is_built:
        missing = "the console is not built: make console"
    for item in ours if missing is not None else ():
        item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for the tests of a module: while it lives, this process has an event loop of its own, in which no other test
    can run one."""
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A `holdfast dev` for the tests of a module."""
    server = DevServer(tmp_path_factory.mktemp("dev"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def signed_in(browser: Any, dev: DevServer) -> Any:
    """The cookie that the address of `dev` gives, once."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(dev.once)
    page.wait_for_url("**/runs")
    state = context.storage_state()
    context.close()
    return state


class Errors(list[str]):
    """What the browser reported. `expected` are parts of those that a test provokes."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[str] = []

    def watch(self, page: Any) -> None:
        """Collect what a page reports."""
        page.on("console", lambda said: said.type == "error" and self.append(f"{said.text} {said.location.get('url', '')}"))
        page.on("pageerror", lambda error: self.append(str(error)))

    def unexpected(self) -> list[str]:
        """Return the errors that no test provoked."""
        return [each for each in self if not any(part in each for part in self.expected)]


@pytest.fixture
def errors() -> Errors:
    """What the browser reports during a test. Append to `expected` what the test provokes."""
    return Errors()


@pytest.fixture
def open_page(browser: Any, signed_in: Any, errors: Errors) -> Iterator[Callable[..., Any]]:
    """Make pages that are signed in. Options are those of Playwright's contexts: `viewport`, `color_scheme`, `timezone_id`."""
    contexts = []

    def opened(**options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 800}, "timezone_id": "Asia/Kolkata", **options}
        context = browser.new_context(storage_state=signed_in, **options)
        contexts.append(context)
        context.set_default_timeout(MOST_MS)
        context.add_init_script(WATCH)
        context.on("page", errors.watch)
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()
    assert errors.unexpected() == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    """A page of 1,280 pixels, signed in, not yet anywhere: `page.goto(f"{dev.address}/runs")`."""
    return open_page()


def until(page: Any, met: str, given: Any = None) -> None:
    """Look until this JavaScript is true. Playwright's `wait_for_function` evaluates a text inside the page from its second look
    on, and the policy forbids that: it fails unless the first look finds it true."""
    late_s = time.monotonic() + MOST_MS / 1000
    while not page.evaluate(met, given):
        assert time.monotonic() < late_s, f"never true: {met}"
        page.wait_for_timeout(50)


def findings(page: Any) -> list[str]:
    """Return the serious findings of axe about the page as it is: the rule, and the elements."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make console")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {', '.join(node['html'][:120] for node in each['nodes'][:5])}"
        for each in found
        if each["impact"] in _SERIOUS
    ]
