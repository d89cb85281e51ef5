"""The directories of jobs: nobody's is taken from him, and what the dead have left is removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.actions.jobs.runner import workspace


def test_what_the_dead_have_left_is_removed_and_what_the_living_have_is_not(scratch: Path) -> None:
    with workspace() as living:
        (living / "file").touch()
        dead = scratch / "holdfast-job-dead"
        (dead / "deep").mkdir(parents=True)
        with workspace() as other:
            assert (living / "file").exists()
            assert living != other
            assert not dead.exists()
    assert list(scratch.iterdir()) == []


def test_a_link_in_its_place_leads_nowhere(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (scratch / "holdfast-job-link").symlink_to(tmp_path / "precious")
    with workspace():
        assert (tmp_path / "precious").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_what_another_account_has_left_is_left_alone(scratch: Path) -> None:
    theirs = scratch / "holdfast-job-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with workspace():
        assert theirs.exists()
