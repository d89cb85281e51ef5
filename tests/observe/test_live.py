"""A real Prometheus scrapes a real fleet: every query of the dashboard answers, and an alert arrives at its receiver."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from holdfast import Engine
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import Seq
from holdfast.core.views import notifications
from holdfast.core.views.notifications import Rule
from holdfast.testing.model_server import ModelServer
from holdfast.testing.model_server import Rule as ModelRule
from holdfast.testing.redis_server import RedisServer
from holdfast.testing.server_process import free_port
from tests.engine.kit import gate_of
from tests.observe.queries import RULES, panels

FILE: Final = Path(__file__).with_name("metered.py")
CANARY: Final = "canary-4111-1111-1111-1111"
TOKEN: Final = "a-token-of-the-test"
MAX_S: Final = 60.0
DOCS: Final = "https://docs.example.com"


@contextmanager
def running(words: list[str | Path], folder: Path, environment: dict[str, str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, until the end of the block."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait(MAX_S)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=MAX_S) as answer:
        body = answer.read()
    return json.loads(body) if "json" in answer.headers["content-type"] else body.decode()


async def until(what: Callable[[], Any], words: str) -> Any:
    """Wait until something is true; errors of a server that does not answer yet are waited for, too."""
    found: Any = None
    try:
        async with asyncio.timeout(MAX_S):
            while True:
                try:
                    found = await asyncio.to_thread(what)
                except OSError as problem:
                    found = problem
                else:
                    if found:
                        return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{words}: {found!r}") from None


@contextmanager
def receiving() -> Iterator[tuple[str, list[Any]]]:
    """A receiver of webhooks, and what it got."""
    got: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", got
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def watching(programs: Path, folder: Path, targets: list[str], receiver: str) -> Iterator[str]:
    """A Prometheus that scrapes `targets` each second, with the rules of `deploy`, and an Alertmanager that tells `receiver`."""
    port, manager = free_port(), free_port()
    rules = YAML(typ="safe").load(RULES.read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)
    config = YAML(typ="safe").load(RULES.with_name("prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "external_labels": {"holdfast_docs": DOCS}}
    config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
    config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager}"]}]}]}
    for file, found in {"alerts.yaml": rules, "prometheus.yaml": config}.items():
        (folder / file).write_text(json.dumps(found))
    route = {"receiver": "hook", "group_wait": "100ms", "group_interval": "1s", "repeat_interval": "1h"}
    hook = {"name": "hook", "webhook_configs": [{"url": receiver}]}
    (folder / "alertmanager.yaml").write_text(json.dumps({"route": route, "receivers": [hook]}))
    for template in (programs.parent / "share" / "prometheus" / "alertmanager").glob("*.tmpl"):
        shutil.copy(template, folder)
    managing = [
        programs / "prometheus-alertmanager",
        f"--config.file={folder}/alertmanager.yaml",
        f"--storage.path={folder}/alerts",
        f"--web.listen-address=127.0.0.1:{manager}",
        "--cluster.listen-address=",
    ]
    scraping = [
        programs / "prometheus",
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/series",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(managing, folder, {}, "alertmanager"), running(scraping, folder, {}, "prometheus"):
        yield f"http://127.0.0.1:{port}"


def answer(prometheus: str, query: str) -> list[Any]:
    found = get(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    assert found["status"] == "success", found
    return list(found["data"]["result"])


def request(url: str, body: dict[str, Any] | None = None) -> Any:
    """Ask over HTTP or, with a body, command, as a user does: what a process with a port commits is counted there."""
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    sent = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(sent, timeout=MAX_S) as reply:
            return json.loads(reply.read() or b"null")
    except urllib.error.HTTPError as problem:
        raise AssertionError(f"{url}: {problem.read().decode()}") from None


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_dashboard_of_a_real_fleet_has_no_empty_panel_and_an_alert_arrives(
    programs: Path, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "holdfast.toml").write_text(
        f'[pools.GPU]\nslots = 2\n[telemetry]\nendpoint = "{nowhere}"\n'  # a receiver that is away: spans wait for it
    )
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    served, api, first, second = (free_port() for _ in range(4))
    targets = [f"127.0.0.1:{each}" for each in (served, first, second)]
    api_of_fleet = f"http://127.0.0.1:{api}/api/v1"
    command = [sys.executable, "-m", "holdfast"]
    workflows = [f"{FILE}:{name}" for name in ("bill", "fails", "slow")]
    with ExitStack() as stack:
        queue = stack.enter_context(RedisServer())
        models = stack.enter_context(ModelServer(journal=tmp_path / "model-calls.jsonl"))
        models.script.add(ModelRule(text="Yes."))
        known = {"HOLDFAST_STORE": database, "HOLDFAST_QUEUE": queue.url, "HOLDFAST_LEASE_S": "2", **models.environment}
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(FILE.parents[2]), **known}
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        serve = [*command, "serve", "--port", str(served), "--http", f"127.0.0.1:{api}", "--token-file", "token"]
        stack.enter_context(running(serve, tmp_path, environment, "serve"))
        workers = [
            stack.enter_context(
                running([*command, "worker", *workflows, "--port", str(port)], tmp_path, environment, f"worker-{port}")
            )
            for port in (first, second)
        ]
        receiver, got = stack.enter_context(receiving())
        for target in targets:
            await until(lambda target=target: get(f"http://{target}/readyz") == "ok\n", target)  # type: ignore[misc]
        prometheus = stack.enter_context(watching(programs, tmp_path, targets, receiver))
        async with Engine.open(database, execute=False) as engine:
            slow = await engine.start("slow", {"folder": str(tmp_path)})
            (began,) = await until(lambda: [*tmp_path.glob("began-*")], "the slow step begins")
            bills = [await engine.start("bill", {"note": CANARY}, tenant="acme") for _ in range(3)]
            gate = urllib.parse.quote(await gate_of(bills[0]), safe="")
            shown = await asyncio.to_thread(request, f"{api_of_fleet}/gates/{gate}")
            decision = {"decision": "approve", "shown_hash": shown["shown_hash"]}
            await asyncio.to_thread(request, f"{api_of_fleet}/gates/{gate}/decision", decision)
            store = engine.runtime.store
            rule = Rule(tenant="acme", name="all", occasions=("run_completed",), channel="ops", digest_s=0.0)
            event = Recorded(Seq(9), store.clock.now_ms(), ev.RunCompleted())
            happening = notifications.happening_of("acme", "bill", bills[0].id, event)
            assert happening is not None
            await store.outbox.add([notifications.delivery_of(rule, happening, store.clock.now_ms(), None, ())])
            for _ in range(2):
                await asyncio.to_thread(request, f"{api_of_fleet}/runs", {"workflow": "fails", "input": {}})

            busy = "max(holdfast_worker_utilization_ratio) > 0"
            await until(lambda: answer(prometheus, busy), "a worker at work is not shown as idle")
            victim = next(each for each in workers if str(each.pid) == began.name.removeprefix("began-"))
            victim.kill()
            await until(lambda: len([*tmp_path.glob("began-*")]) == 2, "another worker begins the slow step again")
            (tmp_path / "go").touch()
            await slow.result()
            # The others may all have been the victim's, whose counters went with it.
            bills.append(await engine.start("bill", {"note": CANARY}, tenant="acme"))

            for title, queries in panels().items():
                for query in queries:
                    await until(lambda query=query: answer(prometheus, query), f"{title}: {query}")  # type: ignore[misc]

            def value(query: str) -> float:
                return float(answer(prometheus, query)[0]["value"][1])

            dead = f"127.0.0.1:{(first, second)[workers.index(victim)]}"
            await until(lambda: value('sum(holdfast_cost_nanodollars_total{tenant="acme"})') > 0, "the cost of tenant acme")
            await until(lambda: value('max(holdfast_queue_depth{reason="slot"})') == 0, "nothing is in line")
            await until(lambda: value('max(holdfast_pool_limit{pool="GPU"})') == 2, "the limit of a pool")
            await until(lambda: value('sum(max by (age) (holdfast_gates_open{age="under_1h"}))') == 3, "the open gates")
            await until(lambda: value('max(holdfast_follower_lag_seconds{sink="traces"})') > 0, "a sink lags")

            alert = await until(
                lambda: [each for hook in got for each in hook["alerts"] if each["labels"].get("instance") == dead],
                "an alert arrives",
            )
            assert alert[0]["labels"]["alertname"] == "HoldfastProcessDown"
            assert alert[0]["annotations"]["runbook_url"] == f"{DOCS}/runbooks/process-down.html"
            assert (FILE.parents[2] / "docs" / "runbooks" / "process-down.md").exists()

        for target in set(targets) - {dead}:
            text = get(f"http://{target}/metrics")
            found = subprocess.run(
                [programs / "promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False
            )
            assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
            assert CANARY not in text
            assert TOKEN not in text
            assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-7", text), "no run is named"
