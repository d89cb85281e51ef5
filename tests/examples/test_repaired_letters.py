"""The example of repair does what it says: nobody gets an account twice, and nothing is sent twice unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.repaired_letters import main


async def test_a_letter_is_mended_and_a_run_forked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await main(f"sqlite:///{tmp_path / 'letters.db'}")
    told = capsys.readouterr().out.splitlines()
    for name in ("ada", "bob", "eve"):
        assert told.count(f"  an account for {name}") == 1
        assert sum(line.startswith(f"  to {name}@") for line in told) == (2 if name == "ada" else 1)
    assert sum(line.startswith("! send#1 of ") for line in told) == 1
    assert "mended: sent to bob@example.org" in told
    assert told[-1] == "forked: sent to ada@example.org"
    assert "  to ada@example.org: Dear Ada, how good that you are here." in told
