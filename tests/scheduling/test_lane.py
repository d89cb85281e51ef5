"""Who gets which job of a lane, by example and for whatever is said to it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.demand import Demand, Resources
from holdfast.core.values.ids import RunId, SessionId, StepId
from holdfast.ports import DeliveredJob, Job, PlacedStep, Report
from holdfast.scheduling import placement
from holdfast.scheduling.lane import Lane
from holdfast.scheduling.placement import Scheduler


def a_lane() -> Lane:
    return Lane(Scheduler())


def handed(run: str, graph: str = "g", receipt: str = "", dead: str = "", tenant: str = "t") -> DeliveredJob:
    return DeliveredJob(Job(RunId(run), graph, frozenset([SessionId(dead)] if dead else []), tenant), receipt)


UNTIL_MS = 2000


def worker(name: str, free: int, *graphs: str, taken: int = 0, held: tuple[PlacedStep, ...] = (), at_ms: int = 1) -> Report:
    own = Resources(cpu_m=1000)
    return Report(SessionId(name), graphs or ("g",), 10, free, taken, ("fast",), own, held, at_ms=at_ms)


def step(run: str, **demand: Any) -> PlacedStep:
    return PlacedStep(RunId(run), StepId("a#1"), "t", "wf", "g", Demand(**demand))


def runs(placed: dict[SessionId, list[DeliveredJob]]) -> dict[str, list[str]]:
    return {name: [each.job.run for each in given] for name, given in placed.items()}


def test_the_least_loaded_gets_the_next_job() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 1), 0)
    lane.workers.report(worker("b", 3), 0)
    for number in range(4):
        lane.offer(handed(str(number)), 0)
    placed = runs(lane.placements(0, UNTIL_MS))
    assert {name: len(given_) for name, given_ in placed.items()} == {"a": 1, "b": 3}
    assert "0" in placed["b"]
    assert lane.waiting == 0


def test_a_job_waits_for_a_worker_that_can_run_it_and_holds_up_no_other() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 5, "known"), 0)
    lane.offer(handed("1", "unknown"), 0)
    lane.offer(handed("2", "known"), 0)
    assert runs(lane.placements(0, UNTIL_MS)) == {"a": ["2"]}
    assert lane.workers.can_run("known")
    assert not lane.workers.can_run("unknown")
    lane.workers.report(worker("b", 5, "unknown"), 0)
    assert runs(lane.placements(0, UNTIL_MS)) == {"b": ["1"]}


def test_a_tenant_with_a_long_line_holds_up_no_other() -> None:
    lane = a_lane()
    for number in range(100):
        lane.offer(handed(f"long-{number}", tenant="long"), 0)
    for number in range(2):
        lane.offer(handed(f"short-{number}", tenant="short"), 0)
    placed = []
    for turn in range(4):
        lane.workers.report(worker("a", 1, taken=turn), turn)
        placed += lane.placements(turn, UNTIL_MS)[SessionId("a")]
    assert sorted(each.job.run for each in placed) == ["long-0", "long-1", "short-0", "short-1"]


def test_what_is_on_its_way_to_a_worker_takes_its_slots_whatever_it_says_meanwhile() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 2), 0)
    for number in range(5):
        lane.offer(handed(str(number)), 0)
    assert runs(lane.placements(0, UNTIL_MS)) == {"a": ["0", "1"]}
    lane.workers.report(worker("a", 2), 0.5)  # said before they came
    assert lane.placements(0.5, UNTIL_MS) == {}
    lane.workers.report(worker("a", 1, taken=1), 0.6)  # one came and has ended
    assert lane.placements(0.6, UNTIL_MS) == {}
    lane.workers.report(worker("a", 1, taken=2), 0.7)
    assert runs(lane.placements(0.7, UNTIL_MS)) == {"a": ["2"]}


def test_what_never_comes_to_a_worker_keeps_its_slots_only_for_a_while() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 1), 0)
    lane.offer(handed("lost"), 0)
    assert runs(lane.placements(0, UNTIL_MS)) == {"a": ["lost"]}
    lane.offer(handed("next"), 0)
    lane.workers.report(worker("a", 1, at_ms=UNTIL_MS), 9)  # heard late, and said in time
    assert lane.placements(9, UNTIL_MS) == {}
    lane.workers.report(worker("a", 1, at_ms=UNTIL_MS + 1), 9)
    assert runs(lane.placements(9, UNTIL_MS)) == {"a": ["next"]}


def test_a_run_that_waits_already_waits_once_and_is_placed_with_all_that_is_known() -> None:
    lane = a_lane()
    assert lane.offer(handed("1", dead="x"), 0) is None
    assert lane.offer(handed("1", receipt="r1", dead="y"), 0) is None
    twice = handed("1", receipt="r2")
    assert lane.offer(twice, 0) is twice, "its entry in the queue must not stay there for ever"
    assert lane.offer(handed("1", receipt="r1"), 0) is None, "told again by a queue that was away"
    lane.workers.report(worker("a", 9), 0)
    ((placed,),) = lane.placements(0, UNTIL_MS).values()
    assert placed == DeliveredJob(Job(RunId("1"), "g", frozenset([SessionId("x"), SessionId("y")]), "t"), "r1")


def test_no_more_jobs_wait_than_there_may(monkeypatch) -> None:
    monkeypatch.setattr(placement, "MAX_JOBS", 2)
    lane = a_lane()
    assert lane.offer(handed("1"), 0) is None
    assert lane.offer(handed("2"), 0) is None
    too_many = handed("3", "other")
    assert lane.offer(too_many, 0) is too_many
    assert [each.job.run for each in lane.clear()] == ["1", "2"]
    assert lane.waiting == 0
    assert lane.offer(too_many, 0) is None


def test_a_silent_worker_is_distinguished() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 1), 1)
    lane.workers.report(worker("b", 1), 5)
    assert lane.workers.silent(3) == ["a"]
    lane.workers.forget(SessionId("a"))
    lane.offer(handed("1"), 0)
    lane.offer(handed("2"), 0)
    assert runs(lane.placements(5, UNTIL_MS)) == {"b": ["1"]}


# --- Steps ------------------------------------------------------------------------------------------------------------


def steps(placed: dict[SessionId, list[DeliveredJob]]) -> dict[str, list[str]]:
    return {name: [each.run for one in given for each in one.job.steps] for name, given in placed.items()}


def test_steps_take_of_their_worker_until_it_holds_them_no_more() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 5), 0)
    lane.find([step("1", cpu_m=600), step("2", cpu_m=600), step("3", labels=("slow",))], 0)
    assert steps(lane.placements(0, UNTIL_MS)) == {"a": ["1"]}
    lane.workers.report(worker("a", 5), 0.1)  # said before it came
    assert lane.placements(0.1, UNTIL_MS) == {}
    lane.workers.report(worker("a", 4, taken=1, held=(step("1", cpu_m=600),)), 0.2)
    assert lane.placements(0.2, UNTIL_MS) == {}
    lane.workers.report(worker("a", 5, taken=1), 0.3)  # it is over
    assert steps(lane.placements(0.3, UNTIL_MS)) == {"a": ["2"]}
    assert lane.waiting == 1, "nobody is slow"


def test_a_leader_that_has_just_begun_knows_from_the_workers_what_is_in_use() -> None:
    lane = a_lane()
    lane.scheduler.set_pool("P", "slots", 5, 0)
    lane.workers.report(worker("a", 5, taken=7, held=(step("old", cpu_m=600, pools={"P": 5}),)), 0)
    lane.find([step("1", pools={"P": 1}), step("2", cpu_m=600)], 0)
    assert lane.placements(0, UNTIL_MS) == {}
    lane.workers.report(worker("a", 6, taken=7), 1)
    assert steps(lane.placements(1, UNTIL_MS)) == {"a": ["1", "2"]}


def test_a_step_that_never_reached_its_worker_frees_its_room_and_is_placed_again() -> None:
    lane = a_lane()
    lane.workers.report(worker("a", 5), 0)
    lane.find([step("1", cpu_m=1000)], 0)
    assert steps(lane.placements(0, UNTIL_MS)) == {"a": ["1"]}
    lane.find([step("1", cpu_m=1000)], 0.1)
    assert lane.placements(0.1, UNTIL_MS) == {}, "it is on its way"
    lane.workers.report(worker("a", 5, at_ms=UNTIL_MS + 1), 0.2)
    lane.find([step("1", cpu_m=1000)], 0.3)
    assert steps(lane.placements(0.3, UNTIL_MS)) == {"a": ["1"]}


def test_a_silent_worker_keeps_its_steps_and_gets_no_more() -> None:
    lane = a_lane()
    lane.scheduler.set_pool("P", "slots", 1, 0)
    held = (step("old", pools={"P": 1}),)
    lane.workers.report(worker("a", 5, held=held), 0)
    lane.workers.mute(SessionId("a"), 4)
    lane.workers.report(worker("b", 1), 4)
    lane.find([step("1", pools={"P": 1}), step("2", cpu_m=1), step("3", cpu_m=1)], 4)
    assert steps(lane.placements(4, UNTIL_MS)) == {"b": ["2"]}
    lane.workers.report(worker("a", 5), 5)
    assert steps(lane.placements(5, UNTIL_MS)) == {"a": ["1", "3"]}


def test_what_a_worker_had_that_is_gone_is_free() -> None:
    lane = a_lane()
    lane.scheduler.set_pool("P", "slots", 1, 0)
    lane.workers.report(worker("a", 5, held=(step("old", pools={"P": 1}),)), 0)
    lane.workers.report(worker("b", 5), 0)
    lane.find([step("1", pools={"P": 1})], 0)
    assert lane.placements(0, UNTIL_MS) == {}
    lane.workers.forget(SessionId("a"))
    assert steps(lane.placements(0, UNTIL_MS)) == {"b": ["1"]}


def test_a_step_claimed_by_a_forgotten_dead_worker_is_placed_again() -> None:
    """A worker that stood still beyond its lease wakes, and its last word of before comes late."""
    lane = a_lane()
    lane.find([step("1")], 0)
    lane.workers.report(worker("dead", 5, held=(step("1"),)), 1)
    lane.workers.forget(SessionId("dead"))
    lane.find([step("1")], 2)  # it stands in line in the store all the time
    lane.workers.report(worker("a", 5), 2)
    assert steps(lane.placements(2, UNTIL_MS)) == {"a": ["1"]}


def test_who_stands_in_line_no_more_is_forgotten_unless_he_came_later() -> None:
    lane = a_lane()
    lane.find([step("1", cpu_m=1), step("2", cpu_m=1)], 0)
    lane.find([step("3", cpu_m=1)], 5)
    lane.forget_others({RunId("2")}, 5)
    lane.workers.report(worker("a", 5), 6)
    assert steps(lane.placements(6, UNTIL_MS)) == {"a": ["2", "3"]}


GRAPHS = st.sampled_from(["g0", "g1", "g2"])
NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.one_of(
    st.tuples(st.just("offer"), st.integers(0, 30), GRAPHS),
    st.tuples(st.just("report"), NAMES, st.integers(0, 4), st.frozensets(GRAPHS)),
    st.tuples(st.just("forget"), NAMES),
    st.tuples(st.just("place")),
)


@given(st.lists(WORDS, max_size=60))
def test_jobs_go_once_in_order_to_able_workers_and_no_slot_is_given_twice(words) -> None:
    lane = a_lane()
    waiting: dict[str, list[str]] = defaultdict(list)
    known: dict[str, tuple[int, frozenset[str]]] = {}
    given_: dict[str, int] = defaultdict(int)
    for word in words:
        match word:
            case ("offer", number, graph):
                run = f"{graph}-{number}"
                lane.offer(handed(run, graph), 0)
                if run not in waiting[graph]:
                    waiting[graph].append(run)
            case ("report", name, free, graphs):  # it has taken all that it was given
                lane.workers.report(Report(SessionId(name), tuple(graphs), 4, free, given_[name]), 0)
                known[name] = free, graphs
            case ("forget", name):
                lane.workers.forget(SessionId(name))
                known.pop(name, None)
            case _:
                for name, placed in lane.placements(0, UNTIL_MS).items():
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
        assert lane.waiting == sum(map(len, waiting.values()))


@given(st.lists(st.tuples(GRAPHS, st.integers(0, 99)), unique=True), st.lists(st.integers(1, 5), min_size=1))
def test_jobs_of_one_workflow_are_placed_in_the_order_in_which_they_came(offers, free) -> None:
    lane = a_lane()
    for graph, number in offers:
        lane.offer(handed(f"{graph}-{number}", graph), 0)
    order: dict[str, list[str]] = defaultdict(list)
    taken = 0
    for turn in range(len(offers)):
        lane.workers.report(worker("a", free[turn % len(free)], "g0", "g1", "g2", taken=taken), 0)
        for each in lane.placements(0, UNTIL_MS).get(SessionId("a"), []):
            order[each.job.graph_hash].append(each.job.run)
            taken += 1
    assert order == {
        graph: [f"{graph}-{number}" for other, number in offers if other == graph] for graph in {graph for graph, _ in offers}
    }
