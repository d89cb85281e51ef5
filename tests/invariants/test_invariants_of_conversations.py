"""What was said to an agent, among several who say it and who die."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.engine.kit import bounded, die, opened
from tests.engine.test_conversations import parrot

SAID = [f"m{number}" for number in range(8)]


@bounded
async def test_invariant_31_a_message_is_answered_by_one_run_in_its_order_whichever_dies(store: str) -> None:
    async with opened(store, workflows=[parrot]) as one, opened(store, workflows=[parrot]) as two:
        await one.open_conversation("c", parrot)
        first = await one.send_message("c", "wait", key="wait")
        for text in SAID:  # two say the same, each from his own process
            await asyncio.gather(*(each.send_message("c", text, key=text) for each in (one, two)))
        await one.signal(str(first.run), "go on", "went on")
        await one.reply("c", 3)
        await die(one)  # whatever it was at
        for text in SAID:
            await two.send_message("c", text, key=text)
        await two.reply("c", 1 + len(SAID))
        exchanges = (await two.conversation("c")).exchanges
        assert [each.text for each in exchanges.values()] == ["wait", *SAID]
        assert [each.parent for each in exchanges.values()] == [None, *range(1, 1 + len(SAID))]
        assert Counter(each.status for each in exchanges.values()) == {"completed": 1 + len(SAID)}
        told = "u:wait a:went on"
        for each in list(exchanges.values())[1:]:
            told = f"{told} u:{each.text}"
            assert each.reply == told
            told = f"{told} a:{each.reply}"
        assert sorted(row.run for row in await two.runs()) == sorted(str(each.run) for each in exchanges.values())
