"""What the scheduler promises of every placement, by example: pools, workers, whose turn it is, and why somebody waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import pytest

from holdfast.core.values.demand import Demand
from holdfast.scheduling import placement as placement_
from holdfast.scheduling.job import AGE_S, MAX_HOLDERS, PATIENCE_S, Capacity, Job, Placement, Reason
from holdfast.scheduling.placement import Scheduler


def job(
    name: str,
    tenant: str = "t",
    able: str = "g",
    *,
    labels: Iterable[str] = (),
    tags: Iterable[str] = (),
    cpu_m: int = 0,
    memory_mb: int = 0,
    gpus: int = 0,
    priority: int = 0,
    **pools: int,
) -> Job:
    demand = Demand(tuple(labels), tuple(tags), cpu_m, memory_mb, gpus, dict(pools), priority)
    return Job((name,), able, tenant, demand)


def worker(
    name: str = "w",
    slots: int = 100,
    *,
    able: str = "g",
    labels: str = "",
    tags: str = "",
    cpu_m: int = 0,
    memory_mb: int = 0,
    gpus: int = 0,
) -> Capacity:
    return Capacity(
        name, frozenset(able.split()), frozenset(labels.split()), frozenset(tags.split()), slots, cpu_m, memory_mb, gpus
    )


def fleet(*workers: Capacity, strategy: str = "least_loaded", **slots: int) -> Scheduler:
    scheduler = Scheduler(strategy)
    for each in workers:
        scheduler.join(each, 0)
    for pool, limit in slots.items():
        scheduler.set_pool(pool, "slots", limit, 0)
    return scheduler


def submit(scheduler: Scheduler, *jobs: Job, now_s: float = 0) -> None:
    assert all(scheduler.submit(each, now_s) for each in jobs)


def names(placements: Iterable[Placement]) -> list[str]:
    return [each.job.key[0] for each in placements]


def where(placements: Iterable[Placement]) -> dict[str, str]:
    return {each.job.key[0]: each.worker for each in placements}


def why(scheduler: Scheduler, name: str, now_s: float = 0) -> Reason:
    reason = scheduler.explain((name,), now_s)
    assert reason is not None
    return reason


def one_by_one(scheduler: Scheduler, running: Iterable[str], rounds: int, now_s: float = 0, every_s: float = 0) -> list[str]:
    """End what runs, the oldest first, one at a time; who gets its place, in order."""
    line, placed = list(running), []
    for _ in range(rounds):
        now_s += every_s
        scheduler.finish((line.pop(0),), now_s)
        got = names(scheduler.place(now_s))
        placed += got
        line += got
    return placed


# --- pools ------------------------------------------------------------------------------------------------------------


def test_a_job_takes_of_all_its_pools_or_of_none() -> None:
    scheduler = fleet(worker(), calls=2, tokens=10)
    submit(scheduler, job("too-large", calls=1, tokens=10), job("later", calls=1, tokens=1))
    scheduler.set_pool("tokens", "slots", 9, 0)
    assert names(scheduler.place(0)) == ["later"]
    assert {name: each.in_use for name, each in scheduler.pools().items()} == {"calls": 1, "tokens": 1}
    assert why(scheduler, "too-large").pool == "tokens"
    assert not why(scheduler, "too-large").possible


def test_without_a_worker_nothing_is_taken_of_the_pools() -> None:
    scheduler = fleet(worker(slots=1), calls=1)
    submit(scheduler, job("runs"), job("waits", calls=1))
    assert names(scheduler.place(0)) == ["runs"]
    assert scheduler.pools()["calls"].in_use == 0
    assert scheduler.waiting() == {"ready": 0, "quota": 0, "worker": 1}


def test_a_full_pool_holds_up_no_step_that_needs_another_or_none() -> None:
    scheduler = fleet(worker(), calls=1, others=1)
    submit(scheduler, *(job(f"calls-{number}", calls=1) for number in range(50)))
    submit(scheduler, job("other", others=1), job("none"))
    assert names(scheduler.place(0)) == ["calls-0", "other", "none"]
    assert scheduler.waiting()["quota"] == 49


def test_slots_come_back_when_a_job_ends_and_when_it_is_cancelled() -> None:
    scheduler = fleet(worker(), calls=1)
    submit(scheduler, job("1", calls=1), job("2", calls=1), job("3", calls=1))
    assert names(scheduler.place(0)) == ["1"]
    assert scheduler.finish(("1",), 0)
    assert names(scheduler.place(0)) == ["2"]
    assert scheduler.cancel(("2",))
    assert names(scheduler.place(0)) == ["3"]
    assert not scheduler.finish(("1",), 0)
    assert not scheduler.cancel(("2",))


def test_a_job_that_is_submitted_again_waits_and_is_placed_once() -> None:
    scheduler = fleet(worker())
    submit(scheduler, job("1"), job("1"))
    assert names(scheduler.place(0)) == ["1"]
    submit(scheduler, job("1"))
    assert names(scheduler.place(0)) == []


def test_more_jobs_than_may_wait_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_, "MAX_JOBS", 2)
    scheduler = Scheduler()
    submit(scheduler, job("1"), job("2"))
    assert not scheduler.submit(job("3"), 0)
    assert scheduler.submit(job("2"), 0), "it waits already"
    assert scheduler.cancel(("1",))
    assert scheduler.submit(job("3"), 0)


def test_an_undeclared_pool_is_waited_for() -> None:
    scheduler = fleet(worker())
    submit(scheduler, job("1", unheard_of=1), job("2"))
    assert names(scheduler.place(0)) == ["2"]
    assert why(scheduler, "1") == Reason("pool", 0, possible=False, pool="unheard_of")
    scheduler.set_pool("unheard_of", "slots", 1, 5)
    assert names(scheduler.place(5)) == ["1"]
    scheduler.drop_pool("unheard_of")
    submit(scheduler, job("3", unheard_of=1))
    scheduler.finish(("1",), 5)
    assert names(scheduler.place(5)) == []


def test_a_request_for_more_than_there_can_be_holds_up_no_other() -> None:
    scheduler = fleet(worker(), calls=3)
    submit(scheduler, job("never", calls=4), job("now", calls=3))
    assert names(scheduler.place(0)) == ["now"]
    scheduler.set_pool("calls", "slots", 4, 0)
    scheduler.finish(("now",), 0)
    assert names(scheduler.place(0)) == ["never"]


def test_a_pool_made_smaller_gives_nothing_until_what_is_in_use_fits() -> None:
    scheduler = fleet(worker(), calls=3)
    submit(scheduler, *(job(str(number), calls=1) for number in range(5)))
    assert names(scheduler.place(0)) == ["0", "1", "2"]
    scheduler.set_pool("calls", "slots", 1, 0)
    assert one_by_one(scheduler, ["0", "1"], 2) == []
    assert one_by_one(scheduler, ["2"], 1) == ["3"]


def test_a_rate_lets_its_burst_through_and_then_what_it_refills() -> None:
    scheduler = fleet(worker())
    scheduler.set_pool("requests", "rate", 10, 0, per_s=1, burst=3)
    submit(scheduler, *(job(str(number), requests=1) for number in range(9)))
    assert names(scheduler.place(0)) == ["0", "1", "2"]
    assert scheduler.next_s == pytest.approx(0.1)
    assert names(scheduler.place(0.09)) == []
    at_s = scheduler.next_s
    assert at_s is not None
    assert names(scheduler.place(at_s)) == ["3"]
    assert names(scheduler.place(100)) == ["4", "5", "6"], "no more than the burst is saved up"


def test_of_a_rate_comes_back_only_what_was_not_used() -> None:
    scheduler = fleet(worker())
    scheduler.set_pool("tokens", "rate", 60, 0, per_s=60, burst=10)
    submit(scheduler, job("1", tokens=10), job("2", tokens=4), job("3", tokens=4))
    assert names(scheduler.place(0)) == ["1"]
    scheduler.finish(("1",), 0, {"tokens": 5})
    assert names(scheduler.place(0)) == ["2"]
    scheduler.finish(("2",), 0)
    assert names(scheduler.place(0)) == []
    assert scheduler.next_s == pytest.approx(3)


def test_more_than_a_rate_holds_goes_when_it_is_full_and_is_paid_for_later() -> None:
    scheduler = fleet(worker())
    scheduler.set_pool("tokens", "rate", 1, 0, burst=5)
    submit(scheduler, job("small", tokens=1))
    assert names(scheduler.place(0)) == ["small"]
    submit(scheduler, job("huge", tokens=12), job("next", tokens=1))
    assert names(scheduler.place(0.5)) == []
    assert names(scheduler.place(1)) == ["huge"]
    assert why(scheduler, "next", 1).level == pytest.approx(-7)
    assert names(scheduler.place(8.9)) == ["next"] or scheduler.next_s == pytest.approx(9)
    assert names(scheduler.place(9.1)) == ["next"]


def test_a_rate_that_is_changed_keeps_what_is_in_it() -> None:
    scheduler = fleet(worker())
    scheduler.set_pool("tokens", "rate", 1, 0, burst=10, level=0)
    submit(scheduler, job("1", tokens=4))
    assert names(scheduler.place(2)) == []
    scheduler.set_pool("tokens", "rate", 2, 2, burst=10)
    assert names(scheduler.place(2)) == []
    assert scheduler.next_s == pytest.approx(3)
    assert names(scheduler.place(3)) == ["1"]


@pytest.mark.parametrize("kind", ["slots", "rate"])
def test_of_a_closed_pool_no_step_gets_any_until_it_opens_and_a_rate_is_empty_then(kind: Literal["slots", "rate"]) -> None:
    scheduler = fleet(worker())
    scheduler.set_pool("P", kind, 2, 0, per_s=1.0)
    submit(scheduler, job("a", P=1))
    assert names(scheduler.place(0)) == ["a"]
    scheduler.close_pool("P", 10)
    submit(scheduler, job("b", P=1), job("c", P=1), job("other"))
    assert names(scheduler.place(0)) == ["other"], "it holds up nobody who needs something else"
    scheduler.finish(("a",), 5, {"P": 1})
    scheduler.set_pool("P", kind, 2, 5, per_s=1.0)
    assert names(scheduler.place(5)) == []
    assert scheduler.next_s == 10 if kind == "slots" else scheduler.next_s == 10.5
    opened = names(scheduler.place(10))
    assert opened == (["b", "c"] if kind == "slots" else [])
    assert names(scheduler.place(11)) == ([] if kind == "slots" else ["b", "c"])


@pytest.mark.parametrize("able", ["g", "h"], ids=["of their kind", "of another"])
def test_a_large_request_is_not_starved_by_small_ones(able: str) -> None:
    """Neither by those that wait behind it, nor by those that come when there is enough for them."""
    scheduler = fleet(worker(able="g h new"), calls=4)
    submit(scheduler, *(job(f"small-{number}", "many", calls=1) for number in range(4)))
    scheduler.place(0)
    submit(scheduler, job("large", "one", able, calls=4))
    submit(scheduler, *(job(f"small-{number}", "many", calls=1) for number in range(4, 100)))
    assert names(scheduler.place(0)) == []
    for number in range(3):
        scheduler.finish((f"small-{number}",), 0)
        submit(scheduler, job(f"new-{number}", "new", "new", calls=1))
        assert names(scheduler.place(0)) == []
    scheduler.finish(("small-3",), 0)
    assert names(scheduler.place(0)) == ["large"]


def test_who_is_short_of_one_pool_leaves_the_other_to_those_behind() -> None:
    scheduler = fleet(worker(), scarce=1, plenty=2)
    submit(scheduler, job("holds", scarce=1))
    scheduler.place(0)
    submit(scheduler, job("both", scarce=1, plenty=2))
    assert names(scheduler.place(0)) == []
    submit(scheduler, job("1", plenty=1), job("2", plenty=1))
    assert names(scheduler.place(0)) == ["1", "2"]


def test_who_wants_several_pools_keeps_all_of_them_after_a_while() -> None:
    """One-pool jobs of both pools end at different times, so there is never enough of both at once by itself."""
    scheduler = fleet(worker(), a=2, b=2)
    submit(scheduler, job("a0", a=1), job("a1", a=1), job("b0", b=1), job("b1", b=1))
    running = names(scheduler.place(0))
    submit(scheduler, job("both", "other", a=2, b=2))
    placed: list[str] = []
    now_s = 0.0
    for number in range(2, 200):
        now_s += 1
        submit(scheduler, job(f"a{number}", a=1), job(f"b{number}", b=1), now_s=now_s)
        scheduler.finish((running.pop(0),), now_s)
        placed = names(scheduler.place(now_s))
        running += placed
        if "both" in placed or not running:
            break
    assert "both" in placed
    assert now_s < PATIENCE_S + 20


def test_two_who_keep_what_the_other_wants_do_not_wait_for_each_other() -> None:
    scheduler = fleet(worker(able="g h"), a=1, b=1)
    submit(scheduler, job("holds-a", a=1), job("first", "x", "g", a=1, b=1))
    assert names(scheduler.place(0)) == ["holds-a"]
    submit(scheduler, job("holds-b", b=1), now_s=1)
    assert names(scheduler.place(1)) == ["holds-b"]
    submit(scheduler, job("second", "y", "h", a=1, b=1), now_s=1)
    assert names(scheduler.place(1)) == []
    later_s = 2 * PATIENCE_S
    scheduler.finish(("holds-b",), later_s)
    assert names(scheduler.place(later_s)) == [], "who is first for b now keeps it, until there is some of a"
    scheduler.finish(("holds-a",), later_s)
    assert names(scheduler.place(later_s)) == ["first"]
    scheduler.finish(("first",), later_s)
    assert names(scheduler.place(later_s)) == ["second"]


# --- workers ----------------------------------------------------------------------------------------------------------


def test_a_worker_must_be_able_and_have_every_label_and_tag() -> None:
    scheduler = fleet(
        worker("unable", able="h"),
        worker("plain"),
        worker("tagged", tags="ssd", labels="gpu eu"),
        worker("right", tags="ssd", labels="gpu eu big"),
    )
    submit(scheduler, job("1", labels=["gpu", "big"], tags=["ssd"]))
    assert where(scheduler.place(0)) == {"1": "right"}
    submit(scheduler, job("2", able="h"))
    assert where(scheduler.place(0)) == {"2": "unable"}


@pytest.mark.parametrize(("what", "amount"), [("cpu_m", 600), ("memory_mb", 600), ("gpus", 1)])
def test_a_worker_gives_no_more_than_it_has(what: str, amount: int) -> None:
    scheduler = fleet(worker(cpu_m=1000, memory_mb=1000, gpus=1))
    submit(scheduler, job("1", **{what: amount}), job("2", **{what: amount}), job("free"))
    assert names(scheduler.place(0)) == ["1", "free"]
    assert why(scheduler, "2").lacking == "capacity"
    scheduler.finish(("1",), 0)
    assert names(scheduler.place(0)) == ["2"]


def test_full_workers_hold_up_no_job_that_needs_others() -> None:
    scheduler = fleet(worker("gpu", 1, labels="gpu"), worker("plain", 5, able="h"))
    submit(scheduler, *(job(f"gpu-{number}", labels=["gpu"]) for number in range(50)))
    submit(scheduler, *(job(f"plain-{number}", able="h") for number in range(5)))
    assert sorted(names(scheduler.place(0))) == ["gpu-0", *(f"plain-{number}" for number in range(5))]


def test_the_least_loaded_gets_the_job() -> None:
    scheduler = fleet(worker("small", 2), worker("large", 4))
    submit(scheduler, *(job(str(number)) for number in range(6)))
    assert Counter(each.worker for each in scheduler.place(0)) == {"small": 2, "large": 4}
    scheduler = fleet(worker("cores", 10, cpu_m=1000), worker("slots", 10, cpu_m=4000))
    submit(scheduler, job("1", cpu_m=900), job("2"), job("3"))
    assert where(scheduler.place(0))["2"] == "slots" or where(scheduler.place(0)) == {}
    assert scheduler.placed(("3",)) is not None


def test_best_fit_fills_the_worker_that_has_least_left() -> None:
    scheduler = fleet(worker("large", 8, gpus=8), worker("small", 2, gpus=2), strategy="best_fit")
    submit(scheduler, job("1", gpus=1), job("2", gpus=1), job("whole", gpus=8))
    assert where(scheduler.place(0)) == {"1": "small", "2": "small", "whole": "large"}


def test_a_large_job_gets_a_worker_although_small_ones_keep_coming() -> None:
    """After a while one worker takes nothing else, until there is room on it."""
    scheduler = fleet(worker("a", cpu_m=2000), worker("b", cpu_m=2000))
    submit(scheduler, *(job(str(number), cpu_m=500) for number in range(8)))
    running = names(scheduler.place(0))
    submit(scheduler, job("large", "other", cpu_m=2000))
    placed: list[str] = []
    now_s = 0.0
    for number in range(8, 200):
        now_s += 1
        submit(scheduler, job(str(number), cpu_m=500), now_s=now_s)
        scheduler.finish((running.pop(0),), now_s)
        placed = names(scheduler.place(now_s))
        running += placed
        if "large" in placed or not running:
            break
    assert "large" in placed
    assert PATIENCE_S <= now_s < PATIENCE_S + 20


def test_what_runs_on_a_worker_that_leaves_is_returned_and_gives_its_pools_back() -> None:
    scheduler = fleet(worker("a", 1), worker("b", 1), calls=3)
    submit(scheduler, job("1", calls=1), job("2", calls=1), job("3", calls=1))
    placed = where(scheduler.place(0))
    assert set(placed.values()) == {"a", "b"}
    lost = scheduler.leave(placed["1"])
    assert [each.key for each in lost] == [("1",)]
    assert scheduler.pools()["calls"].in_use == 1
    assert scheduler.leave(placed["1"]) == []
    submit(scheduler, *lost, now_s=1)
    assert names(scheduler.place(1)) == [], "nobody has room"
    scheduler.join(worker("c", 2), 2)
    assert names(scheduler.place(2)) == ["3", "1"]


def test_a_worker_may_change_while_it_works() -> None:
    scheduler = fleet(worker("a", 2))
    submit(scheduler, job("1"), job("2"), job("3"), job("gpu", labels=["gpu"]))
    assert names(scheduler.place(0)) == ["1", "2"]
    scheduler.change(worker("a", 1, labels="gpu"), 0)
    scheduler.finish(("1",), 0)
    assert names(scheduler.place(0)) == []
    scheduler.change(worker("a", 3, labels="gpu"), 0)
    assert sorted(names(scheduler.place(0))) == ["3", "gpu"]


def test_what_was_placed_before_a_leader_took_over_counts() -> None:
    scheduler = fleet(calls=1)
    scheduler.charge(("old",), job("old", calls=2), "a")
    scheduler.charge(("old",), job("old", calls=2), "a")
    scheduler.join(worker("a", 2), 0)
    submit(scheduler, job("old", calls=2), job("new", calls=1), job("free"), job("late"))
    assert names(scheduler.place(0)) == ["free"]
    assert scheduler.pools()["calls"].in_use == 2
    assert why(scheduler, "new").holders == (("old",),)
    assert scheduler.finish(("old",), 0)
    assert sorted(names(scheduler.place(0))) == ["new"]


# --- whose turn it is -------------------------------------------------------------------------------------------------


def test_a_higher_priority_goes_first_and_then_the_earlier_one() -> None:
    scheduler = fleet(worker(slots=1))
    submit(scheduler, job("0"), job("1"), job("2"), job("high", priority=1), job("low", priority=-1), job("top", priority=9))
    first = names(scheduler.place(0))
    assert [*first, *one_by_one(scheduler, first, 5)] == ["top", "high", "0", "1", "2", "low"]


def test_waiting_counts_as_priority() -> None:
    scheduler = fleet(worker(slots=1))
    submit(scheduler, job("runs"))
    scheduler.place(0)
    submit(scheduler, job("old"), now_s=0)
    submit(scheduler, job("young", priority=5), now_s=5 * AGE_S + 1)
    assert one_by_one(scheduler, ["runs"], 1, now_s=5 * AGE_S + 1) == ["old"]
    scheduler = fleet(worker(slots=1))
    submit(scheduler, job("runs"))
    scheduler.place(0)
    submit(scheduler, job("old"), now_s=0)
    submit(scheduler, job("young", priority=5), now_s=5 * AGE_S - 1)
    assert one_by_one(scheduler, ["runs"], 1, now_s=5 * AGE_S - 1) == ["young"]


@pytest.mark.parametrize("different", ["nothing", "amounts", "workflows"])
@pytest.mark.parametrize("scarce", ["pool", "worker"])
def test_a_tenant_with_most_of_the_jobs_slows_no_other(scarce: str, different: str) -> None:
    """800 of 1,000 jobs are one tenant's, and came first; of 100 places each of five tenants gets its share."""

    def one(number: int, tenant: str) -> Job:
        able = f"g{number % 5}" if different == "workflows" else "g0"
        amount = 10 + number % 7 if different == "amounts" else 10
        return job(f"{tenant}-{number}", tenant, able, calls=amount)

    able = " ".join(f"g{number}" for number in range(5))
    scheduler = fleet(worker(slots=10 if scarce == "worker" else 1000, able=able), calls=160 if scarce == "pool" else 10**6)
    submit(scheduler, *(one(number, "greedy") for number in range(800)))
    running = names(scheduler.place(0))
    for tenant in "abcd":
        submit(scheduler, *(one(number, tenant) for number in range(50)), now_s=3600)
    placed = one_by_one(scheduler, running, 100 if scarce == "worker" else 160, now_s=3600)
    shares = Counter(name.partition("-")[0] for name in placed[:100])
    assert len(placed) >= 100
    assert all(14 <= shares[tenant] <= 26 for tenant in (*"abcd", "greedy")), shares


def test_a_tenant_of_twice_the_weight_gets_twice_as_many_turns() -> None:
    scheduler = fleet(worker(), calls=10)
    scheduler.set_weight("heavy", 2)
    submit(scheduler, *(job(f"{tenant}-{n}", tenant, calls=1) for n in range(300) for tenant in ("heavy", "light", "other")))
    placed = one_by_one(scheduler, names(scheduler.place(0)), 200)
    shares = Counter(name.partition("-")[0] for name in placed)
    assert 95 <= shares["heavy"] <= 105
    assert 45 <= shares["light"] <= 55


def test_a_tenant_that_was_away_has_saved_up_no_turns() -> None:
    scheduler = fleet(worker(slots=1))
    submit(scheduler, *(job(f"busy-{number}", "busy") for number in range(500)))
    running = one_by_one(scheduler, names(scheduler.place(0)), 300)[-1:]
    submit(scheduler, *(job(f"back-{number}", "back") for number in range(100)))
    shares = Counter(name.partition("-")[0] for name in one_by_one(scheduler, running, 40))
    assert 18 <= shares["back"] <= 22


def test_a_weight_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match="weight is above 0"):
        Scheduler().set_weight("t", 0)


def test_a_pool_that_cannot_be_is_refused() -> None:
    for wrong in ({"limit": -1}, {"limit": 1, "per_s": 0.0}, {"limit": 1, "burst": 0}):
        with pytest.raises(ValueError, match="cannot have limit"):
            Scheduler().set_pool("p", "rate", now_s=0, **wrong)


def test_an_amount_that_is_still_to_be_estimated_is_refused() -> None:
    with pytest.raises(ValueError, match="put the estimate in"):
        Scheduler().submit(Job(("1",), "g", "t", Demand(pools={"tokens": None})), 0)


# --- why --------------------------------------------------------------------------------------------------------------


def test_why_names_the_pool_its_holders_and_the_place_in_line() -> None:
    scheduler = fleet(worker(), calls=20)
    submit(scheduler, *(job(str(number), calls=1) for number in range(23)), now_s=7)
    assert why(scheduler, "0", 8) == Reason("turn", 7)
    scheduler.place(8)
    assert why(scheduler, "0", 9) == Reason("nothing", 9, worker="w")
    first, last = why(scheduler, "20", 9), why(scheduler, "22", 9)
    holders = tuple((str(number),) for number in range(MAX_HOLDERS))
    assert first == Reason("pool", 7, place=1, pool="calls", limit=20, in_use=20, holders=holders)
    assert last == Reason("pool", 7, place=3, pool="calls", limit=20, in_use=20, holders=holders, kept_for=("20",))
    assert scheduler.explain(("never",), 9) is None


def test_why_names_what_no_worker_has() -> None:
    scheduler = fleet(worker(labels="eu", cpu_m=500))
    submit(scheduler, job("1", labels=["eu", "gpu"]), job("2", able="h"), job("3", cpu_m=501), job("4", tags=["ssd"]))
    assert names(scheduler.place(0)) == []
    assert [why(scheduler, name).lacking for name in "1234"] == ["label gpu", "able h", "cpu_m 501", "tag ssd"]
    assert not any(why(scheduler, name).possible for name in "1234")
    assert why(fleet_of_nobody(), "1").lacking == "a worker"


def fleet_of_nobody() -> Scheduler:
    scheduler = Scheduler()
    submit(scheduler, job("1"))
    scheduler.place(0)
    return scheduler


def test_why_tells_for_whom_a_worker_is_kept() -> None:
    scheduler = fleet(worker(cpu_m=1000))
    submit(scheduler, job("half-1", cpu_m=500), job("half-2", cpu_m=500))
    scheduler.place(0)
    submit(scheduler, job("whole", cpu_m=1000), job("half-3", cpu_m=500))
    scheduler.place(0)
    scheduler.finish(("half-1",), PATIENCE_S)
    assert names(scheduler.place(PATIENCE_S)) in ([], ["half-3"])
    assert why(scheduler, "whole", PATIENCE_S).place == 1


def test_jobs_that_no_worker_could_take_keep_nothing_from_others() -> None:
    scheduler = fleet(worker("a", labels="gpu"), worker("b"), calls=1)
    submit(scheduler, job("holds", calls=1))
    scheduler.place(0)
    submit(scheduler, job("gpu", labels=["gpu"], calls=1))
    scheduler.place(0)
    scheduler.leave("a")
    scheduler.join(worker("b"), 0)
    submit(scheduler, job("plain", calls=1), now_s=2 * PATIENCE_S)
    scheduler.finish(("holds",), 2 * PATIENCE_S)
    assert names(scheduler.place(2 * PATIENCE_S)) == ["plain"]
    assert why(scheduler, "gpu").lacking == "label gpu"


def test_a_borrower_learns_at_once_which_pools_the_next_job_takes_of() -> None:
    scheduler = fleet(worker(), A=0, B=0, C=0)
    submit(scheduler, job("both", A=1, B=2), job("one", C=1), now_s=1)
    scheduler.place(1)
    needs = scheduler.needs(1, {})
    assert {name: (need.next, need.beside) for name, need in needs.items()} == {
        "A": (1, ("B",)),
        "B": (2, ("A",)),
        "C": (1, ()),
    }
