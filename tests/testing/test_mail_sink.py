"""The mail sink as Python's own SMTP client sees it, and as a judge reads it from its journal."""

from __future__ import annotations

import signal
import smtplib
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path

import pytest

from holdfast.testing.mail_sink import MailRule, MailSink, duplicates, read_mail


@pytest.fixture
def sink(tmp_path: Path) -> MailSink:
    with MailSink(journal=tmp_path / "mail.jsonl") as sink:
        yield sink


def letter(
    body: str = "We have an answer.", *, key: str | None = None, to: str = "ada@example.org", subject: str = "Your ticket"
) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "desk@example.com", to, subject
    message["Message-ID"] = f"<{time.monotonic_ns()}@example.com>"
    if key:
        message["Idempotency-Key"] = key
    message.set_content(body)
    return message


def send(port: int, *messages: EmailMessage, timeout_s: float = 5) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=timeout_s) as client:
        for message in messages:
            client.send_message(message)


def test_the_journal_says_what_arrived(sink: MailSink) -> None:
    message = letter("Grüße – 😀\n.\nA line with a dot above.", key="k-1", subject="Réponse à votre ticket")
    send(sink.port, message)
    (record,) = sink.messages
    assert (record.sender, record.to, record.subject) == ("desk@example.com", ("ada@example.org",), "Réponse à votre ticket")
    assert (record.key, record.message_id, record.outcome) == ("k-1", message["Message-ID"], "accepted")


def test_an_envelope_counts_and_not_the_header(sink: MailSink) -> None:
    with smtplib.SMTP("127.0.0.1", sink.port) as client:
        client.send_message(letter(), to_addrs=["hidden@example.org", "ada@example.org"])
    assert sink.messages[0].to == ("ada@example.org", "hidden@example.org")


@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Holdfast-Key", "x-holdfast-key"])
def test_the_same_key_twice_is_a_duplicate_whatever_else_differs(sink: MailSink, header: str) -> None:
    first, second = letter("one"), letter("two", subject="Another")
    first[header] = second[header] = "k-1"
    send(sink.port, first, second)
    assert [record.number for record in sink.duplicates] == [2]


def test_the_same_letter_twice_is_a_duplicate_however_it_is_encoded(sink: MailSink) -> None:
    first, second, other = letter("Grüße", key="a"), letter(key="b"), letter("Grüße", to="bob@example.org")
    second.set_content("Grüße\n\n", cte="base64")
    send(sink.port, first, second, other)
    assert [record.number for record in sink.duplicates] == [2]


def test_a_dropped_reply_leaves_the_sender_in_doubt_and_the_message_delivered(sink: MailSink) -> None:
    sink.script.add(MailRule(times=1, drops_reply=True))
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(sink.port, letter(key="k-1"))
    assert [record.outcome for record in sink.messages] == ["reply_dropped"]

    send(sink.port, letter(key="k-1"))
    assert [record.number for record in sink.duplicates] == [2]


@pytest.mark.parametrize("code", [451, 550])
def test_a_refused_message_has_not_arrived(sink: MailSink, code: int) -> None:
    sink.script.add(MailRule(refuses=code, nth=1, subject="TICKET", to="ada@"))
    with pytest.raises(smtplib.SMTPDataError) as refusal:
        send(sink.port, letter())
    assert refusal.value.smtp_code == code
    send(sink.port, letter())
    assert [record.outcome for record in sink.records] == ["refused", "accepted"]
    assert len(sink.messages) == 1
    assert not sink.duplicates


def test_a_late_reply_comes_after_the_message_arrived(sink: MailSink) -> None:
    sink.script.add(MailRule(delay_s=30))
    with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
        send(sink.port, letter(), timeout_s=0.05)
    assert len(sink.messages) == 1


def test_stopping_waits_for_no_sender(tmp_path: Path) -> None:
    with MailSink(journal=tmp_path / "mail.jsonl", rules=[MailRule(delay_s=30)]) as sink, ThreadPoolExecutor(1) as sender:
        sending = sender.submit(send, sink.port, letter())
        until(lambda: len(sink.records) == 1)
        began = time.monotonic()
        sink.stop()
        assert time.monotonic() - began < 5
        with pytest.raises(smtplib.SMTPServerDisconnected):
            sending.result(5)


def test_many_senders_at_once_are_each_counted_once(sink: MailSink) -> None:
    with ThreadPoolExecutor(8) as senders:
        list(senders.map(lambda n: send(sink.port, letter(f"letter {n}", key=f"k-{n}")), range(40)))
    assert sorted(record.key or "" for record in sink.messages) == sorted(f"k-{n}" for n in range(40))
    assert [record.number for record in sink.messages] == list(range(1, 41))
    assert not sink.duplicates


async def test_it_is_an_async_context_manager_too(tmp_path: Path) -> None:
    async with MailSink(journal=tmp_path / "mail.jsonl") as sink:
        send(sink.port, letter())  # blocks this loop, and is answered all the same
        assert len(sink.messages) == 1


def test_a_killed_sink_has_lost_no_message_and_its_successor_counts_on(tmp_path: Path) -> None:
    journal, rules = tmp_path / "mail.jsonl", tmp_path / "rules.json"
    rules.write_text('{"about": "The second letter waits.", "rules": [{"nth": 2, "delay_s": 30}]}')
    files = ["--journal", str(journal), "--rules", str(rules), "--port-file", str(tmp_path / "port")]
    process = subprocess.Popen([sys.executable, "-m", "holdfast.testing.mail_sink", *files], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout, ThreadPoolExecutor(1) as sender:
        announced = dict(process.stdout.readline().strip().split("=") for _ in range(2))
        assert announced == {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": (tmp_path / "port").read_text().strip()}
        sending = sender.submit(send, int(announced["SMTP_PORT"]), letter("one", key="k-1"), letter("two", key="k-2"))
        until(lambda: len(read_mail(journal)) == 2)
        process.send_signal(signal.SIGKILL)
        assert process.wait(5) == -signal.SIGKILL
        with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)):
            sending.result(5)

    with MailSink(journal=journal) as successor:
        send(successor.port, letter("two", key="k-2"))
        assert [record.number for record in duplicates(successor.records)] == [3]


def until(condition: Callable[[], bool]) -> None:
    """What is waited for happens in another thread or process, and shows in a file."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
