"""Notifications: the rules of tenants, and what became of messages.

Never here: which messages a rule makes (core.views.notifications), sending one (engine.background.delivering).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.values.actor import Actor
from holdfast.core.views import notifications
from holdfast.core.views.notifications import MAX_RULES, Delivery, DeliveryState, Occasion, Rule
from holdfast.engine.background.notifying import DeclaredChannel
from holdfast.errors import InvalidInput, NotFound
from holdfast.platform.machine import salt
from holdfast.ports import MAX_LISTED, ChannelFigures, DeliveryFilter
from holdfast.service.control.base import ControlBase, word
from holdfast.service.control.change import changed
from holdfast.service.control.naming import DEFAULT_TENANT


class Notifications(ControlBase):
    """Rules that say who is notified of what; the channels of the settings send the messages."""

    async def set_notification_rule(
        self,
        name: str,
        occasions: Sequence[Occasion],
        channel: str,
        *,
        to: Sequence[str] = (),
        workflows: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        teams: Sequence[str] = (),
        children: bool = False,
        digest_s: float = 10.0,
        title: str | None = None,
        details: bool = False,
        tenant: str | None = None,
        by: str | Actor | None = None,
    ) -> Rule:
        """Set a notification rule of a tenant, or replace it. Its messages are sent by the processes that have the channel.

        Args:
            occasions: Occasions to notify of, like `gate_opened` or `run_failed`.
            channel: Channel of the settings that the tenant may use.
            to: Recipients by mail: names in the settings' `people`, addresses that the channel allows, or `@asked`.
            workflows: Only these workflows: names, or patterns.
            labels: Only runs with all of these labels.
            teams: Only runs of these teams.
            children: True to hear of the ends of child runs too.
            digest_s: Seconds for which messages are gathered to become one.
            title: Template of the title.
            details: True to include titles of gates and texts of errors.
            tenant: Tenant of the rule; by default that of a rule of the settings with this name, or else `default`.

        Raises:
            InvalidInput: An option cannot be used, or the rule stands in the settings.
        """
        tenant = self._rule_tenant(name, tenant)
        self._expect_undeclared(name, tenant)
        rule = Rule(
            tenant=word("tenant", tenant),
            name=word("name of the rule", name),
            occasions=tuple(occasions),
            channel=word("channel", channel),
            to=tuple(to),
            workflows=tuple(workflows),
            labels=dict(labels or {}),
            teams=tuple(teams),
            children=children,
            digest_s=digest_s,
            title=title,
            details=details,
            by=self._claim(by).name,
            set_at_ms=self.store.clock.now_ms(),
            revision=1,
        )
        if problems := list(self.executor.services.notifications.problems(rule)):
            words = f"Rule {name!r:.130} cannot be stored: {'; '.join(problems)}. Nothing was changed."
            raise InvalidInput(words, misfits=problems)
        if len(await self.store.notification_rules.page(tenant, None, MAX_RULES)) >= MAX_RULES:
            raise InvalidInput(f"A tenant has up to {MAX_RULES} rules. Nothing was changed: remove one first.")

        async def attempt() -> Rule | None:
            found = await self.store.notification_rules.find(tenant, name)
            revision = 0 if found is None else found.revision
            kept = await self.store.notification_rules.put(msgspec.structs.replace(rule, revision=revision))
            return msgspec.structs.replace(rule, revision=revision + 1) if kept else None

        return await changed(f"Rule {name!r:.130}", attempt)

    async def notification_rule(self, name: str, *, tenant: str | None = None) -> Rule:
        """Return a notification rule, of the settings or one that was set.

        Args:
            tenant: Tenant of the rule; by default that of a rule of the settings with this name, or else `default`.

        Raises:
            NotFound: The rule does not exist.
        """
        tenant = self._rule_tenant(name, tenant)
        found = self.executor.services.notifications.rule(tenant, name)
        if found is None:
            found = await self.store.notification_rules.find(word("tenant", tenant), word("name of the rule", name))
        if found is None:
            raise no_rule(name, tenant)
        return found

    async def notification_rules(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[Rule]:
        """List notification rules by tenant and name: those of the settings of this process, and those that were set.

        Args:
            after: Tenant and name of the last one before.
        """
        kept = await self.store.notification_rules.page(tenant, after, limit)
        found = {(each.tenant, each.name): each for each in kept}
        for each in self.executor.services.notifications.rules:
            if tenant in (None, each.tenant) and (after is None or (each.tenant, each.name) > after):
                found[each.tenant, each.name] = each
        return [rule for _, rule in sorted(found.items())][:limit]

    async def remove_notification_rule(self, name: str, *, tenant: str | None = None) -> None:
        """Remove a notification rule that was set. Messages that it has made are still sent.

        Args:
            tenant: Tenant of the rule; by default that of a rule of the settings with this name, or else `default`.

        Raises:
            NotFound: The rule does not exist.
            InvalidInput: The rule stands in the settings.
        """
        tenant = self._rule_tenant(name, tenant)
        if not await self.store.notification_rules.remove(word("tenant", tenant), word("name of the rule", name)):
            self._expect_undeclared(name, tenant)
            raise no_rule(name, tenant)

    def _rule_tenant(self, name: str, tenant: str | None) -> str:
        """Return the tenant of a rule, by default that of a rule of the settings."""
        declared = self.executor.services.notifications.rules if tenant is None else ()
        return tenant or next((each.tenant for each in declared if each.name == name), DEFAULT_TENANT)

    def _expect_undeclared(self, name: str, tenant: str) -> None:
        if self.executor.services.notifications.rule(tenant, name) is not None:
            raise InvalidInput(
                f"Rule {name!r:.130} stands in the server's holdfast.toml, as [notifications.{name:.130}]. Nothing was changed:"
                " change it there, and start the server again.",
                field="name",
            )

    async def test_notification_rule(self, name: str, *, tenant: str | None = None) -> Delivery:
        """Have a rule's channel send a message that says that it is a test; return the delivery.

        Args:
            tenant: Tenant of the rule; by default that of a rule of the settings with this name, or else `default`.

        Raises:
            NotFound: The rule does not exist.
            InvalidInput: The rule cannot be used any more.
        """
        rule = await self.notification_rule(name, tenant=tenant)
        known = self.executor.services.notifications
        if not rule.is_declared and (problems := list(known.problems(rule))):
            raise InvalidInput(f"Rule {name!r:.130} cannot be used: {'; '.join(problems)}. Nothing was sent.", misfits=problems)
        now_ms = self.store.clock.now_ms()
        happening = notifications.test_of(rule, salt().hex(), now_ms)
        alone = msgspec.structs.replace(rule, digest_s=0)
        delivery = notifications.delivery_of(alone, happening, now_ms, known.console, known.recipients(rule, ()))
        await self.store.outbox.add([delivery])
        return delivery

    async def deliveries(
        self,
        tenant: str | None = None,
        *,
        run_id: str | None = None,
        channel: str | None = None,
        state: DeliveryState | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = MAX_LISTED,
    ) -> Sequence[Delivery]:
        """List deliveries: messages on their way to channels, the latest first.

        Args:
            channel: Only those of this channel.
            state: Only those in this state: `waiting`, `sent` or `dead`.
            prefix: Only those whose id begins with this.
        """
        criteria: DeliveryFilter = {"tenant": tenant, "run": run_id, "channel": channel, "state": state, "prefix": prefix}
        return await self.store.outbox.listed(**criteria | {"after": after, "limit": limit})

    async def delivery(self, delivery: str) -> Delivery:
        """Return a delivery.

        Args:
            delivery: Id of the delivery, which is that of the message.

        Raises:
            NotFound: The delivery does not exist.
        """
        found = await self.store.outbox.find(delivery)
        if found is None:
            raise no_delivery(delivery)
        return found

    async def replay_delivery(self, delivery: str) -> Delivery:
        """Send a dead delivery again, as the same message under the same id, with all its tries.

        Args:
            delivery: Id of the delivery.

        Raises:
            NotFound: The delivery does not exist.
            InvalidInput: The delivery is not dead, or its channel is disabled.
        """
        found = await self.delivery(delivery)
        for each in await self.channel_figures() if found.state == "dead" else ():
            if (each.channel, each.address) == (found.channel, found.address) and each.disabled_at_ms is not None:
                raise _disabled(found)
        if not await self.store.outbox.replay(delivery):
            raise InvalidInput(f"Delivery {delivery:.60} is {found.state}; only a dead one is sent again. Nothing was done.")
        return await self.delivery(delivery)

    def channels(self) -> Mapping[str, DeclaredChannel]:
        """Return the channels of this process's settings, by name."""
        return self.executor.services.notifications.channels

    async def channel_figures(self) -> Sequence[ChannelFigures]:
        """Return how many messages each channel has sent, failed to send and given up, and how many wait since when."""
        return await self.store.outbox.figures()

    async def enable_channel(self, channel: str, *, address: str = "") -> None:
        """Resume sending to an address of a channel that was disabled because it answered HTTP 410. Messages that were given
        up meanwhile are sent by `replay_delivery`.

        Args:
            channel: Name of the channel.
            address: Address, if it is not the channel's own.

        Raises:
            NotFound: The address is not disabled.
        """
        if not await self.store.outbox.enable(channel, address):
            raise NotFound(f"Channel {channel!r:.130} has no such disabled address. Nothing was changed.")


def no_rule(name: str, tenant: str) -> NotFound:
    return NotFound(
        f"There is no notification rule {name!r:.130} of tenant {tenant!r:.130} in this store; `holdfast notifications list`"
        " shows those that are."
    )


def _disabled(delivery: Delivery) -> InvalidInput:
    address = f" --address {shlex.quote(delivery.address)}" if delivery.address else ""
    return InvalidInput(
        f"Channel {delivery.channel!r:.130} is disabled: its receiver wants no more messages. Enable it first"
        f" (`holdfast notifications enable {delivery.channel}{address}`). Nothing was done."
    )


def no_delivery(delivery: str) -> NotFound:
    return NotFound(f"There is no delivery {delivery!r:.60}; they are forgotten after 30 days. Nothing was done.")
