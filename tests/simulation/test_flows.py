"""Random flows in plain asyncio among random faults, and killed after many commits: every replay goes the way that was gone.

A selection; `python -m tests.simulation --made-of flow --seeds 5000` runs as many as one likes, and with `--prefixes` each of them
is killed after every one of its commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from tests.simulation.flow import CONSTRUCTS, LEAVES, Node, draw_flow, draw_node, flow_of
from tests.simulation.prefix import from_every_prefix
from tests.simulation.program import Program
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import simulate

AMONG_FAULTS = range(12)
KILLED = range(100, 106)
FROM_EVERY_PREFIX = range(3)
RESTING = range(200, 208)


def test_random_flows_go_the_same_way_in_every_replay() -> None:
    ended: Counter[str] = Counter()
    for seed in AMONG_FAULTS:
        outcome = simulate(seed, made_of="flow")
        assert outcome.violations == [], seed
        ended[outcome.status] += 1
    assert ended["completed"] > len(AMONG_FAULTS) / 2


def test_random_flows_that_are_killed_after_many_commits_go_on_as_they_went() -> None:
    killed = 0
    for seed in KILLED:
        scenario = Scenario(partial(draw_flow, Random(seed), f"killed {seed}"), {"crash_after_commit": 0.4})
        outcome = simulate(seed, scenario=scenario)
        assert outcome.violations == [], seed
        killed += outcome.faults["crash_after_commit"]
    assert killed > 3 * len(KILLED)


def test_random_flows_go_the_same_way_from_every_prefix_of_their_histories() -> None:
    kills = 0
    for seed in FROM_EVERY_PREFIX:
        for commit, outcome in enumerate(from_every_prefix(seed), 1):
            assert outcome.violations == [], (seed, commit)
            assert outcome.status == "completed", (seed, commit)
            kills += 1
    assert kills > 3 * len(FROM_EVERY_PREFIX)


def test_a_flow_that_rests_again_and_again_is_never_late() -> None:
    restless: Node = ("rests", 20, [("step", 1), ("rests", 5, [("signal", 1), ("pause", 20)]), ("sleep", 20), ("step", 2)])
    for seed in RESTING:
        scenario = Scenario(partial(_resting, restless), {"crash_after_commit": 0.1} if seed % 2 else {}, processes=1)
        outcome = simulate(seed, scenario=scenario)
        assert outcome.violations == [], seed
        assert outcome.status == "completed", seed


def _resting(node: Node) -> Program:
    return Program(flow_of(node, "restless"), None, {"about": "restless"}, None, "start-restless")


def test_random_flows_have_every_construct() -> None:
    def kinds(node: Node) -> Iterator[str]:
        kind, _, *parts = node
        yield kind
        for part in parts[0] if parts else ():
            yield from kinds(part)

    drawn = {kind for seed in range(200) for kind in kinds(draw_node(Random(seed)))}
    assert drawn == {*CONSTRUCTS, *LEAVES}
