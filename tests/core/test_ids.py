"""Names say what they are the name of, and keys of effects never collide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.ids import (
    Path,
    RunId,
    StepId,
    call_id,
    effect_key,
    engine_gate_id,
    gate_id,
    named_effect_key,
    node_of,
    numbered,
    place_of,
    run_of,
    step_id,
    visit_of,
)

RUN = RunId("0190-run")


def test_a_step_is_a_node_and_a_visit() -> None:
    assert step_id("draft", 2) == "draft#2"
    assert node_of(StepId("draft#2")) == "draft"
    assert visit_of(StepId("draft#2")) == 2
    assert node_of(StepId("!compensate#1")) == "!compensate"


@given(st.lists(st.sampled_from(["~0", "~12", "0", "3", "1-0", "@2", "@version"]), min_size=1, max_size=4), st.integers(0, 3))
def test_a_place_is_found_again_in_its_name_whatever_tasks_it_is_in(parts: list[str], generation: int) -> None:
    path = Path(".".join([*parts, "7"]))
    assert place_of(numbered(path, generation)) == path


def test_calls_and_gates_name_their_run() -> None:
    step, path = step_id("draft", 1), Path("2.0.1")
    assert call_id(RUN, step, path, 3) == "0190-run:draft#1:2.0.1:3"
    assert run_of(call_id(RUN, step, path, 3)) == RUN
    assert run_of(gate_id(RUN, step, path)) == RUN
    assert run_of(engine_gate_id(RUN, "budget", 1)) == RUN


def test_an_engines_gate_cannot_be_a_steps() -> None:
    """No node's name begins with an exclamation mark."""
    assert engine_gate_id(RUN, "budget", 1) == "0190-run:!budget.1"


def test_an_effects_key_is_the_same_for_every_try_of_one_operation() -> None:
    assert effect_key("acme", RUN, StepId("a#1"), Path("0"), "send") == effect_key(
        "acme", RUN, StepId("a#1"), Path("0"), "send"
    )


@given(st.lists(st.text(max_size=4), min_size=5, max_size=5), st.integers(0, 4), st.text(min_size=1, max_size=4))
def test_different_operations_have_different_keys(one: list[str], part: int, more: str) -> None:
    def key(parts: list[str]) -> str:
        return effect_key(parts[0], RunId(parts[1]), StepId(parts[2]), Path(parts[3]), parts[4])

    other = [*one]
    other[part] += more
    assert key(one) != key(other)


def test_where_one_part_ends_and_the_next_begins_counts() -> None:
    assert effect_key("a", RunId("bc"), StepId("s"), Path("0"), "t") != effect_key(
        "ab", RunId("c"), StepId("s"), Path("0"), "t"
    )


def test_a_named_effect_is_not_an_unnamed_one() -> None:
    named = named_effect_key("acme", RUN, "invite:1", "send")
    assert named != effect_key("acme", RUN, StepId("invite#1"), Path("0"), "send")
    assert named != named_effect_key("acme", RUN, "invite:2", "send")
    assert named != named_effect_key("other", RUN, "invite:1", "send")
