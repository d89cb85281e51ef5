"""`holdfast notifications`: rules are set and tested, and what became of messages is seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.page import terminal
from tests.cli.conftest import Shell
from tests.tools.server import Server, says

SECRET = "whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"


@pytest.fixture
def receiver(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPS_SECRET", SECRET)
    with Server() as server:
        (home / "holdfast.toml").write_text(
            f'[channels.ops]\nkind = "webhook"\nurl = "{server.url}/in"\nsecrets = ["OPS_SECRET"]\n'
            'allow_private = ["127.0.0.0/8"]\ntenants = ["default"]\n'
        )
        yield server


def test_a_rule_is_set_shown_listed_and_removed(shell: Shell, receiver: Server) -> None:
    given = ("--on", "run_failed", "--on", "gate_opened", "--channel", "ops", "--workflow", "order*", "--run-label", "env=prod")
    said = shell("notifications", "set", "failures", *given, "--as", "ann")
    assert (said.code, said.out) == (0, shell("notifications", "show", "failures").out)
    row = shell("notifications", "show", "failures", "--json").data
    assert (row["occasions"], row["labels"], row["by"]) == (["run_failed", "gate_opened"], {"env": "prod"}, "ann")
    assert shell("notifications", "list", "--json").data == [row]
    assert shell("notifications", "remove", "failures").code == 0
    missing = shell("notifications", "show", "failures")
    assert (missing.code, "no notification rule 'failures'" in missing.err) == (3, True)


def test_a_rule_of_the_file_is_shown_and_tested_and_changed_there(
    shell: Shell, receiver: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (home / "holdfast.toml").open("a") as file:
        file.write('[notifications.trouble]\noccasions = ["run_failed"]\nchannel = "ops"\n')
    assert shell("notifications", "set", "ends", "--on", "run_completed", "--channel", "ops").code == 0
    rows = shell("notifications", "list", "--json").data
    assert [(row["tenant"], row["name"], row["source"]) for row in rows] == [
        ("*", "trouble", "file"),
        ("default", "ends", "set"),
    ]
    assert "holdfast.toml" in shell("notifications", "show", "trouble").out
    for words in (("remove", "trouble"), ("set", "trouble", "--on", "doubt", "--channel", "ops")):
        refused = shell("notifications", *words)
        assert (refused.code, "[notifications.trouble]" in refused.err) == (2, True), refused.err
    ids = [shell("notifications", "test", name, "--json").data["id"] for name in ("trouble", "trouble", "ends")]
    row = shell("notifications", "delivery", ids[0][:14], "--json").data
    assert (row["id"], row["tenant"], row["rule"]) == (ids[0], "*", "trouble")
    monkeypatch.setattr(terminal, "width", lambda: 80)
    shown = [line.split()[0] for line in shell("notifications", "deliveries").out.splitlines()[1:]]
    assert {shell("notifications", "delivery", each, "--json").data["id"] for each in shown} == {*ids}
    several = shell("notifications", "delivery", "msg_")
    assert (several.code, "several deliveries" in several.err) == (2, True), several.err
    assert "notifications deliveries" in shell("notifications", "replay", "msg_x").err
    latest, *_ = shell("notifications", "deliveries", "--json").data
    after = shell("notifications", "deliveries", "--after", latest["id"][:14], "--json").data
    assert {row["id"] for row in after} == {*ids} - {latest["id"]}


def test_a_rule_that_cannot_be_is_refused_in_words(shell: Shell, receiver: Server) -> None:
    for words, problem in (
        (("--on", "run_failed", "--channel", "fax"), "there is no channel 'fax' for tenant 'default'; known: ops"),
        (("--on", "gate_open", "--channel", "ops"), "gate_open"),
        (("--on", "run_failed", "--channel", "ops", "--title", "{secret}"), "{secret} cannot be used in a template"),
        (("--on", "run_failed", "--channel", "ops", "--tenant", "acme"), "known: none"),
    ):
        refused = shell("notifications", "set", "x", *words)
        assert (refused.code, problem in refused.err) == (2, True), refused.err


def test_a_test_message_arrives_and_a_dead_one_is_sent_again(shell: Shell, receiver: Server) -> None:
    assert shell("notifications", "set", "failures", "--on", "run_failed", "--channel", "ops").code == 0
    receiver.plan.append(says(410))
    id_ = shell("notifications", "test", "failures", "--json").data["id"]
    shell("run", "tests.cli.flows:patient")  # a process that executes sends what waits
    while (row := shell("notifications", "delivery", id_, "--json").data)["state"] == "waiting":
        shell("run", "tests.cli.flows:patient")
    assert (row["state"], row["body"]["type"]) == ("dead", "holdfast.test")
    (channel,) = shell("notifications", "channels", "--json").data
    assert (channel["dead"], channel["disabled_at"] is None) == (1, False)
    refused = shell("notifications", "replay", id_)
    assert (refused.code, "holdfast notifications enable ops" in refused.err) == (2, True), refused.err
    assert shell("notifications", "enable", "ops").code == 0
    assert [each["id"] for each in shell("notifications", "deliveries", "--state", "dead", "--json").data] == [id_]
    assert shell("notifications", "replay", id_).code == 0
    while shell("notifications", "delivery", id_, "--json").data["state"] == "waiting":
        shell("run", "tests.cli.flows:patient")
    first, again = receiver.asked
    assert (first.body, first.headers["webhook-id"]) == (again.body, again.headers["webhook-id"])
    assert shell("notifications", "replay", id_).code == 2
