"""GPUs: no two scripts that run at once have the same."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from holdfast.actions.shell.devices import device_variables
from holdfast.errors import ToolFailed


def test_who_comes_has_the_first_that_are_free_and_gives_them_back() -> None:
    with device_variables(1, None) as first:
        with device_variables(2, None) as second, device_variables(0, None) as nothing:
            assert (first, second, nothing) == ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1,2"}, {})
        with device_variables(1, None) as third:
            assert third == {"CUDA_VISIBLE_DEVICES": "1"}
    with device_variables(1, None) as fourth:
        assert fourth == first


def test_a_worker_that_sees_some_gives_those_and_never_more() -> None:
    with ExitStack() as held:
        given = [held.enter_context(device_variables(1, "4, GPU-8a ,7")) for _ in range(2)]
        assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == ["4", "GPU-8a"]
        with (
            pytest.raises(ToolFailed, match=r"asks for GPUs: 2\. Fewer are free of the 3 that"),
            device_variables(2, "4, GPU-8a ,7"),
        ):
            pass
        with device_variables(1, "4, GPU-8a ,7") as last:
            assert last["CUDA_VISIBLE_DEVICES"] == "7"
    with pytest.raises(ToolFailed, match="free of the 0 that"), device_variables(1, ""):
        pass
