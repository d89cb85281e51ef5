"""Whatever a file holds, reading it ends in a document or in mistakes, within bounds that do not depend on luck."""

from __future__ import annotations

import contextlib
import itertools
import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.actions.binding import bind
from holdfast.actions.syntax import source
from holdfast.actions.syntax.keys import MAX_JOBS
from holdfast.actions.syntax.load import load
from holdfast.errors import InvalidFile

MIB = 1024 * 1024


def told(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as found:
        load(text, "file")
    return [each.message for each in found.value.mistakes]


@pytest.fixture
def values_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of the parser's events were looked at."""
    seen = [0]
    original = source._events

    def counted(text: str) -> Iterator[object]:
        for event in original(text):
            seen[0] += 1
            yield event

    monkeypatch.setattr(source, "_events", counted)
    return seen


def jobs(count: int) -> str:
    return "jobs:\n" + "".join(f"  j{n}: {{runs-on: any, steps: [{{run: x}}]}}\n" for n in range(count))


def test_a_file_may_have_a_thousand_jobs_and_no_more() -> None:
    assert len(load(jobs(MAX_JOBS), "file").jobs) == MAX_JOBS == 1000
    assert told(jobs(MAX_JOBS + 1))[0].startswith("there are 1,001 entries; 1,000 are allowed.")


@pytest.mark.long
def test_ten_thousand_jobs_are_given_up_before_they_are_all_read(values_read: list[int]) -> None:
    assert told(jobs(10_000))[-1].startswith("the file has more than 50,000 keys and values.")
    assert values_read[0] < 2 * source.MAX_VALUES + 100


@pytest.mark.long
def test_a_chain_of_a_thousand_jobs_is_no_deeper_than_any_other_file() -> None:
    text = "jobs:\n" + "".join(
        f"  j{n}: {{runs-on: any, {f'needs: j{n - 1}, ' if n else ''}steps: [{{run: 'echo ${{{{ jobs.j0.result }}}}'}}]}}\n"
        for n in range(1, 1000)
    )
    assert told(text)[0].startswith("there is no job 'j0'.")
    ring = text.replace("needs: j0,", "needs: j999,").replace("jobs.j0", "jobs.j1")
    (cycle,) = [message for message in told(ring) if message.startswith("these jobs wait")]
    assert cycle.count("->") == 999


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? ", "{a: ", "[[{"])
def test_deep_nesting_is_given_up_at_its_32nd_level(values_read: list[int], opening: str) -> None:
    assert "nested more than 32 levels deep" in told(opening * (MIB // len(opening) - 1))[-1]
    assert values_read[0] < 300


def test_32_levels_are_allowed_and_no_more() -> None:
    assert not any("nested" in message for message in told("name: " + "[" * 31 + "]" * 31))
    assert any("nested" in message for message in told("name: " + "[" * 32 + "]" * 32))


def test_a_bomb_of_aliases_does_not_go_off(values_read: list[int]) -> None:
    named = ["a", *(f"b{n}" for n in range(60))]
    bomb = "a: &a [[], []]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in itertools.pairwise(named))
    assert told(bomb)[-1].startswith("use fewer aliases: with '*b")
    assert values_read[0] < 200
    long = f"a: &a '{'x' * 1000}'\n" + "b: &b [" + "*a, " * 100 + "]\nc: [" + "*b, " * 100 + "]\n"
    assert told(long)[-1].startswith(
        "use fewer aliases: with '*b' written out the file has more than 50,000 keys and values, or 1,048,576"
    )
    deep = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40))
    assert told(deep)[-1].startswith("with '*a30' written out this is nested more than 32 levels deep")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: *x", "no value before it has that name"),
        ("a: *x\nb: &x 1", "no value before it has that name"),
        ("a: &x [*x]", "it stands inside the value that it names"),
        ("a: &x {b: [c, *x]}", "it stands inside the value that it names"),
    ],
)
def test_an_alias_names_a_value_that_stands_before_it(text: str, why: str) -> None:
    assert told(text)[-1] == f"write out what '*x' is to stand for, because {why}."


def test_a_merge_of_mappings_is_refused() -> None:
    assert any("'<<' merges mappings" in message for message in told("a: {b: 1}\nc:\n  <<: {d: 1}\njobs: {}"))


def test_a_file_of_more_than_a_mebibyte_is_not_parsed(values_read: list[int]) -> None:
    assert told("a: " + "x" * MIB)[0].startswith("the file has more than 1,048,576 bytes, the maximum.")
    assert values_read[0] == 0
    assert "bytes" in told("a: " + "é" * (MIB // 2))[0]


@pytest.mark.parametrize(
    "text",
    [
        "name: " + "x" * 250_000,
        "x" * 250_000 + ": 1",
        "name: '" + "\n" * 250_000,
        "name: |\n" + " " * 250_000,
        "name: >\n" + "\n x\n" * 50_000,
        'name: "' + "\\x41" * 60_000 + '"',
        "name: " + "9" * 250_000,
        "name: " + "!" * 250_000,
        "name: &" + "a" * 250_000,
        "%" + "a" * 250_000,
        "#" * 250_000,
        "&" * 250_000,
        "name: " + "${{ " * 60_000,
        "name: " + "${{ a }}" * 30_000,
        "name: '" + "'" * 249_999,
        "a: 1\n" * 60_000,
        "name: [" + "a," * 110_000,
        "\ufeff" * 1000,
        "\u2028" * 1000,
    ],
    ids=lambda text: f"{text[:16]!r}",
)
@pytest.mark.long
def test_a_quarter_of_a_megabyte_of_one_thing_ends_in_short_messages(text: str) -> None:
    messages = told(text)
    assert messages
    assert all(len(message) < 1000 for message in messages)


@pytest.mark.long
def test_memory_grows_with_the_file_and_not_with_what_it_means() -> None:
    """25 KiB of what expands elsewhere: each aliased, merged, repeated or quoted a hundred times over."""
    for text in ("a: &a [x]\n" + "b: [*a, *a]\n" * 2000, "name: " + "${{ a }}" * 2000, jobs(1100), "a: 1\n" * 4500):
        tracemalloc.start()
        try:
            told(text)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 48 * MIB


SCRIPTS = [
    "((" * 100_000,
    "$(" * 100_000,
    "'" * 99_999,
    "a <<E " * 10_000,
    "\\" * 99_999,
    "${" * 50_000,
    "`" * 99_999,
    "[[ " * 15_000,
    "case a in " * 20_000,
    "a=(" * 50_000,
    "$'" * 50_000,
    "<(" * 50_000,
    'x"' * 49_999,
    "a | " * 50_000,
    "\n" * 200_000,
    "esac " * 30_000,
    "$" * 80_000,
    "a()" * 100_000,
    "A=()" * 15_000,
    "declare -a" * 15_000,
    "[ a " * 15_000,
    "a{}" * 90_000,
    "<<<" * 90_000,
]


@pytest.mark.parametrize(
    "script",
    [pytest.param(script, marks=[pytest.mark.long] if number % 2 else []) for number, script in enumerate(SCRIPTS)],
    ids=lambda text: f"{text[:8]!r}",
)
def test_a_monstrous_script_is_bound_or_refused(script: str) -> None:
    found = bind([script, None, script, None])
    assert len(found.refusals) <= 2
    assert found.refusals or found.text.count("HOLDFAST_EXPR_") == 2


def test_a_matrix_may_not_grow_while_it_is_built() -> None:
    huge = ", ".join(f"k{n}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for n in range(200))
    assert any("more than 4,096 combinations" in m for m in told(f"jobs: {{a: {{strategy: {{matrix: {{{huge}}}}}}}}}"))


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("abjobs: \n-'\"{}[]|>&*!%@`#,?$()=<~\t0.e\x85é"), max_size=200))
def test_any_text_is_a_document_or_mistakes(text: str) -> None:
    told(text)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Something like a workflow, with anything in the place of its values."""
    value = st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(st.sampled_from("ab ${{ inputs.x }} needs.a steps[0]()'!=&|:\n"), max_size=30),
            st.sampled_from(["${{ needs.a.outputs.b }}", "${{ matrix.k }}", "a", "any", "always()"]),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["value", "matrix", "include", "exclude", "k", "run", "max", "cpu"]), inner, max_size=3
            ),
        ),
        max_leaves=6,
    )
    keys = [
        "name",
        "needs",
        "if",
        "runs-on",
        "strategy",
        "env",
        "timeout-minutes",
        "continue-on-error",
        "steps",
        "outputs",
        "resources",
        "retry",
        "pools",
        "uses",
    ]
    steps = st.lists(
        st.dictionaries(
            st.sampled_from(["id", "name", "if", "run", "shell", "env", "working-directory", "effect"]), value, max_size=4
        ),
        max_size=2,
    )
    job = st.dictionaries(st.sampled_from(keys), value, max_size=5)
    found = {
        "jobs": {name: {**draw(job), "steps": draw(steps)} for name in draw(st.lists(st.sampled_from("abc"), unique=True))}
    }
    return json.dumps(found)


@settings(max_examples=100, deadline=None)
@given(files())
def test_any_shape_of_a_file_is_a_document_or_mistakes(text: str) -> None:
    with contextlib.suppress(InvalidFile):
        load(text, "file")
