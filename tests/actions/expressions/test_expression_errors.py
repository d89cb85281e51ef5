"""A mistake in an expression: where it is, what was found, what is allowed, and what its writer may have meant."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.actions.expressions import ExpressionError, parse

UNREADABLE: list[tuple[str, int, str]] = [
    # text, offset, and a part of the message
    ("'open", 0, "is not closed"),
    ("a == 'it''s", 5, "written twice"),
    ('name == "x"', 8, "Strings take single quotes"),
    ("$HOME", 0, "env.NAME"),
    ("a ? b : c", 2, "case(condition, value, other)"),
    ("a = b", 2, "Did you mean `==`?"),
    ("a & b", 2, "Did you mean `&&`?"),
    ("a | b", 2, "Did you mean `||`?"),
    ("a/b", 0, "There is no arithmetic"),
    ("a + b", 2, "There is no arithmetic"),
    ("a.n -1", 4, "There is no arithmetic"),
    ("1+2", 0, "There is no arithmetic"),
    ("a * b", 2, "There is no arithmetic"),
    ("2 * 3", 2, "There is no arithmetic"),
    ("* 3", 0, "only follows `.` or `["),
    ("-0x1", 0, "without sign"),
    ("0X1F", 0, "A number is written like"),
    ("0b11", 0, "A number is written like"),
    ("0x100000000", 0, "32 bits"),
    ("1.2.3", 0, "A number is written like"),
    ("{a}", 0, "fromJSON('{…}')"),
    ("\u00fcber", 0, "A name consists of letters"),
    ("a and b", 2, "Did you mean `&&`?"),
    ("a or b", 2, "Did you mean `||`?"),
    ("not a", 4, "Did you mean `!`?"),
    ("a is b", 2, "Did you mean `==`?"),
    ("'x' in a", 4, "contains(where, what)"),
    ("a b", 2, "expected an operator (== != < <= > >= && ||), `.`, `[` or the end"),
    ("1 2", 2, "expected an operator (== != < <= > >= && ||) or the end"),
    ("contains(a b)", 11, "`.`, `[`, `,` or `)`"),
    ("a[1 2]", 4, "or `]`"),
    ("'x'.length", 3, "has properties"),
    ("'x'[0]", 3, "has properties"),
    ("null.x", 4, "has properties"),
    ("a.b()", 3, "Only a name by itself can be called"),
    ("a.", 2, "Unexpected end after `.`; expected a name or `*`"),
    ("a.1", 2, "written in brackets"),
    ("a.'k'", 2, "written in brackets"),
    ("a[*.b]", 3, "expected `]`"),
    ("a[]", 2, "Unexpected `]` after `[`; expected a value"),
    ("()", 1, "expected a value"),
    ("&& a", 0, "expected a value"),
    ("a &&", 4, "Unexpected end after `&&`; expected a value"),
    ("!", 1, "Unexpected end after `!`"),
    ("(a", 0, "`(` has no closing `)`"),
    ("a[0", 1, "`[` has no closing `]`"),
    ("format('x'", 0, "`format(` has no closing `)`"),
    ("a)", 1, "Unexpected `)`"),
    ("(a]", 2, "Unexpected `]`"),
    ("a[0)", 3, "Unexpected `)`"),
    ("a, b", 1, "Unexpected `,`"),
    ("(a, b)", 2, "Unexpected `,`"),
    ("join(a,)", 7, "no comma after its last argument"),
    ("join(,a)", 5, "expected a value"),
    ("always(,)", 7, "expected a value"),
    ("contain(a, b)", 0, "There is no function `contain`. Did you mean contains?"),
    ("1 && lower(a)", 5, "There is: always, cancelled, case, contains"),
    ("hashFiles('**/lock')", 0, "hashFiles() is not available"),
    ("contains('x')", 0, "contains() takes 2 arguments, not 1"),
    ("toJSON(1, 2)", 0, "toJSON() takes 1 argument, not 2"),
    ("join()", 0, "join() takes 1 to 2 arguments, not 0"),
    ("1 == success(1)", 5, "success() takes no arguments, not 1"),
    ("case(true, 1)", 0, "case() takes 3 to 255 arguments, not 2"),
    ("case(true, 1, false, 2)", 0, "an odd number"),
]


@pytest.mark.parametrize(("text", "offset", "words"), UNREADABLE, ids=[text for text, _, _ in UNREADABLE])
def test_what_cannot_be_read_is_shown_where_it_is(text: str, offset: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.offset, words in caught.value.message) == (offset, True), caught.value.message
    with pytest.raises(ExpressionError) as caught:
        parse(text, 1000)
    assert caught.value.offset == 1000 + offset


CONTEXTS: dict[str, Any] = {"github": {"ref": "main"}, "needs": {}, "list": [1, 2]}

WITHOUT_VALUE: list[tuple[str, int, str]] = [
    ("true || githb.ref", 8, "There is no context `githb` here. Did you mean github? There is: github, list, needs."),
    ("1 && success()", 5, "success() cannot be called here"),
    ("fromJSON('')", 0, "an empty text"),
    ("1 && fromJSON(' ')", 5, "an empty text"),
    ("fromJSON('{')", 0, "is no JSON"),
    ("fromJSON('[1,]')", 0, "is no JSON"),
    ("fromJSON('[01]')", 0, "is no JSON"),
    ("fromJSON('1 2')", 0, "is no JSON"),
    ("fromJSON('''a''')", 0, "is no JSON"),
    ("fromJSON('\"\n\"')", 0, "is no JSON"),
    ("fromJSON('NaN')", 0, "NaN is no value of JSON"),
    ("fromJSON(list)", 0, "is no JSON"),
    ("format('{0}')", 0, "asks for `{0}`, but 0 values follow it"),
    ("format('{0} {1}', 1)", 0, "asks for `{1}`, but 1 values follow it"),
    ("format('{99999999999999999999}', 1)", 0, "but 1 values follow it"),
    ("format('a } b')", 0, "at its character 3, `} b`"),
    ("format('{{0}', 1)", 0, "at its character 4"),
    ("format('{a}', 1)", 0, "a place is a number in braces"),
    ("format('{ 0}', 1)", 0, "a place is a number in braces"),
    ("format('{0:x}', 1)", 0, "a place is a number in braces"),
    ("format('{-1}', 1)", 0, "a place is a number in braces"),
    ("format('{', 1)", 0, "a brace that is to stay is written twice"),
    ("list[0] && case('x', 1, 2)", 11, "this one is a string"),
    ("case(null, 1, 2)", 0, "this one is null"),
    ("case(1, 1, 2)", 0, "this one is a number"),
    ("case(list, 1, 2)", 0, "this one is an array"),
    ("case(false, 1, github, 2, 3)", 0, "this one is an object"),
]


@pytest.mark.parametrize(("text", "offset", "words"), WITHOUT_VALUE, ids=[text for text, _, _ in WITHOUT_VALUE])
def test_what_has_no_value_is_shown_where_it_is(text: str, offset: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, 1000).evaluate(CONTEXTS)
    assert (caught.value.offset, words in caught.value.message) == (1000 + offset, True), caught.value.message


def test_a_long_text_is_not_repeated_whole() -> None:
    for text in ("'" + "x" * 9_000, "#" * 9_000, "f" * 9_000 + "()", "a " + "b" * 9_000, "f" * 9_000):
        with pytest.raises(ExpressionError) as caught:
            parse(text).evaluate({"a": None})
        assert len(caught.value.message) < 400
