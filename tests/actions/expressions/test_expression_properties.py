"""What holds for every expression, value and text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.actions.expressions import Condition, ExpressionError, Template, is_true, parse, to_text
from holdfast.actions.expressions.function import BUILT_IN, STATUS
from holdfast.actions.expressions.parser import tree_of
from holdfast.actions.expressions.syntax import Access, Call, Comparison, Context, Literal, Logic, Node, Not, walk, written
from holdfast.actions.expressions.value import Kind, Value, are_equal, fold, is_less, kind_of, number_in, to_number, whole

# --- What there is ----------------------------------------------------------------------------------------------------

PIECES = [
    *"()[],.*!<>=&|'\"+-$ \n{}0aé",
    *("==", "!=", "<=", ">=", "&&", "||", "''", ".*", "[*]", "${{", "}}"),
    *("null", "true", "NaN", "Infinity", "0xff", "1e3", "-1", ".5", "'text'", "github", "env.A", "and"),
    *("contains(", "format('{0}',", "toJSON(", "fromJSON(", "case(true,", "always()", "join("),
]
soups = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)

# The largest would be infinite once they are rounded to fifteen digits.
numbers = (
    st.floats(-1e308, 1e308)
    | st.sampled_from([math.inf, -math.inf])
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.integers(-20, 20)
)
primitives = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["0", "true", " 1 ", "0xff", ""])
values: st.SearchStrategy[Any] = st.recursive(
    primitives,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abAB01é", max_size=2), inner, max_size=4),
    max_leaves=12,
)
NAMES = ["a", "b", "env", "A_1", "nullable", "contains"]
names = st.sampled_from(NAMES)


def chain(sign: str, operands: list[Node]) -> Node:
    """As the parser makes it: a chain in a chain of the same sign is one."""
    flat: list[Node] = []
    for each in operands:
        flat += each.values if isinstance(each, Logic) and each.sign == sign else (each,)
    return Logic(sign, tuple(flat))


def calls(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(function: Any) -> st.SearchStrategy[Node]:
        most = min(function.most, 5)
        arguments = st.lists(inner, min_size=function.fewest, max_size=most)
        if function.name == "case":
            arguments = arguments.filter(lambda found: len(found) % 2 == 1)
        return arguments.map(lambda found: Call(function.name, tuple(found)))

    return st.sampled_from([*BUILT_IN, *STATUS]).flatmap(call)


literals = (st.none() | st.booleans() | numbers.map(lambda each: whole(float(each))) | st.text(max_size=5)).map(Literal)
_trees: st.SearchStrategy[Node] = st.recursive(
    literals | names.map(Context),
    lambda inner: st.one_of(
        st.builds(Access, inner, st.none() | inner | st.sampled_from(["a", "null", "x-y", "b c"]).map(Literal)),
        st.builds(Not, inner),
        st.builds(Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(chain, st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3)),
        calls(inner),
    ),
    max_leaves=15,
)


@st.composite
def trees(draw: st.DrawFn) -> Node:
    """Any tree, under a short name."""
    return draw(_trees)


statuses = {function.name: (lambda name=function.name: name != "failure") for function in STATUS}


def outcome(attempt: Callable[[], Any]) -> Any:
    """What came of it: a value, or the refusal. Any other exception is a failure."""
    try:
        return attempt()
    except ExpressionError as problem:
        return problem


# --- Texts ------------------------------------------------------------------------------------------------------------


@given(st.text() | soups)
@example("'")
@example("\ud800")
@example("a[" * 60)
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse, Template.parse, Condition.parse):
        found = outcome(lambda read=read: read(text))
        if isinstance(found, ExpressionError):
            assert 0 <= found.offset <= len(text)
            assert found.message.endswith(".") or "?" in found.message


@given(trees())
def test_what_is_written_is_read_back(tree: Node) -> None:
    text = written(tree)
    found = tree_of(text)
    assert found == tree
    assert written(found) == text


@given(trees())
def test_every_node_says_where_it_stands(tree: Node) -> None:
    text = written(tree)
    for node in walk(tree_of(text)):
        match node:
            case Context():
                assert text.startswith(node.name, node.offset)
            case Call():
                assert text.startswith(f"{node.function}(", node.offset)
            case Comparison() | Logic():
                assert text.startswith(node.sign, node.offset)
            case Not():
                assert text[node.offset] == "!"
            case Access():
                assert text[node.offset] in "[*" or text[node.offset - 1] == "."


@given(trees(), st.fixed_dictionaries(dict.fromkeys(NAMES, values)))
def test_every_expression_has_a_value_or_an_error(tree: Node, contexts: dict[str, Any]) -> None:
    text = written(tree)
    value = outcome(lambda: parse(text).evaluate(contexts, statuses))
    if isinstance(value, ExpressionError):
        assert 0 <= value.offset <= len(text)
        return
    assert type(value) in (type(None), bool, int, float, str, list, dict)
    again = parse(text).evaluate(contexts, statuses)
    assert repr(again) == repr(value)
    assert Condition(parse(text)).evaluate(contexts, statuses) == is_true(value)


@given(trees(), trees(), st.fixed_dictionaries(dict.fromkeys(NAMES, values)))
def test_a_template_puts_texts_in_a_row(left: Node, right: Node, contexts: dict[str, Any]) -> None:
    try:
        texts = [to_text(parse(written(tree)).evaluate(contexts, statuses)) for tree in (left, right)]
    except ExpressionError:
        assume(False)
    template = Template.parse(f"{{{{<${{{{ {written(left)} }}}}|${{{{{written(right)}}}}}>}}}}")
    assert template.render(contexts, statuses) == f"{{{{<{texts[0]}|{texts[1]}>}}}}"


@given(st.text())
def test_a_string_means_itself(text: str) -> None:
    assert parse(written(Literal(text))).evaluate({}) == text


# --- Coercions --------------------------------------------------------------------------------------------------------


def ask(text: str, **contexts: Value) -> Value:
    return parse(text).evaluate(contexts)


@given(values, values)
def test_comparison_is_lawful(a: Value, b: Value) -> None:
    asked = {sign: ask(f"a {sign} b", a=a, b=b) for sign in ("==", "!=", "<", "<=", ">", ">=")}
    assert asked["=="] == ask("b == a", a=a, b=b)
    assert asked["!="] is not asked["=="]
    assert asked["<"] == ask("b > a", a=a, b=b)
    assert asked["<="] == (asked["<"] or asked["=="])
    assert asked[">="] == (asked[">"] or asked["=="])
    assert [asked["<"], asked["=="], asked[">"]].count(True) <= 1
    if {kind_of(a), kind_of(b)} in ({Kind.NUMBER}, {Kind.STRING}, {Kind.BOOLEAN}):
        assert [asked["<"], asked["=="], asked[">"]].count(True) == 1


@given(primitives, primitives)
def test_kinds_that_differ_meet_as_numbers(a: Value, b: Value) -> None:
    assume(kind_of(a) != kind_of(b))
    assert are_equal(a, b) == (to_number(a) == to_number(b))
    assert is_less(a, b) == (to_number(a) < to_number(b))


@given(values)
def test_truth_is_what_two_nots_say(value: Value) -> None:
    assert ask("!!a", a=value) is is_true(value)
    assert ask("a && 1 || 0", a=value) == is_true(value)
    if isinstance(value, str | bool | None):
        assert is_true(value) == (value not in ("", False, None))


@given(numbers)
def test_a_number_and_its_text_agree(number: float) -> None:
    text = to_text(number)
    read = number_in(text)
    assert to_text(read) == text
    assert math.isclose(read, float(number), rel_tol=1e-14) or math.isinf(number)


@given(st.text(), st.text())
def test_case_makes_no_difference(a: str, b: str) -> None:
    assert len(fold(a)) == len(a)
    assert fold(fold(a)) == fold(a)
    assert are_equal(a, fold(a))
    assert ask("contains(c, a) && startsWith(c, a) && endsWith(c, b)", a=a, b=b, c=fold(a) + b) is True


@given(values, st.sampled_from(["x", ",", ""]))
def test_join_is_the_texts_of_the_items(value: Value, separator: str) -> None:
    found = ask("join(a, b)", a=value, b=separator)
    if isinstance(value, list):
        assert found == separator.join(map(to_text, value))
    else:
        assert found == ("" if isinstance(value, dict) else to_text(value))


@given(values)
def test_json_is_read_back(value: Value) -> None:
    """As far as fifteen digits tell, and as far as JSON can say it."""
    text = to_text(ask("toJSON(a)", a=value))
    assume("Infinity" not in text)
    assert ask("toJSON(fromJSON(a))", a=text) == to_text(ask("toJSON(a)", a=one_case(value)))


def one_case(value: Any) -> Any:
    """Of keys that differ in case only the first."""
    if isinstance(value, list):
        return [one_case(each) for each in value]
    if isinstance(value, dict):
        first: dict[str, Any] = {}
        for key, item in value.items():
            if fold(key) not in map(fold, first):
                first[key] = one_case(item)
        return first
    return value


@given(st.text())
def test_any_text_is_json_or_refused(text: str) -> None:
    found = outcome(lambda: ask("fromJSON(a)", a=text))
    assert not isinstance(found, ExpressionError) or "fromJSON" in found.message


@given(st.text("{}01 a"), st.lists(primitives, max_size=3))
def test_any_form_is_filled_or_refused(form: str, arguments: list[Value]) -> None:
    contexts = {"form": form, **{f"a{number}": each for number, each in enumerate(arguments)}}
    asked = parse(f"format({', '.join(contexts)})")
    found = outcome(lambda: asked.evaluate(contexts))
    if isinstance(found, ExpressionError):
        assert "format()" in found.message
    else:
        # Python's own format agrees wherever both understand the form.
        assert found == form.format(*map(to_text, arguments))


@given(values, values)
def test_a_star_gives_what_is_inside(value: Value, key: Value) -> None:
    items = ask("a.*", a=value)
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    assert items == inside
    found = [ask("a[k]", a=each, k=key) for each in inside]
    assert [each for each in found if each is not None] == [
        each
        for each in ask("a.*[k]", a=value, k=key) or []
        if each is not None  # type: ignore[union-attr]
    ]
