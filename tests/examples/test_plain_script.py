"""The example of a program without `async` does what it says, and the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.plain_script import main


def test_a_program_without_a_loop_settles_each_invoice_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "2026-001: 150.00 USD\n2026-002: 100.62 USD\n2026-003: 21.56 USD\n"
    for _ in range(2):
        main(str(tmp_path / "invoices.db"))
        assert capsys.readouterr().out == lines
