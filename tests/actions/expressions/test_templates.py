"""Texts with expressions in them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.actions.expressions import Expression, ExpressionError, Template
from holdfast.actions.expressions.template import EXPRESSIONS_LIMIT

CONTEXTS: dict[str, Any] = {
    "env": {"NAME": "Ada"},
    "steps": {"one": {"outputs": {"n": 3, "list": [1], "evil": "${{ env.NAME }} {0} }}"}}},
}


def rendered(text: str) -> str:
    return Template.parse(text).render(CONTEXTS)


def test_a_text_without_expressions_stays_as_it_is() -> None:
    for text in ("", "plain", "{{ x }}", "$ {{ x }}", "}} ${ {", "it's {0}", "$${ {"):
        template = Template.parse(text)
        assert (template.render({}), template.expressions, template.is_single) == (text, (), False)


def test_each_expression_is_replaced_by_its_value_as_text() -> None:
    assert rendered("Hello ${{ env.NAME }}, ${{steps.one.outputs.n}}!") == "Hello Ada, 3!"
    assert rendered("${{ env.NAME }}${{ env.NAME }}") == "AdaAda"
    assert rendered("[${{ null }}|${{ true }}|${{ 1e21 }}|${{ steps.one.outputs.list }}|${{ steps }}]") == (
        "[|true|1E+21|Array|Object]"
    )


def test_what_is_put_in_is_never_read_again() -> None:
    assert rendered("<${{ steps.one.outputs.evil }}>") == "<${{ env.NAME }} {0} }}>"


def test_braces_inside_a_string_close_nothing() -> None:
    assert rendered("${{ '}}' }}${{ 'it''s }} {{' }}.") == "}}it's }} {{."
    assert rendered("${{ '${{' }}}") == "${{}"


def test_a_single_expression_keeps_its_type() -> None:
    single = Template.parse("${{ steps.one.outputs.list }}")
    assert single.is_single
    assert single.evaluate(CONTEXTS) is CONTEXTS["steps"]["one"]["outputs"]["list"]
    assert single.render(CONTEXTS) == "Array"


def test_one_blank_beside_it_makes_a_text_of_it() -> None:
    for text in (" ${{ steps.one.outputs.n }}", "${{ steps.one.outputs.n }}\n"):
        template = Template.parse(text)
        assert not template.is_single
        assert template.evaluate(CONTEXTS) == text.replace("${{ steps.one.outputs.n }}", "3")


def test_parts_say_where_they_stand() -> None:
    text = "run ${{ env.A }} and ${{steps.x.outputs.y}}."
    template = Template.parse(text)
    assert [part if isinstance(part, str) else part.text for part in template.parts] == [
        "run ",
        " env.A ",
        " and ",
        "steps.x.outputs.y",
        ".",
    ]
    for part in template.parts:
        if isinstance(part, Expression):
            assert text[part.offset : part.offset + len(part.text)] == part.text
    assert [(each.context, each.keys, text[each.offset :][:5]) for each in template.names.readings] == [
        ("env", ("A",), "env.A"),
        ("steps", ("x", "outputs", "y"), "steps"),
    ]


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("a ${{ b", 2, "not closed by `}}`"),
        ("a ${{ b }", 2, "not closed by `}}`"),
        ("a ${{ 'it''s }} b", 6, "The string `'it''s }} b` is not closed"),
        ("a ${{ }} b", 2, "nothing between"),
        ("${{}}", 0, "nothing between"),
        ("a ${{ b c }}", 8, "Unexpected `c`"),
        ("${{ a }} and ${{ b = 1 }}", 19, "Did you mean `==`?"),
        ("${{ ${{ a }} }}", 4, "env.NAME"),
    ],
)
def test_mistakes_are_shown_where_they_are_in_the_text(text: str, offset: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Template.parse(text)
    assert (caught.value.offset, words in caught.value.message) == (offset, True), caught.value.message


def test_what_has_no_value_is_shown_where_it_is_in_the_text() -> None:
    with pytest.raises(ExpressionError) as caught:
        rendered("abc ${{ env.NAME && fromJSON('') }}")
    assert caught.value.offset == len("abc ${{ env.NAME && ")


def test_a_text_is_bounded() -> None:
    """As one expression is: GitHub makes one of it."""
    Template.parse("${{ 1 }}" * EXPRESSIONS_LIMIT)
    with pytest.raises(ExpressionError, match="may have 254 expressions"):
        Template.parse("${{ 1 }}" * (EXPRESSIONS_LIMIT + 1))
    Template.parse("x" * 100_000)
    with pytest.raises(ExpressionError, match="may have 21,000 characters"):
        Template.parse("x" * 21_000 + "${{ 1 }}")
    big = {"env": {"A": "x" * 600_000}}
    assert Template.parse("${{ env.A }}").render({"env": {"A": "x" * 5_000_000}})
    with pytest.raises(ExpressionError, match="makes more than 1,048,576 bytes") as caught:
        Template.parse("${{ env.A }} ${{ env.A }}").render(big)
    assert caught.value.offset == 16
    with pytest.raises(ExpressionError, match="makes more than 1,048,576 bytes"):
        Template.parse("${{ !format('{0}', env.A) }} ${{ !format('{0}', env.A) }}").render(big)
