"""`holdfast shared`: what runs and agents know together."""

from __future__ import annotations

import shlex

from holdfast.testing.model_server import ModelServer
from tests.cli.conftest import Shell

WRITE = ("shared", "write", "board", "case-7", "--as", "ann", "--value")


def test_a_value_is_written_listed_and_shown_with_its_versions(shell: Shell) -> None:
    assert shell(*WRITE, '{"risk": "low"}').out == ""
    written = shell(*WRITE, '{"risk": "high"}', "--expected-version", "1", "--json")
    assert (written.data["version"], written.data["by"], written.data["run_id"]) == (2, "ann", None)
    assert shell("shared", "write", "desk", "case-7", "--value", "[1, 2]").code == 0
    head, first, second = shell("shared", "list").out.splitlines()
    assert head.split() == ["SPACE", "KEY", "VERSION", "BY", "AT", "VALUE"]
    assert (first.split()[:4], first.endswith('{"risk": "high"}')) == (["board", "case-7", "2", "ann"], True)
    assert second.split()[:3] == ["desk", "case-7", "1"]
    assert [row["space"] for row in shell("shared", "list", "desk", "--json").data] == ["desk"]
    assert [row["value"]["risk"] for row in shell("shared", "show", "board", "case-7", "--json").data] == ["low", "high"]
    assert len(shell("shared", "show", "board", "case-7").out.splitlines()) == 3


def test_a_long_list_goes_on_where_it_is_said(shell: Shell) -> None:
    for key in "abc":
        assert shell("shared", "write", "board", key, "--value", "1").code == 0
    told = shell("shared", "list", "--limit", "2")
    assert "There are more: holdfast shared list --after" in told.err
    rest = shell("shared", "list", "--after", '["default","board","b"]', "--json").data
    assert [row["key"] for row in rest] == ["c"]


def test_what_goes_on_lists_no_other_rows(shell: Shell) -> None:
    for space, key in (("board", "a"), ("board", "b"), ("desk", "c")):
        for tenant in ("acme", "default"):
            assert shell("shared", "write", space, key, "--value", "1", "--tenant", tenant).code == 0
    told = shell("shared", "list", "board", "--tenant", "acme", "--limit", "1").err
    command = shlex.split(told.partition("There are more: holdfast ")[2])
    rest = shell(*command, "--json").data
    assert [(row["tenant"], row["space"], row["key"]) for row in rest] == [("acme", "board", "b")]


def test_what_cannot_be_written_is_refused_in_words(shell: Shell) -> None:
    assert shell(*WRITE, "1").code == 0
    for words, code, said in (
        ((*WRITE, "2", "--expected-version", "7"), 4, "is at version 1, and not at 7. Nothing was written"),
        ((*WRITE, "{"), 2, "--value"),
        ((*WRITE, '"' + "x" * 70_000 + '"'), 2, "A shared value has 64 KiB at most"),
        (("shared", "write", "", "k", "--value", "1"), 2, "The space of a shared value is a text of 1 to 200"),
        (("shared", "show", "board", "none"), 3, "There is no shared value 'none' in the space 'board'"),
        (("shared", "list", "--after", "nonsense"), 2, "cursor"),
    ):
        told = shell(*words)
        assert (told.code, told.out) == (code, ""), (words, told.code, told.err)
        assert said in told.err
    assert [row["value"] for row in shell("shared", "show", "board", "case-7", "--json").data] == [1]


def test_an_answer_is_taken_out_of_a_cache_and_nothing_else(shell: Shell, server: ModelServer) -> None:
    asked = ("run", "flow:cached", "--json", "--key")
    assert shell(*asked, "first").code == 0, "which asks the model"
    ((space, key),) = [(row["space"], row["key"]) for row in shell("shared", "list", "--json").data]
    assert shell(*asked, "second").code == 0
    assert len(server.calls) == 1
    assert shell("shared", "forget", space, key, "--json").data == {"space": space, "key": key, "forgotten": True}
    again = shell("shared", "forget", space, key)
    assert (again.code, f"There is no cached answer '{key}' in '{space}'" in again.err) == (3, True)
    assert shell(*asked, "third").code == 0
    assert len(server.calls) == 2
    assert "is no space of cached answers" in shell("shared", "forget", "board", key).err
