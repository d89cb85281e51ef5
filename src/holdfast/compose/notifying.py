"""Notifications as the settings name them: channels with their secrets, rules, and what runs for them in this process.

Never here: which messages exist, sending one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from holdfast.core.views import notifications
from holdfast.core.views.notifications import MAX_RULES, Message, Rule
from holdfast.engine.background.delivering import Deliverer
from holdfast.engine.background.notifying import DeclaredChannel, Lookout, Notifications, Notifier
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import MissingSecret, UsageError
from holdfast.ports import Channel, Refused, SendResult
from holdfast.settings import ChannelRules, Secrets, Settings, as_part

_MAX_CHANNELS: Final = 100


def notifications_of(settings: Settings) -> Notifications:
    """Return what the settings say of notifications. Raises UsageError."""
    channels = {name: DeclaredChannel(each.kind, each.tenants, each.hosts) for name, each in settings.channels.items()}
    if len(channels) > _MAX_CHANNELS or len(settings.notifications) > MAX_RULES:
        raise UsageError(
            f"holdfast.toml: it takes up to {_MAX_CHANNELS} channels and {MAX_RULES} rules of notifications. Nothing was"
            " started."
        )
    rules = []
    for name, said in settings.notifications.items():
        fields: dict[str, Any] = {field: getattr(said, field) for field in type(said).model_fields}
        rule = Rule(name=name, **fields)
        if wrong := [f"{'.'.join(map(str, each.path))}: {each}" for each in notifications.problems(rule, channels)]:
            raise UsageError(
                f"holdfast.toml: [notifications.{name}] cannot be used: {as_part('; '.join(wrong))}. Nothing was started."
            )
        rules.append(rule)
    people = {name: each.model_dump(exclude_none=True) for name, each in settings.people.items()}
    return Notifications(channels, tuple(rules), people, settings.public_url)


def channels_of(settings: Settings, secrets: Secrets, now_ms: Callable[[], int]) -> dict[str, Channel]:
    """Return the channels, ready to send. Raises UsageError, and MissingExtra for mail without its package."""
    found = dict[str, Channel]()
    for name, rules in settings.channels.items():
        try:
            found[name] = _channel_of(rules, secrets, now_ms)
        except (UsageError, MissingSecret) as problem:
            raise UsageError(
                f"holdfast.toml: [channels.{name}] cannot be used: {as_part(problem.message)}. Nothing was started."
            ) from None
    return found


def _channel_of(rules: ChannelRules, secrets: Secrets, now_ms: Callable[[], int]) -> Channel:
    ca_file = None if rules.ca_file is None else str(rules.ca_file)
    reach: dict[str, Any] = {"allow_private": rules.allow_private, "ca_file": ca_file}
    if rules.kind == "mail":
        from holdfast.notify.mail import MailChannel

        password = None if rules.password_secret is None else secrets.get(rules.password_secret)
        return MailChannel(
            rules.host or "",
            rules.sender or "",
            rules.to,
            security=rules.security,
            port=rules.port,
            username=rules.username,
            password=password,
            **reach,
        )
    if rules.kind == "slack":
        from holdfast.notify.slack import SlackChannel

        return SlackChannel(secrets.get(rules.url_secret or ""), **reach)
    return Webhooks(rules.url, [secrets.get(each) for each in rules.secrets], now_ms, reach)


class Webhooks:
    """A channel of webhooks: to its own address, or to the one that a message names as its recipient."""

    def __init__(self, url: str | None, secrets: Sequence[str], now_ms: Callable[[], int], reach: Mapping[str, Any]) -> None:
        from holdfast.notify.webhook import WebhookChannel

        def webhook(url: str) -> Channel:
            return WebhookChannel(url, secrets, now_ms, **reach)

        self._webhook = webhook
        self._own = None if url is None else webhook(url)

    async def send(self, message: Message) -> SendResult:
        """Try to deliver one message."""
        address = next((each for each in message.recipients if each.startswith("https://")), None)
        try:
            channel = self._own if address is None else self._webhook(address)
        except UsageError as problem:
            return Refused(problem.message)
        if channel is None:
            return Refused("The channel has no address of its own, and the message names none. Nothing was sent.")
        return await channel.send(message)

    async def aclose(self) -> None:
        """Each request has a connection of its own."""


@asynccontextmanager
async def notifying(
    settings: Settings, runtime: Runtime, secrets: Secrets, is_wanted: Callable[[], bool]
) -> AsyncIterator[Notifier | None]:
    """Send notifications inside a block, while `is_wanted` returns that this is the process for it. Yield the sink that makes
    them; None where no channel is named. Raises UsageError."""
    if not settings.channels:
        yield None
        return
    declared, store, clock = notifications_of(settings), runtime.store, runtime.clock
    notifier = Notifier(store, declared, secrets.redact)
    async with AsyncExitStack() as stack:
        for name, channel in channels_of(settings, secrets, store.clock.now_ms).items():
            deliverer = Deliverer(name, channel, store, clock, is_wanted)
            stack.push_async_callback(deliverer.aclose)
            deliverer.start()
        lookout = Lookout(store, clock, notifier, is_wanted)
        stack.push_async_callback(lookout.aclose)
        lookout.start()
        yield notifier
