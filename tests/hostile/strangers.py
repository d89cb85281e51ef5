"""Calls of somebody who knows no token: `python -m tests.hostile.strangers ADDRESS MANY METHOD`, what each says on stdin; what they
were told on stdout. A process of its own, because what it holds in memory is not the server's.
"""

from __future__ import annotations

import asyncio
import sys

import grpc

from holdfast.wire.binding import OPTIONS


async def told(address: str, many: int, method: str, said: bytes) -> set[str]:
    async def one() -> str:
        options = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1))
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            try:
                await channel.unary_unary(method)(said)
            except grpc.aio.AioRpcError as problem:
                return f"{problem.code().name}: {problem.details()}"
            return "answered"

    return {*await asyncio.gather(*(one() for _ in range(many)))}


if __name__ == "__main__":
    print(*sorted(asyncio.run(told(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.stdin.buffer.read()))), sep="; ")
