"""How much of anything there may be at a serving process: workers, what they offer, what waits for them or from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import msgspec
import pytest

from holdfast.core.values.ids import RunId, StepId
from holdfast.errors import InvalidInput, PlaceLost, RemoteFailed
from holdfast.ports import Work
from holdfast.service.access.identity import Holder, Identity, Scope
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.settings import PortBounds
from holdfast.wire import CallFailed, Job, Tasks, worker
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES, OPTIONS, SERVICES, Stub, handlers
from holdfast.wire.capabilities import WorkerCapabilities
from holdfast.wire.connection import MAX_INBOX, MAX_SLOTS, MAX_TASKS, WorkerConnection
from holdfast.wire.outbox import Outbox
from holdfast.wire.registry import Bounds, WorkerRegistry
from holdfast.wire.server import Server
from holdfast.wire.worker import Worker

PATIENT = Bounds(lease_s=60.0, heartbeat_s=60.0, ack_s=60.0)
"""Nothing here is to be lost because a machine is slow."""
MAX_S = 30.0


class Answers:
    """Answers every call of a job, once it may: as much of ports.Calls as is asked for here."""

    run = RunId("run")
    step = StepId("step")

    def __init__(self, answer: Any = "yes") -> None:
        self.answer = answer
        self.asked: list[int] = []
        self.may = asyncio.Event()

    async def model(self, number: int, model: str, user: Any, **how: Any) -> Any:
        self.asked.append(number)
        await self.may.wait()
        return self.answer

    async def tool(self, number: int, name: str, arguments: Any, *, key: str | None) -> Any:
        return await self.model(number, name, arguments)

    async def line(self, text: str) -> None:
        pass


def registration(name: str = "hand", **offered: Any) -> wire.Register:
    return wire.Register(**({"name": name, "instance": name, "tasks": ["do"], "slots": 1} | offered))


class Hand:
    """A registered worker that reads when the test has it read."""

    def __init__(self, registry: WorkerRegistry, name: str = "hand", most: int = 1_000) -> None:
        self.registry = registry
        self.outbox = Outbox[wire.ToWorker](most)
        connection = registry.register(registration(name), self.outbox)
        assert isinstance(connection, WorkerConnection)
        self.connection = connection

    def say(self, **said: Any) -> None:
        self.registry.on_message(self.connection, self.outbox, wire.FromWorker(**said))

    async def told(self, kind: str, count: int) -> list[Any]:
        """What it has been told of a kind, once it is so much."""
        found: list[Any] = []
        async with asyncio.timeout(MAX_S):
            async for message in self.outbox.messages():
                found += [getattr(each, kind) for each in (message, *message.more) if each.WhichOneof("said") == kind]
                if len(found) >= count:
                    return found
        raise AssertionError(f"the outbox was closed after {found}")


def work(arguments_json: bytes = b"{}") -> Work:
    return Work("job", "do", arguments_json)


async def begun(registry: WorkerRegistry, answers: Answers) -> asyncio.Task[Any]:
    task = asyncio.create_task(registry.perform("hand", work(), answers))
    await asyncio.sleep(0)
    return task


def call(number: int) -> wire.Call:
    return wire.Call(job="job", number=number, model=wire.ModelCall(model="m", user_json='"hello"'))


DONE = wire.Result(job="job", output_json='"done"')


# --- Who may be there -------------------------------------------------------------------------------------------------


async def test_so_many_workers_may_be_connected_and_no_more_until_one_has_gone() -> None:
    registry = WorkerRegistry(msgspec.structs.replace(PATIENT, workers=4))
    first, second = Hand(registry, "first"), Hand(registry, "second")
    refused = registry.register(registration("third"), Outbox(10))
    assert isinstance(refused, wire.Refused)
    assert refused.again
    assert refused.reason == "Too many workers are connected with the token 'anybody', or in all: no more may be."
    for name, taken in (("fourth", True), ("fifth", False)):
        other = registry.register(registration(name), Outbox(10), Holder("workers.other", asks=False, works=Scope()))
        assert isinstance(other, WorkerConnection) == taken, "there is room for those of another token"
    registry._lose(registry._connections["fourth"], "it is not needed")
    first.say(drain=wire.Drain())
    registry.leave(first.connection, first.outbox)
    Hand(registry, "third")
    assert {connection.name for connection in registry.connections} == {second.connection.name, "third"}


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({"slots": 0}, f"slots is 0; it must be 1 to {MAX_SLOTS}"),
        ({"slots": MAX_SLOTS + 1}, f"slots is {MAX_SLOTS + 1}; it must be 1 to {MAX_SLOTS}"),
        ({"tasks": []}, "it offers no task"),
        ({"tasks": [f"t{n}" for n in range(MAX_TASKS + 1)]}, f"tasks has {MAX_TASKS + 1} entries; at most {MAX_TASKS}"),
        ({"tasks": ["x" * 101]}, "it must be 1 to 100 characters without blanks and commas"),
        ({"labels": [f"l{n}" for n in range(200)]}, "labels has 200 entries; at most"),
        ({"tags": ["one two"]}, "tags has 'one two'"),
        ({"instance": ""}, "the instance must be 1 to 100 characters"),
        ({"name": "here"}, "and not 'here'"),
        ({"name": "x" * 1_000_000}, "must be 1 to 100 characters"),
    ],
)
async def test_a_worker_with_an_impossible_offer_learns_what_is_wrong_in_a_few_words(
    offered: dict[str, Any], said: str
) -> None:
    refused = WorkerRegistry(PATIENT).register(registration(**offered), Outbox(10))
    assert isinstance(refused, wire.Refused)
    assert not refused.again
    assert said in refused.reason
    assert len(refused.reason) < 400


async def test_a_worker_may_offer_as_much_as_is_said() -> None:
    offered = {"slots": MAX_SLOTS, "tasks": [f"t{n}" for n in range(MAX_TASKS)], "labels": ["x" * 100]}
    assert isinstance(WorkerRegistry(PATIENT).register(registration(**offered), Outbox(10)), WorkerConnection)


async def test_a_stream_that_does_not_say_who_it_is_is_ended_in_words() -> None:
    async def silent() -> AsyncIterator[wire.FromWorker]:
        await asyncio.Event().wait()
        yield wire.FromWorker()

    brief = ConcurrencyLimit(PortBounds(head_s=0.05))
    async with listening(WorkerRegistry(PATIENT), brief) as address, grpc.aio.insecure_channel(address) as channel:
        said = [message async for message in Stub(channel, "Workers").Work(silent(), timeout=MAX_S)]
    assert [message.refused.reason for message in said] == ["A worker says first who it is, and it did not."]


# --- What waits for a worker ------------------------------------------------------------------------------------------


async def test_a_worker_that_does_not_read_is_lost_with_the_work_that_finds_no_room() -> None:
    registry = WorkerRegistry(PATIENT)
    hand = Hand(registry, most=2)  # its welcome is one
    held = asyncio.create_task(registry.perform("hand", work(), Answers()))
    await asyncio.sleep(0)
    assert registry.connections == [hand.connection]
    with pytest.raises(PlaceLost, match="it does not read its messages"):
        await registry.perform("hand", Work("another", "do", b"{}"), Answers())
    with pytest.raises(PlaceLost, match="it does not read its messages"):
        await held
    assert registry.connections == []


async def test_a_worker_that_speaks_and_does_not_read_is_found_out_by_the_heartbeat() -> None:
    registry = WorkerRegistry(msgspec.structs.replace(PATIENT, heartbeat_s=0.01))
    hand = Hand(registry, most=5)
    async with asyncio.timeout(MAX_S):
        while registry.connections:
            hand.say(heartbeat=wire.Heartbeat())
            await asyncio.sleep(0.005)
    assert not hand.outbox.say(wire.ToWorker()), "its stream is closed"


async def test_what_a_worker_does_not_read_is_not_gathered_without_end() -> None:
    """Over a real stream: whatever gRPC and the kernel take, the rest is bounded, and its job is soon another's."""
    registry = WorkerRegistry(msgspec.structs.replace(PATIENT, messages=20))
    large = b'"%s"' % (b"x" * 1_000_000)

    async def busy() -> AsyncIterator[wire.FromWorker]:
        yield wire.FromWorker(register=registration())
        await asyncio.Event().wait()

    async with listening(registry) as address, grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        stream = Stub(channel, "Workers").Work(busy(), timeout=MAX_S)
        assert (await stream.read()).WhichOneof("said") == "registered"
        given: list[asyncio.Task[Any]] = []
        async with asyncio.timeout(MAX_S):
            while registry.connections:
                given.append(asyncio.create_task(registry.perform("hand", Work(str(len(given)), "do", large), Answers())))
                await asyncio.sleep(0.005)
        ends = await asyncio.gather(*given, return_exceptions=True)
        assert {str(end) for end in ends} == {"The worker hand is gone: it does not read its messages."}
        assert len(given) < 100
        stream.cancel()


# --- What a worker asks for -------------------------------------------------------------------------------------------


async def test_so_many_calls_of_a_job_may_be_on_their_way_and_the_next_is_refused_alone() -> None:
    registry = WorkerRegistry(msgspec.structs.replace(PATIENT, calls=3))
    hand, answers = Hand(registry), Answers()
    done = await begun(registry, answers)
    for number in (1, 2, 3, 4, 1):  # the first is said again, as after a broken stream
        hand.say(call=call(number))
    (refused,) = await hand.told("answer", 1)
    assert (refused.number, refused.failure.error_class) == (4, "validation")
    assert refused.failure.message == "At most 3 calls of a job may be on their way."
    answers.may.set()
    assert sorted(each.number for each in await hand.told("answer", 3)) == [1, 2, 3]
    hand.say(call=call(5))
    (answer,) = await hand.told("answer", 1)
    assert (answer.value_json, answers.asked) == ('"yes"', [1, 2, 3, 5])
    hand.say(result=DONE)
    assert await done == "done"


async def test_a_worker_that_asks_too_fast_is_lost_and_another_gets_its_work() -> None:
    registry = WorkerRegistry(PATIENT)
    hand, answers = Hand(registry), Answers()
    done = await begun(registry, answers)
    for number in range(MAX_INBOX):
        hand.say(call=call(number))
    assert registry.connections == [hand.connection]
    hand.say(call=call(MAX_INBOX))
    assert registry.connections == []
    answers.may.set()
    with pytest.raises(PlaceLost, match="it asks for too much in the job job"):
        await done
    assert len(answers.asked) == registry.bounds.calls


async def test_a_worker_that_tells_more_than_is_read_loses_lines_and_nothing_else() -> None:
    registry = WorkerRegistry(PATIENT)
    hand = Hand(registry)
    done = await begun(registry, Answers())
    for _ in range(MAX_INBOX + 100):
        hand.say(progress=wire.Progress(job="job", text="on"))
    (job,) = hand.connection.jobs.values()
    assert job.inbox.qsize() == MAX_INBOX
    await asyncio.sleep(0)  # what waits is read in one go
    hand.say(result=DONE)
    assert await done == "done"


# --- How large anything may be ----------------------------------------------------------------------------------------


async def test_arguments_too_large_for_a_message_are_refused_before_a_worker_gets_them() -> None:
    registry = WorkerRegistry(PATIENT)
    hand = Hand(registry)
    with pytest.raises(InvalidInput, match=rf"have {MESSAGE_BYTES} bytes, and a message at most {MESSAGE_BYTES}"):
        await registry.perform("hand", work(b"x" * MESSAGE_BYTES), Answers())
    assert (len(hand.outbox), hand.connection.jobs) == (1, {}), "it has been welcomed, no more"


async def test_an_answer_that_fits_into_no_message_is_a_failure_of_its_call_alone() -> None:
    registry = WorkerRegistry(PATIENT)
    hand, answers = Hand(registry), Answers("x" * MESSAGE_BYTES)
    answers.may.set()
    done = await begun(registry, answers)
    hand.say(call=call(1))
    (refused,) = await hand.told("answer", 1)
    assert refused.failure.error_class == "validation"
    assert f"The answer has {MESSAGE_BYTES + 2} bytes, and a message at most" in refused.failure.message
    hand.say(result=DONE)
    assert await done == "done"


async def test_words_of_a_worker_are_cut_to_what_a_history_may_hold() -> None:
    registry = WorkerRegistry(PATIENT)
    hand = Hand(registry)
    done = await begun(registry, Answers())
    hand.say(result=wire.Result(job="job", failure=wire.Failure(error_class="mine", message="x" * 1_000_000)))
    with pytest.raises(RemoteFailed) as failed:
        await done
    assert len(failed.value.message) == 4_000
    assert failed.value.error_class == "error", "no worker makes up classes"


# --- The worker's side ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(registry: WorkerRegistry, turns: ConcurrencyLimit | None = None) -> AsyncIterator[str]:
    server = Server(registry, Identity(), turns=turns)
    async with asyncio.timeout(MAX_S), server.listening("127.0.0.1:0") as port:
        yield f"127.0.0.1:{port}"


@asynccontextmanager
async def connected(registry: WorkerRegistry, tasks: Tasks) -> AsyncIterator[list[str]]:
    """A worker over a real stream; what it tells of itself."""
    said: list[str] = []
    async with listening(registry) as address:
        hand = Worker(tasks, [address], WorkerCapabilities("hand"), tell=said.append)
        running = asyncio.create_task(hand.run())
        while not registry.connections:
            await asyncio.sleep(0.005)
        yield said
        hand.drain()
        await running


async def test_a_call_that_fits_into_no_message_is_refused_to_the_task_that_makes_it() -> None:
    tasks = Tasks()

    @tasks.task("do")
    async def do(job: Job, arguments: Any) -> Any:
        with pytest.raises(CallFailed, match=f"bytes, and a message at most {MESSAGE_BYTES}") as refused:
            await job.model("m", "x" * MESSAGE_BYTES)
        return [refused.value.error_class, await job.model("m", "x" * (MESSAGE_BYTES - 4096))]

    registry, answers = WorkerRegistry(PATIENT), Answers()
    answers.may.set()
    async with connected(registry, tasks):
        assert await registry.perform("hand", work(), answers) == ["validation", "yes"]
    assert answers.asked == [2]


async def test_a_task_that_tells_more_than_can_be_sent_loses_lines_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_MAX_WAITING", 100)
    tasks = Tasks()

    @tasks.task("do")
    async def do(job: Job, arguments: Any) -> Any:
        for _ in range(1_000):
            job.progress("on")
        return await job.model("m", "hello")

    registry, answers = WorkerRegistry(PATIENT), Answers()
    answers.may.set()
    async with connected(registry, tasks) as said:
        assert await registry.perform("hand", work(), answers) == "yes"
    assert len(said) == 1, "it was connected once, and never again"


async def test_a_worker_whose_server_does_not_read_connects_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears heartbeats all the time, and nothing that it says arrives."""
    monkeypatch.setattr(worker, "_MAX_WAITING", 20)
    tasks = Tasks()

    @tasks.task("do")
    async def do(job: Job, arguments: Any) -> Any:
        asked = [asyncio.create_task(job.model("m", "x" * 1_000_000)) for _ in range(int(arguments))]
        return [await each for each in asked]

    async def deaf(said: AsyncIterator[wire.FromWorker], context: Any) -> AsyncIterator[wire.ToWorker]:
        """Keeps its word to be heard of, and reads nothing after the registration."""
        await anext(aiter(said))
        yield wire.ToWorker(registered=wire.Registered(lease_s=60, heartbeat_s=0.05))
        yield wire.ToWorker(assign=wire.Assign(job="job", task="do", arguments_json="50"))
        while True:
            await asyncio.sleep(0.05)
            yield wire.ToWorker(heartbeat=wire.Heartbeat())

    first = grpc.aio.server(options=OPTIONS)
    first.add_generic_rpc_handlers((handlers(SERVICES["Workers"], {"Work": deaf}),))
    port = first.add_insecure_port("127.0.0.1:0")
    await first.start()
    registry, said = WorkerRegistry(PATIENT), list[str]()
    try:
        async with listening(registry) as second:
            hand = Worker(tasks, [f"127.0.0.1:{port}", second], WorkerCapabilities("hand"), tell=said.append)
            running = asyncio.create_task(hand.run())
            while not registry.connections:
                await asyncio.sleep(0.005)
            assert "The server does not read its messages; connecting again." in said
            hand.drain()
            await running
    finally:
        await first.stop(0)
