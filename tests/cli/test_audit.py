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
    assert "shown only once" in err
    assert out.strip() not in Path(store).read_bytes().decode("latin-1")
    _, listed, _ = said(capsys, "keys", "list", "--store", store)
    assert [word in listed for word in ("shop", "acme", "operator", "until ", out.strip())] == [True] * 4 + [False]
    assert said(capsys, "keys", "create", "shop", "--store", store)[0] == 4
    rotated = json.loads(said(capsys, "keys", "rotate", "shop", "--json", "--store", store)[1])["key"]
    assert rotated != out.strip()
    assert "Revoked key" in said(capsys, "keys", "revoke", "shop", "--store", store)[2]
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
    exported = [json.loads(line) for line in said(capsys, "audit", "export", "--json", "--store", store)[1].splitlines()]
    head = exported.pop()["head"]
    assert [(row["action"], row["about"]) for row in exported] == [("MakeKey", "one"), ("MakeKey", "two"), ("MakeKey", "three")]
    assert exported[-1]["hash"] == noted == head["hash"]
    assert said(capsys, "audit", "export", "--store", store)[1].splitlines()[-1] == f"head  3  {noted}  not signed"
    said(capsys, "keys", "revoke", "one", "--store", store)
    assert said(capsys, "audit", "verify", "--hash", noted, "--store", store)[0] == 0
    assert said(capsys, "audit", "verify", "--hash", "0" * 64, "--store", store)[0] == 4
    by_hand(store, "update audit set entry = replace(entry, 'ann', 'bob') where number = 2")
    code, _, err = said(capsys, "audit", "verify", "--store", store)
    assert (code, "from entry 2 on" in err) == (4, True)


def test_a_log_that_was_changed_ends_in_one_line_and_the_store_is_closed(
    store: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        said(capsys, "keys", "create", name, "--as", "ann", "--store", store)
    by_hand(store, "update audit set entry = replace(entry, 'ann', 'bob') where number = 1")
    caplog.clear()
    assert said(capsys, "audit", "verify", "--store", store) == (
        4,
        "",
        "Error: The audit log is not as it was written from entry 1 on.\n",
    )
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


def by_hand(store: str, *statements: str) -> None:
    """What one who can write the store does to its audit log."""
    db = apsw.Connection(store)
    for (trigger,) in db.execute("select name from sqlite_schema where type = 'trigger' and name like 'audit%'").fetchall():
        db.execute(f"drop trigger {trigger}")
    for each in statements:
        db.execute(each)
    db.close()


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("delete from audit where number > 2", "Entries 3 to 4 of the audit log are missing at its end."),
        ("delete from audit", "Entries 1 to 4 of the audit log are missing at its end."),
        ("delete from audit; delete from audit_head", "The audit log has no head: it was taken away, or the log emptied."),
        ("update audit set tenant = 'globex' where number = 2", "Entry 2 of the audit log was moved to another tenant's."),
        (
            "delete from audit where number > 2; update audit_head set (number, hash) = (select 2, hash from audit where number = 2)",
            "The head of the audit log is not signed with the key: it was forged, or the key is another.",
        ),
        (
            "delete from audit where number > 2; update audit_head set (number, hash, signature) ="
            " (select number, hash, signature from audit where number = 2)",
            "The head of the audit log is not signed with the key: it was forged, or the key is another.",
        ),
        (
            "update audit set signature = ''; update audit_head set signature = ''",
            "Entry 1 of the audit log is not signed: it was written by a process without the key, or before there was one, or forged.",
        ),
        (
            "update audit set signature = '' where number = 3",
            "Entry 3 of the audit log is not signed: it was written by a process without the key, or before there was one, or forged.",
        ),
    ],
)
def test_a_signed_log_that_was_cut_emptied_or_written_again_is_noticed(
    store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, deed: str, words: str
) -> None:
    monkeypatch.setenv("HOLDFAST_AUDIT_KEY", "k" * 32)
    for name in ("one", "two", "three", "four"):
        said(capsys, "keys", "create", name, "--as", "ann", "--store", store)
    code, _, err = said(capsys, "audit", "verify", "--store", store)
    assert (code, "Unchanged: 4 entries, signed with the key" in err) == (0, True)
    by_hand(store, deed)
    code, _, err = said(capsys, "audit", "verify", "--store", store)
    assert (code, words in err) == (4, True), err
    for name in ("five", "six"):
        said(capsys, "keys", "create", name, "--as", "ann", "--store", store)
        assert said(capsys, "audit", "verify", "--store", store)[0] == 4, "what is added hides nothing"


def test_an_export_is_verified_where_there_is_no_store(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_AUDIT_KEY", "k" * 32)
    for name in ("one", "two"):
        said(capsys, "keys", "create", name, "--store", store)
    file, text = tmp_path / "audit.jsonl", said(capsys, "audit", "export", "--json", "--store", store)[1]
    file.write_text(text)
    assert said(capsys, "audit", "verify", "--file", str(file))[0] == 0
    monkeypatch.setenv("HOLDFAST_AUDIT_KEY", "a" * 32)
    assert said(capsys, "audit", "verify", "--file", str(file))[0] == 4
    monkeypatch.setenv("HOLDFAST_AUDIT_KEY", f"{'a' * 32}, {'k' * 32}")
    assert said(capsys, "audit", "verify", "--file", str(file))[0] == 0
    file.write_text(text.splitlines()[0])
    assert said(capsys, "audit", "verify", "--file", str(file))[0] == 4
    for wrong in ("a line\n", "[]\n", '{"number": 1}\n'):
        file.write_text(wrong)
        code, _, err = said(capsys, "audit", "verify", "--file", str(file))
        assert (code, "is not an export of an audit log" in err) == (2, True)
    monkeypatch.setenv("HOLDFAST_AUDIT_KEY", "short")
    code, _, err = said(capsys, "audit", "verify", "--file", str(file))
    assert (code, "needs 32 bytes" in err) == (2, True)


def test_the_audit_log_and_sessions_are_listed_by_their_criteria(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop", "till"):
        assert said(capsys, "keys", "create", name, "--store", store)[0] == 0
    assert said(capsys, "keys", "revoke", "till", "--store", store)[0] == 0

    def found(*words: str) -> list[tuple[str, str]]:
        rows = json.loads(said(capsys, "audit", "list", "--json", "--store", store, *words)[1])
        return [(row["action"], row["about"]) for row in rows]

    assert found("--order", "newest") == [("RevokeKey", "till"), ("MakeKey", "till"), ("MakeKey", "shop")]
    assert found("--action", "RevokeKey", "--since", "2h") == [("RevokeKey", "till")]
    assert found("--about", "sho") == [("MakeKey", "shop")]
    assert found("--until", "2h") == found("--by", "nobody in particular") == []
    assert json.loads(said(capsys, "sessions", "list", "--json", "--store", store)[1]) == []
    assert "Ended 0 sessions of ann." in said(capsys, "sessions", "end-all", "ann", "--store", store)[2]
