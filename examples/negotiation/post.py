"""Messages to suppliers: real e-mails, each under a key of its own, and the mail server's word for whether one arrived.

Never here: who is written to, and when.
"""

from __future__ import annotations

import os
import smtplib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from holdfast import tool
from holdfast.testing.mail_sink import arrived, read_mail

SENDER = "Buyer Team <purchasing@buyer.example>"
SMTP_TIMEOUT_S = 20.0
SETTLES_S = 1.0
"""A message that the mail server does not know so long after it was sent has not arrived."""


def was_sent(to: str, subject: str, key: str) -> dict[str, Any] | None:
    """Whether the mail server has taken a message of that key: its log says."""
    log = Path(os.environ["MAIL_LOG"])
    mails = arrived(read_mail(log)) if log.exists() else []
    return next(({"to": to, "key": key} for mail in mails if mail.key == key), None)


@tool(effect="verify", verify=was_sent, settles_within_s=SETTLES_S)
def send(to: str, subject: str, body: str, key: str) -> dict[str, Any]:
    """Send one message. `key` is the key of its effect, and stands in its header."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = SENDER, to, subject
    message["Message-ID"] = f"<{key[:32]}@buyer.example>"
    message["Idempotency-Key"] = key
    message.set_content(body)
    host, port = os.environ["SMTP_HOST"], int(os.environ["SMTP_PORT"])
    with smtplib.SMTP(host, port, local_hostname="localhost", timeout=SMTP_TIMEOUT_S) as server:
        server.send_message(message)
    return {"to": to, "key": key}
