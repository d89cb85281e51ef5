"""Who gets the next slot: tenants take turns by their weight, and each keeps its own order."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.ids import RunId
from holdfast.engine.runs.fair_queue import FairQueue


def served(queue: FairQueue, count: int) -> list[str]:
    return [queue.next() for _ in range(count)]


def filled(queue: FairQueue, **runs: int) -> FairQueue:
    for tenant, count in runs.items():
        for number in range(count):
            queue.join(RunId(f"{tenant}{number}"), tenant)
    return queue


def test_a_tenant_with_a_long_line_gets_its_turn_and_no_more() -> None:
    order = served(filled(FairQueue(), big=800, small=3, other=3), 12)
    assert Counter(run.rstrip("0123456789") for run in order) == {"big": 6, "small": 3, "other": 3}
    assert {"small0", "other0"} <= set(order[:3])


def test_a_tenant_of_twice_the_weight_gets_two_turns_where_others_get_one() -> None:
    order = served(filled(FairQueue({"vip": 2.0}), vip=100, other=100), 60)
    assert Counter(run.rstrip("0123456789") for run in order) == {"vip": 40, "other": 20}


def test_no_waiter_saves_up_turns_or_jumps_the_queue_by_leaving_it() -> None:
    queue = filled(FairQueue(), busy=50)
    served(queue, 40)
    filled(queue, late=20)
    assert Counter(run.rstrip("0123456789") for run in served(queue, 10)) == {"late": 5, "busy": 5}
    for number in range(5):  # one at a time, each as soon as the last was served
        queue.join(RunId(f"single{number}"), "single")
        order = served(queue, 2)
        assert sum(run.startswith("single") for run in order) <= 1


@given(st.lists(st.one_of(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), st.none()), max_size=80))
def test_every_run_is_served_once_and_in_its_tenants_order(words) -> None:
    queue = FairQueue({"b": 3.0})
    waits: dict[str, list[str]] = defaultdict(list)
    for word in words:
        if word is not None:
            run = RunId(f"{word[0]}{word[1]}")
            if run not in waits[word[0]]:
                waits[word[0]].append(run)
            queue.join(run, word[0])
        elif len(queue):
            run = queue.next()
            assert waits[run[0]].pop(0) == run
        assert len(queue) == sum(map(len, waits.values()))
        assert all(run in queue for runs in waits.values() for run in runs)
