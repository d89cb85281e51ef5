"""Whoever is to hear of something hears of it: from the commit of the event to a real receiver."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook

from holdfast import Context, Engine, Workflow, human_gate, task, tool
from holdfast import flow as flow_
from holdfast.compose.notifying import notifications_of
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import Seq
from holdfast.core.views import notifications
from holdfast.core.views.notifications import Happening, Rule
from holdfast.engine.background import delivering
from holdfast.engine.background.notifying import DeclaredChannel, Lookout, Notifications, Notifier
from holdfast.errors import InvalidInput, UsageError
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.storage import open_store
from tests.crash import nightly
from tests.engine.kit import bounded
from tests.forks import Fork
from tests.tools.server import Asked, Server, says

SECRET = "whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPS_SECRET", SECRET)
    with Server() as server:
        yield server


def flow(name: str = "orders") -> Workflow:
    wf = Workflow(name)

    @wf.node("work")
    @task
    async def work(state: Any) -> dict[str, Any]:
        if state.input.get("fails"):
            raise ValueError("card 4111 is no good")
        return {}

    return wf


def asking() -> Workflow:
    wf = Workflow("asking")
    wf.node("approval")(human_gate(reviewers=["ann"])(lambda state: {"title": "Refund 12 to bob"}))
    return wf


def settings(receiver: Server, channel: dict[str, Any] | None = None, **rules: dict[str, Any]) -> Settings:
    reach = {"kind": "webhook", "url": f"{receiver.url}/in", "secrets": ["OPS_SECRET"], "allow_private": ["127.0.0.0/8"]}
    said = {name: {"channel": "ops", "digest_s": 0.0, **rule} for name, rule in rules.items()}
    return Settings(
        channels={"ops": reach | (channel or {})},
        notifications=said,
        public_url="https://h.example",  # type: ignore[arg-type]
    )


def bodies(receiver: Server) -> list[dict[str, Any]]:
    return [json.loads(each.body) for each in receiver.asked]


async def heard(receiver: Server, count: int) -> list[dict[str, Any]]:
    while len(receiver.asked) < count:
        await asyncio.sleep(0.02)
    return bodies(receiver)


async def until(seen: Callable[[], Any]) -> None:
    while not await seen():
        await asyncio.sleep(0.02)


@bounded
async def test_a_failed_run_is_told_signed_and_in_the_order_of_its_events(store: str, receiver: Server) -> None:
    known = settings(receiver, bad={"occasions": ["run_failed", "dead_letter"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        run = await engine.start(wf, {"fails": True}, tenant="acme")
        first, second = await heard(receiver, 2)
        assert [first["type"], second["type"]] == ["holdfast.dead_letter", "holdfast.run_failed"]
        assert first["data"]["seq"] < second["data"]["seq"]
        assert (second["data"]["run"], second["data"]["tenant"]) == (run.id, "acme")
        assert second["data"]["link"] == f"https://h.example/runs/{run.id}"
        for each in receiver.asked:
            assert Webhook(SECRET).verify(each.body, each.headers) == json.loads(each.body)
        assert b"4111" not in b"".join(each.body for each in receiver.asked)

        async def counted() -> bool:
            return [(each.channel, each.sent, each.waiting) for each in await engine.store.outbox.figures()] == [("ops", 2, 0)]

        await until(counted)


@bounded
async def test_who_is_asked_hears_of_it_with_the_page_of_the_gate(store: str, receiver: Server) -> None:
    known = settings(receiver, asked={"occasions": ["gate_opened"], "details": True, "title": "{workflow}: {title}"})
    wf = asking()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        run = await engine.start(wf, {})
        (body,) = await heard(receiver, 1)
        ((gate, _),) = await engine.gates(run_id=run.id)
        assert (body["data"]["gate"], body["data"]["reviewers"]) == (gate.gate, ["ann"])
        assert body["data"]["title"] == "asking: Refund 12 to bob"
        assert body["data"]["link"].startswith("https://h.example/inbox/")


@bounded
async def test_forty_gates_are_one_message(store: str, receiver: Server) -> None:
    known = settings(receiver, asked={"occasions": ["gate_opened"], "digest_s": 1.5})
    wf = asking()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        await asyncio.gather(*(engine.start(wf, {}) for _ in range(40)))
        (body,) = await heard(receiver, 1)
        assert (body["type"], body["data"]["count"]) == ("holdfast.digest", 40)


@bounded
async def test_a_rule_of_a_tenant_hears_of_its_own_runs_only(store: str, receiver: Server) -> None:
    known = settings(receiver, {"tenants": ["acme"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        for tenant in ("acme", "globex"):
            rule = Rule(tenant=tenant, name="ends", occasions=("run_completed",), channel="ops", digest_s=0)
            assert await engine.store.notification_rules.put(rule)
        for tenant in ("globex", "acme"):
            await (await engine.start(wf, {}, tenant=tenant)).result()
        (body,) = await heard(receiver, 1)
        assert body["data"]["tenant"] == "acme"
        assert await engine.store.outbox.listed(tenant="globex") == []


@bounded
async def test_a_rule_of_the_settings_is_listed_tested_and_not_changed(store: str, receiver: Server) -> None:
    known = settings(
        receiver, {"tenants": ["acme"]}, b={"occasions": ["run_failed"], "tenant": "acme"}, d={"occasions": ["doubt"]}
    )
    async with Engine.open(store, workflows=[flow()], settings=known) as engine:
        for name in ("a", "b", "c"):  # b was set before it stood in the settings
            rule = Rule(tenant="acme", name=name, occasions=("run_completed",), channel="ops", digest_s=0)
            assert await engine.store.notification_rules.put(rule)
        found = [(each.tenant, each.name, each.is_declared) for each in await engine.notification_rules()]
        assert found == [("*", "d", True), ("acme", "a", False), ("acme", "b", True), ("acme", "c", False)]
        assert [each.name for each in await engine.notification_rules("acme", after=("acme", "a"), limit=1)] == ["b"]
        assert (await engine.notification_rule("b", tenant="acme")).occasions == ("run_failed",)
        with pytest.raises(InvalidInput, match=r"holdfast.toml, as \[notifications.b\]"):
            await engine.set_notification_rule("b", ["run_failed"], "ops", tenant="acme")
        await engine.test_notification_rule("d", tenant="*")
        (body,) = await heard(receiver, 1)
        assert (body["type"], body["data"]["rule"]) == ("holdfast.test", "d")
        await (await engine.start("orders", {}, tenant="acme")).result()
        assert sorted(each["data"]["rule"] for each in await heard(receiver, 3)) == ["a", "c", "d"]
        await engine.remove_notification_rule("b", tenant="acme")
        with pytest.raises(InvalidInput, match="change it there"):
            await engine.remove_notification_rule("b", tenant="acme")


@bounded
async def test_the_end_of_a_run_is_told_where_its_start_says(store: str, receiver: Server) -> None:
    known = settings(receiver, {"tenants": ["ac*"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        for tenant, on_end in (("globex", "ops"), ("acme", "fax"), ("acme", "https://elsewhere.example/x")):
            with pytest.raises(InvalidInput, match="Nothing was started"):
                await engine.start(wf, {}, tenant=tenant, on_end=on_end)
        await (await engine.start(wf, {}, tenant="acme")).result()
        told = await engine.start(wf, {}, tenant="acme", on_end="ops")
        (body,) = await heard(receiver, 1)
        assert (body["type"], body["data"]["run"], body["data"]["rule"]) == ("holdfast.run_completed", told.id, "on_end")


@bounded
async def test_an_address_that_is_gone_is_disabled(store: str, receiver: Server) -> None:
    receiver.plan.append(says(410))
    known = settings(receiver, ends={"occasions": ["run_completed"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:

        async def has_died() -> bool:
            return len(await engine.store.outbox.listed(state="dead")) == len(runs)

        runs = [await engine.start(wf, {})]
        await until(has_died)
        runs.append(await engine.start(wf, {}))
        await until(has_died)
        assert len(receiver.asked) == 1
        (figures,) = await engine.store.outbox.figures()
        assert figures.disabled_at_ms is not None
        assert await engine.store.outbox.enable("ops", "")
        for each in await engine.store.outbox.listed(state="dead"):
            assert await engine.store.outbox.replay(each.id)
        found = await heard(receiver, 3)
        assert found[0] in found[1:]


@bounded
async def test_a_busy_receiver_gets_nothing_before_it_says(
    store: str, receiver: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.plan.append(says(429, Retry_After="600"))
    known = settings(receiver, ends={"occasions": ["run_completed"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        await engine.start(wf, {})
        await heard(receiver, 1)

        async def is_put_off() -> bool:
            (found,) = await engine.store.outbox.listed()
            return found.due_at_ms - engine.store.clock.now_ms() > 500_000

        await until(is_put_off)
        (figures,) = await engine.store.outbox.figures()
        assert (figures.failed, figures.waiting) == (1, 1)


@bounded
async def test_a_run_ends_while_its_receiver_hangs(store: str, receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(server: Server, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    receiver.plan += [hangs] * 50
    monkeypatch.setattr(delivering, "_SENDS_S", 0.2)
    known = settings(receiver, all={"occasions": ["run_completed", "run_failed"]})
    wf = flow()
    async with Engine.open(store, workflows=[wf], settings=known) as engine:
        runs = [await engine.start(wf, {}) for _ in range(3)]
        await heard(receiver, 1)
        assert [await run.result() for run in runs] == [{}] * 3
        later = await engine.start(wf, {})
        assert await later.result() == {}


@bounded
async def test_details_have_no_card_and_no_key_and_a_changed_question_no_button(store: str) -> None:
    rule = Rule(tenant="*", name="all", occasions=("gate_opened",), channel="ops", details=True)
    opened = await open_store(store)
    notifier = Notifier(opened, Notifications({"ops": DeclaredChannel("slack")}, (rule,)), lambda text: text)
    for title, is_changed in (("Refund 4111 1111 1111 1111 with AKIAIOSFODNN7EXAMPLE to ann", True), ("Refund ann", False)):
        values = {"title": title, "reviewers": ["ann@example.com"]}
        asked = Happening("gate_opened", "", "acme", 0, values, run="r1", seq=1, gate="g", question=("h1", ("approve",), False))
        (made,) = notifier.deliveries(asked, [rule])
        said = made.message.body.decode() + repr(made.message.facts)
        assert not any(each in said for each in ("4111 1111", "AKIA"))
        assert "ann@example.com" in said, "a name of the settings is no detail"
        assert (made.message.question is None) == is_changed
    await opened.aclose()


async def looked(store: Store, rule: Rule) -> list[dict[str, Any]]:
    """What a look finds for a rule."""
    declared = Notifications({"ops": DeclaredChannel("webhook")}, (rule,))
    notifier = Notifier(store, declared, lambda text: text)
    for _ in range(2):
        await Lookout(store, None, notifier, lambda: True).look()  # type: ignore[arg-type]
    return [json.loads(each.message.body)["data"] for each in await store.outbox.listed()]


@bounded
async def test_a_missed_schedule_is_told_once(store: str) -> None:
    wf = flow()
    rule = Rule(tenant="*", name="watch", occasions=("budget", "schedule_missed", "worker_lost"), channel="ops")
    async with Engine.open(store, workflows=[wf]) as engine:
        assert await looked(engine.store, rule) == []
        schedule = await engine.set_schedule("nightly", wf, "0 2 * * *", tenant="acme")
        found = await engine.store.schedules.find("acme", "nightly")
        assert found is not None
        missed = msgspec.structs.replace(schedule, missed=3)
        assert await engine.store.schedules.replace(missed, found.revision)
        (told,) = await looked(engine.store, rule)
        assert (told["subject"], told["workflow"], told["reason"]) == ("nightly", "orders", "missed")


@pytest.mark.parametrize(
    ("rule", "channel", "words"),
    [
        ({"occasions": ["gate_open"]}, {}, "unknown occasion 'gate_open'; use gate_opened"),
        ({"occasions": ["gate_opened"], "channel": "fax"}, {}, "there is no channel 'fax'"),
        ({"occasions": ["gate_opened"], "title": "{secret}"}, {}, "{secret} cannot be used in a template"),
    ],
)
def test_a_rule_of_the_settings_that_cannot_be_is_refused(
    receiver: Server, rule: dict[str, Any], channel: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as problem:
        notifications_of(settings(receiver, channel, wrong=rule))
    assert "[notifications.wrong]" in problem.value.message


@bounded
async def test_a_channel_without_its_secret_is_refused_when_a_process_starts(store: str, receiver: Server) -> None:
    known = settings(receiver, {"secrets": ["NOT_THERE"]})
    with pytest.raises(UsageError, match="NOT_THERE"):
        async with Engine.open(store, settings=known):
            raise AssertionError("it opened")


def test_tenants_reach_no_address_that_the_operator_did_not_allow() -> None:
    mail = DeclaredChannel("mail", ("*",), ("*.acme.example", "acme.example"))
    declared = Notifications(
        {"mail": mail, "hook": DeclaredChannel("webhook", ("*",), ("*.acme.example",))},
        people={"ann": {"mail": "ann@x.example"}},
    )
    rule = Rule(tenant="acme", name="r", occasions=("gate_opened",), channel="mail", revision=1)
    for to, is_right in (
        ("ann", True),
        ("@asked", True),
        ("bob@acme.example", True),
        ("bob@evil.example", False),
        ("bob", False),
    ):
        assert bool([*declared.problems(msgspec.structs.replace(rule, to=(to,)))]) != is_right, to
    given = msgspec.structs.replace(rule, to=("@asked", "bob@evil.example"))
    assert declared.recipients(given, ["ann", "eve@evil.example", "leads"]) == ("ann@x.example",)
    assert [each.path for each in declared.problems(msgspec.structs.replace(rule, channel="hook", to=("x",)))] == [("to",)]
    assert declared.at_end("acme", "https://in.acme.example/x?y") == ("hook", "https://in.acme.example/x?y")
    for wrong in (
        "http://in.acme.example/",
        "https://acme.example.evil.example/",
        "https://user@in.acme.example/",
        "https://in.acme.example@evil.example/",
        "https://evil.example/#.acme.example",
        "",
    ):
        with pytest.raises(InvalidInput):
            declared.at_end("acme", wrong)


@tool(effect="once", price_usd="0.30")
def pay(number: int) -> int:
    """Spend a third of what a day may cost."""
    return number


@flow_(tools=[pay])
async def paying(ctx: Context, times: int) -> int:
    for number in range(times):
        await ctx.tool(pay, number=number)
    return times


@bounded
async def test_a_day_s_budget_is_told_at_each_threshold_once(store: str) -> None:
    rule = Rule(tenant="acme", name="watch", occasions=("budget",), channel="ops")
    async with Engine.open(store, workflows=[paying]) as engine:
        await engine.set_budget("acme", "day", limit_usd="1.00")
        found = []
        for _ in range(3):
            await (await engine.start(paying, 1, tenant="acme")).result()
            found.append([(each["percent"], each["used"]) for each in reversed(await looked(engine.store, rule))])
        assert found == [[], [(50, "$0.60")], [(50, "$0.60"), (80, "$0.90")]]


@bounded
async def test_a_process_that_was_killed_is_told_to_rules_for_all_tenants(tmp_path: Path) -> None:
    process = Fork("tests.crash.nightly", tmp_path, 1, 20)
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    rule = Rule(tenant="*", name="watch", occasions=("worker_lost",), channel="ops")
    async with Engine.open(tmp_path / nightly.STORE, workflows=[nightly.report]) as engine:
        while not (found := await looked(engine.store, rule)):
            await asyncio.sleep(0.05)
        assert [(each["subject"].endswith(f":{process.pid}"), each["tenant"]) for each in found] == [(True, "*")]
        assert await looked(engine.store, msgspec.structs.replace(rule, tenant="acme")) == found


@bounded
async def test_an_address_that_does_not_answer_delays_only_itself(store: str, receiver: Server) -> None:
    heard_late, ended = asyncio.Event(), asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard_late.set()
        await ended.wait()
        writer.close()

    known = settings(receiver, ends={"occasions": ["run_completed"]})
    slow = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{slow.sockets[0].getsockname()[1]}/x"
    wf = flow()
    async with slow, Engine.open(store, workflows=[wf], settings=known) as engine:
        rule = Rule(tenant="default", name="on_end", occasions=("run_completed",), channel="ops", digest_s=0.0)
        late = [happened(f"01890000-0000-7000-8000-0000000000{number:02d}") for number in range(20)]
        await engine.store.outbox.add([notifications.delivery_of(rule, each, 0, None, (address,), address) for each in late])
        await heard_late.wait()
        await engine.start(wf, {})
        await heard(receiver, 1)
        tried = [each for each in await engine.store.outbox.listed(channel="ops") if each.address and each.attempts]
        assert len(tried) == 2
        assert {each.problem for each in tried} == {None}
        ended.set()


def happened(run: str) -> Happening:
    """The end of a run."""
    found = notifications.happening_of("default", "orders", run, Recorded(Seq(1), 0, ev.RunCompleted()))
    assert found is not None
    return found
