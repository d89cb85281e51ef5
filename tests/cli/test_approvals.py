"""`holdfast approvals`: what people say beforehand about calls of tools."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Shell
from tests.cli.test_asked_together import PAYDAY


def test_an_approval_is_granted_used_listed_and_revoked(shell: Shell, home: Path) -> None:
    (home / "payday.py").write_text(PAYDAY)
    given = ("--for", "8h", "--max-calls", "3", "--when", "amount<=100", "--when", "to~a*", "--as", "ann", "--json")
    granted = shell("approvals", "grant", "pay", *given).data["approval"]
    assert shell("run", "payday.py:payday", "-i", '{"ada": 10, "al": 20}').data == ["paid 10 to ada", "paid 20 to al"]
    (listed,) = shell("approvals", "list", "--json").data
    assert (listed["approval"], listed["used"], listed["by"]) == (granted, 2, "ann")
    assert "2 of 3" in shell("approvals", "list").out
    assert shell("approvals", "revoke", granted[:13], "--as", "bob").code == 0
    assert "revoked by bob" in shell("approvals", "list").out
    assert shell("run", "payday.py:payday", "-i", '{"ada": 10}').code == 8


def test_an_approval_that_says_nothing_is_refused_in_words(shell: Shell, home: Path) -> None:
    for given, words in (
        (("--for", "soon"), "is not a time span; write it like 30m, 8h or 7d"),
        (("--for", "8h", "--when", "amount"), "is not a condition"),
        (("--for", "8h", "--max-calls", "0"), "--max-calls must be 1 to 1,000,000; it is 0. Nothing was granted."),
    ):
        refused = shell("approvals", "grant", "pay", *given, "--as", "ann")
        assert (refused.code, words in refused.err) == (2, True)
    assert shell("approvals", "revoke", "nothing", "--as", "ann").code == 3
