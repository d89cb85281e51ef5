"""Webhooks that come in: each vendor's request starts a run or sends a signal, once, and a forged one does nothing."""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from holdfast.errors import UsageError
from holdfast.http.hook import MAX_BYTES, Hook
from holdfast.service.access.identity import Holder
from holdfast.settings import HookRules, Secrets, Settings
from tests.http import hooks as senders
from tests.http.hooks import SECRETS, rules, sample, send
from tests.http.kit import Port, known, served

HOOKS = {
    "github": rules(
        "github",
        workflow="quick",
        only_if="headers.X-GitHub-Event == 'pull_request' && body.action == 'opened'",
        input={"title": "PR ${{ body.number }}: ${{ body.pull_request.title }}", "id": "${{ body.pull_request.id }}"},
    ),
    "stripe": rules("stripe", workflow="quick", input={"order": "${{ body.data.object.metadata.order }}"}),
    "standard": rules("standard", "STANDARD_SECRET", "STANDARD_BEFORE", workflow="order", input="${{ body.data }}"),
    "slack": rules("slack", workflow="quick", input={"text": "${{ body.text }}"}),
    "alerts": rules("secret", "SHARED_SECRET", workflow="quick", input={"names": "${{ body.alerts.*.labels.alertname }}"}),
    "gitlab": rules(
        "secret", "SHARED_SECRET", header="X-Gitlab-Token", workflow="quick", delivery="${{ headers.X-Request-Id }}"
    ),
    "rate": rules(
        "standard", action="signal", signal="rating", run="${{ body.run }}", data="${{ body.stars }}", workflow="rated"
    ),
    "rate_key": rules("standard", action="signal", signal="rating", key="order-${{ body.order }}", data="${{ body.stars }}"),
    "globex": rules("standard", tenant="globex", action="signal", signal="rating", run="${{ body.run }}", data=1),
    "nowhere": rules("standard", workflow="missing"),
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Port]:
    """Callers need a token; hooks do not."""
    async with served(folder, known(boss=Holder("boss")), hooks=HOOKS) as port:
        yield port


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with listening(tmp_path) as port:
        yield port


async def runs(port: Port) -> list[Any]:
    async with port.asked("boss" * 4) as boss:
        return await boss.rows("/runs")


async def input_of(port: Port, run: str) -> Any:
    async with port.asked("boss" * 4) as boss:
        return (await boss.get(f"/runs/{run}/events/1"))["input"]


VENDORS: list[tuple[str, str, Any, Any]] = [
    (
        "github",
        "github_pull_request.json",
        senders.github,
        {"title": "PR 2: Update the README with new information.", "id": 279147437},
    ),
    ("stripe", "stripe_event.json", senders.stripe, {"order": "tea"}),
    ("standard", "standard_event.json", senders.standard, {"item": "tea", "count": 3}),
    ("slack", "slack_command.form", senders.slack, {"text": "green tea & milk"}),
    ("alerts", "alertmanager.json", lambda _: senders.shared(), {"names": ["QueueDeep"]}),
]


@pytest.mark.parametrize(("hook", "name", "signed", "expected"), VENDORS, ids=[each[0] for each in VENDORS])
async def test_a_vendors_request_starts_one_run_however_often_it_comes(
    port: Port, hook: str, name: str, signed: Any, expected: Any
) -> None:
    body = sample(name)
    first = await send(port.address, hook, body, signed(body))
    assert first.status_code == 200, first.text
    many = await asyncio.gather(*(send(port.address, hook, body, signed(body)) for _ in range(8)))
    assert {(each.status_code, each.content) for each in many} == {(200, first.content)}
    (run,) = await runs(port)
    assert first.json() == {"run_id": run["run_id"]}
    given = await input_of(port, run["run_id"])
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize(("hook", "name", "signed", "expected"), VENDORS, ids=[each[0] for each in VENDORS])
async def test_an_unknown_hook_and_a_wrong_signature_have_one_answer(
    port: Port, hook: str, name: str, signed: Any, expected: Any
) -> None:
    body = sample(name)
    right = signed(body)
    wrong = [
        (hook, body, {}),
        (hook, body, {"content-type": right["content-type"]}),
        (hook, body, {each: value[::-1] if value != right["content-type"] else value for each, value in right.items()}),
        ("no-such-hook", body, right),
        ("no-such-hook", body, {}),
    ]
    if hook != "alerts":  # its secret is not about the body
        wrong += [(hook, body + b"\n", right), (hook, body.replace(b" ", b"", 1) if b" " in body else body[1:], right)]
    answers = [await send(port.address, *each) for each in wrong]
    said = [{key: value for key, value in each.json().items() if key != "trace_id"} for each in answers]
    assert {each.status_code for each in answers} == {404}
    assert all(each == said[0] for each in said)
    assert all(sorted(each.headers) == sorted(answers[0].headers) for each in answers)
    assert await runs(port) == []
    async with port.asked("boss" * 4) as boss:
        entries = await boss.rows("/audit")
        assert {each["action"] for each in entries} == {"LogIn"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_only_a_post_does_something(port: Port, method: str) -> None:
    body = sample("standard_event.json")
    for hook in ("standard", "no-such-hook"):
        assert (await send(port.address, hook, body, senders.standard(body), method)).status_code == 405
    assert await runs(port) == []


async def test_a_signature_of_another_time_does_nothing(port: Port) -> None:
    body, old = sample("stripe_event.json"), int(time.time()) - 310
    assert (await send(port.address, "stripe", body, senders.stripe(body, old))).status_code == 404
    form = sample("slack_command.form")
    assert (await send(port.address, "slack", form, senders.slack(form, at_s=old))).status_code == 404
    assert await runs(port) == []


async def test_an_old_secret_is_accepted_while_it_is_declared(port: Port) -> None:
    body = sample("standard_event.json")
    for number, secret in enumerate((senders.STANDARD, senders.BEFORE)):
        assert (await send(port.address, "standard", body, senders.standard(body, f"msg_{number}", secret))).status_code == 200
    assert len(await runs(port)) == 2


async def test_a_delivery_is_known_by_its_id_else_by_its_body(port: Port) -> None:
    body = sample("github_pull_request.json")
    for delivery in ("one", "two", "one"):
        assert (await send(port.address, "github", body, senders.github(body, delivery))).status_code == 200
    assert len(await runs(port)) == 2
    event = sample("stripe_event.json")
    for pending in (b'"pending_webhooks": 1', b'"pending_webhooks": 0'):
        sent = event.replace(b'"pending_webhooks": 1', pending)
        answered = await send(port.address, "stripe", sent, senders.stripe(sent))
        assert answered.status_code == 200, answered.text
    assert len(await runs(port)) == 3
    form = sample("slack_command.form")
    for sent in (form, form.replace(b"green", b"black"), form):
        assert (await send(port.address, "slack", sent, senders.slack(sent))).status_code == 200
    assert len(await runs(port)) == 5
    gitlab = {"content-type": "application/json", "x-gitlab-token": senders.SHARED}
    for request in ("r1", "r2", "r1"):
        assert (await send(port.address, "gitlab", b"{}", {**gitlab, "x-request-id": request})).status_code == 200
    assert len(await runs(port)) == 7
    assert (await send(port.address, "gitlab", b"{}", gitlab)).status_code == 422


async def test_what_the_condition_leaves_out_is_answered_and_does_nothing(port: Port) -> None:
    body = sample("github_pull_request.json").replace(b'"opened"', b'"closed"')
    answered = await send(port.address, "github", body, senders.github(body))
    assert (answered.status_code, answered.json()) == (200, {"run_id": None})
    ping = b'{"zen": "Design for failure.", "hook_id": 1}'
    assert (await send(port.address, "github", ping, senders.github(ping, event="ping"))).json() == {"run_id": None}
    assert await runs(port) == []


async def test_a_request_signals_its_run_once_also_when_that_has_ended(port: Port) -> None:
    async with port.asked("boss" * 4) as boss:
        run = (await boss.post("/runs", {"workflow": "rated", "key": "order-7"}))["run_id"]
        body = f'{{"run": "{run}", "stars": 5}}'.encode()
        assert (await send(port.address, "globex", body, senders.standard(body))).status_code == 404
        first = await send(port.address, "rate", body, senders.standard(body))
        assert (first.status_code, first.json()) == (200, {"run_id": run})
        assert (await boss.get(f"/runs/{run}"))["run_id"] == run
        ended = await boss.said("GET", f"/runs/{run}", prefer="wait=10")
        assert ended.json()["status"] == "completed"
        again = await send(port.address, "rate", body, senders.standard(body))
        assert (again.status_code, again.content) == (200, first.content)
        other = await send(port.address, "rate", body, senders.standard(body, "msg_other"))
        assert (other.status_code, other.json()["code"]) == (409, "run_ended")
        events = [each for each in await boss.rows(f"/runs/{run}/events") if each["type"] == "SignalReceived"]
        assert [(each["by"], each["client"]) for each in events] == [("hook:rate", "hook:rate")]


async def test_a_signal_finds_its_run_by_start_key(port: Port) -> None:
    async with port.asked("boss" * 4) as boss:
        run = (await boss.post("/runs", {"workflow": "rated", "key": "order-7"}))["run_id"]
        body = b'{"order": 7, "stars": 4}'
        assert (await send(port.address, "rate_key", body, senders.standard(body))).json() == {"run_id": run}
        unknown = b'{"order": 8, "stars": 4}'
        assert (await send(port.address, "rate_key", unknown, senders.standard(unknown, "msg_8"))).status_code == 404
        nothing = b'{"stars": 4}'
        assert (await send(port.address, "rate", nothing, senders.standard(nothing, "msg_9"))).status_code == 422
        counted = (await boss.post("/runs", {"workflow": "counting", "input": 1}))["run_id"]
        strange = f'{{"run": "{counted}", "stars": 5}}'.encode()
        assert (await send(port.address, "rate", strange, senders.standard(strange, "msg_10"))).status_code == 404


async def test_the_audit_log_says_which_hook_acted(port: Port) -> None:
    body = sample("standard_event.json")
    run = (await send(port.address, "standard", body, senders.standard(body))).json()["run_id"]
    async with port.asked("boss" * 4) as boss:
        (entry,) = [each for each in await boss.rows("/audit") if each["action"] == "Start"]
        assert (entry["name"], entry["client"], entry["about"], entry["outcome"]) == (
            "hook:standard",
            "hook:standard",
            run,
            "done",
        )
        assert (entry["tenant"], entry["verified"]) == ("default", True)
        (started,) = [each for each in await boss.rows(f"/runs/{run}/events") if each["type"] == "RunStarted"]
        assert started["client"] == "hook:standard"


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"data": ["wrong"]}'])
async def test_a_signed_body_that_does_not_fit_is_refused_and_can_be_sent_right(port: Port, body: bytes) -> None:
    answered = await send(port.address, "standard", body, signed_by_hand(body))
    assert answered.status_code == 422, answered.text
    right = sample("standard_event.json")
    assert (await send(port.address, "standard", right, signed_by_hand(right))).status_code == 200
    assert len(await runs(port)) == 1


async def test_github_may_send_its_json_as_a_field_of_a_form(port: Port) -> None:
    body = urlencode({"payload": sample("github_pull_request.json").decode()}).encode()
    headers = {**senders.github(body), "content-type": senders.FORM}
    answered = await send(port.address, "github", body, headers)
    assert answered.status_code == 200, answered.text
    assert (await input_of(port, answered.json()["run_id"]))["title"] == "PR 2: Update the README with new information."
    for wrong, words in ((b"other=1", "no field `payload`"), (b"payload=%7B", "payload is no JSON")):
        refused = await send(port.address, "github", wrong, {**senders.github(wrong), "content-type": senders.FORM})
        assert refused.status_code == 422
        assert words in refused.text
    forged = await send(port.address, "github", body + b"+", headers)
    assert forged.status_code == 404


def signed_by_hand(body: bytes) -> dict[str, str]:
    """The package signs text alone."""
    from base64 import b64decode, b64encode
    from hashlib import sha256
    from hmac import digest

    at = f"{int(time.time())}"
    signature = b64encode(digest(b64decode(senders.STANDARD[6:]), f"msg_1.{at}.".encode() + body, sha256)).decode()
    return {**senders.shared(), "webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}


async def test_a_body_is_bounded(port: Port) -> None:
    body = b'"' + b"x" * MAX_BYTES + b'"'
    assert (await send(port.address, "standard", body, senders.standard(body))).status_code == 413
    assert await runs(port) == []


async def test_a_workflow_that_is_not_there_is_an_answer_to_who_signs(port: Port) -> None:
    body = sample("standard_event.json")
    answered = await send(port.address, "nowhere", body, senders.standard(body))
    assert (answered.status_code, answered.json()["code"]) == (404, "not_found")


async def test_refused_requests_of_an_address_are_limited_and_signed_ones_are_not(port: Port) -> None:
    body = sample("standard_event.json")
    codes = [(await send(port.address, "no-such-hook", b"", {})).status_code for _ in range(70)]
    assert codes[:60] == [404] * 60
    assert 429 in codes[60:]
    limited = await send(port.address, "standard", body, {})
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "60"
    assert (await send(port.address, "standard", body, senders.standard(body))).status_code == 200


async def test_slack_learns_that_the_address_is_ours(port: Port) -> None:
    body = b'{"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P", "type": "url_verification"}'
    answered = await send(port.address, "slack", body, senders.slack(body, "application/json"))
    assert (answered.status_code, answered.text) == (200, "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")
    assert (await send(port.address, "slack", body, {"content-type": "application/json"})).status_code == 404
    assert await runs(port) == []


async def test_no_secret_of_a_hook_is_kept(port: Port) -> None:
    body = f'{{"type": "x", "data": {{"item": "{senders.STANDARD} {senders.SHARED}"}}}}'.encode()
    run = (await send(port.address, "standard", body, senders.standard(body))).json()["run_id"]
    kept = str(await input_of(port, run))
    assert senders.STANDARD not in kept
    assert senders.SHARED not in kept


# --- What is declared -------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"scheme": "github", "secrets": ["GITHUB_SECRET"], "workflow": "quick"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"scheme": "gitlab"}, "scheme"),
        ({"secrets": []}, "secrets"),
        ({"workflow": None, "action": "signal"}, "needs signal"),
        ({"action": "signal", "signal": "x"}, "either run or key"),
        ({"action": "signal", "signal": "x", "run": "a", "key": "b"}, "either run or key"),
        ({"signal": "x"}, "signal does not go with action 'start'"),
        ({"people": {"T1/U1": "ann"}}, "people does not go with"),
        ({"header": "X-Token"}, "header does not go with"),
        ({"code": "print()"}, "code"),
        ({"workflow": None}, "workflow"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    given = {name: value for name, value in {**GOOD, **more}.items() if value is not None}
    with pytest.raises(ValueError, match=words):
        Settings(hooks={"shop": given})
    decide = {"scheme": "github", "secrets": ["S"], "action": "decide", "people": {}}
    with pytest.raises(ValueError, match="for scheme 'slack'"):
        HookRules.model_validate(decide)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"input": "${{ bdy.id }}"}, "input reads 'bdy', which a request does not have. Did you mean body"),
        ({"input": {"a": ["${{ secrets.KEY }}"]}}, r"input.a\[0\] reads 'secrets'"),
        ({"input": {"a": "${{ env.HOME }}"}}, "input.a reads 'env'"),
        ({"input": "${{ hashFiles('/etc/passwd') }}"}, "input cannot be read: hashFiles"),
        ({"input": "${{ body.a"}, "input cannot be read"),
        ({"input": "${{ always() }}"}, "input calls always"),
        ({"only_if": "success()"}, "only_if calls success"),
        ({"only_if": "x ${{ body.a }}"}, "only_if has text beside its expression, and would always hold"),
        ({"only_if": "body.a ="}, "only_if cannot be read"),
        ({"delivery": "${{ delivery }}"}, "delivery reads 'delivery'"),
    ],
)
def test_an_expression_that_reads_nothing_of_a_request_is_refused_at_the_start(more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=rf"\[hooks.shop\]: {words}"):
        Hook("shop", HookRules.model_validate({**GOOD, **more}), Secrets())


def test_a_missing_secret_is_said_at_the_start_with_the_name_of_the_hook() -> None:
    with pytest.raises(UsageError, match=r"\[hooks.shop\]: There is no secret 'NO_SUCH_SECRET'") as problem:
        Hook("shop", HookRules.model_validate({**GOOD, "secrets": ["NO_SUCH_SECRET"]}), Secrets())
    assert ".." not in problem.value.message


@pytest.mark.parametrize(
    "more", [{"only_if": "body.a ="}, {"input": "${{ hashFiles('/etc/passwd') }}"}, {"input": "${{ body.a"}]
)
def test_the_error_of_a_hook_ends_once(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as problem:
        Hook("shop", HookRules.model_validate({**GOOD, **more}), Secrets(environment={"GITHUB_SECRET": "s" * 32}))
    assert problem.value.message.count("Nothing was") == 1
    assert not re.search(r"[….]\. Nothing", problem.value.message)


def test_the_hooks_of_the_page_can_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "webhooks.md").read_text()
    declared = [tomllib.loads(each)["hooks"] for each in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    for name, given in ((name, given) for each in declared for name, given in each.items()):
        found = Settings(hooks={name: given}).hooks[name]
        for secret in found.secrets:
            monkeypatch.setenv(secret, "a secret that is long enough")
        Hook(name, found, Secrets())
    assert len(declared) == 2
