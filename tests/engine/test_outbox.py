"""Messages leave the store in the order of each run, one attempt at a time, and none is lost or made twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import Seq
from holdfast.core.views import notifications
from holdfast.core.views.notifications import RETRIES_S, Delivery, Rule
from holdfast.ports import Claimed, Store
from holdfast.storage import open_store

RUN, OTHER = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
LEASE_MS = 60_000
CHANNEL = "ops"


@pytest.fixture
async def opened(store: str) -> AsyncIterator[Store]:
    found = await open_store(store)
    yield found
    await found.aclose()


def delivery(run: str = RUN, seq: int = 1, now_ms: int = 0, **fields: Any) -> Delivery:
    """A delivery of an event, by a rule without a digest unless `fields` says."""
    said = {"tenant": "acme", "name": "all", "occasions": ("run_completed",), "channel": CHANNEL, "digest_s": 0.0}
    rule = Rule(**{**said, **fields})  # type: ignore[arg-type]
    happening = notifications.happening_of("acme", "orders", run, Recorded(Seq(seq), 1_000 * seq, ev.RunCompleted()))
    assert happening is not None
    return notifications.delivery_of(rule, happening, now_ms, None, ())


def ids(found: Sequence[Claimed | Delivery]) -> list[str]:
    return [each.id for each in found]


async def claimed(store: Store, limit: int = 10, lease_ms: int = LEASE_MS) -> Sequence[Claimed]:
    return await store.outbox.claim(CHANNEL, limit, lease_ms)


async def test_a_delivery_is_kept_once_however_often_it_is_added(opened: Store) -> None:
    made = [delivery(seq=seq, now_ms=seq) for seq in (1, 2)]
    assert await opened.outbox.add(made) == 2
    assert await opened.outbox.add([*made, delivery(seq=3, now_ms=3)]) == 1
    found = await opened.outbox.find(made[0].id)
    assert found == made[0]
    assert ids(await opened.outbox.listed(tenant="acme")) == [delivery(seq=seq).id for seq in (3, 2, 1)]
    assert ids(await opened.outbox.listed(tenant="acme", after=delivery(seq=3).id, limit=1)) == [made[1].id]
    short = made[0].id[:14]
    assert ids(await opened.outbox.listed(prefix=short)) == ids(await opened.outbox.listed(prefix=made[0].id)) == [made[0].id]
    assert len(await opened.outbox.listed(prefix="msg_", state="waiting")) == 3
    assert await opened.outbox.listed(prefix=short, state="dead") == await opened.outbox.listed(prefix="msg_g") == []
    assert await opened.outbox.listed(tenant="globex") == await opened.outbox.listed(run=OTHER) == []


async def test_the_messages_of_a_run_go_one_after_the_other(opened: Store) -> None:
    await opened.outbox.add([delivery(seq=2), delivery(seq=1), delivery(OTHER, 9), delivery(seq=1, channel="mail")])
    first, other = await claimed(opened)
    assert {first.id, other.id} == {delivery(seq=1).id, delivery(OTHER, 9).id}
    assert await claimed(opened) == []
    assert await opened.outbox.sent(first, CHANNEL)
    (second,) = await claimed(opened)
    assert (second.id, second.attempt) == (delivery(seq=2).id, 1)
    assert len(await opened.outbox.claim("mail", 10, LEASE_MS)) == 1


async def test_a_message_whose_sender_died_is_taken_up_with_the_next_attempt(opened: Store) -> None:
    await opened.outbox.add([delivery()])
    (dead,) = await claimed(opened, lease_ms=0)
    (next_,) = await claimed(opened)
    assert (next_.id, next_.attempt, next_.message) == (dead.id, 2, dead.message)
    assert not await opened.outbox.sent(dead, CHANNEL)
    assert not await opened.outbox.failed(dead, CHANNEL, "late", 0, disable=False)
    assert await opened.outbox.sent(next_, CHANNEL)
    assert not await opened.outbox.sent(next_, CHANNEL)
    (figures,) = await opened.outbox.figures()
    assert (figures.sent, figures.failed, figures.dead, figures.waiting) == (1, 0, 0, 0)


async def test_two_processes_never_claim_the_same_message(opened: Store, store: str) -> None:
    await opened.outbox.add([delivery(seq=seq, run=f"{RUN[:-2]}{seq:02d}") for seq in range(1, 21)])
    second = await open_store(store)
    found = await asyncio.gather(*(each.outbox.claim(CHANNEL, 8, LEASE_MS) for each in (opened, second) * 3))
    await second.aclose()
    got = [each.id for some in found for each in some]
    assert len(got) == len({*got}) == 20


async def test_what_waits_behind_a_failed_message_waits_as_long(opened: Store) -> None:
    await opened.outbox.add([delivery(seq=1), delivery(seq=2)])
    (first,) = await claimed(opened)
    later_ms = opened.clock.now_ms() + 500_000
    assert await opened.outbox.failed(first, CHANNEL, "away", later_ms, disable=False)
    assert await claimed(opened) == []
    found = await opened.outbox.listed()
    assert [(each.state, each.due_at_ms) for each in found] == [("waiting", later_ms)] * 2
    assert [each.problem for each in found] == [None, "away"]


async def test_after_a_dead_message_the_next_ones_go_and_say_so(opened: Store) -> None:
    await opened.outbox.add([delivery(seq=1), delivery(seq=2)])
    (first,) = await claimed(opened)
    assert await opened.outbox.failed(first, CHANNEL, "400", None, disable=False)
    (second,) = await claimed(opened)
    assert msgspec.json.decode(second.message.body)["data"]["earlier_lost"] == 1
    assert await opened.outbox.sent(second, CHANNEL)
    assert await opened.outbox.replay(first.id)
    assert not await opened.outbox.replay(second.id)
    (again,) = await claimed(opened)
    assert (again.id, again.message) == (first.id, first.message)


async def test_a_message_that_killed_its_sender_each_time_ends_as_dead(opened: Store) -> None:
    await opened.outbox.add([delivery()])
    for attempt in range(1, len(RETRIES_S) + 1):
        assert [each.attempt for each in await claimed(opened, lease_ms=0)] == [attempt]
    assert await claimed(opened) == []
    (found,) = await opened.outbox.listed(state="dead")
    assert found.problem is not None
    assert "ended in the last try" in found.problem


async def test_a_disabled_address_gets_nothing_until_it_is_enabled(opened: Store) -> None:
    await opened.outbox.add([delivery(seq=1), delivery(OTHER, 2)])
    first = (await claimed(opened, limit=1))[0]
    assert await opened.outbox.failed(first, CHANNEL, "410", None, disable=True)
    assert await claimed(opened) == []
    assert [(each.state, each.problem, each.attempts) for each in await opened.outbox.listed(run=OTHER)] == [("dead", "410", 0)]
    (figures,) = await opened.outbox.figures()
    assert (figures.dead, figures.failed, figures.disabled_at_ms is None, figures.problem) == (2, 1, False, "410")
    assert await opened.outbox.enable(CHANNEL, "")
    assert not await opened.outbox.enable(CHANNEL, "")
    assert await opened.outbox.replay(delivery(OTHER, 2).id)
    assert ids(await claimed(opened)) == [delivery(OTHER, 2).id]


async def test_forty_messages_of_one_rule_become_one_and_end_with_it(opened: Store) -> None:
    runs = [f"{RUN[:-2]}{number:02d}" for number in range(40)]
    now_ms = opened.clock.now_ms()
    await opened.outbox.add([delivery(runs[0], 1, now_ms, digest_s=10.0)])
    assert await claimed(opened) == []  # others may come within 10 s
    await opened.outbox.add([delivery(run, 1, now_ms - 10_000, digest_s=10.0) for run in runs[1:]])
    (one,) = await claimed(opened)
    assert one.message.occasion == "digest"
    assert msgspec.json.decode(one.message.body)["data"]["count"] == 40
    assert await claimed(opened) == []
    again_ms = opened.clock.now_ms()
    assert await opened.outbox.failed(one, CHANNEL, "away", again_ms, disable=False)
    await opened.outbox.add([delivery(OTHER, 3, now_ms - 10_000, digest_s=10.0)])
    found = {each.id: each for each in await claimed(opened)}
    assert found[one.id].message == one.message
    assert await opened.outbox.sent(found[one.id], CHANNEL)
    assert {each.state for each in await opened.outbox.listed(limit=100) if each.run != OTHER} == {"sent"}
    (figures,) = await opened.outbox.figures()
    assert (figures.sent, figures.waiting) == (1, 1)


@pytest.mark.parametrize("runs", [[RUN] * 40, [f"{RUN[:-2]}{number:02d}" for number in range(40)]], ids=["one", "forty"])
async def test_two_rules_about_the_same_events_make_one_digest_each(opened: Store, runs: list[str]) -> None:
    now_ms = opened.clock.now_ms() - 20_000
    for name in ("first", "second"):
        await opened.outbox.add([delivery(run, seq, now_ms, name=name, digest_s=10.0) for seq, run in enumerate(runs, 1)])
    counts, rules = list[int](), set[str]()
    while found := await claimed(opened):
        for each in found:
            counts.append(msgspec.json.decode(each.message.body)["data"].get("count", 1))
            kept = await opened.outbox.find(each.id)
            rules.add("" if kept is None else kept.rule)
            assert await opened.outbox.sent(each, CHANNEL)
    assert (counts, rules) == ([40, 40], {"first", "second"})
    assert {each.state for each in await opened.outbox.listed(limit=100)} == {"sent"}


async def test_a_digest_overtakes_no_other_digest_about_something_else(opened: Store) -> None:
    now_ms = opened.clock.now_ms() - 20_000
    made = [delivery(seq=seq, now_ms=now_ms, name=name, digest_s=10.0) for seq, name in enumerate(("a", "b", "a"), 1)]
    await opened.outbox.add(made)
    for each in made:
        assert ids(found := await claimed(opened)) == [each.id]
        assert await opened.outbox.sent(found[0], CHANNEL)


async def test_a_digest_overtakes_nothing_of_a_run(opened: Store) -> None:
    now_ms = opened.clock.now_ms() - 20_000
    first, plain, late = (
        delivery(seq=1, now_ms=now_ms, digest_s=10.0),
        delivery(seq=2, now_ms=now_ms, name="plain"),
        delivery(seq=3, now_ms=now_ms, digest_s=10.0),
    )
    other = delivery(OTHER, 1, now_ms, digest_s=10.0)
    await opened.outbox.add([late, plain, first, other])
    (one,) = await claimed(opened)
    assert msgspec.json.decode(one.message.body)["data"]["count"] == 2
    for wanted in (plain, late):
        assert await opened.outbox.sent(one, CHANNEL)
        (one,) = await claimed(opened)
        assert one.id == wanted.id


async def test_old_deliveries_are_forgotten_and_others_stay(opened: Store) -> None:
    await opened.outbox.add([delivery(f"{RUN[:-2]}{number:02d}", 1) for number in range(3)])
    sent, dead, _ = await claimed(opened)
    await opened.outbox.sent(sent, CHANNEL)
    await opened.outbox.failed(dead, CHANNEL, "no", None, disable=False)
    now_ms = opened.clock.now_ms() + 1_000
    assert await opened.outbox.forget(0, 0, 10) == 0
    assert await opened.outbox.forget(now_ms, 0, 10) == 1
    assert await opened.outbox.forget(now_ms, now_ms, 10) == 1
    assert len(await opened.outbox.listed()) == 1


async def test_rules_are_kept_by_tenant_and_name_with_their_revision(opened: Store) -> None:
    rule = Rule(tenant="acme", name="asked", occasions=("gate_opened",), channel=CHANNEL, labels={"env": "prod"})
    assert await opened.notification_rules.put(rule)
    assert not await opened.notification_rules.put(rule)
    kept = await opened.notification_rules.find("acme", "asked")
    assert kept == msgspec.structs.replace(rule, revision=1)
    assert await opened.notification_rules.put(msgspec.structs.replace(kept, channel="mail"))
    assert await opened.notification_rules.put(msgspec.structs.replace(rule, tenant="globex"))
    assert [(each.tenant, each.channel) for each in await opened.notification_rules.page(None, None, 10)] == [
        ("acme", "mail"),
        ("globex", CHANNEL),
    ]
    assert [each.tenant for each in await opened.notification_rules.page("globex", None, 10)] == ["globex"]
    assert await opened.notification_rules.remove("acme", "asked")
    assert not await opened.notification_rules.remove("acme", "asked")
