"""What is on its way on a stream: how much of it there may be, and what goes together."""

from __future__ import annotations

import asyncio

from holdfast.wire import wire_pb2 as wire
from holdfast.wire.outbox import Outbox


def progress(number: int, size: int = 1) -> wire.FromWorker:
    return wire.FromWorker(progress=wire.Progress(job=str(number), text="x" * size))


async def told(outbox: Outbox[wire.FromWorker]) -> list[list[wire.FromWorker]]:
    """The messages of an outbox that is closed, each with what went along."""
    async with asyncio.timeout(10):
        return [[message, *message.more] async for message in outbox.messages()]


def numbers(messages: list[list[wire.FromWorker]]) -> list[int]:
    return [int(each.progress.job) for message in messages for each in message]


async def test_an_outbox_that_is_full_takes_nothing_until_something_of_it_was_read() -> None:
    outbox = Outbox[wire.FromWorker](3)
    assert [outbox.say(progress(number)) for number in range(4)] == [True, True, True, False]
    assert len(outbox) == 3
    reading = outbox.messages()
    await anext(reading)
    assert outbox.say(progress(4))
    outbox.close()
    assert not outbox.say(progress(5))
    assert numbers([[message, *message.more] async for message in reading]) == [4]


async def test_what_is_said_together_goes_together_in_order_and_no_message_grows_large() -> None:
    outbox = Outbox[wire.FromWorker](2_000)
    for number in range(1_000):
        outbox.say(progress(number))
    for number in range(1_000, 1_100):
        outbox.say(progress(number, 1_000))
    outbox.say(progress(1_100, 200_000))
    outbox.say(progress(1_101))
    outbox.close()
    messages = await told(outbox)
    assert numbers(messages) == list(range(1_102))
    assert max(map(len, messages)) == 101
    assert max(message[0].ByteSize() for message in messages if len(message) > 1) < 70_000
    assert len(messages) < 20, "a message each would cost both ends more than what it says"


async def test_what_is_not_urgent_waits_for_company_but_not_for_long() -> None:
    outbox = Outbox[wire.FromWorker](10)
    reading = outbox.messages()
    outbox.say(progress(0), urgent=False)
    async with asyncio.timeout(10):
        assert (await anext(reading)).progress.job == "0"
    reads = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    outbox.say(progress(1), urgent=False)
    for _ in range(5):
        await asyncio.sleep(0)
    outbox.say(progress(2))
    message = await reads
    assert numbers([[message, *message.more]]) == [1, 2]
