"""Notifications in holdfast.toml: channels, rules, addresses of people.

Never here: the value of a secret, a notification.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, model_validator

from holdfast.platform.address import is_number, may_be_called, networks
from holdfast.settings.secrets import NameOfSecret
from holdfast.settings.table import TABLE, Networks


class ChannelRules(BaseModel):
    """`[channels.NAME]` in holdfast.toml: a channel for notifications. Secrets are named, and stand in the environment or the
    secrets file."""

    model_config = TABLE

    kind: Literal["webhook", "mail", "slack"]
    """Kind of the channel: signed webhooks (Standard Webhooks), mail over SMTP, or an incoming webhook of Slack."""
    url: str | None = None
    """Address of the webhook. A webhook with `hosts` needs none."""
    secrets: tuple[NameOfSecret, ...] = ()
    """Names of the secrets that sign a webhook, the newest first: several while they are rotated."""
    url_secret: NameOfSecret | None = None
    """Name of the secret that holds the address of Slack's webhook."""
    host: str | None = None
    """SMTP server."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Port of the SMTP server; by default 587, or 465 with `tls`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """Encryption of the connection to the SMTP server."""
    sender: str | None = None
    """Address from which mail is sent."""
    username: str | None = None
    """User at the SMTP server."""
    password_secret: NameOfSecret | None = None
    """Name of the secret with the password of that user."""
    to: tuple[str, ...] = ()
    """Mail addresses for notifications that name no recipient."""
    tenants: tuple[str, ...] = ()
    """Tenants whose own rules and starts may use the channel: names, or patterns like `*`. Rules of this file always may."""
    hosts: tuple[str, ...] = ()
    """Hosts that others may name, like `*.example.com`: of a webhook, for addresses that starts name as
    `on_end="https://HOST/…"`; of mail, for addresses in tenants' own rules."""
    allow_private: Networks = False
    """Private networks to allow besides public addresses, as for an HTTP tool."""
    ca_file: Path | None = None
    """File with further certificate authorities."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        needs = {
            "webhook": (bool(self.url or self.hosts) and bool(self.secrets), "url (or hosts) and secrets"),
            "mail": (bool(self.host and self.sender), "host and sender"),
            "slack": (bool(self.url_secret), "url_secret"),
        }
        has_all, wanted = needs[self.kind]
        if not has_all:
            raise ValueError(f"a channel of kind {self.kind} needs {wanted}")
        if self.hosts and self.kind == "slack":
            raise ValueError("hosts belong to a webhook or to mail")
        target = self.host if self.kind == "mail" else _host_of(self.url)
        if target is not None and not _may_be_reached(target, self.allow_private):
            raise ValueError(
                f"{target} is in a private network, to which nothing is sent; name its network in allow_private, like"
                ' ["10.0.0.0/8"]'
            )
        return self


def _host_of(url: str | None) -> str | None:
    try:
        return None if url is None else urlsplit(url).hostname
    except ValueError:  # the channel says what is wrong with it
        return None


def _may_be_reached(host: str, allow_private: bool | tuple[str, ...]) -> bool:
    """Return False for an address or `localhost` that no message may go to. Other names are looked up when one is sent."""
    if host == "localhost":
        return bool(allow_private)
    return not is_number(host) or may_be_called(ip_address(host.strip("[]")), networks(allow_private))


class NotificationRules(BaseModel):
    """`[notifications.NAME]` in holdfast.toml: a rule that says who is notified of what. Tenants may set rules of their
    own besides."""

    model_config = TABLE

    occasions: tuple[str, ...]
    """Occasions to notify of: gate_opened, gate_reminder, gate_escalated, gate_expired, run_completed, run_failed,
    run_cancelled, run_budget_blocked, budget, dead_letter, doubt, worker_lost, schedule_missed."""
    channel: str
    """Channel, by its name in `[channels.NAME]`."""
    to: tuple[str, ...] = ()
    """Recipients: mail addresses, names in `[people.NAME]`, or `@asked` for the reviewers of a gate. By default those of the
    channel."""
    tenant: str = "*"
    """Tenant whose runs it is about; `*` for all."""
    workflows: tuple[str, ...] = ()
    """Only these workflows: names, or patterns like `order*`."""
    labels: dict[str, str] = {}
    """Only runs with all of these labels."""
    teams: tuple[str, ...] = ()
    """Only runs of these teams."""
    children: bool = False
    """True to be notified of the ends of child runs too."""
    digest_s: float = 10.0
    """Seconds for which notifications are gathered to become one message; 0 for a message each."""
    title: str | None = None
    """Template of the title, like `{workflow}: {occasion}`."""
    details: bool = False
    """True to include titles of gates and texts of errors, without secrets and personal data."""


class PersonRules(BaseModel):
    """`[people.NAME]` in holdfast.toml: the addresses of a reviewer, or of a role, for `@asked` and `to`."""

    model_config = TABLE

    mail: str | None = None
    """Mail address."""
