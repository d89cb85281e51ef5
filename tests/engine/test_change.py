"""A change of a record as it was seen, while others change it too."""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.errors import Conflict
from holdfast.service.control.change import TRIES, changed


async def test_a_change_is_decided_again_until_no_other_came_before() -> None:
    times = count(1)

    async def attempt() -> int | None:
        number = next(times)
        return number if number == TRIES else None

    assert await changed("Schedule 'nightly'", attempt) == TRIES


async def test_a_change_that_others_always_come_before_ends_in_words() -> None:
    made = []

    async def attempt() -> None:
        made.append(1)

    with pytest.raises(Conflict, match=r"Schedule 'nightly' was changed by others 20 times in a row\. Nothing was changed"):
        await changed("Schedule 'nightly'", attempt)
    assert len(made) == TRIES
