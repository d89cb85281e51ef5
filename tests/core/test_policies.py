"""Which errors are tried again, how often, and how long a run waits before it does."""

from __future__ import annotations

import math

import msgspec
import pytest

from holdfast.core.values import policies
from holdfast.core.values.policies import DEFAULT_RETRY, NEVER_RETRIED, TRANSIENT, RetryPolicy, delay_ms, retries
from tests.core.game import error

OWN = RetryPolicy(max_attempts=3)
DOCUMENTED = RetryPolicy.documented()
TIMEOUT = error(policies.TIMEOUT, retryable=True)


@pytest.mark.parametrize("klass", sorted(TRANSIENT))
def test_what_passes_by_itself_is_tried_again_without_being_asked(klass: str) -> None:
    assert retries(DEFAULT_RETRY, error(klass, retryable=True), 1)


def test_a_plain_error_is_tried_again_only_where_the_node_asks_for_it() -> None:
    assert not retries(DEFAULT_RETRY, error(policies.ERROR, retryable=True), 1)
    assert retries(OWN, error(policies.ERROR, retryable=True), 1)


@pytest.mark.parametrize("klass", sorted(NEVER_RETRIED))
def test_what_another_try_cannot_mend_is_never_tried_again(klass: str) -> None:
    assert not retries(OWN, error(klass, retryable=True), 1)


def test_an_error_that_says_it_is_final_is_final() -> None:
    assert not retries(OWN, error(policies.TIMEOUT, retryable=False), 1)


def test_the_number_of_attempts_is_bounded() -> None:
    timeout = error(policies.TIMEOUT, retryable=True)
    assert [retries(OWN, timeout, failures) for failures in (1, 2, 3)] == [True, True, False]


def test_a_rate_limit_has_a_bound_of_its_own() -> None:
    limited = error(policies.RATE_LIMIT, retryable=True)
    assert retries(OWN, limited, 9)
    assert not retries(OWN, limited, 10)
    assert retries(RetryPolicy(max_attempts=20), limited, 19), "asking for more attempts than that gives them"


def test_transient_classes_are_retried_and_final_ones_are_not_the_same_ones() -> None:
    assert not TRANSIENT & NEVER_RETRIED


# --- Which classes a policy names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("klass", "again"),
    [
        (policies.TIMEOUT, True),
        (policies.NETWORK, True),
        (policies.RATE_LIMIT, True),
        (policies.MODEL_TRANSIENT, True),
        (policies.VALIDATION, False),
        (policies.AUTHORIZATION, False),
        (policies.DENIED, False),
        (policies.TOOL, False),
        (policies.SCHEMA, False),
    ],
)
def test_the_documented_policy_tries_again_what_its_table_says(klass: str, again: bool) -> None:
    """ "Agent Workflow Orchestration" §18, but for the rows that ask a person or a model instead."""
    assert retries(DOCUMENTED, error(klass, retryable=True), 2) is again
    assert not retries(DOCUMENTED, error(klass, retryable=True), 3), "three attempts in all"


def test_the_documented_policy_waits_as_it_says() -> None:
    assert [delay_ms(DOCUMENTED, TIMEOUT, n, "x") for n in (1, 2, 4, 5)] == [201, 401, 1601, 2001]


def test_just_the_classes_are_tried_again_that_a_policy_names() -> None:
    policy = RetryPolicy(retryable_errors=["tool", "temporary_unavailable"])
    again = {klass for klass in (*TRANSIENT, policies.TOOL, policies.ERROR) if retries(policy, error(klass, retryable=True), 1)}
    assert again == {policies.TOOL, policies.NETWORK, policies.MODEL_TRANSIENT, policies.TEMPORARY, policies.LOST}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["tiemout"], "names 'tiemout' in retryable_errors, which is none of authorization, "),
        (["validation"], "names 'validation' in retryable_errors, which another try cannot mend"),
        ("timeout", "needs a list in retryable_errors, like ['timeout']"),
    ],
)
def test_a_policy_that_names_no_class_is_refused_in_words(named: list[str], words: str) -> None:
    assert RetryPolicy(retryable_errors=named).problems()[0].startswith(words)


def test_a_policy_that_names_none_is_written_down_as_before() -> None:
    assert msgspec.json.encode(RetryPolicy(max_attempts=4)) == b'{"max_attempts":4}'


# --- Waiting ----------------------------------------------------------------------------------------------------------


def test_waits_grow_up_to_a_bound() -> None:
    policy = RetryPolicy(initial_s=1, max_s=5, jitter=0)
    assert [delay_ms(policy, TIMEOUT, n, "x") for n in (1, 2, 3, 4, 5)] == [1001, 2001, 4001, 5001, 5001]


def test_fixed_waits_do_not_grow() -> None:
    policy = RetryPolicy(backoff="fixed", initial_s=2, jitter=0)
    assert {delay_ms(policy, TIMEOUT, n, "x") for n in (1, 2, 9)} == {2001}


def test_a_hundred_thousand_failures_overflow_nothing() -> None:
    assert delay_ms(RetryPolicy(jitter=0), TIMEOUT, 100_000, "x") == 30_001


def test_jitter_spreads_and_is_the_same_on_a_replay() -> None:
    policy = RetryPolicy(initial_s=10, max_s=10, jitter=0.5)
    waits = [delay_ms(policy, TIMEOUT, 1, f"run{i}/a#1") for i in range(50)]
    assert waits == [delay_ms(policy, TIMEOUT, 1, f"run{i}/a#1") for i in range(50)]
    assert len(set(waits)) > 40
    assert all(10_000 <= wait <= 15_001 for wait in waits)
    assert delay_ms(policy, TIMEOUT, 1, "a") != delay_ms(policy, TIMEOUT, 2, "a")


def test_a_providers_retry_after_is_a_floor() -> None:
    limited = error(policies.RATE_LIMIT, retryable=True, retry_after_s=60.0)
    assert 60_000 < delay_ms(RetryPolicy(initial_s=1), limited, 1, "x") < 61_000
    early = error(policies.RATE_LIMIT, retryable=True, retry_after_s=0.001)
    assert delay_ms(RetryPolicy(initial_s=1, jitter=0), early, 1, "x") == 1001


@pytest.mark.parametrize("absurd", [math.inf, 1e300, math.nan, -5.0])
def test_a_providers_nonsense_cannot_break_a_run(absurd: float) -> None:
    limited = error(policies.RATE_LIMIT, retryable=True, retry_after_s=absurd)
    assert 0 < delay_ms(RetryPolicy(), limited, 1, "x") <= 32 * 86_400_000
