"""An SMTP server on the loopback interface that delivers nothing and forgets nothing.

It is the world of every test in which a run sends mail: its journal says what really arrived, how often and under
which key, whatever Holdfast believes, and it can take a message and then hide that it did. Nothing of Holdfast outside
the test kit may be imported here.

    with MailSink(journal=tmp_path / "mail.jsonl", rules=[MailRule(times=1, drops_reply=True)]) as sink:
        ...
        assert len(sink.messages) == 1 and not sink.duplicates

In a process of its own: `python -m holdfast.testing.mail_sink --journal mail.jsonl --rules rules.json`.
"""

import asyncio
import socket
import time
from collections.abc import Iterable, Sequence
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as policy
from hashlib import sha256
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import msgspec
from msgspec import Struct

from holdfast.platform.extra import needs
from holdfast.testing.journal_file import JournalFile, read_journal
from holdfast.testing.loopback_server import LOOPBACK, LoopbackServer, arguments, rules_of, serve_until_signalled
from holdfast.testing.script import Script

with needs("testing", "The mail sink", is_program=__name__ == "__main__"):
    from aiosmtpd.smtp import SMTP, Envelope, Session

KEY_HEADERS = ("Idempotency-Key", "X-Holdfast-Key")
REFUSALS = {451: "451 4.3.0 Try again later", 550: "550 5.7.1 Message refused"}
MAX_MESSAGE_BYTES = 32 * 1024 * 1024

Outcome = Literal["accepted", "reply_dropped", "refused"]


class MailRecord(Struct, frozen=True):
    """The journal's entry for one message. A message whose reply was dropped has arrived; a refused one has not.

    `to` is the envelope's, sorted: the actual recipients. `body_sha256` is of the decoded content, so that neither the transfer
    encoding nor a multipart's boundary matters.
    """

    number: int
    at_unix_s: float
    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    body_sha256: str
    key: str | None
    outcome: Outcome


class MailRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition and its effects: if all of the first part holds, the rest happens. Only the first rule that applies
    counts."""

    why: str = ""

    to: str = ""
    """Text that one of the recipients' addresses contains; upper and lower case are one."""
    subject: str = ""
    """The same of the subject."""
    nth: int | None = None
    times: int | None = None

    refuses: Literal[451, 550] | None = None
    """The message is not taken; 451 invites to try again, 550 does not."""
    drops_reply: bool = False
    """The message is taken and the connection closed: the sender cannot know."""
    delay_s: float = 0.0
    """Passes between taking the message and the reply."""

    def matches(self, message: MailRecord) -> bool:
        return (
            any(self.to.casefold() in address.casefold() for address in message.to)
            and self.subject.casefold() in message.subject.casefold()
        )


def read_mail(journal: Path) -> list[MailRecord]:
    """Every message the sink was sent, in that order, refused ones too; also from a journal whose sink is dead."""
    return [msgspec.convert(entry, MailRecord) for entry in read_journal(journal)]


def arrived(records: Iterable[MailRecord]) -> list[MailRecord]:
    """Return the records of messages that reached a mailbox."""
    return [record for record in records if record.outcome != "refused"]


def duplicates(records: Sequence[MailRecord]) -> list[MailRecord]:
    """Return the messages that arrived after another with the same key, or with the same recipients, subject and body."""
    seen: set[object] = set()
    found = []
    for record in arrived(records):
        marks = {(record.to, record.subject, record.body_sha256)} | ({record.key} if record.key else set())
        if marks & seen:
            found.append(record)
        seen |= marks
    return found


class MailSink(LoopbackServer):
    """The sink, in this process but in a thread of its own. Everything here may be used from any thread."""

    def __init__(self, *, journal: Path, rules: Iterable[MailRule] = (), port: int = 0) -> None:
        """Continues a journal that exists."""
        super().__init__(port)
        self.host = LOOPBACK
        self.script = Script(rules)
        self.journal = JournalFile(journal)
        self._number = len(self.journal.entries())
        self._listening: asyncio.Server | None = None
        self._connections: WeakSet[SMTP] = WeakSet()

    @property
    def records(self) -> list[MailRecord]:
        return read_mail(self.journal.path)

    @property
    def messages(self) -> list[MailRecord]:
        return arrived(self.records)

    @property
    def duplicates(self) -> list[MailRecord]:
        return duplicates(self.records)

    async def _open(self, listener: socket.socket) -> None:
        self._listening = await asyncio.get_running_loop().create_server(self._connection, sock=listener)

    async def _close(self) -> None:
        if self._listening:
            self._listening.close()
        for connection in list(self._connections):
            if connection.transport:
                connection.transport.close()
        self.journal.close()

    def _connection(self) -> SMTP:
        loop = asyncio.get_running_loop()
        connection = SMTP(self, hostname="localhost", data_size_limit=MAX_MESSAGE_BYTES, enable_SMTPUTF8=True, loop=loop)
        self._connections.add(connection)
        return connection

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd's
        """A whole message is here: write down what becomes of it, then let the sender know, or not."""
        message = self._read(envelope)
        rule = next(self.script.applying(message), MailRule())
        outcome: Outcome = "refused" if rule.refuses else "reply_dropped" if rule.drops_reply else "accepted"
        self.journal.append(msgspec.to_builtins(msgspec.structs.replace(message, outcome=outcome)))
        await asyncio.sleep(rule.delay_s)
        if outcome == "reply_dropped" and server.transport:
            server.transport.close()
        return REFUSALS[rule.refuses] if rule.refuses else f"250 2.0.0 Taken as {message.number}"

    def _read(self, envelope: Envelope) -> MailRecord:
        self._number += 1
        content = envelope.original_content or b""
        message = message_from_bytes(content, policy=policy)
        return MailRecord(
            number=self._number,
            at_unix_s=time.time(),
            message_id=_header(message, "Message-ID"),
            sender=envelope.mail_from or "",
            to=tuple(sorted(envelope.rcpt_tos)),
            subject=_header(message, "Subject"),
            body_sha256=_body_sha256(message),
            key=next((value for name in KEY_HEADERS if (value := _header(message, name))), None),
            outcome="accepted",
        )


def _header(message: EmailMessage, name: str) -> str:
    return str(message.get(name, "")).strip()


def _body_sha256(message: EmailMessage) -> str:
    digest = sha256()
    for part in message.walk():
        if not part.is_multipart():
            payload = part.get_payload(decode=True)
            content = payload.replace(b"\r\n", b"\n").rstrip() if isinstance(payload, bytes) else b""
            digest.update(b"%s\n%s\n" % (part.get_content_type().encode(), content))
    return digest.hexdigest()


def main() -> None:
    """Serve until SIGINT or SIGTERM. The address appears on stdout as lines for a shell's `export`."""
    parser = arguments("An SMTP server for tests that delivers nothing, on the loopback interface.")
    options = parser.parse_args()
    rules = rules_of(parser, options.rules, MailRule)
    sink = MailSink(journal=options.journal, rules=rules, port=options.port)
    serve_until_signalled(sink, options.port_file, lambda: f"SMTP_HOST={sink.host}\nSMTP_PORT={sink.port}")


if __name__ == "__main__":
    main()
