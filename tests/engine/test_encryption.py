"""With `encrypt = "payloads"` nothing that users have stored stands readable in the store, and everything is read as before."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Chat, Context, OperationFailed, RetryPolicy, Run, Workflow, flow, human_gate, task, tool
from holdfast.core.values.access import Access
from holdfast.engine.runs.payloads import INLINE_BYTES
from holdfast.errors import Conflict, KeyMissing, NotFound, StoreError
from holdfast.models.providers import Providers
from holdfast.service.declarations.command import DeleteConversation
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.storage import open_administration, open_store, sealing_of
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import die, gate_of, opened

CANARY = "canary-7d31"
TENANTS = ("default", "acme", "globex")


def written(path: Path, *tenants: str) -> Settings:
    """Settings with a key file that has keys of these tenants only."""
    lines = [f'{each} = "{base64.b64encode(bytes([TENANTS.index(each)]) * 32).decode()}"' for each in tenants]
    path.unlink(missing_ok=True)
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return Settings(key_file=path, encrypt="payloads")


def key_file(path: Path, *keys: int) -> Path:
    """A key file in which the tenant `default` has these keys."""
    path.write_text(f"default = {[base64.b64encode(bytes([key]) * 32).decode() for key in keys]}")
    path.chmod(0o600)
    return path


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    return written(tmp_path / "keys.toml", *TENANTS)


def telling() -> Workflow:
    """Stores a canary in every way that there is."""
    wf = Workflow("telling", on_exhausted="dead_letter")

    @tool(effect="once")
    async def send(to: str) -> dict[str, Any]:
        return {"sent": f"{CANARY}-response to {to}"}

    @tool(effect="once")
    async def fail(to: str) -> None:
        raise ValueError(f"{CANARY}-error of {to}")

    @wf.node("work")
    @task(tools=[send, fail])
    async def work(state, ctx):
        await ctx.stream("progress").write(f"{CANARY}-stream")
        sent = await ctx.tool("send", to=f"{CANARY}-request", unique="tenant", key=f"send:{state.input['n']}")
        try:
            await ctx.tool("fail", to=f"{CANARY}-request")
        except OperationFailed as failed:
            message = failed.message
        await ctx.shared("board").write("case", f"{CANARY}-shared")
        signal = await ctx.wait_signal("go")
        return [sent, message, signal, (await ctx.shared("board").read("case")).value]

    @wf.node("large")
    @task
    async def large(state, ctx):
        return {"text": f"{CANARY}-blob " * INLINE_BYTES}

    @wf.node("gate")
    @human_gate
    async def gate(state, ctx):
        return {"diff": f"{CANARY}-shown", "subject": f"{CANARY}-subject"}

    @wf.node("broken")
    @task(retry=RetryPolicy(max_attempts=1))
    async def broken(state, ctx):
        raise RuntimeError(f"{CANARY}-dead letter")

    wf.edge("work", "large")
    wf.edge("large", "gate")
    wf.edge("gate", "broken")
    return wf


@flow
async def parrot(ctx: Context, chat: Chat) -> str:
    return f"{chat.text} back"


async def walked(run: Run[Any], engine: Any) -> None:
    """Take a telling run to its dead letter."""
    await run.until(lambda state: bool(state.steps["work"].pending))
    await engine.signal(run.id, "go", f"{CANARY}-signal")
    await engine.decide(await gate_of(run), "approve", reason=f"{CANARY}-decision")
    await run.until(lambda state: bool(state.dead_letters()))


async def test_what_users_have_stored_is_readable_with_its_key_only(
    store: str, stored: Callable[[], bytes], known: Settings, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text=f"{CANARY}-reply"))
    wf = telling()
    ask = Workflow("ask")

    @ask.node("ask")
    @task
    async def ask_(state, ctx):
        return await ctx.model("claude-haiku-4-5", f"{CANARY}-prompt", max_tokens=100)

    async with opened(store, workflows=[wf, ask, parrot], settings=known, model=model) as engine:
        run = await engine.start(wf, {"n": 1, "text": f"{CANARY}-input"}, key="once", tenant="acme")
        await walked(run, engine)
        again = await engine.start(wf, {"n": 1, "text": f"{CANARY}-input"}, key="once", tenant="acme")
        assert again.id == run.id, "the digest of its input is read back"
        assert await (await engine.start(ask, None, tenant="acme")).result() == f"{CANARY}-reply"
        await engine.set_schedule("nightly", wf, "0 3 * * *", input={"n": 2, "text": f"{CANARY}-schedule"}, tenant="acme")
        await engine.open_conversation("c", parrot, tenant="acme")
        said = await engine.send_message("c", f"{CANARY}-message", tenant="acme")
        assert (await engine.reply("c", said.number, tenant="acme")).reply == f"{CANARY}-message back"
        ports = engine.runtime.store
        assert CANARY.encode() in msgspec.json.encode(await ports.schedules.find("acme", "nightly"))
        assert CANARY in repr([await each async for each in _lists(ports, run)])
        await die(engine)
    assert b"StepCompleted" in stored(), "names of events are no content"
    assert CANARY.encode() not in stored()
    assert base64.b64encode(CANARY.encode())[:-2] not in stored()
    async with opened(store, workflows=[wf], settings=known) as engine:
        found = engine.run(run.id)
        state = await found.state()
        assert await engine.payloads.value(state.input, "acme") == {"n": 1, "text": f"{CANARY}-input"}
        large = await engine.payloads.value(state.steps["large"].output, "acme")
        assert large == {"text": f"{CANARY}-blob " * INLINE_BYTES}
        assert CANARY in repr(await found.events())


async def _lists(ports: Any, run: Run[Any]) -> Any:
    for each in (
        ports.views.effects(run=run.id),
        ports.dead_letters.letters(run=run.id),
        ports.conversations.exchanges("acme", "c"),
        ports.shared_values.find("acme", "board", "case"),
    ):
        yield each


async def test_a_tenant_without_a_key_stores_nothing_and_others_go_on(
    store: str, stored: Callable[[], bytes], tmp_path: Path
) -> None:
    wf = telling()
    settings = written(tmp_path / "keys.toml", "default", "acme")
    async with opened(store, workflows=[wf], settings=settings) as engine:
        with pytest.raises(KeyMissing, match="'globex' has no key"):
            await engine.start(wf, {"n": 1, "text": CANARY}, tenant="globex")
        run = await engine.start(wf, {"n": 1, "text": CANARY}, tenant="acme")
        await run.until(lambda state: bool(state.steps["work"].pending))
        listed = await engine.runtime.store.views.runs(tenant="globex")
        assert listed == []
    assert CANARY.encode() not in stored()


async def test_a_deleted_key_erases_one_tenant_and_hinders_no_other(store: str, tmp_path: Path) -> None:
    wf = telling()
    settings = written(tmp_path / "keys.toml", *TENANTS)
    async with opened(store, workflows=[wf, parrot], settings=settings) as engine:
        runs = {}
        for tenant in ("acme", "globex"):
            runs[tenant] = await engine.start(wf, {"n": 1, "text": CANARY}, tenant=tenant)
            await walked(runs[tenant], engine)
            await engine.set_schedule("nightly", wf, "0 3 * * *", input={"n": 2}, tenant=tenant)
    async with opened(store, workflows=[wf, parrot], settings=written(tmp_path / "keys.toml", "default", "globex")) as engine:
        ports = engine.runtime.store
        with pytest.raises(KeyMissing, match="was deleted"):
            await engine.run(runs["acme"].id).state()
        assert CANARY in repr(await engine.run(runs["globex"].id).events())
        told, _ = await ports.tail.after(None, 1000)
        assert {each.run for each in told} == {runs["globex"].id}
        assert [each.schedule.tenant for each in await ports.schedules.page(None, None, 9)] == ["globex"]
        effects, letters = await ports.views.effects(), await ports.dead_letters.letters()
        for tenant, shown in (("acme", False), ("globex", True)):
            mine = [each for each in effects if each[0].run == runs[tenant].id]
            assert len(mine) == 2
            assert (CANARY in repr(mine)) == shown
            assert (CANARY in repr([each for each in letters if each.letter.run == runs[tenant].id])) == shown
        assert len(letters) == 2


async def test_a_conversation_whose_key_is_gone_is_deleted_unread(store: str, tmp_path: Path) -> None:
    async with opened(store, workflows=[parrot], settings=written(tmp_path / "keys.toml", *TENANTS)) as engine:
        for tenant in ("acme", "globex"):
            await engine.open_conversation("desk", parrot, tenant=tenant)
            await engine.send_message("desk", CANARY, tenant=tenant)
    left = written(tmp_path / "keys.toml", "default", "globex")
    async with opened(store, workflows=[parrot], settings=left) as engine:
        service = Service(engine, [parrot])
        with pytest.raises(KeyMissing):
            await engine.conversation("desk", tenant="acme")
        some = Principal("ann", "acme", access=Access(workflows=("parrot",)))
        with pytest.raises(NotFound):
            await service.execute(some, DeleteConversation(name="desk"))
        await service.execute(Principal("ann", "acme"), DeleteConversation(name="desk"))
        with pytest.raises(NotFound):
            await engine.delete_conversation("desk", tenant="acme")
        assert (await engine.conversation("desk", tenant="globex")).exchanges[1].text == CANARY


async def test_a_store_whose_keys_are_lost_takes_others_on_request(store: str, known: Settings, tmp_path: Path) -> None:
    others = Settings(key_file=key_file(tmp_path / "others.toml", 7), encrypt="payloads")
    administration = await open_administration(store)
    async with opened(store, settings=known):
        with pytest.raises(Conflict, match="Nothing was forgotten: stop them first"):
            await administration.forget_keys()
    with pytest.raises(KeyMissing, match="forget-keys"):
        async with opened(store, settings=others):
            pass
    assert await administration.forget_keys() == 1
    assert await administration.forget_keys() == 0
    await administration.aclose()
    with pytest.raises(KeyMissing, match="no key file is set here"):
        async with opened(store, settings=Settings()):
            pass
    async with opened(store, settings=others):
        pass
    with pytest.raises(KeyMissing, match="are not those of"):
        async with opened(store, settings=known):
            pass


async def test_a_store_is_encrypted_from_some_day_on_and_read_on_afterwards(
    store: str, known: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    wf = telling()
    async with opened(store, workflows=[wf], settings=Settings()) as engine:
        before = await engine.start(wf, {"n": 1, "text": CANARY}, tenant="acme")
        await before.until(lambda state: bool(state.steps["work"].pending))
    assert "encrypted from now on" not in caplog.text
    for _ in range(2):
        async with opened(store, workflows=[wf], settings=known) as engine:
            pass
    assert caplog.text.count("encrypted from now on. What was stored before stays readable without a key") == 1
    async with opened(store, workflows=[wf], settings=known) as engine:
        await walked(engine.run(before.id), engine)
    ending = Settings(key_file=known.key_file, encrypt="nothing")
    async with opened(store, workflows=[wf], settings=ending) as engine:
        assert CANARY in repr(await engine.run(before.id).events())


async def test_a_process_opens_an_encrypted_store_with_its_keys_and_settings_only(
    store: str, known: Settings, tmp_path: Path
) -> None:
    async with opened(store, settings=known):
        pass
    others = key_file(tmp_path / "others.toml", 7)
    for wrong, words in (
        (Settings(), "no key file is set here"),
        (Settings(key_file=others, encrypt="payloads"), "are not those of"),
        (Settings(key_file=others, encrypt="nothing"), "are not those of"),
        (Settings(key_file=known.key_file), 'say encrypt = "payloads"'),
    ):
        with pytest.raises(StoreError, match=words):
            async with opened(store, settings=wrong):
                pass
    administration = await open_administration(store)
    assert (await administration.standing()).pending == ()
    await administration.aclose()
    async with opened(store, settings=known):
        pass


async def test_a_store_takes_a_changed_key_with_the_one_before_it_and_then_alone(store: str, tmp_path: Path) -> None:
    """Processes with the old file and with the new one go on side by side meanwhile."""
    old, both, new = (
        Settings(key_file=key_file(tmp_path / f"{n}.toml", *keys), encrypt="payloads")
        for n, keys in enumerate([(8,), (9, 8), (9,)])
    )
    async with opened(store, settings=old):
        pass
    with pytest.raises(KeyMissing, match="are not those of"):
        async with opened(store, settings=new):
            pass
    for each in (both, old, new):
        async with opened(store, settings=each):
            pass


async def test_of_two_processes_with_other_keys_that_are_the_first_one_is(store: str, tmp_path: Path) -> None:
    files = [key_file(tmp_path / f"{n}.toml", n) for n in range(4)]

    async def first(file: Path) -> None:
        found = await open_store(store, sealing=sealing_of(Settings(key_file=file, encrypt="payloads")))
        await found.aclose()

    done = await asyncio.gather(*map(first, files), return_exceptions=True)
    assert sum(each is None for each in done) == 1
    assert sum(isinstance(each, KeyMissing) for each in done) == 3


async def test_sensitive_fields_bind_a_store_to_its_keys_but_admit_processes_without_keys(
    store: str, known: Settings, tmp_path: Path
) -> None:
    others = key_file(tmp_path / "others.toml", 7)
    for each in (Settings(key_file=known.key_file), Settings()):
        async with opened(store, settings=each):
            pass
    with pytest.raises(KeyMissing, match="are not those of"):
        async with opened(store, settings=Settings(key_file=others)):
            pass
    async with opened(store, settings=known):
        pass
    with pytest.raises(KeyMissing, match="no key file is set here"):
        async with opened(store, settings=Settings()):
            pass


async def test_a_store_that_a_program_has_opened_with_its_own_keys_is_encrypted_whole(
    store: str, stored: Callable[[], bytes], known: Settings
) -> None:
    wf = Workflow("large")
    wf.node("large")(task(lambda state: f"{CANARY} " * INLINE_BYTES))
    own = await open_store(store, sealing=sealing_of(known))
    try:
        async with opened(own, workflows=[wf], settings=Settings()) as engine:  # type: ignore[arg-type]
            assert (await (await engine.start(wf, tenant="acme")).result()).startswith(CANARY)
    finally:
        await own.aclose()
    assert CANARY.encode() not in stored()


async def test_a_start_under_a_key_whose_tenant_s_key_is_away_is_not_taken_for_another(store: str, tmp_path: Path) -> None:
    """It would be told to take another key, and start twice."""
    started: dict[str, Any] = {"input": {"n": 1, "text": CANARY}, "tenant": "acme", "key": "once"}
    async with opened(store, workflows=[telling()], settings=written(tmp_path / "keys.toml", *TENANTS)) as engine:
        first = await engine.start("telling", **started)
    async with opened(store, workflows=[telling()], settings=written(tmp_path / "keys.toml", "default")) as engine:
        with pytest.raises(KeyMissing):
            await engine.start("telling", **started)
    async with opened(store, workflows=[telling()], settings=written(tmp_path / "keys.toml", *TENANTS)) as engine:
        assert (await engine.start("telling", **started)).id == first.id


async def test_what_a_question_proposes_is_sealed_in_its_row(store: str, known: Settings, stored: Callable[[], bytes]) -> None:
    @flow
    async def asks(ctx: Context) -> None:
        await ctx.ask({"proposed_action": f"pay {CANARY}", "evidence_ids": [f"{CANARY}-1"]}, decisions=["approve"])

    async with opened(store, workflows=[asks], settings=known) as engine:
        await gate_of(await engine.start(asks, tenant="acme"))
        [(row, _)] = await engine.runtime.store.views.gates()
        assert (row.proposed_action, row.evidence_ids) == (f"pay {CANARY}", (f"{CANARY}-1",))
    assert CANARY.encode() not in stored()
