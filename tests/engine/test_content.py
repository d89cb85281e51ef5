"""Images, recordings and documents go to a model as what they are, once, and no history holds their bytes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Chat, Context, Document, Image, RunFailed, Workflow, flow, llm_node
from holdfast.core.facts.events import EffectCompleted, ModelCallHeld
from holdfast.errors import Conflict, InvalidInput
from holdfast.models.providers import Providers
from holdfast.service.view import of_talk
from holdfast.settings import FetchRules, Settings
from tests import media
from tests.engine.history import events_of
from tests.engine.kit import Time, bounded, divergence, engine_at, opened
from tests.models.provider import Wire, anthropic_reply, environment
from tests.tools.server import Server, sends

MODEL = "claude-haiku-4-5"
CAT = media.png(60, 40)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    wire.will_say(anthropic_reply({"type": "text", "text": "A cat."}))
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    yield wire
    listening.close()


@pytest.fixture
async def model(wire: Wire) -> AsyncIterator[Providers]:
    providers = Providers(environment=environment(wire.port))
    yield providers
    await providers.aclose()


def seen(wire: Wire) -> list[list[bytes]]:
    """The bytes of the parts of each request."""
    return [
        [base64.b64decode(block["source"]["data"]) for block in message["content"] if "source" in block]
        for request in wire.requests
        for message in request["messages"]
    ]


def settings(**fetch: Any) -> Settings:
    return Settings(fetch=FetchRules(**fetch))


@flow
async def look(ctx: Context, file: str) -> str:
    said: str = await ctx.model(MODEL, ["What is on it?", Image.read(file)], max_tokens=50)
    await ctx.wait_signal("again")
    return said + await ctx.model(MODEL, ["And now?", Image.read(file), "Well?"], max_tokens=50)


@bounded
async def test_a_picture_is_sent_as_it_is_and_kept_once_by_its_hash(
    store: str, wire: Wire, model: Providers, tmp_path: Path, stored: Callable[[], bytes]
) -> None:
    (tmp_path / "cat.png").write_bytes(CAT)
    async with opened(store, workflows=[look], model=model) as engine:
        run = await engine.start(look, str(tmp_path / "cat.png"))
        await run.settled()
    async with opened(store, workflows=[look], model=model) as engine:
        await engine.signal(run.id, "again")
        assert await engine.run(run.id).result() == "A cat.A cat."
        assert seen(wire) == [[CAT], [CAT]], "what was answered is not asked again"
        kept = await engine.store.blobs.get("default", _this_month(engine.now_ms()), hashlib.sha256(CAT).hexdigest())
        assert kept == CAT
        held = await events_of(engine.run(run.id), ModelCallHeld)
        assert all(each.hold_nanousd > 0 for each in held)
    assert base64.b64encode(CAT) not in stored()


def _this_month(now_ms: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y-%m")


@pytest.mark.usefixtures("replays")
@bounded
async def test_a_file_that_has_changed_is_other_code(store: str, wire: Wire, model: Providers, tmp_path: Path) -> None:
    file = tmp_path / "cat.png"
    file.write_bytes(CAT)
    async with opened(store, workflows=[look], model=model) as engine:
        run = await engine.start(look, str(file))
        await run.settled()
        file.write_bytes(media.png(61, 40))
        await engine.signal(run.id, "again")
        shown = await divergence(run)
        assert hashlib.sha256(media.png(61, 40)).hexdigest() in str(shown["code"])
        assert len(wire.requests) == 1


def asks(prompt: Any, name: str = "asks") -> Workflow:
    wf = Workflow(name)

    @wf.node("ask")
    @llm_node(model=MODEL, max_tokens=50)
    async def ask(state: Any) -> Any:
        return prompt

    return wf


@bounded
async def test_the_json_of_a_part_is_a_part(store: str, wire: Wire, model: Providers) -> None:
    part = {"type": "image", "data": base64.b64encode(CAT).decode()}
    document = Document(data=b"a,b\n1,2\n", media_type="text/csv")
    async with opened(store, model=model) as engine:
        assert await (await engine.start(asks({"system": "Be brief.", "user": ["See", part, document]}))).result() == "A cat."
        assert await (await engine.start(asks(Image(data=CAT), "alone"))).result() == "A cat."
    first, second = (request["messages"][0]["content"] for request in wire.requests)
    assert [block["type"] for block in first] == ["text", "image", "document"]
    assert first[2]["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b\n1,2\n"}
    assert [block["type"] for block in second] == ["image"]


SOUND = {"type": "audio", "data": base64.b64encode(media.wav(1)).decode()}


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (["Hear:", SOUND], "nothing that claude-haiku-4-5 hears. Nothing was called"),
        ({"type": "image", "data": "aGk="}, "no image of a known format"),
        ({"type": "image", "data": "no base64"}, "no base64"),
        ({"type": "image", "data": base64.b64encode(media.PDF).decode()}, "application/pdf"),
        ({"type": "document", "data": base64.b64encode(CAT).decode()}, "no document of a known format, but image/png"),
        ({"type": "document", "data": "/w=="}, "neither a PDF nor a text"),
        ({"type": "image", "data": base64.b64encode(CAT).decode(), "media_type": "image/jpeg"}, "is called image/jpeg and is"),
        ({"type": "image", "url": "https://a.example", "data": "aGk="}, "data or a url, one of them"),
        ([Image(data=CAT)] * 21, "at most 20 content parts"),
        ({"system": Image(data=CAT), "user": "x"}, "a content part where none can be"),
        ({"type": "image", "sha256": "0" * 64}, "a media_type, a size_bytes and a month too"),
    ],
)
@bounded
async def test_what_cannot_be_sent_is_refused_before_money_is_held(
    store: str, wire: Wire, model: Providers, prompt: Any, words: str
) -> None:
    async with opened(store, model=model) as engine:
        run = await engine.start(asks(prompt))
        with pytest.raises(RunFailed, match=f"(?s){words}"):
            await run.result()
        assert await events_of(run, ModelCallHeld) == []
    assert wire.requests == []


def test_a_part_has_a_size_that_a_part_may_have(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x" * (20 * 1024 * 1024 + 1))
    with pytest.raises(ValueError, match="more than 20971520 bytes"):
        Document.read(tmp_path / "large.txt")
    (tmp_path / "table.csv").write_text("a,b")
    assert Document.read(tmp_path / "table.csv").media_type == "text/csv"


# --- Addresses --------------------------------------------------------------------------------------------------------

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n%s" % (len(CAT), CAT)


@flow
async def fetches(ctx: Context, url: str) -> str:
    first: str = await ctx.model(MODEL, ["What is it?", Image(url=url)], max_tokens=50)
    await ctx.wait_signal("again")
    return first


@bounded
async def test_an_address_is_read_once_and_its_bytes_are_sent(store: str, wire: Wire, model: Providers) -> None:
    known = settings(allow_private=("127.0.0.0/8",))
    with Server(sends(ANSWER)) as server:
        async with opened(store, workflows=[fetches], model=model, settings=known) as engine:
            run = await engine.start(fetches, f"{server.url}/cat.png?of=ann")
            await run.settled()
        async with opened(store, workflows=[fetches], model=model, settings=known) as engine:
            await engine.signal(run.id, "again")
            assert await engine.run(run.id).result() == "A cat."
            (read,) = await events_of(engine.run(run.id), EffectCompleted)
        assert [asked.target for asked in server.asked] == ["/cat.png?of=ann"]
    assert seen(wire) == [[CAT]]
    assert read.response.value()["sha256"] == hashlib.sha256(CAT).hexdigest()


@pytest.mark.parametrize(
    ("fetch", "url", "words"),
    [
        ({}, "http://example.org/a.png", "https:// only"),
        ({"hosts": ("cdn.example", "127.0.0.1")}, "https://127.0.0.1/a.png", "no public address"),
        ({}, "https://127.0.0.1/a.png", r"no public address.*\[fetch\]"),
        ({"hosts": ("CDN.example",)}, "https://example.org/a.png", "may be read from cdn.example, not from 'example.org'"),
        ({}, "https://user:pass@example.org/", "holds a user or a password"),
        ({}, "https://example.org/{a}", "braces"),
        ({}, "file:///etc/passwd", "https:// or http://"),
    ],
)
@bounded
async def test_addresses_are_under_the_rules_of_http_tools(
    tmp_path: Path, wire: Wire, model: Providers, fetch: Any, url: str, words: str
) -> None:
    async with opened(f"sqlite:///{tmp_path / 'h.db'}", model=model, settings=settings(**fetch)) as engine:
        run = await engine.start(asks(["See:", Image(url=url)]))
        with pytest.raises(RunFailed, match=f"(?s){words}"):
            await run.result()
    assert wire.requests == []


@bounded
async def test_no_error_tells_which_names_there_are_inside(tmp_path: Path, wire: Wire, model: Providers) -> None:
    """A name at a private address is told as one that is nobody's, by its words and its class."""
    said = set()
    async with opened(f"sqlite:///{tmp_path / 'h.db'}", model=model, settings=settings()) as engine:
        for host in ("localhost", "nobody.invalid"):
            run = await engine.start(asks(["See:", Image(url=f"https://{host}/a.png")]))
            with pytest.raises(RunFailed) as failed:
                await run.result()
            error = failed.value.error
            said.add((error.message.replace(host, "HOST"), error.error_class, error.retryable))
    assert len(said) == 1
    assert "no public address that is known here" in str(said)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "answered HTTP 404"),
        (b"HTTP/1.1 302 Go\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n", "not followed"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 6\r\n\r\n<html>", "no image of a known format"),
    ],
)
@bounded
async def test_what_an_address_answers_is_a_part_or_words(
    tmp_path: Path, wire: Wire, model: Providers, answer: bytes, words: str
) -> None:
    known = settings(allow_private=("127.0.0.0/8",))
    with Server(sends(answer)) as server:
        async with opened(f"sqlite:///{tmp_path / 'h.db'}", model=model, settings=known) as engine:
            run = await engine.start(asks(["See:", Image(url=f"{server.url}/cat.png")]))
            with pytest.raises(RunFailed, match=f"(?s){words}"):
                await run.result()
    assert wire.requests == []


def test_networks_that_are_none_are_refused_when_settings_are_read() -> None:
    with pytest.raises(ValueError, match="allow_private"):
        FetchRules(allow_private=("here",))


# --- Conversations ----------------------------------------------------------------------------------------------------


@flow
async def counts(ctx: Context, chat: Chat) -> int:
    return sum(len(each.parts) for each in chat.messages)


@flow
async def looks(ctx: Context, chat: Chat) -> str:
    if chat.text == "wait":
        await ctx.wait_signal("go on")
    said: str = await ctx.model(MODEL, chat, max_tokens=50)
    return said


@bounded
async def test_what_is_attached_to_a_message_is_sent_in_every_later_run(
    store: str, wire: Wire, model: Providers, stored: Callable[[], bytes]
) -> None:
    async with opened(store, workflows=[looks], model=model) as engine:
        await engine.open_conversation("c", looks)
        first = await engine.send_message(
            "c", ["What is it?", Image(data=CAT), "And this?", Document(data=b"a text")], key="m1"
        )
        assert first.text == "What is it?\n\nAnd this?"
        assert [str(part)[:16] for part in first.parts] == ["[image image/png", "[document text/p"]
        assert (await engine.reply("c", first.number)).reply == "A cat."
        again = await engine.send_message(
            "c", ["What is it?\n\nAnd this?", Image(data=CAT), Document(data=b"a text")], key="m1"
        )
        assert again.number == first.number
        with pytest.raises(Conflict, match="another message"):
            await engine.send_message("c", ["What is it?\n\nAnd this?", Image(data=media.png(2, 2))], key="m1")
    async with opened(store, workflows=[looks], model=model) as engine:
        second = await engine.send_message("c", Image(data=CAT))
        assert (await engine.reply("c", second.number)).reply == "A cat."
        shown = of_talk(await engine.conversation("c"))["exchanges"][0]["parts"][0]
        assert (shown["type"], shown["sha256"]) == ("image", hashlib.sha256(CAT).hexdigest())
    told = wire.requests[1]["messages"]
    assert [[block["type"] for block in each["content"]] for each in told] == [
        ["text", "image", "document"],
        ["text"],
        ["image"],
    ]
    assert base64.b64encode(CAT) not in stored()


@bounded
async def test_a_part_may_be_named_by_the_hash_under_which_it_is_kept(store: str) -> None:
    async with opened(store, workflows=[counts]) as engine:
        await engine.open_conversation("c", counts)
        (picture, text) = (await engine.send_message("c", [Image(data=CAT), Document(data=b"a text")])).parts
        again = await engine.send_message("c", ["Again:", {**msgspec.to_builtins(picture), "size_bytes": 1}])
        assert again.parts == (picture,), "what is said of it is read from its bytes"
        with pytest.raises(InvalidInput, match="no image of a known format"):
            await engine.send_message("c", [{**msgspec.to_builtins(text), "type": "image"}])


@bounded
async def test_a_request_has_no_more_bytes_than_a_provider_takes(store: str, model: Providers) -> None:
    async with opened(store, workflows=[counts], model=model) as engine:
        kept = await engine.executor.services.contents.store_part(Image(data=CAT), "default", engine.now_ms())
        large = {**msgspec.to_builtins(kept), "size_bytes": 70_000_000}
        run = await engine.start(asks(["See:", large]))
        with pytest.raises(RunFailed, match=r"more than 67108864 bytes together.*Nothing was called"):
            await run.result()


@bounded
async def test_a_message_that_steers_may_show_something(store: str, wire: Wire, model: Providers) -> None:
    async with opened(store, workflows=[looks], model=model) as engine:
        await engine.open_conversation("c", looks, on_busy="steer")
        first = await engine.send_message("c", "wait")
        assert first.run is not None
        await engine.run(first.run).settled()
        await engine.send_message("c", ["See:", Image(data=CAT)])
        await engine.signal(first.run, "go on")
        assert (await engine.reply("c", first.number)).reply == "A cat."
    assert seen(wire) == [[CAT]]


@bounded
async def test_a_picture_sent_months_ago_is_kept_for_the_run_that_gets_it(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[counts]) as engine:
        await engine.open_conversation("c", counts)
        await engine.reply("c", (await engine.send_message("c", ["What is it?", Image(data=CAT)])).number)
        now.forward(days=40)
        assert (await engine.reply("c", (await engine.send_message("c", "And now?")).number)).reply == "1"
        assert await engine.store.blobs.get("default", _this_month(now.ms), hashlib.sha256(CAT).hexdigest()) == CAT


FORGED = {"type": "image", "media_type": "image/png", "size_bytes": 1, "month": "2026-11"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ([], "texts and content parts"),
        ("  ", "not empty"),
        (["x", {"type": "image", "data": "aGk="}], "no image of a known format.*Nothing was done"),
        (["x", Image(url="https://127.0.0.1/a.png")], "no public address.*Nothing was sent"),
        (["x", {"role": "user", "content": "y"}], "a list of messages"),
        (["x", {**FORGED, "sha256": "0" * 64}], "is not kept here"),
    ],
)
@bounded
async def test_a_message_that_cannot_be_said_is_not(tmp_path: Path, message: Any, words: str) -> None:
    async with opened(f"sqlite:///{tmp_path / 'h.db'}", workflows=[looks]) as engine:
        await engine.open_conversation("c", looks)
        with pytest.raises(InvalidInput, match=f"(?s){words}"):
            await engine.send_message("c", message)
        assert (await engine.conversation("c")).conversation.said == 0
