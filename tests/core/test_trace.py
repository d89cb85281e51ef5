"""The header of W3C Trace Context, as its section 3.2 says what is to be read of it and what is to be ignored."""

from __future__ import annotations

import pytest

from holdfast.core.values.trace import trace_id_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize("said", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-ff", f"cc-{TRACE}-{PARENT}-01-more"])
def test_the_trace_is_read_also_of_versions_to_come(said: str) -> None:
    assert trace_id_of(said) == TRACE


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-01-more",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE[:-1]}٣-{PARENT}-01",
    ],
)
def test_what_is_malformed_is_ignored(said: str | None) -> None:
    assert trace_id_of(said) is None
