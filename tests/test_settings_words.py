"""What a holdfast.toml that cannot be used is told: in words of this file, and before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.settings import load

WEBHOOK = '[channels.a]\nkind = "webhook"\nsecrets = ["S"]\nurl = "{}"\n'
MAIL = '[channels.m]\nkind = "mail"\nhost = "{}"\nsender = "h@example.com"\n{}\n'
RULE = '[notifications.r]\noccasions = ["run_failed"]\nchannel = "m"\n'


def refused(folder: Path, text: str) -> str:
    (folder / "holdfast.toml").write_text(text)
    with pytest.raises(UsageError) as problem:
        load(folder)
    message = problem.value.message
    for words in ("Value error", "Extra inputs", "should", "Field required", "..", "[key]"):
        assert words not in message
    return message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[channels.a]\nkind = "webhook"\n', "channels.a: a channel of kind webhook needs url (or hosts) and secrets. Nothing"),
        (WEBHOOK.format("https://h.example") + "adress = 1\n", "nothing here knows adress in [channels.a]. Nothing"),
        ('[hooks."My Hook"]\nscheme = "github"\nsecrets = ["S"]\nworkflow = "x"\n', "hooks.My Hook: a name has 1 to 64 small"),
        ('[vars]\n"a b" = 1\n', "vars.a b: a name has 1 to 100 letters"),
        (
            "[hold_back.w]\nmin_scenarios = 0\n",
            "hold_back.w.suite: it is missing; hold_back.w.min_scenarios: it must be at least 1.",
        ),
        ('[hold_back.w]\nsuite = ""\n', "hold_back.w.suite: it must have at least 1 character."),
        ('[hold_back.w]\nsuite = 1\nmax_drop = "x"\n', "suite: it must be a text; hold_back.w.max_drop: it must be a number."),
        ('[logs]\nformat = "xml"\n', "logs.format: it must be 'console' or 'json'."),
        (RULE + 'details = "maybe"\n', "notifications.r.details: it must be true or false."),
        ("channels = 1\n", "channels: it must be a table."),
        ('[notifications.r]\noccasions = "x"\nchannel = "m"\n', "notifications.r.occasions: it must be a list."),
    ],
)
def test_a_setting_that_cannot_be_is_named_in_words(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "[::1]", "localhost", "169.254.169.254"])
def test_a_channel_in_a_private_network_is_refused_unless_that_is_allowed(tmp_path: Path, host: str) -> None:
    text = WEBHOOK.format(f"https://{host}/in")
    assert "is in a private network" in refused(tmp_path, text)
    assert "is in a private network" in refused(tmp_path, MAIL.format(host, ""))
    (tmp_path / "holdfast.toml").write_text(text + "allow_private = true\n")
    assert load(tmp_path).channels["a"].allow_private is True


def test_a_rule_of_mail_that_reaches_nobody_is_refused(tmp_path: Path) -> None:
    assert "[notifications.r] has no recipient: set `to`" in refused(tmp_path, MAIL.format("h.example", "") + RULE)
    for right in (
        MAIL.format("h.example", 'to = ["a@example.com"]') + RULE,
        MAIL.format("h.example", "") + RULE + 'to = ["@asked"]\n',
    ):
        (tmp_path / "holdfast.toml").write_text(right)
        assert load(tmp_path).notifications
