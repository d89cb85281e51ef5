"""Who gets which job: what the scheduler promises of every placement, by example and for whatever is said to it."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import RunId, SessionId
from holdfast.ports import Capacity, Handed, Job
from holdfast.scheduling import scheduler as scheduler_
from holdfast.scheduling.scheduler import ON_ITS_WAY_S, Scheduler


def handed(run: str, graph: str = "g", receipt: str = "", dead: str = "") -> Handed:
    return Handed(Job(RunId(run), graph, frozenset([SessionId(dead)] if dead else [])), receipt)


def worker(name: str, free: int, *graphs: str, taken: int = 0) -> Capacity:
    return Capacity(SessionId(name), graphs or ("g",), 10, free, taken)


def runs(placed: dict[SessionId, list[Handed]]) -> dict[str, list[str]]:
    return {name: [each.job.run for each in given] for name, given in placed.items()}


def test_the_least_loaded_gets_the_next_job() -> None:
    scheduler = Scheduler()
    scheduler.report(worker("a", 1), 0)
    scheduler.report(worker("b", 3), 0)
    for number in range(4):
        scheduler.offer(handed(str(number)))
    assert runs(scheduler.placements(0)) == {"b": ["0", "1", "3"], "a": ["2"]}
    assert scheduler.jobs == 0


def test_a_job_waits_for_somebody_who_can_run_it_and_holds_up_no_other() -> None:
    scheduler = Scheduler()
    scheduler.report(worker("a", 5, "known"), 0)
    scheduler.offer(handed("1", "unknown"))
    scheduler.offer(handed("2", "known"))
    assert runs(scheduler.placements(0)) == {"a": ["2"]}
    assert scheduler.can_run("known")
    assert not scheduler.can_run("unknown")
    scheduler.report(worker("b", 5, "unknown"), 0)
    assert runs(scheduler.placements(0)) == {"b": ["1"]}


def test_a_workflow_with_a_long_line_holds_up_no_other() -> None:
    scheduler = Scheduler()
    for number in range(100):
        scheduler.offer(handed(f"long-{number}", "long"))
    for number in range(2):
        scheduler.offer(handed(f"short-{number}", "short"))
    placed = []
    for turn in range(4):
        scheduler.report(worker("a", 1, "long", "short", taken=turn), turn)
        placed += scheduler.placements(turn)[SessionId("a")]
    assert [each.job.run for each in placed] == ["long-0", "short-0", "long-1", "short-1"]


def test_what_is_on_its_way_to_a_worker_takes_its_slots_whatever_it_says_meanwhile() -> None:
    scheduler = Scheduler()
    scheduler.report(worker("a", 2), 0)
    for number in range(5):
        scheduler.offer(handed(str(number)))
    assert runs(scheduler.placements(0)) == {"a": ["0", "1"]}
    scheduler.report(worker("a", 2), 0.5)  # said before they came
    assert scheduler.placements(0.5) == {}
    scheduler.report(worker("a", 1, taken=1), 0.6)  # one came and has ended
    assert scheduler.placements(0.6) == {}
    scheduler.report(worker("a", 1, taken=2), 0.7)
    assert runs(scheduler.placements(0.7)) == {"a": ["2"]}


def test_what_never_comes_to_a_worker_keeps_its_slots_only_for_a_while() -> None:
    scheduler = Scheduler()
    scheduler.report(worker("a", 1), 0)
    scheduler.offer(handed("lost"))
    assert runs(scheduler.placements(0)) == {"a": ["lost"]}
    scheduler.offer(handed("next"))
    scheduler.report(worker("a", 1), ON_ITS_WAY_S / 2)
    assert scheduler.placements(ON_ITS_WAY_S / 2) == {}
    scheduler.report(worker("a", 1), ON_ITS_WAY_S + 0.1)
    assert runs(scheduler.placements(ON_ITS_WAY_S + 0.1)) == {"a": ["next"]}


def test_a_run_that_waits_already_waits_once_and_is_placed_with_all_that_is_known() -> None:
    scheduler = Scheduler()
    assert scheduler.offer(handed("1", dead="x")) is None
    assert scheduler.offer(handed("1", receipt="r1", dead="y")) is None
    twice = handed("1", receipt="r2")
    assert scheduler.offer(twice) is twice, "its entry in the queue must not stay there for ever"
    assert scheduler.offer(handed("1", receipt="r1")) is None, "told again by a queue that was away"
    scheduler.report(worker("a", 9), 0)
    ((placed,),) = scheduler.placements(0).values()
    assert placed == Handed(Job(RunId("1"), "g", frozenset([SessionId("x"), SessionId("y")])), "r1")


def test_no_more_jobs_wait_than_there_may(monkeypatch) -> None:
    monkeypatch.setattr(scheduler_, "MOST_JOBS", 2)
    scheduler = Scheduler()
    assert scheduler.offer(handed("1")) is None
    assert scheduler.offer(handed("2")) is None
    too_many = handed("3", "other")
    assert scheduler.offer(too_many) is too_many
    assert [each.job.run for each in scheduler.clear()] == ["1", "2"]
    assert scheduler.jobs == 0
    assert scheduler.offer(too_many) is None


def test_a_worker_that_is_silent_is_told_apart() -> None:
    scheduler = Scheduler()
    scheduler.report(worker("a", 1), 1)
    scheduler.report(worker("b", 1), 5)
    assert scheduler.silent(3) == ["a"]
    scheduler.forget(SessionId("a"))
    scheduler.offer(handed("1"))
    scheduler.offer(handed("2"))
    assert runs(scheduler.placements(5)) == {"b": ["1"]}


GRAPHS = st.sampled_from(["g0", "g1", "g2"])
NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.one_of(
    st.tuples(st.just("offer"), st.integers(0, 30), GRAPHS),
    st.tuples(st.just("report"), NAMES, st.integers(0, 4), st.frozensets(GRAPHS)),
    st.tuples(st.just("forget"), NAMES),
    st.tuples(st.just("place")),
)


@given(st.lists(WORDS, max_size=60))
def test_whatever_is_said_jobs_go_once_in_order_to_who_can_run_them_and_no_slot_is_given_twice(words) -> None:
    scheduler = Scheduler()
    waiting: dict[str, list[str]] = defaultdict(list)
    known: dict[str, tuple[int, frozenset[str]]] = {}
    given_: dict[str, int] = defaultdict(int)
    for word in words:
        match word:
            case ("offer", number, graph):
                run = f"{graph}-{number}"
                scheduler.offer(handed(run, graph))
                if run not in waiting[graph]:
                    waiting[graph].append(run)
            case ("report", name, free, graphs):  # it has taken all that it was given
                scheduler.report(Capacity(SessionId(name), tuple(graphs), 4, free, given_[name]), 0)
                known[name] = free, graphs
            case ("forget", name):
                scheduler.forget(SessionId(name))
                known.pop(name, None)
            case _:
                for name, placed in scheduler.placements(0).items():
                    free, graphs = known[name]
                    assert len(placed) <= free
                    known[name] = free - len(placed), graphs
                    given_[name] += len(placed)
                    for graph in {each.job.graph_hash for each in placed}:
                        assert graph in graphs
                    for each in placed:
                        waiting[each.job.graph_hash].remove(each.job.run)  # it waited, and waits no more
                for graph, line in waiting.items():  # nobody is kept waiting beside a free slot
                    assert not line or not any(graph in graphs and free > 0 for free, graphs in known.values())
        assert scheduler.jobs == sum(map(len, waiting.values()))


@given(st.lists(st.tuples(GRAPHS, st.integers(0, 99)), unique=True), st.lists(st.integers(1, 5), min_size=1))
def test_jobs_of_one_workflow_are_placed_in_the_order_in_which_they_came(offers, free) -> None:
    scheduler = Scheduler()
    for graph, number in offers:
        scheduler.offer(handed(str(number), graph))
    order: dict[str, list[str]] = defaultdict(list)
    taken = 0
    for turn in range(len(offers)):
        scheduler.report(worker("a", free[turn % len(free)], "g0", "g1", "g2", taken=taken), 0)
        for each in scheduler.placements(0).get(SessionId("a"), []):
            order[each.job.graph_hash].append(each.job.run)
            taken += 1
    assert order == {
        graph: [str(number) for other, number in offers if other == graph] for graph in {graph for graph, _ in offers}
    }
