"""Notifications: rules, deliveries and channels. Never here: who may see one, an address with its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

import msgspec

from holdfast.core.views.notifications import DeliveryState, Occasion
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.views.notifications import Delivery, Rule
    from holdfast.engine.background.notifying import DeclaredChannel
    from holdfast.ports import ChannelFigures


RuleSource: TypeAlias = Literal["file", "set"]
"""Place of a rule.

- `file`: It stands in holdfast.toml
- `set`: It was set, and is kept in the store
"""


class NotificationRuleRow(TypedDict):
    """A rule that says who is notified of what."""

    name: Annotated[str, doc("Name of the rule.")]
    tenant: Annotated[str, doc("Tenant that it is about; `*` for all.")]
    source: Annotated[
        RuleSource, doc("`file` for a rule of the server's holdfast.toml, which is changed there; `set` for one that was set.")
    ]
    occasions: Annotated[list[Occasion], doc("Occasions to notify of.")]
    channel: Annotated[str, doc("Channel that sends the messages.")]
    to: Annotated[list[str], doc("Recipients by mail; empty for those of the channel.")]
    workflows: Annotated[list[str], doc("Only these workflows, names or patterns; empty for all.")]
    labels: Annotated[dict[str, str], doc("Only runs with all of these labels.")]
    teams: Annotated[list[str], doc("Only runs of these teams; empty for all.")]
    children: Annotated[bool, doc("True if it is about the ends of child runs too.")]
    digest_s: Annotated[float, doc("Seconds for which messages are gathered to become one.")]
    title: Annotated[str | None, doc("Template of the title; null for the usual one.")]
    details: Annotated[bool, doc("True if titles of gates and texts of errors are included.")]
    by: Annotated[str | None, doc("Person who set it last.")]
    set_at: Annotated[Time | None, doc("Time at which it was set last; null for a rule of the file.")]


class DeliveryRow(TypedDict):
    """A message on its way to a channel."""

    id: Annotated[str, doc("Id of the delivery, which is that of the message in each try.")]
    tenant: field.Tenant
    run_id: Annotated[str | None, doc("Id of the run that it is about; null for none.")]
    occasion: Annotated[str, doc("Occasion of the message.")]
    rule: Annotated[str, doc("Rule that made it; `on_end` for what a start asked for.")]
    channel: Annotated[str, doc("Channel that sends it.")]
    state: Annotated[DeliveryState, doc("State: `waiting`, `sent` or `dead`.")]
    attempts: field.Attempts
    created_at: Annotated[Time, doc("Time at which it was made.")]
    due_at: Annotated[Time, doc("Time of its next try, or of the last.")]
    ended_at: Annotated[Time | None, doc("Time at which it was sent or given up.")]
    problem: Annotated[str | None, doc("Why the last try failed; null if none has.")]
    part_of: Annotated[str | None, doc("Id of the delivery whose message it is part of; null for a message of its own.")]
    title: Annotated[str, doc("Title of the message.")]


class DeliveryWhole(DeliveryRow):
    """A delivery with its message."""

    link: Annotated[str | None, doc("Address of the console's page in it; null for none.")]
    recipients: Annotated[list[str], doc("Recipients that the message names.")]
    body: Annotated[Any, doc("Body of the message, as a webhook gets it.")]


class ChannelRow(TypedDict):
    """A channel, or an address of it, with what came of its messages. A caller that acts for one tenant gets the channels that
    the tenant may use, without figures."""

    channel: Annotated[str, doc("Name of the channel.")]
    kind: Annotated[str | None, doc("Kind: `webhook`, `mail` or `slack`; null if the settings do not name it any more.")]
    address: Annotated[str, doc("Address that a start has named; empty for the channel's own.")]
    sent: Annotated[int | None, doc("Messages that were sent.")]
    failed: Annotated[int | None, doc("Tries that failed.")]
    dead: Annotated[int | None, doc("Messages that were given up.")]
    waiting: Annotated[int | None, doc("Messages that wait.")]
    oldest_at: Annotated[Time | None, doc("Time at which the oldest of these was made.")]
    disabled_at: Annotated[Time | None, doc("Time at which it was disabled, because it answered HTTP 410; null if it is not.")]
    problem: Annotated[str | None, doc("Reason for which it was disabled.")]


def of_notification_rule(rule: Rule) -> NotificationRuleRow:
    """A rule of a tenant."""
    return {
        "name": rule.name,
        "tenant": rule.tenant,
        "source": "file" if rule.is_declared else "set",
        "occasions": list(rule.occasions),
        "channel": rule.channel,
        "to": list(rule.to),
        "workflows": list(rule.workflows),
        "labels": dict(rule.labels),
        "teams": list(rule.teams),
        "children": rule.children,
        "digest_s": rule.digest_s,
        "title": rule.title,
        "details": rule.details,
        "by": rule.by,
        "set_at": None if rule.is_declared else iso(rule.set_at_ms),
    }


def of_delivery(delivery: Delivery) -> DeliveryRow:
    """A delivery."""
    return {
        "id": delivery.id,
        "tenant": delivery.tenant,
        "run_id": delivery.run or None,
        "occasion": delivery.occasion,
        "rule": delivery.rule,
        "channel": delivery.channel,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "created_at": iso(delivery.created_at_ms),
        "due_at": iso(delivery.due_at_ms),
        "ended_at": iso(delivery.ended_at_ms),
        "problem": delivery.problem,
        "part_of": delivery.part_of,
        "title": delivery.message.title,
    }


def of_whole_delivery(delivery: Delivery) -> DeliveryWhole:
    """A delivery with its message."""
    message = delivery.message
    return {
        **of_delivery(delivery),
        "link": message.link,
        "recipients": list(message.recipients),
        "body": msgspec.json.decode(message.body),
    }


def of_channel(name: str, declared: DeclaredChannel | None, figures: ChannelFigures | None) -> ChannelRow:
    """A channel of the settings, of the store, or of both."""
    return {
        "channel": name,
        "kind": None if declared is None else declared.kind,
        "address": "" if figures is None else figures.address,
        "sent": None if figures is None else figures.sent,
        "failed": None if figures is None else figures.failed,
        "dead": None if figures is None else figures.dead,
        "waiting": None if figures is None else figures.waiting,
        "oldest_at": None if figures is None else iso(figures.oldest_at_ms),
        "disabled_at": None if figures is None else iso(figures.disabled_at_ms),
        "problem": None if figures is None else figures.problem,
    }
