"""What goes wrong, one at a time: each fault is begun, lasts, and is over when its function returns.

Never here: a judgement. Nothing here waits longer than `MAX_S`.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.asyncio import Redis

from tests.chaos.fleet import LEASE_S, Fleet, Member

Fault = Callable[[Fleet, random.Random], Awaitable[None]]

MAX_S = 30.0
LEADER_LEASE_S = 2.0
HAND_LEASE_S = 6.0
_COMMITS = ("RunStarted", "StepCompleted", "EffectIntended", "EffectCompleted", "ModelCallHeld", "GateDecided")


async def kill_worker(fleet: Fleet, chance: random.Random) -> None:
    await _kill(chance.choice(fleet.workers))


async def kill_leader(fleet: Fleet, chance: random.Random) -> None:
    await _kill(fleet.leading())


async def kill_hand(fleet: Fleet, chance: random.Random) -> None:
    """A connected worker, or the process that it is connected to."""
    await _kill(chance.choice(fleet.hands))


async def freeze_hand(fleet: Fleet, chance: random.Random) -> None:
    """For longer than it may be silent: its jobs are given to others, and then it wakes up."""
    await _freeze(chance.choice(fleet.hands[1:]), HAND_LEASE_S)


async def kill_everybody(fleet: Fleet, chance: random.Random) -> None:
    for member in fleet.members:
        member.kill()
    await asyncio.sleep(1)
    for member in fleet.members:
        member.start()


async def _kill(member: Member) -> None:
    member.kill()
    await asyncio.sleep(1)
    member.start()


async def freeze_worker(fleet: Fleet, chance: random.Random) -> None:
    """For longer than its lease: others go on with what it was at, and then it wakes up."""
    await _freeze(chance.choice(fleet.workers), LEASE_S)


async def freeze_leader(fleet: Fleet, chance: random.Random) -> None:
    await _freeze(fleet.leading(), LEADER_LEASE_S)


async def _freeze(member: Member, lease_s: float) -> None:
    member.signal(signal.SIGSTOP)
    await asyncio.sleep(lease_s + 1.5)
    member.signal(signal.SIGCONT)


async def clock_off(fleet: Fleet, chance: random.Random) -> None:
    """A worker whose clock is an hour off, in either direction, until it is killed some day."""
    worker = chance.choice(fleet.workers)
    worker.kill()
    worker.start(CHAOS_CLOCK_OFF_S=str(chance.choice((-3600, 3600))))


async def stop_worker(fleet: Fleet, chance: random.Random) -> None:
    """As a deployment does: with a word."""
    worker = chance.choice(fleet.workers)
    worker.tell_to_stop()
    async with asyncio.timeout(MAX_S):
        while worker.runs:
            await asyncio.sleep(0.05)
    worker.kill()
    worker.start()


async def crash_postgres(fleet: Fleet, chance: random.Random) -> None:
    await asyncio.to_thread(fleet.postgres.stop, signal.SIGQUIT)
    await asyncio.sleep(chance.uniform(0, 2))
    await asyncio.to_thread(fleet.postgres.restart)


async def postgres_away(fleet: Fleet, chance: random.Random) -> None:
    """For longer than every lease: nobody can find anybody dead, and everybody's work goes on afterwards."""
    await asyncio.to_thread(fleet.postgres.stop, signal.SIGQUIT)
    await asyncio.sleep(LEASE_S + chance.uniform(1, 4))
    await asyncio.to_thread(fleet.postgres.restart)


async def freeze_everybody(fleet: Fleet, chance: random.Random) -> None:
    """For longer than every lease, as a machine that sleeps: whoever wakes first may be the one whose lease is over."""
    for member in fleet.members:
        member.signal(signal.SIGSTOP)
    await asyncio.sleep(LEASE_S + 1.5)
    for member in fleet.members:
        member.signal(signal.SIGCONT)


async def terminate_backends(fleet: Fleet, chance: random.Random) -> None:
    for _ in range(5):
        others = "pid <> pg_backend_pid() and backend_type = 'client backend'"
        await asyncio.to_thread(fleet.say, f"select pg_terminate_backend(pid) from pg_stat_activity where {others}")
        await asyncio.sleep(chance.uniform(0, 0.3))


async def lose_replies(fleet: Fleet, chance: random.Random) -> None:
    """Connections are cut when the database has committed and before it can say so."""
    for _ in range(5):
        fleet.wire.lose_reply_to(chance.choice(_COMMITS), times=2)
        await asyncio.sleep(0.4)


async def silence(fleet: Fleet, chance: random.Random) -> None:
    """A cable is pulled, and put back."""
    fleet.wire.silent = True
    await asyncio.sleep(chance.uniform(0.5, LEASE_S + 1))
    fleet.wire.silent = False


async def fail_over(fleet: Fleet, chance: random.Random) -> None:
    await asyncio.to_thread(fleet.fail_over)
    await asyncio.sleep(1)
    await asyncio.to_thread(fleet.attach_standby)


async def fill_disk(fleet: Fleet, chance: random.Random) -> None:
    """No room for the database's next word; it may give up over that, and is started again when there is room."""
    assert fleet.disk is not None
    filler = fleet.disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024 * 1024))
        except OSError:
            pass
    await asyncio.sleep(2)
    filler.unlink()
    for server in (fleet.postgres, fleet.standby):
        if server is not None:
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            await asyncio.to_thread(server.restart)


async def kill_redis(fleet: Fleet, chance: random.Random) -> None:
    await asyncio.to_thread(fleet.redis.stop, signal.SIGKILL)
    await asyncio.sleep(chance.uniform(0, 3))
    await asyncio.to_thread(fleet.redis.start)


async def stale_redis(fleet: Fleet, chance: random.Random) -> None:
    """It comes back with what it had a while ago: hints that are long followed, and none of those since."""
    async with Redis.from_url(fleet.redis.url) as client:
        copy = Path((await client.config_get("dir"))["dir"]) / (await client.config_get("dbfilename"))["dbfilename"]
        await client.save()
    await asyncio.sleep(chance.uniform(1, 3))
    await asyncio.to_thread(fleet.redis.stop, signal.SIGKILL)
    await asyncio.to_thread(fleet.redis.start)
    copy.unlink()


async def freeze_redis(fleet: Fleet, chance: random.Random) -> None:
    fleet.redis.signal(signal.SIGSTOP)
    await asyncio.sleep(chance.uniform(1, 4))
    fleet.redis.signal(signal.SIGCONT)


async def flush_redis(fleet: Fleet, chance: random.Random) -> None:
    async with Redis.from_url(fleet.redis.url) as client:
        for _ in range(3):
            await client.flushall()
            await asyncio.sleep(chance.uniform(0, 0.3))


async def fill_redis(fleet: Fleet, chance: random.Random) -> None:
    """It takes nothing more."""
    async with Redis.from_url(fleet.redis.url) as client:
        await client.config_set("maxmemory", "1mb")
        await asyncio.sleep(3)
        await client.config_set("maxmemory", "0")


EVERY: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill_worker,
        kill_leader,
        kill_everybody,
        freeze_worker,
        freeze_leader,
        freeze_everybody,
        clock_off,
        stop_worker,
        crash_postgres,
        postgres_away,
        terminate_backends,
        lose_replies,
        silence,
        fail_over,
        fill_disk,
        kill_redis,
        freeze_redis,
        flush_redis,
        fill_redis,
        stale_redis,
        kill_hand,
        freeze_hand,
    )
}
NEED_STANDBY = frozenset({"fail_over"})
NEED_DISK = frozenset({"fill_disk"})
NEED_HANDS = frozenset({"kill_hand", "freeze_hand"})


def possible(fleet: Fleet) -> list[str]:
    """The faults that this fleet, on this machine, can have."""
    return [
        name
        for name in EVERY
        if (fleet.standby is not None or name not in NEED_STANDBY)
        and (fleet.disk is not None or name not in NEED_DISK)
        and (fleet.hands or name not in NEED_HANDS)
    ]
