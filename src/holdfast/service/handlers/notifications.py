"""Handlers of notifications: rules, deliveries, channels."""

from __future__ import annotations

import msgspec

from holdfast.service import view
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import OF_TENANTS, key_of, keyed_page
from holdfast.service.view import ChannelRow, DeliveryRow, DeliveryWhole, NotificationRuleRow


@handles
async def notification_rules(request: Request, query: ask.NotificationRules) -> Rows[NotificationRuleRow]:
    after = key_of(query.cursor, OF_TENANTS)
    found = await request.control.notification_rules(request.whose, after=after, limit=query.limit + 1)
    rows = [view.of_notification_rule(each) for each in found]
    return keyed_page(rows, [(each.tenant, each.name) for each in found], query.limit)


@handles
async def notification_rule(request: Request, query: ask.NotificationRule) -> NotificationRuleRow:
    return view.of_notification_rule(await request.control.notification_rule(query.name, tenant=request.whose))


@handles
async def set_notification_rule(request: Request, command: cmd.SetNotificationRule) -> None:
    options = msgspec.structs.asdict(command) | {"tenant": request.whose}
    await request.engine.set_notification_rule(**options, by=request.by)


@handles
async def remove_notification_rule(request: Request, command: cmd.RemoveNotificationRule) -> None:
    await request.engine.remove_notification_rule(command.name, tenant=request.whose)


@handles
async def test_notification_rule(request: Request, command: cmd.TestNotificationRule) -> DeliveryRow:
    return view.of_delivery(await request.engine.test_notification_rule(command.name, tenant=request.whose))


@handles
async def deliveries(request: Request, query: ask.Deliveries) -> Rows[DeliveryRow]:
    found = await request.control.deliveries(
        request.whose,
        run_id=query.run,
        channel=query.channel,
        state=query.state,
        prefix=query.prefix,
        after=query.cursor,
        limit=query.limit + 1,
    )
    more = len(found) > query.limit
    return Rows([view.of_delivery(each) for each in found[: query.limit]], found[query.limit - 1].id if more else None)


@handles
async def delivery(request: Request, query: ask.Delivery) -> DeliveryWhole:
    return view.of_whole_delivery(await request.control.delivery(query.delivery))


@handles
async def replay_delivery(request: Request, command: cmd.ReplayDelivery) -> DeliveryRow:
    return view.of_delivery(await request.engine.replay_delivery(command.delivery))


@handles
async def channels(request: Request, query: ask.Channels) -> Rows[ChannelRow]:
    declared = request.engine.channels()
    if request.who.tenant is not None:
        own = [name for name, each in sorted(declared.items()) if each.is_open_to(request.who.tenant)]
        return Rows([view.of_channel(name, declared[name], None) for name in own], None)
    figures = await request.engine.channel_figures()
    new = declared.keys() - {each.channel for each in figures if not each.address}
    rows = [view.of_channel(each.channel, declared.get(each.channel), each) for each in figures]
    rows += [view.of_channel(name, declared[name], None) for name in new]
    return Rows(sorted(rows, key=lambda row: (row["channel"], row["address"])), None)


@handles
async def enable_channel(request: Request, command: cmd.EnableChannel) -> None:
    await request.engine.enable_channel(command.channel, address=command.address)
