"""What an `if` asks."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.actions.expressions import Condition, ExpressionError

CONTEXTS: dict[str, Any] = {"env": {"A": "x"}, "steps": {"one": {"outputs": {"no": False, "yes": "yes"}}}}


def holds(text: str, *, success: bool = True, failure: bool = False) -> bool:
    functions = {"success": lambda: success, "failure": lambda: failure, "cancelled": lambda: False, "always": lambda: True}
    return Condition.parse(text).evaluate(CONTEXTS, functions)


def test_an_empty_condition_is_success() -> None:
    for text in ("", "  \n\t"):
        assert holds(text)
        assert not holds(text, success=False)


def test_with_and_without_braces_it_is_the_same() -> None:
    for text in ("env.A == 'x'", "${{ env.A == 'x' }}", "${{env.A=='x'}}"):
        assert holds(text)
    for text in ("env.A != 'x'", "${{ env.A != 'x' }}"):
        assert not holds(text)


def test_its_value_is_true_or_false_by_coercion() -> None:
    for text in ("steps.one.outputs.yes", "'0'", "fromJSON('[]')", "${{ 'b' }}", "1"):
        assert holds(text), text
    for text in ("steps.one.outputs.no", "steps.two", "''", "0", "NaN", "null", "${{ '' }}"):
        assert not holds(text), text


def test_without_a_status_function_success_is_implied() -> None:
    for text in ("true", "${{ true }}", "env.A == 'x'", "'failure()'", "contains('always()', 'a')", "env.always"):
        assert Condition.parse(text).implies_success, text
        assert not holds(text, success=False, failure=True), text


def test_a_status_function_anywhere_takes_its_place() -> None:
    for text in ("always()", "${{ ALWAYS() }}", "failure() && env.A", "!success()", "case(Failure(), true, false)"):
        assert not Condition.parse(text).implies_success, text
        assert holds(text, success=False, failure=True), text
    assert not holds("env.A == 'y' && failure()", success=False, failure=True)


def test_what_is_asked_is_not_worked_out_after_a_failure() -> None:
    assert not holds("fromJSON('')", success=False)
    with pytest.raises(ExpressionError):
        holds("fromJSON('')")


def test_a_text_beside_an_expression_makes_it_always_true() -> None:
    """As GitHub has it: the whole becomes a text that is not empty. Whoever loads a file can tell by `is_text`."""
    for text in ("${{ false }} && false", " ${{ false }}", "${{ false }}\n", "${{ '' }}${{ null }}!"):
        assert Condition.parse(text).is_text
        assert holds(text), text
        assert not holds(text, success=False), text
    assert not holds("${{ '' }}${{ null }}")
    assert holds("${{ always() && false }} || false", success=False)
    assert not Condition.parse("${{ false }}").is_text
    assert not Condition.parse("false").is_text


def test_names_are_those_that_are_written() -> None:
    names = Condition.parse("  env.A && ${{ steps.one }} && failure()").names
    assert (names.contexts, names.functions) == ({"steps"}, frozenset())
    names = Condition.parse("env.A && failure()").names
    assert (names.contexts, names.functions) == ({"env"}, {"failure"})
    assert Condition.parse("").names.calls == ()


def test_a_mistake_is_shown_where_it_is() -> None:
    for text, offset in (("env.A = 1", 6), ("${{ env.A = 1 }}", 10), ("${{ }}", 0), ("true && ${{ env.A", 8)):
        with pytest.raises(ExpressionError) as caught:
            Condition.parse(text)
        assert caught.value.offset == offset
