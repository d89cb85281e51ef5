"""How pools above steps are divided: never more than there is, nothing lost, everybody in turn."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.capacity.lending import (
    MAX_CLOSED_MS,
    Bucket,
    DeclaredPool,
    Grant,
    PoolRow,
    Share,
    Visit,
    Visitor,
    declared,
    divide,
    lend,
    own_pools,
)
from holdfast.core.values.ids import SessionId

SLOTS = DeclaredPool("BROWSERS", "slots", 8)
RATE = DeclaredPool("RPS", "rate", 50, per_s=1, burst=10)


class Authority:
    """One pool, and the rows of its shares, as a store keeps them."""

    def __init__(self, pool: DeclaredPool) -> None:
        self.now_ms = 0
        self.row = declared(pool, None, 0)
        self.shares: dict[tuple[str, str, SessionId], Share] = {}
        self.deaths_ms: dict[SessionId, int] = {}

    def life(self, share: Share) -> str:
        died_ms = self.deaths_ms.get(share.session)
        if died_ms is None:
            return "living"
        return "lingering" if abs(self.now_ms - died_ms) < share.outlives_ms else "dead"

    def visited(self, visitor: Visitor, visit: Visit) -> Grant:
        assert visitor.session not in self.deaths_ms
        shares = [msgspec.structs.replace(share, life=self.life(share)) for share in self.shares.values()]
        lent = lend([self.row], shares, visitor, [visit], self.now_ms)
        for share in lent.gone:
            del self.shares[share.key]
        self.shares.update({share.key: share for share in lent.shares})
        for bucket in lent.buckets.values():
            self.row = PoolRow(self.row.pool, bucket)
        (grant,) = lent.grants
        return grant

    def out(self) -> int:
        return sum(share.granted for share in self.shares.values() if self.life(share) != "dead")


class Holder:
    """Somebody who places jobs, and believes what he was told last."""

    def __init__(self, name: str, authority: Authority, session: str | None = None, outlives_ms: int = 0) -> None:
        self.name = name
        self.session = SessionId(session or f"s-{name}")
        self.authority = authority
        self.outlives_ms = outlives_ms
        self.grant = Grant(authority.row.pool, 0, 0)
        self.number = 0
        self.running: list[int] = []
        self.waiting: deque[int] = deque()

    @property
    def pool(self) -> DeclaredPool:
        return self.authority.row.pool

    @property
    def granted(self) -> int:
        return self.grant.granted

    @property
    def usable(self) -> int:
        return self.grant.usable

    @property
    def used(self) -> int:
        return sum(self.running)

    def lower(self) -> None:
        kept = max(self.used, self.grant.share) if self.pool.kind == "slots" else self.grant.share
        self.grant = msgspec.structs.replace(self.grant, granted=kept)

    def letter(self) -> tuple[Visitor, Visit]:
        self.lower()
        self.number += 1
        visitor = Visitor(self.name, self.session, self.number, self.outlives_ms)
        least = self.waiting[0] if self.waiting else 1
        wanted = self.used + sum(self.waiting)
        return visitor, Visit(self.pool.name, self.used, wanted, self.granted if wanted else 0, least)

    def hear(self, grant: Grant) -> None:
        self.grant = grant

    def visit(self) -> Grant:
        grant = self.authority.visited(*self.letter())
        self.hear(grant)
        return grant

    def want(self, *amounts: int) -> Holder:
        self.waiting.extend(amounts)
        return self

    def place(self) -> int:
        """Place what can be placed, first come first served; how many jobs."""
        placed = 0
        while self.waiting and self.used + self.waiting[0] <= self.usable:
            self.running.append(self.waiting.popleft())
            placed += 1
        return placed


def holders(authority: Authority, *names: str) -> list[Holder]:
    return [Holder(name, authority) for name in names]


# --- Division ---------------------------------------------------------------------------------------------------------


def share(name: str, wanted: int, least: int = 1, granted: int = 0, since_ms: int = 0, short: bool = False) -> Share:
    return Share("BROWSERS", name, SessionId(name), granted, 0, wanted, least, short, since_ms)


def targets(pool: DeclaredPool, *shares: Share) -> list[int]:
    found = divide(pool, pool.limit, shares)
    return [found[each.key] for each in shares]


@pytest.mark.parametrize(
    ("name", "tenant"),
    [("RPS", None), ("RPS@acme", "acme"), ("RPS@acme%20inc%2C", "acme inc,"), ("R@" + "%E2%82%AC" * 85, "€" * 85)],
)
def test_a_pool_is_shared_or_a_tenants(name: str, tenant: str | None) -> None:
    pool = DeclaredPool(name, "slots", 1)
    assert list(pool.problems()) == []
    assert pool.tenant == tenant
    base = name.partition("@")[0]
    assert own_pools({base: 2}, tenant or "t", {name}) == {name: 2}
    assert own_pools({base: 2}, "somebody else", {name}) == {base: 2}


@pytest.mark.parametrize("name", ["", "@acme", "RPS@", "RPS@a b", "RPS@a%2fb", "RPS@" + "a" * 800, "A B", "A,B", "R" * 101])
def test_a_pool_with_no_name_that_steps_can_ask_for_is_refused(name: str) -> None:
    assert list(DeclaredPool(name, "slots", 1).problems())


def test_who_is_alone_is_entitled_to_everything() -> None:
    assert targets(SLOTS, share("a", 1)) == [8]


def test_who_wants_nothing_is_entitled_to_nothing() -> None:
    assert targets(SLOTS, share("a", 0), share("b", 1)) == [0, 8]


def test_small_wants_are_met_and_the_others_are_level() -> None:
    assert targets(SLOTS, share("a", 2), share("b", 100), share("c", 100)) == [2, 3, 3]


def test_what_no_job_wants_is_spread() -> None:
    assert targets(SLOTS, share("a", 1), share("b", 1)) == [4, 4]


def test_a_share_that_would_be_too_small_for_a_job_is_not_lent() -> None:
    """Three who need four of eight: not 3, 3 and 2, with which nobody could do anything."""
    assert targets(SLOTS, share("a", 4, 4), share("b", 4, 4), share("c", 4, 4)) == [4, 4, 0]


def test_who_has_waited_longest_goes_first_and_who_has_had_it_longest_last() -> None:
    shares = [share("had long", 8, 8, since_ms=1), share("had briefly", 8, 8, since_ms=9)]
    assert targets(SLOTS, *shares) == [0, 8]
    waits = [share("late", 8, 8, since_ms=9, short=True), share("early", 8, 8, since_ms=1, short=True)]
    assert targets(SLOTS, *shares, *waits) == [0, 0, 0, 8]


def test_a_share_of_a_rate_has_a_burst_in_which_a_job_fits() -> None:
    """Of 50 a second with a burst of 10, a share of 5 holds one at once; so ten can have some, and others wait."""
    found = targets(RATE, *(share(f"{n:02}", 100) for n in range(12)))
    assert sorted(found) == [0, 0, *[5] * 10]


@given(
    st.sampled_from([SLOTS, RATE, DeclaredPool("T", "rate", 7, per_s=60, burst=3)]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9), st.booleans(), st.integers(0, 5)), max_size=30),
)
def test_a_division_is_never_more_than_there_is_and_leaves_nothing_that_is_wanted(
    pool: DeclaredPool, wants: list[tuple[int, int, bool, int]]
) -> None:
    shares = [share(f"{n:02}", w, least, short=s, since_ms=t) for n, (w, least, s, t) in enumerate(wants)]
    found = targets(pool, *shares)
    assert sum(found) <= pool.limit
    useful = [pool.useful(min(each.least, each.wanted)) for each in shares]
    assert all(got == 0 or got >= least for got, least in zip(found, useful, strict=True))
    if any(0 < least <= pool.limit for least in useful):
        assert sum(found) == pool.limit


# --- Visits -----------------------------------------------------------------------------------------------------------


def test_a_sole_holder_has_everything_at_once() -> None:
    (a,) = holders(Authority(SLOTS), "a")
    assert a.want(1).visit().usable == 8


def test_a_newcomer_gets_what_is_free_and_the_rest_as_it_is_given_back() -> None:
    authority = Authority(SLOTS)
    a, b = holders(authority, "a", "b")
    a.want(*[1] * 8).visit()
    assert a.place() == 8
    assert b.want(*[1] * 8).visit().granted == 0
    assert a.visit().target == 4
    assert a.granted == 8, "what is in use is not taken"
    del a.running[:3]
    a.want(*[1] * 8)
    assert a.place() == 0, "new jobs begin below the target only"
    a.visit()
    assert b.visit().granted == 3
    a.running.pop()
    a.visit()
    assert (a.granted, b.visit().granted) == (4, 4)


def test_no_holder_gives_back_what_none_lacks() -> None:
    """The third has the one slot that it wants; that all could have two or three is no reason to ask the second."""
    authority = Authority(SLOTS)
    a, b, c = holders(authority, "a", "b", "c")
    for each in (a, b, a, a, b):
        each.want(1).visit()
    assert (a.usable, b.usable) == (4, 4)
    c.want(1).visit()
    a.visit()
    a.visit()
    assert c.visit().usable == 1
    assert (a.usable, b.visit().usable) == (3, 4)


def test_in_a_smaller_pool_holders_get_notice_and_give_back_as_jobs_end() -> None:
    authority = Authority(SLOTS)
    (a,) = holders(authority, "a")
    a.want(*[1] * 8).visit()
    a.place()
    authority.row = declared(DeclaredPool("BROWSERS", "slots", 3), authority.row, 0)
    assert a.visit().target == 3
    assert a.granted == 8
    a.running[:] = [1]
    a.visit()
    assert (a.granted, a.usable) == (3, 3)


def test_a_visit_that_comes_after_a_later_one_changes_nothing() -> None:
    """The earlier one may have been on its way while its sender had given it up."""
    authority = Authority(SLOTS)
    a, b = holders(authority, "a", "b")
    late = a.want(*[1] * 8).letter()
    a.visit()
    assert a.place() == 8
    b.want(1).visit()
    before = dict(authority.shares)
    authority.visited(*late)
    assert authority.shares == before
    assert b.visit().granted == 0


def test_an_answer_that_was_lost_is_made_up_for_by_the_next_visit() -> None:
    authority = Authority(SLOTS)
    a, b = holders(authority, "a", "b")
    authority.visited(*a.want(1).letter())
    assert a.granted == 0
    assert b.want(1).visit().granted == 0
    assert a.visit().granted == 4
    assert b.visit().granted == 4


def test_what_a_dead_holder_had_is_free() -> None:
    authority = Authority(SLOTS)
    a, b = holders(authority, "a", "b")
    a.want(*[1] * 8).visit()
    authority.deaths_ms[a.session] = 0
    assert b.want(1).visit().granted == 8
    assert list(authority.shares) == [("BROWSERS", "b", b.session)]


def test_what_a_holder_has_placed_outlives_it_and_the_next_of_its_name_takes_it_over() -> None:
    authority = Authority(SLOTS)
    first, heir = (Holder("lane", authority, session, outlives_ms=1000) for session in ("s1", "s2"))
    (other,) = holders(authority, "other")
    first.want(*[1] * 8).visit()
    authority.deaths_ms[first.session] = 0
    assert other.want(*[1] * 8).visit().granted == 0
    authority.now_ms = 999
    assert heir.want(*[1] * 8).visit().granted == 8
    assert authority.out() == 8


def test_what_lingers_is_free_when_nothing_can_be_running_any_more() -> None:
    authority = Authority(SLOTS)
    gone, other = Holder("lane", authority, outlives_ms=1000), Holder("other", authority)
    gone.want(*[1] * 8).visit()
    authority.deaths_ms[gone.session] = 0
    authority.now_ms = 999
    assert other.want(1).visit().granted == 0
    authority.now_ms = 1000
    assert other.visit().granted == 8


def test_large_jobs_are_not_starved_by_small_ones() -> None:
    authority = Authority(SLOTS)
    large, *small = holders(authority, "large", "small 1", "small 2")
    for each in small:
        each.want(*[1] * 100).visit()
        each.place()
    large.want(8)
    for turn in range(20):
        authority.now_ms = turn * 1000
        for each in (*small, large):
            del each.running[:1]
            each.visit()
            if each.place() and each is large:
                return
    pytest.fail("the large job was never placed")


def test_more_holders_than_slots_take_turns() -> None:
    authority = Authority(DeclaredPool("P", "slots", 2))
    crowd = holders(authority, *"abcde")
    done = dict.fromkeys("abcde", 0)
    for each in crowd:
        each.want(*[1] * 100)
    for turn in range(100):
        authority.now_ms = turn * 1000
        for each in crowd:
            each.running.clear()
            each.visit()
            done[each.name] += each.place()
    assert min(done.values()) * 2 >= max(done.values()) > 0


# --- Several pools at once --------------------------------------------------------------------------------------------


_JOBS = st.lists(st.sets(st.sampled_from("XYZ"), min_size=1), min_size=1, max_size=3)


@settings(deadline=None, max_examples=20, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking takes minutes
@example(3, [[{"X", "Y"}], [{"X", "Y"}], [{"X"}, {"X", "Y"}], []], [set(), {"Y"}, {"Y"}, set()], 1)
@given(
    st.integers(2, 4),
    st.lists(_JOBS, min_size=4, max_size=4),
    st.lists(st.sets(st.sampled_from("XYZ")), min_size=4, max_size=4),
    st.integers(0, 2**32),
)
def test_holders_whose_jobs_take_of_several_pools_get_all_of_them_in_turn(
    count: int, wants: list[list[set[str]]], before: list[set[str]], seed: int
) -> None:
    """Whoever has wanted what before, and whichever job is the next in each pool: none takes from another for ever what
    neither can use alone, or keeps it."""
    pools = {name: DeclaredPool(name, "slots", 2) for name in "XYZ"}
    shares: dict[tuple[str, str, SessionId], Share] = {}
    held: dict[tuple[int, str], Grant] = {}
    now_ms, chance = 0, Random(seed)

    def visit(holder: int, jobs: list[set[str]]) -> None:
        visits = []
        for name in pools:
            asking = [job for job in jobs if name in job]
            holds = held[holder, name].share if (holder, name) in held and asking else 0
            beside = tuple(sorted(asking[0] - {name})) if asking else ()
            visits.append(Visit(name, 0, 2 * len(asking), holds, 2, 0, beside))
        visitor = Visitor(f"h{holder}", SessionId(f"s{holder}"), now_ms)
        lent = lend([declared(pool, None, 0) for pool in pools.values()], [*shares.values()], visitor, visits, now_ms)
        shares.update({share.key: share for share in lent.shares})
        held.update({(holder, grant.pool.name): grant for grant in lent.grants})

    jobs = [[set(job) for job in each] for each in wants]
    for turn in range(30 * count):
        for holder in chance.sample(range(count), count):
            now_ms += 250
            visit(holder, [before[holder]] if turn < 3 else jobs[holder])
            placed = (job for job in jobs[holder] if turn >= 3 and all(held[holder, name].usable >= 2 for name in job))
            if (job := next(placed, None)) is not None:
                jobs[holder].remove(job)
    assert jobs[:count] == [[]] * count


# --- Rates ------------------------------------------------------------------------------------------------------------


def test_a_new_pool_is_full_and_a_share_brings_its_part() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    assert a.want(1).visit().filled == 10
    b.want(1).visit()
    a.visit()
    a.visit()
    grant = b.visit()
    assert (grant.granted, grant.burst, grant.filled) == (25, 5, 0), "what changes hands comes empty"


def test_a_share_of_a_rate_is_unusable_while_the_next_job_exceeds_its_burst() -> None:
    """With a tenth of the bucket, a job that takes half of it would be in debt to all others."""
    pool = DeclaredPool("RPS", "rate", 50, per_s=1, burst=10)
    assert Grant(pool, 5, 50, least=5).usable == 0
    assert (Grant(pool, 25, 50, least=5).usable, Grant(pool, 25, 50, least=5).burst) == (25, 5)
    assert Grant(pool, 49, 50, least=1000).usable == 0
    assert Grant(pool, 50, 50, least=1000).usable == 50


def test_what_is_not_lent_fills_up() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    a.want(1).visit()
    a.waiting.clear()
    a.visit()
    authority.now_ms = 100
    assert b.want(1).visit().filled == 5


def test_the_part_of_the_dead_was_not_filling_before() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    a.want(1).visit()
    authority.now_ms = 10_000
    authority.deaths_ms[a.session] = 10_000
    grant = b.want(1).visit()
    assert (grant.granted, grant.filled) == (50, 0)


def test_what_is_owed_is_owed_by_the_next_holder() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    a.want(1).visit()
    authority.visited(a.letter()[0], Visit("RPS", 0, 0, holds=0, owes=20))
    assert b.want(1).visit().filled == -20


def test_what_was_not_used_comes_back_also_when_its_share_is_gone() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    assert a.want(1).visit().filled == 10
    a.waiting.clear()
    a.visit()
    assert authority.row.bucket.level == 0, "it was let out, or is lost"
    visitor, visit = a.letter()
    authority.visited(visitor, msgspec.structs.replace(visit, unused=7))
    assert b.want(1).visit().filled == 7
    b.waiting.clear()
    visitor, visit = b.letter()
    authority.visited(visitor, msgspec.structs.replace(visit, unused=1_000))
    assert authority.row.bucket.level == RATE.full(RATE.limit), "a pool holds a burst, whatever comes back"


def test_what_comes_back_of_a_rate_that_is_lent_goes_to_its_present_holder() -> None:
    authority = Authority(RATE)
    a, b = holders(authority, "a", "b")
    a.want(1).visit()
    visitor, visit = b.letter()
    assert authority.visited(visitor, msgspec.structs.replace(visit, unused=4)).filled == 0
    assert a.visit().filled == 4
    assert a.visit().filled == 0


def test_of_a_closed_pool_nothing_is_lent_and_all_holders_hear_of_it() -> None:
    for pool in (SLOTS, RATE):
        authority = Authority(pool)
        a, b = holders(authority, "a", "b")
        a.want(1).visit()
        visitor, visit = a.letter()
        assert authority.visited(visitor, msgspec.structs.replace(visit, closes_ms=3_000)).closed_ms == 3_000
        authority.now_ms += 1_000
        grant = b.want(1).visit()
        assert (grant.granted, grant.filled, grant.closed_ms) == (0, 0, 2_000)
        a.waiting.clear()
        a.visit()
        assert b.visit().granted == 0, "although all of it is free"
        authority.now_ms += 2_000
        grant = b.visit()
        assert (grant.granted, grant.filled, grant.closed_ms) == (pool.limit, 0, 0), "and a rate is empty when it opens"


def test_a_closing_lasts_an_hour_at_most() -> None:
    authority = Authority(SLOTS)
    (a,) = holders(authority, "a")
    visitor, visit = a.want(1).letter()
    assert authority.visited(visitor, msgspec.structs.replace(visit, closes_ms=10**9)).closed_ms == MAX_CLOSED_MS


def test_a_clock_that_was_set_back_by_a_little_closes_nothing() -> None:
    for pool in (SLOTS, RATE):
        authority = Authority(pool)
        authority.now_ms = 240_000
        a, b = holders(authority, "a", "b")
        a.want(1).visit()
        authority.now_ms = 1_000
        grant = b.want(1).visit()
        assert (grant.closed_ms, grant.target > 0) == (0, True)


def test_a_clock_that_was_set_back_keeps_a_pool_closed_for_what_was_left() -> None:
    authority = Authority(SLOTS)
    authority.now_ms = 240_000
    (a,) = holders(authority, "a")
    visitor, visit = a.want(1).letter()
    authority.visited(visitor, msgspec.structs.replace(visit, closes_ms=3_000))
    authority.now_ms = 1_000
    assert a.visit().closed_ms == 3_000
    authority.now_ms += 3_000
    assert (a.visit().closed_ms, a.visit().granted) == (0, 8)


def test_new_figures_open_no_closed_pool() -> None:
    closed = PoolRow(SLOTS, Bucket(0, 1_000, 5_000))
    assert declared(msgspec.structs.replace(SLOTS, limit=9), closed, 2_000).bucket == Bucket(0, 2_000, 4_000)


def test_new_figures_count_from_now_on() -> None:
    row = PoolRow(RATE, Bucket(0, 0))
    assert declared(DeclaredPool("RPS", "rate", 5000, per_s=1, burst=100), row, 60_000).bucket == Bucket(0, 60_000)
    assert declared(DeclaredPool("RPS", "rate", 50, per_s=60, burst=10), PoolRow(RATE, Bucket(9, 0)), 1).bucket.level == 0


class Rated(Holder):
    """A holder with a bucket of its own, which lets out as much as it can."""

    level = 0
    """In units × milliseconds."""
    at_ms = 0
    closes_ms = 0

    def fill(self) -> None:
        passed_ms = max(0, self.authority.now_ms - self.at_ms)
        self.level = min(self.pool.full(self.usable), self.level + self.usable * passed_ms)
        self.at_ms = max(self.at_ms, self.authority.now_ms)

    def letter(self) -> tuple[Visitor, Visit]:
        self.fill()
        visitor, visit = super().letter()
        unused = max(0, self.level - self.pool.full(self.usable)) // self.pool.per_ms if self.pool.kind == "rate" else 0
        self.level -= unused * self.pool.per_ms
        return visitor, msgspec.structs.replace(visit, unused=unused, closes_ms=self.closes_ms)

    def hear(self, grant: Grant) -> None:
        self.fill()
        if grant.closed_ms:
            self.level = min(self.level, 0)
            self.at_ms = self.authority.now_ms + grant.closed_ms
        super().hear(grant)
        self.level += grant.filled * self.pool.per_ms
        self.fill()

    def let_out(self) -> int:
        self.fill()
        units = self.level // self.pool.per_ms
        self.level -= units * self.pool.per_ms
        return units


class Lending(RuleBasedStateMachine):
    """Holders who come, want, place, end jobs, lose answers, fall silent and die, in any order; slots and rates."""

    @initialize(
        pool=st.sampled_from(
            [
                SLOTS,
                RATE,
                DeclaredPool("P", "slots", 1),
                DeclaredPool("T", "rate", 1000, per_s=60, burst=100),
                DeclaredPool("R", "rate", 3, per_s=7, burst=5),
            ]
        )
    )
    def begin(self, pool: DeclaredPool) -> None:
        self.authority = Authority(pool)
        self.holders: list[Rated] = []
        self.late: list[tuple[Visitor, Visit]] = []
        self.let_out: list[tuple[int, int]] = []

    def one(self, n: int) -> Rated | None:
        return self.holders[n % len(self.holders)] if self.holders else None

    @rule(outlives=st.sampled_from([0, 0, 500]))
    @precondition(lambda self: len(self.holders) < 5)
    def comes(self, outlives: int) -> None:
        number = len(self.holders) + len(self.authority.deaths_ms)
        self.holders.append(Rated(f"h{number % 3}", self.authority, f"s{number}", outlives))
        self.holders[-1].at_ms = self.authority.now_ms

    @rule(n=st.integers(0, 9), amounts=st.lists(st.integers(1, 5), max_size=5))
    def wants(self, n: int, amounts: list[int]) -> None:
        if (holder := self.one(n)) is not None:
            pool = holder.pool
            holder.waiting.extend(min(a, pool.limit if pool.kind == "slots" else pool.burst) for a in amounts)

    @rule(n=st.integers(0, 9))
    def visits(self, n: int) -> None:
        if (holder := self.one(n)) is not None:
            holder.visit()

    @rule(n=st.integers(0, 9), closes_ms=st.sampled_from([100, 5_000]))
    def closes(self, n: int, closes_ms: int) -> None:
        if (holder := self.one(n)) is not None:
            holder.closes_ms = closes_ms
            assert holder.visit().closed_ms >= closes_ms
            holder.closes_ms = 0

    @rule(n=st.integers(0, 9))
    def loses_an_answer(self, n: int) -> None:
        if (holder := self.one(n)) is not None:
            self.authority.visited(*holder.letter())

    @rule(n=st.integers(0, 9))
    def is_given_up_and_arrives_late(self, n: int) -> None:
        if (holder := self.one(n)) is not None:
            self.late.append(holder.letter())

    @precondition(lambda self: self.late)
    @rule()
    def arrives(self) -> None:
        visitor, visit = self.late.pop(0)
        if visitor.session not in self.authority.deaths_ms:
            self.authority.visited(visitor, visit)

    @rule(n=st.integers(0, 9))
    def places(self, n: int) -> None:
        if (holder := self.one(n)) is None:
            return
        if holder.pool.kind == "slots":
            holder.place()
        elif units := holder.let_out():
            self.let_out.append((self.authority.now_ms, units))

    @rule(n=st.integers(0, 9))
    def ends_a_job(self, n: int) -> None:
        if (holder := self.one(n)) is not None:
            del holder.running[:1]

    @rule(n=st.integers(0, 9))
    def dies(self, n: int) -> None:
        if (holder := self.one(n)) is not None:
            self.holders.remove(holder)
            self.authority.deaths_ms[holder.session] = self.authority.now_ms

    @rule(passed_ms=st.sampled_from([1, 7, 100, 1000, 30_000]))
    def passes(self, passed_ms: int) -> None:
        self.authority.now_ms += passed_ms

    @invariant()
    def is_never_oversubscribed(self) -> None:
        pool = self.authority.row.pool
        assert self.authority.out() <= pool.limit
        assert sum(each.granted for each in self.holders) <= pool.limit
        if pool.kind == "slots":
            assert sum(each.used for each in self.holders) <= pool.limit

    @invariant()
    def lets_out_a_burst_and_its_refill_at_most(self) -> None:
        pool = self.authority.row.pool
        for first in range(len(self.let_out)):
            window_ms = self.let_out[-1][0] - self.let_out[first][0]
            units = sum(each for _, each in self.let_out[first:])
            assert units * pool.per_ms <= pool.burst * pool.per_ms + pool.limit * window_ms

    def teardown(self) -> None:
        """When all but one are gone and nobody is under way, the last has everything: nothing has leaked."""
        self.authority.now_ms += 5000
        self.authority.deaths_ms.update({each.session: 0 for each in self.holders})
        last = Rated("last", self.authority, "last")
        last.want(1).visit()
        assert last.usable == self.authority.row.pool.limit
        assert list(self.authority.shares) == [(self.authority.row.pool.name, "last", "last")]


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=6),
    st.sampled_from([SLOTS, DeclaredPool("P", "slots", 3), DeclaredPool("Q", "slots", 50)]),
)
@settings(deadline=None)
def test_fairness_converges_within_some_rounds_of_visits(wants: list[tuple[int, int]], pool: DeclaredPool) -> None:
    """Whoever came first had everything in use. When jobs of all last one round, everybody's jobs are placed in the end,
    and whatever is wanted is lent."""
    authority = Authority(pool)
    crowd = [Holder(f"h{n}", authority) for n in range(len(wants))]
    for holder, (amount, count) in zip(crowd, wants, strict=True):
        holder.want(*[min(amount, pool.limit)] * count)
    total = sum(count for _, count in wants)
    for turn in range(20 + 20 * total):
        authority.now_ms = turn * 1000
        for holder in crowd:
            holder.running.clear()
            holder.visit()
            holder.place()
        if not any(holder.waiting for holder in crowd):
            return
    pytest.fail("somebody's job was never placed")
