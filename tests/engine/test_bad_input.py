"""What a program gives a run that no store can hold, or no reader could read again: a clear error, and nothing is lost."""

from __future__ import annotations

import asyncio
import collections
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from holdfast import Engine, RetryPolicy, RunFailed, Workflow, flow, llm_node, task, tool
from holdfast.authoring.values.plain import encode
from holdfast.core.facts.events import ModelCallHeld, ModelCallInDoubt
from holdfast.engine.fleet import sweep
from holdfast.engine.runs import payloads
from holdfast.errors import InvalidInput, NotFound, StepError, StoreFull, StoreGone, StoreUnreadable
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, eventually, opened

MEGABYTE = 1024 * 1024


class Order(BaseModel):
    customer: str
    pieces: int = 1


@dataclass
class Measured:
    value: object


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def echo(**options: Any) -> Workflow:
    """A run that waits for a word and then returns what it was given."""
    wf = Workflow("echo", **options)

    @wf.node("wait")
    @task
    async def wait(state, ctx):
        await ctx.wait_signal("go")
        return state.input

    @wf.node("say")
    @task
    async def say(state):
        return state.events["wait"].output

    wf.edge("wait", "say")
    return wf


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1, float("nan")], "the value[1] is nan, which does not exist in JSON"),
        ({"most": float("inf")}, "the value['most'] is inf"),
        ({"text": "\ud800"}, "the value['text'] contains half of a surrogate pair"),
        ({"\ud800": 1}, "the key '\\ud800' in the value contains half of a surrogate pair"),
        ({"by": object()}, "the value['by'] has the type object"),
        ([10**5000], "the value[0] is a number with too many digits"),
        (nested(201), "nested more than 200 levels deep"),
        (nested(400), "nested more than 200 levels deep"),
        (nested(5000), "nested more than 200 levels deep"),
    ],
)
async def test_an_input_that_cannot_be_stored_says_where_and_starts_nothing(store: str, given: Any, told: str) -> None:
    async with opened(store) as engine:
        with pytest.raises(InvalidInput) as refused:
            await engine.start(echo(), given, key="once")
        assert told in refused.value.message
        assert refused.value.message.startswith("The input of 'echo'")
        assert refused.value.message.endswith("No run was started.")
        assert await engine.runs() == []
        await engine.start(echo(), "good", key="once")  # the key was not used up


@pytest.mark.parametrize("given", [None, "text", ["Ada"], {"customer": None}, {"customer": "Ada", "pieces": "many"}])
async def test_an_input_that_does_not_fit_its_model_starts_nothing(store: str, given: Any) -> None:
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match=r"does not fit Order of workflow 'echo'.* No run was started\."):
            await engine.start(echo(input=Order), given)
        assert await engine.runs() == []


async def test_what_is_not_there_is_named_by_its_own_noun(store: str) -> None:
    async with opened(store) as engine:
        with pytest.raises(NotFound, match=r"There is no .*gate zz;"):
            await engine.decide("zz", "approve")
        with pytest.raises(NotFound, match=r"There is no .*gate zz;"):
            await engine.decide_together({"zz": "approve"})
        with pytest.raises(NotFound, match="There is no call zz "):
            await engine.reconcile("zz", 1)
        with pytest.raises(InvalidInput, match="There is no status 'foo'; there are completed, "):
            await engine.runs(status="foo")
        with pytest.raises(InvalidInput, match=r"There is no wait 'zzz'; there are .*gate"):
            await engine.runs(waiting_for=["zzz"])


async def test_a_wrong_input_of_one_plain_parameter_is_named_by_it(store: str) -> None:
    @flow
    async def answer(ctx, complaint: str) -> str:
        return complaint

    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match=r"complaint: Input should be a valid string.* No run was started"):
            await engine.start(answer, 5)
        with pytest.raises(InvalidInput, match=r"complaint.* Nothing was changed") as refused:
            await engine.set_schedule("daily", answer, "0 9 * * *")
        assert "No run was started" not in refused.value.message


@bounded
async def test_an_input_of_fifty_megabytes_is_an_input_and_one_too_large_starts_nothing(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "x" * (50 * MEGABYTE)
    wf = Workflow("count")
    wf.node("count")(task(lambda state: len(state.input)))
    async with opened(store) as engine:
        assert await (await engine.start(wf, large)).result() == len(large)
        monkeypatch.setattr(payloads, "MAX_BYTES", len(large))
        with pytest.raises(InvalidInput, match=f"This value is {len(large) + 3} bytes as JSON; at most {len(large)} can"):
            await engine.start(wf, large + "x")
        assert len(await engine.runs()) == 1


@pytest.mark.parametrize("given", ["a\0b", nested(200), {"null": None}, {"[": "]" * 1000}, 10**300])
async def test_what_is_only_unusual_comes_back_unchanged_in_another_process(store: str, given: Any) -> None:
    wf = echo()
    async with opened(store, execute=False) as engine:
        run = await engine.start(wf, given)
        await engine.signal(run.id, "go")
    async with opened(store, workflows=[wf]) as engine:
        assert await engine.run(run.id).result() == given


@bounded
async def test_a_value_nested_too_deep_fails_its_own_step_and_keeps_its_run_readable(store: str) -> None:
    wf = Workflow("deep")

    @wf.node("dig")
    @task
    async def dig(state):
        return nested(state.input)

    @wf.node("wait")
    @task
    async def wait(state, ctx):
        return await ctx.wait_signal("go")

    wf.edge("dig", "wait")
    # How much the stack of this process has room for is nobody's business: every depth is either taken or refused.
    depths = [*range(100, 901, 100), *range(910, 1010, 5)]
    async with opened(store) as engine:
        runs = {depth: await engine.start(wf, depth) for depth in depths}
        failed = {depth for depth in depths if (await runs[depth].settled()).ended}
    assert {300, 900, 950, 1000} <= failed
    assert not {100, 200} & failed
    async with opened(store, workflows=[wf]) as engine:
        for depth, run in runs.items():
            again = engine.run(run.id)
            if depth in failed:
                error = (await again.state()).error
                assert error is not None
                assert error.error_class == "validation"
                assert "nested more than 200 levels deep" in error.message
            else:
                await engine.signal(run.id, "go", depth)
                assert await again.result() == depth


async def test_a_number_that_is_none_does_not_become_nothing_on_its_way_through_an_object(store: str) -> None:
    wf = Workflow("measure")
    wf.node("measure")(task(lambda state: Measured([Measured(1.5), Measured(float("nan"))])))
    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed, match=r"the value\['value'\]\[1\]\['value'\] is nan"):
            await (await engine.start(wf)).result()
    assert encode(Measured([None, Measured(1.5)])) == b'{"value":[null,{"value":1.5}]}'


@pytest.mark.parametrize("word", ["\ud800", "half \udcff of it"])
async def test_a_name_that_is_no_text_is_refused_before_anything_is_done(store: str, word: str) -> None:
    wf = echo()
    async with opened(store) as engine:
        for named in ({"tenant": word}, {"key": word}):
            with pytest.raises(InvalidInput, match=r"is not valid Unicode text\. Nothing was done\."):
                await engine.start(wf, **named)
        assert await engine.runs() == []
        run = await engine.start(wf, "good", by=word)  # who asked is told as well as can be
        with pytest.raises(InvalidInput, match=r"name of the signal .* Nothing was done\."):
            await engine.signal(run.id, word)
        for data in (word, {word: 1}, float("nan"), nested(400)):
            with pytest.raises(InvalidInput, match="cannot be stored"):
                await engine.signal(run.id, "go", data)
        await engine.signal(run.id, "go")
        assert await run.result() == "good"
    async with opened(store, workflows=[wf]) as engine:
        assert await engine.run(run.id).result() == "good"


@bounded
async def test_an_end_that_cannot_be_stored_fails_its_own_step_and_the_process_works_on(store: str) -> None:
    """What Holdfast encodes it has looked at before; what gets past that must not cost the other runs their process."""
    wf, good = Workflow("odd"), echo()

    @wf.node("odd")
    @task
    async def odd(state):
        raise StepError("It has a class of its own.", error_class="half \ud800 of one")

    async with opened(store) as engine:
        other = await engine.start(good, "unharmed")
        with pytest.raises(RunFailed, match="The outcome of 'odd' cannot be stored") as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "validation"  # type: ignore[attr-defined]
        assert engine.runtime.membership.broken is None
        await engine.signal(other.id, "go")
        assert await other.result() == "unharmed"


@bounded
async def test_whatever_in_a_flush_cannot_be_stored_its_neighbours_are(store: str) -> None:
    wf = Workflow("neighbours")
    ready = asyncio.Barrier(20)

    @wf.node("end")
    @task
    async def end(state):
        await ready.wait()  # so that all end in one flush
        if state.input % 5 == 0:
            raise StepError("odd", error_class="\ud800")
        return state.input

    async with opened(store) as engine:
        runs = [await engine.start(wf, number) for number in range(20)]
        ended = [await run.settled() for run in runs]
        assert [state.ended for state in ended] == ["completed" if n % 5 else "failed" for n in range(20)]
        assert engine.runtime.membership.broken is None


# --- What a model says -------------------------------------------------------------------------------------------------


@bounded
@pytest.mark.parametrize("usage", ["as it was", "missing"])
@pytest.mark.parametrize("said", ["nan", "deep"])
async def test_a_reply_that_cannot_be_stored_is_paid_for_once_and_asked_for_again(
    store: str, server: ModelServer, model: Providers, said: str, usage: str
) -> None:
    """Some JSON parsers read NaN, and any depth that they have room for."""
    unstorable = {"nan": [float("nan")], "deep": nested(400)}[said]
    looked = []

    @tool(effect="idempotent")
    async def look(what: Any) -> str:
        looked.append(what)
        return "nothing there"

    wf = Workflow("agent")

    @wf.node("agent")
    @llm_node(model="claude-haiku-4-5", max_tokens=4000, tools=[look], retry=RetryPolicy(initial_s=0, jitter=0))
    async def agent(state):
        return "Look."

    server.script.add(
        Rule(
            turn=1,
            nth=1,
            tool_calls=(ToolCall("look", {"what": unstorable}),),
            fault=Fault("missing_usage") if usage == "missing" else None,
        ),
        Rule(text="Seen."),
    )
    async with opened(store, model=model) as engine:
        run = await engine.start(wf, cost_limit_usd="1")
        assert await run.result() == "Seen."
        row = await engine.find(run.id)
        first, _ = await events_of(run, ModelCallHeld)
        assert (row.held_nanousd, row.in_doubt_nanousd) == (0, first.hold_nanousd)
        (doubted,) = await events_of(run, ModelCallInDoubt)
        assert (doubted.call, doubted.error.error_class) == (first.call, "model_transient")
        assert any(words in doubted.error.message for words in ("cannot be used: This value", "something unreadable"))
        await engine.reconcile(first.call, "0.001")
        assert (await engine.find(run.id)).in_doubt_nanousd == 0
    assert looked == []
    assert len(server.calls) == 2


# --- A store that is away ---------------------------------------------------------------------------------------------


@bounded
@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_disk_that_is_full_for_a_moment_costs_no_step_whatever_its_size(
    store: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    wf = Workflow("large")
    began = []

    @wf.node("write")
    @task
    async def write(state):
        began.append(size)
        return "x" * size

    async with opened(store) as engine:
        full(engine, monkeypatch, times=3)
        assert await (await engine.start(wf)).result() == "x" * size
    assert began == [size]


def full(engine: Engine, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have the disk take nothing of what a step ends with, so many times."""
    refusals = iter(range(times))

    def refusing(port: Any, method: str, has: Callable[[Any], bool]) -> None:
        take = getattr(port, method)

        async def store(*given: Any) -> Any:
            if has(given) and next(refusals, None) is not None:
                raise StoreFull("There is no room left.")
            return await take(*given)

        monkeypatch.setattr(port, method, store)

    refusing(engine.runtime.store.log, "append", lambda given: any(append.expected > 0 for append in given[0]))
    refusing(engine.runtime.store.blobs, "put", lambda given: len(given[2]) > MEGABYTE // 10)


@bounded
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_missing_store_ends_the_work_at_once_and_its_runs_resume_when_it_returns(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wf = echo()
    place = tmp_path / "holdfast.db"
    async with opened(store) as engine:
        run = await engine.start(wf, "kept")
        await run.settled()
        waiting = asyncio.create_task(run.result())
        await eventually(lambda: any(each.seq for watchers in engine.runtime.runs._watchers.values() for each in watchers))
        files = [tmp_path / f"holdfast.db{end}" for end in ("", "-wal", "-shm")]
        for file in files:
            file.rename(file.with_name(f"away-{file.name}"))
        with pytest.raises(StoreGone, match=r"deleted or replaced .* runs go on from what is in it"):
            await waiting
        assert isinstance(engine.runtime.membership.broken, StoreGone)
        with pytest.raises(StoreGone):
            await engine.idle()
        with pytest.raises(StoreGone):
            await engine.signal(run.id, "go")
    assert [record for record in caplog.records if "tries again" in record.message] == []
    for file in files:
        file.with_name(f"away-{file.name}").rename(file)
    assert place.exists()
    async with opened(store, workflows=[wf]) as engine:
        await engine.signal(run.id, "go")
        assert await engine.run(run.id).result() == "kept"


@bounded
async def test_a_store_that_cannot_be_read_for_a_while_is_reported_once(
    store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sweep, "_AWAY_S", 0.01)
    asked = []
    async with opened(store) as engine:

        async def damaged(*_: object) -> Any:
            asked.append(1)
            raise StoreUnreadable("It is damaged.")

        monkeypatch.setattr(engine.runtime.store.views, "due", damaged)
        await eventually(lambda: len(asked) > 5)
    assert [record.message for record in caplog.records if "damaged" in record.message] == [
        "holdfast cannot look into the store and tries again: It is damaged."
    ]


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Reading(BaseModel):
    at: datetime.date
    tags: set[str]
    price: decimal.Decimal
    by: dict[int, str] = {}


NOON = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            {"tags": {"a"}},
            "the value['tags'] has the type set, which does not exist in JSON. Use sorted(...) or list(...), or declare",
        ),
        ([frozenset()], "the value[0] has the type frozenset"),
        ({1: 2}, "the value has the key 1 of the type int, but keys are text in JSON. Use str(...)"),
        ([{"in": {None: 2}}], "the value[0]['in'] has the key None"),
        (
            decimal.Decimal("1.50"),
            "the value has the type Decimal, which does not exist in JSON. Use str(...), or declare the type, as a field",
        ),
        (b"bytes", "the value has the type bytes, which does not exist in JSON. Use text"),
        ((1, NOON), "the value[1] has the type datetime, which does not exist in JSON. Use .isoformat()"),
        (NOON.date(), "the value has the type date"),
        (datetime.timedelta(1), "the value has the type timedelta"),
        (uuid.UUID(int=1), "the value has the type UUID"),
        ({"colour": Colour.RED}, "the value['colour'] has the type Colour, which does not exist in JSON. Use its .value"),
        (Point(1, 2), "the value has the type Point, whose field names JSON would lose. Use ._asdict()"),
        ({1, object()}, "the value has the type set"),
        ({"a": [Measured({1, 2}), {3}]}, "the value['a'][1] has the type set"),
    ],
)
def test_what_would_read_back_as_something_else_is_refused_with_the_way_out(value: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        encode(value)
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, ("a", [2])), [1, ["a", [2]]]),
        (Level.HIGH, 3),
        (
            {"read": Reading(at=NOON.date(), tags={"a"}, price=decimal.Decimal("1.50"), by={1: "x"})},
            {"read": {"at": "2026-11-22", "tags": ["a"], "price": "1.50", "by": {"1": "x"}}},
        ),
        (Measured(NOON), {"value": "2026-11-22T12:00:00Z"}),
        (Measured(Measured({1})), {"value": {"value": [1]}}),
        (collections.OrderedDict(a=1), {"a": 1}),
    ],
)
def test_what_has_declared_fields_is_kept_as_these_say(value: Any, kept: Any) -> None:
    assert json.loads(encode(value)) == kept


@pytest.mark.parametrize("name", ["x" * 257, "ü" * 129, "a\nb", "a\x9bb", "a\u2028b"])
async def test_a_name_is_short_and_on_one_line_whatever_it_names(store: str, name: str) -> None:
    wf = Workflow("named")
    wf.node("do")(task(lambda state: 1))
    async with opened(store) as engine:
        run = await engine.start(wf, tenant="t" * 256, team="m" * 256, key="ü" * 128, by="b" * 256)
        for given in ("tenant", "team", "key", "by"):
            with pytest.raises(InvalidInput, match=r"256 at most|control character"):
                await engine.start(wf, **{given: name})
        with pytest.raises(InvalidInput, match=r"256 at most|control character"):
            await engine.signal(run.id, name)
        with pytest.raises(InvalidInput, match=r"256 at most|control character"):
            await engine.set_admission(3, tenant=name)
        assert len(await engine.runs()) == 1
