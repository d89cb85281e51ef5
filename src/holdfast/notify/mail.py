"""Mail over SMTP: plain text with the same as HTML beside it, over TLS.

No text of a message becomes a header but the title, which is one line. The server is connected to at the address that was
checked, and its certificate is that of its name. Never here: when a message is sent again.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import socket
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP as LINES
from email.utils import formatdate
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from holdfast.core.values.policies import DENIED
from holdfast.errors import ToolFailed, UsageError
from holdfast.platform.address import networks, resolve
from holdfast.platform.extra import needs
from holdfast.ports.channel import MAX_RECIPIENTS, Message, Refused, Retry, SendResult, Sent

if TYPE_CHECKING:
    import aiosmtplib

log = logging.getLogger("holdfast")

TIMEOUT_S: Final = 15.0
"""Time for the whole delivery, from the server's name to its answer."""
Security: TypeAlias = Literal["starttls", "tls", "none"]
PORTS: Final[dict[Security, int]] = {"starttls": 587, "tls": 465, "none": 25}
_MAILBOX: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
"""An address as HTML's input takes it: nothing in it ends a header or begins another recipient."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_ENCODED: Final = "=?"
"""The beginning of an encoded word (RFC 2047). Python decodes one in a text that it is given, line breaks included, and before
3.11.10 it writes them as they are: another header."""
_MAX_SUBJECT: Final = 200
_MAX_TEXT: Final = 10_000
"""Characters of a text that a message shows."""
_PERMANENT: Final = range(500, 600)
_OF_LOG_IN: Final = frozenset({530, 534, 535, 538})
"""Answers about our own log-in: a person can mend that, and the message may go then."""


class MailChannel:
    """An SMTP server that takes mail from one sender."""

    def __init__(
        self,
        host: str,
        sender: str,
        recipients: Sequence[str] = (),
        *,
        security: Security = "starttls",
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        allow_private: bool | Sequence[str] = False,
        ca_file: str | None = None,
    ) -> None:
        """`recipients` get the messages that name none. Raises UsageError, and MissingExtra without aiosmtplib."""
        with needs("notify", "A channel for mail"):
            import aiosmtplib  # noqa: F401, PLC0415 - a server that lacks it says so when it starts
        for each in (sender, *recipients):
            expect_mailbox(each)
        if security == "none" and password is not None:
            raise UsageError('security="none" would send the password in the clear; use starttls or tls')
        self._host = host
        self._port = PORTS[security] if port is None else port
        self._sender = sender
        self._recipients = tuple(recipients)
        self._security = security
        self._credentials = None if username is None else (username, password or "")
        self._allowed = networks(allow_private)
        self._ca_file = ca_file

    async def send(self, message: Message) -> SendResult:
        """Try to deliver one message, to all recipients at once."""
        recipients = message.recipients or self._recipients
        if not recipients:
            return Refused("This message has no recipient, and the channel names none. Nothing was sent.")
        if wrong := [each for each in recipients if not _MAILBOX.fullmatch(each)]:
            return Refused(f"{len(wrong)} of its recipients are no mail addresses. Nothing was sent.")
        if len(recipients) > MAX_RECIPIENTS:
            return Refused(f"It has {len(recipients)} recipients, more than {MAX_RECIPIENTS}. Nothing was sent.")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._deliver(mail_of(message, self._sender, recipients), recipients)
        except TimeoutError:
            return Retry(f"{self._host} did not take the message within {TIMEOUT_S:g} s.")

    async def aclose(self) -> None:
        """Each message has a connection of its own."""

    async def _deliver(self, mail: EmailMessage, recipients: Sequence[str]) -> SendResult:
        import aiosmtplib  # noqa: PLC0415 - 70 ms that only those pay who send

        try:
            server = await self._connect()
        except ToolFailed as failed:
            return (Refused if getattr(failed, "error_class", "") == DENIED else Retry)(failed.message)
        except (OSError, ValueError, aiosmtplib.SMTPException) as problem:
            return Retry(f"{self._host} cannot be talked to: {_reason(problem)}.")
        try:
            if self._credentials is not None:
                await server.login(*self._credentials)
            refused, _ = await server.send_message(mail, sender=self._sender, recipients=list(recipients))
        except aiosmtplib.SMTPRecipientsRefused as problem:
            codes = [each.code for each in problem.recipients]
            return (Refused if all(code in _PERMANENT for code in codes) else Retry)(
                f"{self._host} refuses all recipients (SMTP {codes[0]})."
            )
        except aiosmtplib.SMTPResponseException as problem:
            is_final = problem.code in _PERMANENT and problem.code not in _OF_LOG_IN
            return (Refused if is_final else Retry)(f"{self._host} refuses the message (SMTP {problem.code}).")
        except (OSError, ValueError, aiosmtplib.SMTPException) as problem:
            return Retry(f"{self._host} did not take the message: {_reason(problem)}.")
        finally:
            server.close()
        if refused:
            log.warning("%s refuses %d of %d recipients of a message.", self._host, len(refused), len(recipients))
        return Sent()

    async def _connect(self) -> aiosmtplib.SMTP:
        """Return a connection to an address that was checked. Raises ToolFailed, OSError, SMTPException."""
        import aiosmtplib  # noqa: PLC0415 - see above

        sock = await self._socket()
        try:
            server = aiosmtplib.SMTP(
                hostname=self._host,
                sock=sock,
                use_tls=self._security == "tls",
                start_tls=self._security == "starttls",  # never None, which goes on in the clear where it is not offered
                tls_context=_tls(self._ca_file) if self._security != "none" else None,
                local_hostname="holdfast",
                timeout=TIMEOUT_S,
            )
            await server.connect()
        except BaseException:
            sock.close()
            raise
        return server

    async def _socket(self) -> socket.socket:
        addresses = await resolve(self._host, self._port, self._allowed)
        loop = asyncio.get_running_loop()
        for number, address in enumerate(addresses, 1):
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                async with asyncio.timeout(TIMEOUT_S / len(addresses)):
                    await loop.sock_connect(sock, (address, self._port))
                return sock
            except (OSError, TimeoutError):
                sock.close()
                if number == len(addresses):
                    raise
            except BaseException:
                sock.close()
                raise
        raise AssertionError("a name that was resolved has an address")


def mail_of(message: Message, sender: str, recipients: Sequence[str]) -> EmailMessage:
    """Return a message as mail. Its id is the same in each try, so that a mail program can show it once."""
    mail = EmailMessage(LINES)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = one_line(message.title)[:_MAX_SUBJECT].replace(_ENCODED, "= ?")
    mail["Date"] = formatdate(message.at_ms / 1000)
    mail["Message-ID"] = f"<{re.sub('[^A-Za-z0-9_-]', '_', message.id)}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_plain(message))
    mail.add_alternative(_html(message), subtype="html")
    return mail


def expect_mailbox(address: str) -> None:
    """Raise UsageError for what is no mail address."""
    if not _MAILBOX.fullmatch(address):
        raise UsageError(f"{address!r:.100} is no mail address; write NAME@HOST")


def one_line(text: str) -> str:
    """Return a text without line breaks and other control characters: the only form in which one becomes a header."""
    return _CONTROL.sub(" ", text).strip()


def _plain(message: Message) -> str:
    lines = [one_line(message.title), ""]
    lines += [f"{one_line(name)}: {_without_controls(text)}" for name, text in message.facts]
    return "\n".join([*lines, *(["", message.link] if message.link is not None else [])]) + "\n"


def _html(message: Message) -> str:
    facts = "".join(
        f"<tr><td><b>{html.escape(one_line(name))}</b></td><td><pre>{html.escape(_without_controls(text))}</pre></td></tr>"
        for name, text in message.facts
    )
    link = "" if message.link is None else f'<p><a href="{html.escape(message.link)}">Open in Holdfast</a></p>'
    return f"<html><body><p>{html.escape(one_line(message.title))}</p><table>{facts}</table>{link}</body></html>\n"


def _without_controls(text: str) -> str:
    """Return a text as a message shows it: with its lines, without other control characters."""
    lines = [_CONTROL.sub(" ", line) for line in text.splitlines()]
    return "\n".join(lines)[:_MAX_TEXT]


def _reason(problem: Exception) -> str:
    problem = problem.__cause__ if isinstance(problem.__cause__, OSError) else problem
    return one_line(str(problem))[:200] or type(problem).__name__


@cache
def _tls(ca_file: str | None) -> ssl.SSLContext:
    """Return what the machine trusts, and the authorities in the file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
