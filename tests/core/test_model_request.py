"""A request is kept as what it adds to an earlier one, and is the same again when it is read."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.ids import CallId
from holdfast.core.values.model_request import AFTER, SAME, restored, shared_turns, shortened

TURNS = st.lists(st.sampled_from("abcd").map(lambda sign: {"type": "user", "text": sign}), max_size=6)
CALL = CallId("run:step#1:0:1")


def request(turns: list[Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "system": "be brief", "turns": turns, "tools": [], **fields}


@given(TURNS, TURNS, st.sampled_from(["be brief", "be long"]))
def test_what_is_kept_gives_the_request_again(before: list[Any], after: list[Any], system: str) -> None:
    first, second = request(before), request(after, system=system)
    kept = shortened(second, CALL, first)
    assert restored(msgspec.json.decode(msgspec.json.encode(kept)), first) == second
    assert kept[AFTER] == CALL
    assert kept[SAME] == shared_turns(second, first)


def test_turns_and_fields_that_stand_in_the_earlier_request_are_not_kept_again() -> None:
    first = request([{"type": "user", "text": "a"}])
    second = request([*first["turns"], {"type": "user", "text": "b"}])
    assert shortened(second, CALL, first) == {AFTER: CALL, SAME: 1, "turns": [{"type": "user", "text": "b"}]}


def test_a_part_whose_earlier_request_is_gone_is_given_as_it_is() -> None:
    kept = {AFTER: CALL, SAME: 3, "turns": ["new"]}
    assert restored(kept, None) == kept
    assert restored(request(["all"]), None) == request(["all"])
