"""Mail: what a real SMTP server takes, over which protection, and that no text of a message becomes a header."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from holdfast.errors import UsageError
from holdfast.notify import mail as mail_
from holdfast.notify.mail import MailChannel, expect_mailbox
from holdfast.ports.channel import MAX_RECIPIENTS, Channel, Refused, Retry, Sent
from tests.notify.messages import message

PEM = Path(__file__).parents[1] / "tools" / "localhost.pem"
ANN = "ann@example.com"


class Taken:
    """The mail that a server has taken, and what it answers first."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.mails: list[tuple[EmailMessage, Envelope, bool]] = []
        self.users: list[bytes] = []

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("nobody"):
            return "550 5.1.1 No such user"
        if address.startswith("later"):
            return "450 4.2.1 Later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd's
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((mail, envelope, server.transport.get_extra_info("ssl_object") is not None))
        return "250 OK"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        self.users.append(data.login)
        return AuthResult(success=data.password == b"right password", handled=False)


@asynccontextmanager
async def listening(taken: Taken, *, tls: bool = False, starttls: bool = False, log_in: bool = False) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    def connected() -> SMTP:
        return SMTP(
            taken,
            tls_context=context if starttls else None,
            require_starttls=starttls,
            authenticator=taken.authenticate if log_in else None,
            auth_required=log_in,
            auth_require_tls=not tls,
        )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(connected, "127.0.0.1", 0, ssl=context if tls else None)
    async with server:
        yield server.sockets[0].getsockname()[1]


def channel(port: int, **more: Any) -> MailChannel:
    known: dict[str, Any] = {"security": "none", "allow_private": ["127.0.0.0/8", "::1"], "ca_file": str(PEM)}
    return MailChannel("localhost", "Holdfast@example.com", [ANN], port=port, **{**known, **more})


async def test_a_message_arrives_as_text_and_as_html() -> None:
    taken = Taken()
    async with listening(taken) as port:
        sends: Channel = channel(port)
        assert await sends.send(message()) == Sent()
        assert await sends.send(message(recipients=("bo@example.com", "cy@example.com"))) == Sent()
        await sends.aclose()
    (first, envelope, _), (second, others, _) = taken.mails
    assert (envelope.mail_from, envelope.rcpt_tos) == ("Holdfast@example.com", [ANN])
    assert others.rcpt_tos == ["bo@example.com", "cy@example.com"]
    assert (first["subject"], first["from"], first["to"]) == ("Pay invoice 7?", "Holdfast@example.com", ANN)
    assert first["message-id"] == second["message-id"] == "<msg_0001@example.com>"
    assert (first["auto-submitted"], first["date"]) == ("auto-generated", "Fri, 28 Nov 2025 08:53:20 -0000")
    plain, rich = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert rich is not None
    assert plain.get_content().splitlines() == [
        "Pay invoice 7?",
        "",
        "Run: r-1",
        "Amount: 12.50 EUR",
        "",
        "https://holdfast.example.com/inbox/r-1?a=1&b=2",
    ]
    assert '<a href="https://holdfast.example.com/inbox/r-1?a=1&amp;b=2">' in rich.get_content()


HOSTILE = [
    "Bcc\r\nBcc: eve@example.com",
    "x\nTo: eve@example.com\n\nbody",
    "x\r\n.\r\nMAIL FROM:<eve@example.com>",
    "x\x00\x0b\x0c\x85\u2028Bcc: eve@example.com",
    "=?utf-8?q?x=0D=0ABcc:_eve@example.com?=",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eevil \U0001f600" * 60,
    "x" * 5_000,
    "\udce4",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_becomes_a_header_a_recipient_or_markup(text: str) -> None:
    taken = Taken()
    shown = text.encode("utf-8", "replace").decode()
    async with listening(taken) as port:
        assert await channel(port).send(message(title=shown, facts=((shown, shown),))) == Sent()
    ((mail, envelope, _),) = taken.mails
    assert {name.lower() for name in mail.keys()} == {  # noqa: SIM118 -- headers may repeat
        "from",
        "to",
        "subject",
        "date",
        "message-id",
        "auto-submitted",
        "mime-version",
        "content-type",
    }
    assert (envelope.rcpt_tos, mail["to"], len(mail.get_all("subject") or [])) == ([ANN], ANN, 1)
    rich = mail.get_body(("html",))
    assert rich is not None
    assert "<script" not in rich.get_content()
    assert "<img" not in rich.get_content()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "ann@",
        "@example.com",
        "ann@example.com,eve@example.com",
        "ann@example.com\r\nBcc: eve@example.com",
        "Ann <ann@example.com>",
        "ann@exa mple.com",
        "\u00e4nn@example.com",
        "ann@example.com\n",
    ],
)
async def test_what_is_no_mail_address_gets_nothing(address: str) -> None:
    with pytest.raises(UsageError, match="no mail address"):
        expect_mailbox(address)
    taken = Taken()
    async with listening(taken) as port:
        result = await channel(port).send(message(recipients=(ANN, address)))
    assert isinstance(result, Refused)
    assert taken.mails == []


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_mail_travels_over_tls_and_the_certificate_is_that_of_the_name(security: Any) -> None:
    taken = Taken()
    async with listening(taken, tls=security == "tls", starttls=security == "starttls", log_in=True) as port:
        log_in = {"security": security, "username": "holdfast"}
        assert await channel(port, password="right password", **log_in).send(message()) == Sent()
        assert await channel(port, password="wrong password", **log_in).send(message()) == Retry(
            "localhost refuses the message (SMTP 535)."
        )
        strange = await channel(port, password="right password", ca_file=None, **log_in).send(message())
        other = MailChannel(
            "127.0.0.2", "h@example.com", [ANN], port=port, security=security, allow_private=True, ca_file=str(PEM)
        )
        assert isinstance(strange, Retry)
        assert "certificate" in strange.text
        assert isinstance(await other.send(message()), Retry)
    assert [is_tls for _, _, is_tls in taken.mails] == [True]
    assert {*taken.users} == {b"holdfast"}


async def test_nothing_is_sent_in_the_clear_where_starttls_is_not_offered() -> None:
    taken = Taken()
    async with listening(taken) as port:
        result = await channel(port, security="starttls", username="holdfast", password="right password").send(message())
    assert isinstance(result, Retry)
    assert "STARTTLS" in result.text
    assert (taken.mails, taken.users) == ([], [])
    with pytest.raises(UsageError, match="in the clear"):
        channel(25, security="none", username="holdfast", password="right password")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("451 4.3.0 Later", Retry("localhost refuses the message (SMTP 451).")),
        ("554 5.7.1 Spam", Refused("localhost refuses the message (SMTP 554).")),
    ],
)
async def test_a_refusal_ends_only_where_it_is_final(answer: str, expected: Any) -> None:
    taken = Taken(answer)
    async with listening(taken) as port:
        assert await channel(port).send(message()) == expected
        assert await channel(port).send(message()) == Sent()


async def test_refused_recipients_do_not_keep_the_others_from_their_mail() -> None:
    taken = Taken()
    async with listening(taken) as port:
        sends = channel(port)
        assert await sends.send(message(recipients=("nobody@example.com", ANN))) == Sent()
        none = await sends.send(message(recipients=("nobody@example.com",)))
        later = await sends.send(message(recipients=("nobody@example.com", "later@example.com")))
        many = await sends.send(message(recipients=(ANN,) * (MAX_RECIPIENTS + 1)))
    assert [envelope.rcpt_tos for _, envelope, _ in taken.mails] == [[ANN]]
    assert (type(none), type(later), type(many)) == (Refused, Retry, Refused)
    assert isinstance(await MailChannel("localhost", ANN).send(message()), Refused)


@pytest.mark.parametrize("host", ["localhost", "10.0.0.1", "169.254.169.254"])
async def test_a_private_server_is_not_connected_to_unless_allowed(host: str) -> None:
    taken = Taken()
    async with listening(taken) as port:
        result = await MailChannel(host, ANN, [ANN], port=port, security="tls").send(message())
    assert isinstance(result, Refused)
    assert "no public address" in result.text


async def test_a_server_that_says_nothing_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_, "TIMEOUT_S", 0.3)
    server = await asyncio.start_server(lambda *_: asyncio.Event().wait(), "127.0.0.1", 0)
    async with server:
        result = await channel(server.sockets[0].getsockname()[1]).send(message())
    assert isinstance(result, Retry)
