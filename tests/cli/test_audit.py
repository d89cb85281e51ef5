"""`holdfast keys` and `holdfast audit`, on a store."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from holdfast.cli.app import invoke

FLOWS = f"{Path(__file__).parent / 'flows.py'}"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = invoke(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_key_is_made_shown_once_listed_and_taken_back(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    how = ("--may", "operator", "--tenant", "acme", "--workflow", "order*", "--days", "30", "--store", store)
    code, out, err = said(capsys, "keys", "create", "shop", *how)
    assert (code, out.startswith("hfk_")) == (0, True)
    assert "shown this once" in err
    assert out.strip() not in Path(store).read_bytes().decode("latin-1")
    _, listed, _ = said(capsys, "keys", "list", "--store", store)
    assert [word in listed for word in ("shop", "acme", "operator", "until ", out.strip())] == [True] * 4 + [False]
    assert said(capsys, "keys", "create", "shop", "--store", store)[0] == 4
    rotated = json.loads(said(capsys, "keys", "rotate", "shop", "--json", "--store", store)[1])["key"]
    assert rotated != out.strip()
    assert "is revoked" in said(capsys, "keys", "revoke", "shop", "--store", store)[2]
    assert said(capsys, "keys", "rotate", "shop", "--store", store)[0] == 4
    assert said(capsys, "keys", "revoke", "nobody", "--store", store)[0] == 3
    assert said(capsys, "keys", "create", "x", "--may", "root", "--store", store)[0] == 2


def test_the_audit_log_tells_a_claim_from_a_name_and_breaks_where_it_was_changed(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two", "three"):
        said(capsys, "keys", "create", name, "--as", "ann", "--store", store)
    _, listed, _ = said(capsys, "audit", "list", "--store", store)
    assert listed.count("ann (unverified)") == 3
    code, _, err = said(capsys, "audit", "verify", "--store", store)
    assert (code, "3 entries" in err) == (0, True)
    noted = json.loads(said(capsys, "audit", "verify", "--json", "--store", store)[1])["hash"]
    exported = [
        json.loads(line) for line in said(capsys, "audit", "export", "--json", "--store", store)[1].splitlines()
    ]
    assert [(row["deed"], row["about"]) for row in exported] == [
        ("MakeKey", "one"),
        ("MakeKey", "two"),
        ("MakeKey", "three"),
    ]
    assert exported[-1]["hash"] == noted
    assert said(capsys, "audit", "export", "--store", store)[1].splitlines()[-1].endswith(noted)
    said(capsys, "keys", "revoke", "one", "--store", store)
    assert said(capsys, "audit", "verify", "--hash", noted, "--store", store)[0] == 0
    assert said(capsys, "audit", "verify", "--hash", "0" * 64, "--store", store)[0] == 4
    db = apsw.Connection(store)
    db.execute("update audit set entry = replace(entry, 'ann', 'bob') where number = 2")
    db.close()
    code, _, err = said(capsys, "audit", "verify", "--store", store)
    assert (code, "from entry 2 on" in err) == (4, True)
