"""Who takes a task, when none is taken, and which worker is taken out and comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.nouns import supervision as rule
from holdfast.core.nouns.supervision import Accepted, Fate, Rejected, Supervisor, Task, TaskOutcome, Worker
from holdfast.core.values.ids import RunId
from holdfast.errors import Conflict, InvalidInput


def worker(name: str = "ann", *types: str, **how: Any) -> Worker:
    return Worker(name=name, workflow="agent", task_types=types or ("read",), **how)


class Desk:
    """A supervisor as a store would have it."""

    def __init__(self, *workers: Worker, **how: Any) -> None:
        self.now_ms = 0
        self.now = Supervisor(tenant="acme", name="desk", workers=workers or (worker(),), **how)
        self.tasks: dict[str, Task] = {}

    def submit(self, task_type: str = "read", priority: int = 0, *, timeout_s: float | None = None) -> Accepted | Rejected:
        task = Task(
            id=f"t{len(self.tasks)}",
            task_type=task_type,
            payload=msgspec.Raw(b"{}"),
            at_ms=self.now_ms,
            priority=priority,
            timeout_s=timeout_s,
        )
        self.tasks[task.id] = task
        answer, self.now = rule.submitted(self.now, task, self.now_ms)
        return answer

    def taken(self, task_type: str = "read", priority: int = 0) -> str:
        answer = self.submit(task_type, priority)
        assert isinstance(answer, Accepted)
        return answer.task_id

    def end(self, task: str, fate: Fate = "completed", after_ms: int = 10) -> Task:
        self.now = rule.begun(self.now, task, RunId(f"run-{task}"))
        self.now_ms += after_ms
        self.now, self.tasks[task] = rule.ended(self.now, self.tasks[task], TaskOutcome(fate, after_ms, "why"), self.now_ms)
        self.now = rule.dispatched(self.now, self.now_ms)
        return self.tasks[task]

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.end(self.taken(), "failed")

    @property
    def at_work(self) -> dict[str, str]:
        return {each.task: each.worker for each in self.now.active}

    def worker(self, name: str = "ann") -> rule.WorkerView:
        return rule.dashboard(self.now, self.now_ms).workers[name]


def test_the_defaults_are_those_of_the_document() -> None:
    desk = Desk().now
    assert (desk.max_queue, desk.threshold) == (100, 0.8)
    assert (desk.workers[0].max_concurrent, desk.workers[0].timeout_s) == (3, 60.0)


# --- Taken or not -----------------------------------------------------------------------------------------------------------


def test_a_burst_is_taken_as_far_as_there_is_room() -> None:
    desk = Desk(threshold=None)
    answers = [desk.submit() for _ in range(130)]
    assert [type(each) for each in answers] == [Accepted] * 103 + [Rejected] * 27
    assert answers[:4] == [("t0", "ann", 0), ("t1", "ann", 0), ("t2", "ann", 0), ("t3", None, 1)]
    assert {each.reason for each in answers if isinstance(each, Rejected)} == {"queue_full"}


def test_at_the_threshold_no_task_waits_without_a_free_worker_of_its_type() -> None:
    desk = Desk(worker("ann", "read"), worker("bob", "write", max_concurrent=2))
    for _ in range(3):
        desk.taken("read")
    assert desk.submit("read") == ("t3", None, 1), "the load is 3 of 5: there is a queue"
    desk.taken("write")
    refused = desk.submit("read")
    assert isinstance(refused, Rejected)
    assert refused.reason == "overloaded", "the load is 4 of 5"
    assert desk.submit("write") == ("t6", "bob", 0), "and yet somebody is free for this"


def test_who_is_free_is_not_held_up_by_a_queue_that_is_full() -> None:
    desk = Desk(worker("ann", "read", max_concurrent=1), worker("bob", "write"), max_queue=0)
    desk.taken("read")
    refused = desk.submit("read")
    assert isinstance(refused, Rejected)
    assert refused.reason == "queue_full"
    assert desk.submit("write") == ("t2", "bob", 0)


def test_a_type_that_no_worker_takes_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="tasks of type 'sing'; there are read"):
        Desk().submit("sing")


def test_the_least_loaded_takes_a_task_measured_by_what_it_can() -> None:
    desk = Desk(worker("ann", max_concurrent=1), worker("bob", max_concurrent=4), threshold=None)
    took = [desk.submit() for _ in range(5)]
    assert [each[1] for each in took] == ["ann", "bob", "bob", "bob", "bob"]


def test_the_lowest_priority_is_next_and_of_equals_who_came_first() -> None:
    desk = Desk(worker(max_concurrent=1), threshold=None)
    first = desk.taken()
    late, later, urgent = desk.taken(priority=5), desk.taken(priority=5), desk.taken(priority=-1)
    assert [rule.accepted(desk.now, each).position for each in (urgent, late, later)] == [1, 2, 3]
    for ended, begins in ((first, urgent), (urgent, late), (late, later)):
        desk.end(ended)
        assert desk.at_work == {begins: "ann"}


def test_who_waits_for_one_worker_is_passed_by_who_needs_another() -> None:
    desk = Desk(worker("ann", "read", max_concurrent=1), worker("bob", "write", max_concurrent=1), threshold=None)
    reading, writing = desk.taken("read"), desk.taken("write")
    desk.taken("read")
    next_ = desk.taken("write")
    desk.end(writing)
    assert desk.at_work == {reading: "ann", next_: "bob"}


# --- Another try ------------------------------------------------------------------------------------------------------------


def test_another_try_is_worth_it_when_what_waits_is_done() -> None:
    desk = Desk(worker(max_concurrent=2), max_queue=4, threshold=None)
    desk.end(desk.taken(), after_ms=4_000)
    for _ in range(6):
        desk.taken()
    refused = desk.submit()
    assert isinstance(refused, Rejected)
    assert 4 * 5 / 2 <= refused.retry_after_s <= 4 * 5 / 2 * 1.25, "five before and with it, four seconds each, by twos"
    assert refused != desk.submit(), "not all come back at once"


def test_another_try_is_never_more_than_a_minute_away_and_a_quarter() -> None:
    desk = Desk(worker(max_concurrent=1), max_queue=0, threshold=None)
    desk.end(desk.taken(), after_ms=3_600_000)
    desk.taken()
    refused = desk.submit()
    assert isinstance(refused, Rejected)
    assert 60 <= refused.retry_after_s <= 75


# --- Workers that fail -------------------------------------------------------------------------------------------------------


def test_a_worker_is_out_above_half_errors_after_five() -> None:
    desk = Desk()
    desk.fail(5)
    assert desk.worker().state == "idle", "after five, not at five"
    desk.fail(1)
    assert desk.worker().state == "failed"
    refused = desk.submit()
    assert isinstance(refused, Rejected)
    assert refused.reason == "unavailable"
    assert 30 <= refused.retry_after_s <= 30 * 1.25


def test_half_errors_are_not_above_half() -> None:
    desk = Desk()
    for _ in range(20):
        desk.end(desk.taken())
        desk.fail(1)
    assert desk.worker().state == "idle"
    desk.fail(1)
    assert desk.worker().state == "failed", "eleven of the last twenty"


def test_only_the_last_twenty_count() -> None:
    desk = Desk()
    for _ in range(100):
        desk.end(desk.taken())
    desk.fail(10)
    assert desk.worker().state == "idle"
    desk.fail(1)
    assert desk.worker().state == "failed", "111 tasks, 11 errors: of all there ever were it would be a tenth"


def test_one_probe_at_a_time_lets_a_worker_in_again() -> None:
    desk = Desk(threshold=None)
    desk.fail(6)
    desk.now_ms += 30_000
    assert desk.worker().state == "half_open"
    probe = desk.taken()
    refused = desk.submit()
    assert isinstance(refused, Rejected), "one at a time"
    desk.end(probe)
    assert desk.worker().state == "idle"
    assert [desk.submit()[1] for _ in range(3)] == ["ann"] * 3
    desk.end("t8", "failed")
    assert desk.worker().state == "busy", "what was before is forgiven"


def test_a_probe_that_fails_doubles_the_time_out_up_to_ten_minutes() -> None:
    desk = Desk()
    desk.fail(6)
    for out_s in (30, 60, 120, 240, 480, 600, 600):
        desk.now_ms += out_s * 1000 - 1
        assert desk.worker().state == "failed"
        desk.now_ms += 1
        desk.end(desk.taken(), "failed", after_ms=0)


def test_what_began_before_decides_nothing_about_a_worker_that_is_out() -> None:
    desk = Desk(worker(max_concurrent=10), threshold=None)
    before = [desk.taken() for _ in range(8)]
    for each in before[:6]:
        desk.end(each, "failed")
    until_ms = desk.now.workers[0].out_until_ms
    desk.end(before[6])
    desk.end(before[7], "timed_out")
    assert desk.now.workers[0].out_until_ms == until_ms
    assert (desk.worker().completed, desk.worker().errors) == (1, 7)


def test_what_a_person_calls_off_says_nothing_of_the_worker() -> None:
    desk = Desk()
    for _ in range(10):
        assert desk.end(desk.taken(), "cancelled").fate == "cancelled"
    assert (desk.worker().state, desk.worker().errors, desk.worker().completed) == ("idle", 0, 0)
    desk.fail(6)
    desk.now_ms += 30_000
    desk.end(desk.taken(), "cancelled")
    assert desk.worker().state == "half_open", "a probe that was called off is asked for again"
    assert isinstance(desk.submit(), Accepted)


def test_what_waits_begins_with_the_probe_that_lets_its_worker_in() -> None:
    desk = Desk(worker(max_concurrent=2), threshold=None)
    for _ in range(10):
        desk.taken()
    for _ in range(6):
        desk.end(next(iter(desk.at_work)), "failed")
    desk.end(next(iter(desk.at_work)), "failed")
    assert desk.at_work == {}
    assert rule.due_at_ms(desk.now) == desk.now.workers[0].out_until_ms, "somebody must look then"
    desk.now_ms = desk.now.workers[0].out_until_ms or 0
    desk.now = rule.dispatched(desk.now, desk.now_ms)
    (probe,) = desk.at_work
    desk.end(probe)
    assert len(desk.at_work) == 2


# --- Tasks that take too long ---------------------------------------------------------------------------------------------------


def test_what_takes_longer_than_its_worker_has_time_is_called_off_and_an_error() -> None:
    desk = Desk()
    slow = desk.taken()
    assert rule.due_at_ms(desk.now) == 0, "its run is to be started"
    desk.now = rule.begun(desk.now, slow, RunId("r"))
    assert rule.due_at_ms(desk.now) == 60_000
    assert rule.overdue(desk.now, 59_999) == []
    late = rule.overdue(desk.now, 60_000)
    assert [each.task for each in late] == [slow]
    desk.now = rule.called_off(desk.now, late, 60_000)
    assert rule.due_at_ms(desk.now) == 65_000, "again, if the first was lost"
    done = desk.end(slow, "cancelled", 61_000)
    assert (done.fate, done.error) == ("timed_out", "It took longer than 60 s and was called off.")
    assert desk.worker().errors == 1


def test_what_completes_while_it_is_called_off_has_completed() -> None:
    desk = Desk()
    slow = desk.taken()
    desk.now = rule.begun(desk.now, slow, RunId("r"))
    desk.now = rule.called_off(desk.now, rule.overdue(desk.now, 60_000), 60_000)
    assert desk.end(slow).fate == "completed"


def test_a_task_may_have_a_time_of_its_own() -> None:
    desk = Desk()
    answer = desk.submit(timeout_s=5)
    assert isinstance(answer, Accepted)
    desk.now = rule.begun(desk.now, answer.task_id, RunId("r"))
    assert rule.due_at_ms(desk.now) == 5_000


# --- Declared, and looked at ----------------------------------------------------------------------------------------------------


def test_what_is_declared_again_keeps_what_was_taken_and_what_is_known() -> None:
    desk = Desk(worker(max_concurrent=1), threshold=None)
    desk.end(desk.taken())
    first, second = desk.taken(), desk.taken()
    now = Supervisor(tenant="acme", name="desk", workers=(worker(max_concurrent=2), worker("bob")), max_queue=5)
    after = rule.declared_anew(desk.now, now)
    assert (after.workers[0].max_concurrent, after.workers[0].completed, after.max_queue) == (2, 1, 5)
    assert [each.task for each in (*after.active, *after.queue)] == [first, second]


@pytest.mark.parametrize(("left", "why"), [("bob", "ann have tasks at work"), ("ann", "tasks of type read wait")])
def test_no_tenant_is_left_without_a_worker(left: str, why: str) -> None:
    desk = Desk(worker(max_concurrent=1), threshold=None)
    desk.taken()
    desk.taken()
    now = Supervisor(tenant="acme", name="desk", workers=(worker(left, "write"),))
    with pytest.raises(Conflict, match=why):
        rule.declared_anew(desk.now, now)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"workers": ()}, "it has 0 workers"),
        ({"workers": (worker(), worker())}, "the same name"),
        ({"workers": (Worker(name="a", workflow="w", task_types=()),)}, "no task types"),
        ({"workers": (worker(max_concurrent=0),)}, "max_concurrent of 'ann' is 0"),
        ({"workers": (worker(timeout_s=0),)}, "timeout_s of 'ann' is 0"),
        ({"max_queue": -1}, "max_queue is -1"),
        ({"threshold": 80}, "threshold is 80"),
        ({"cool_down_s": 0}, "cool_down_s is 0"),
    ],
)
def test_what_cannot_be_is_said_in_words(how: dict[str, Any], problem: str) -> None:
    declared = Supervisor(**{"tenant": "acme", "name": "desk", "workers": (worker(),), **how})
    (said,) = rule.problems(declared)
    assert problem in said


def test_the_dashboard_says_how_all_stand() -> None:
    desk = Desk(worker("ann", max_concurrent=2), worker("bob", "write", max_concurrent=2), threshold=None)
    desk.end(desk.taken(), after_ms=100)
    desk.end(desk.taken(), after_ms=200)
    for _ in range(3):
        desk.taken()
    desk.taken("write")
    found = rule.dashboard(desk.now, desk.now_ms)
    assert (found.system_load, found.queue_size) == (0.75, 1)
    assert found.workers["ann"] == rule.WorkerView("overloaded", 1.0, 2, 2, 1, 2, 0, 110.0), "0.9 of what was, 0.1 of what is"
    assert (found.workers["bob"].state, found.workers["bob"].load) == ("busy", 0.5)


def test_a_key_names_its_supervisor() -> None:
    desk = Supervisor(tenant="acme", name="a/b desk", workers=(worker(),))
    assert rule.named_by(rule.key_of(desk, "x/y")) == "a/b desk"
    assert rule.named_by(None) is rule.named_by("order-1") is None


# --- Whatever happens ----------------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "submit", "end", "wait"]),
            st.sampled_from(["read", "write"]),
            st.integers(0, 5),
            st.sampled_from(["completed", "failed", "failed", "cancelled"]),
        ),
        max_size=80,
    ),
    st.sampled_from([None, 0.5, 0.8]),
)
def test_no_worker_has_more_than_it_may_and_none_is_lost(
    steps: list[tuple[str, str, int, Fate]], threshold: float | None
) -> None:
    workers = (worker("ann", "read", max_concurrent=2), worker("bob", "read", "write", max_concurrent=3))
    desk = Desk(*workers, max_queue=4, threshold=threshold)
    taken, over = set[str](), set[str]()
    for what, task_type, number, fate in steps:
        if what == "submit":
            answer = desk.submit(task_type, number)
            if isinstance(answer, Accepted):
                taken.add(answer.task_id)
            else:
                assert answer.retry_after_s > 0
        elif what == "wait":
            desk.now_ms += number * 20_000
            desk.now = rule.dispatched(desk.now, desk.now_ms)
        elif desk.now.active:
            task = desk.now.active[number % len(desk.now.active)].task
            desk.end(task, fate)
            over.add(task)
        now = desk.now
        for each in now.workers:
            own = [active for active in now.active if active.worker == each.name]
            assert len(own) <= each.max_concurrent
            assert sum(active.probe for active in own) <= 1
        assert len(now.queue) <= 4
        assert list(now.queue) == sorted(now.queue, key=lambda each: (each.priority, each.number))
        assert sorted(taken - over) == sorted(each.task for each in (*now.active, *now.queue))
        assert rule.dispatched(now, desk.now_ms) == now, "nobody waits for nothing"
