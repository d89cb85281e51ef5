"""The public face is as it is written here: who changes it sees the lines that change, and says so in the changelog."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.face.face import FACES, HERE


@pytest.mark.parametrize("name", FACES)
def test_the_public_face_is_as_it_is_written(name: str) -> None:
    written = (HERE / f"{name}.txt").read_text().splitlines()
    changed = [line[:300] for line in unified_diff(written, list(FACES[name]()), "written", "as it is", n=0, lineterm="")]
    assert changed == [], "If this is meant, `make reference` writes it; the lines that change are what users depend on."
