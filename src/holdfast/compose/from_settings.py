"""What settings say, as the objects that engines and leaders are made of: queues, limits, secrets, lanes, rules, prices.

Never here: an engine, a default (settings has them).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast import settings as settings_
from holdfast.core.lanes import DEFAULT, Lanes, Rule
from holdfast.engine.doubt import DoubtRule
from holdfast.errors import UsageError
from holdfast.extra import needs
from holdfast.masking import IN_A_URL, without_passwords
from holdfast.models.prices import DeclaredPrice, Prices
from holdfast.models.quota import Limits, Quotas
from holdfast.pools.book import Book
from holdfast.pools.borrower import Borrower
from holdfast.ports import Clock, Ids, PoolAuthority, Queue, Store
from holdfast.queues.none import NoQueue
from holdfast.settings import Secrets, Settings
from holdfast.storage import is_postgres

_REDIS: Final = ("redis://", "rediss://", "unix://", "valkey://")


def open_queue(url: str | None, lane: str = DEFAULT) -> Queue:
    """The queue at `redis://…` for a process of `lane`; it need not be there yet. None where nothing is named. Raises
    UsageError."""
    if url is None:
        return NoQueue()
    if not url.startswith(_REDIS):
        raise UsageError(f"{without_passwords(url)!r} is no queue that this Holdfast knows; use redis://HOST:PORT/DB.")
    with needs("fleet", "A queue on Redis"):
        from holdfast.queues.redis import RedisQueue
    try:
        return RedisQueue(url, lane=lane)
    except ValueError:
        raise UsageError(
            f"The queue's URL {without_passwords(url)!r} cannot be read. {IN_A_URL} Nothing was opened."
        ) from None


def quotas_of(
    settings: Settings, store: str | Path | Store, served_by: Mapping[str, str], clock: Clock, ids: Ids
) -> Quotas:
    """What is known of providers' limits, and where they are counted; nothing is opened where there are none."""
    limits = {name: Limits(**each.model_dump()) for name, each in settings.pool_limits.items()}
    pools = None
    if limits:
        pools = Borrower(_authority(settings.pools, store, clock), clock, ids.session())
    return Quotas(limits, pools, clock, served_by)


def secrets_of(known: Settings, store: str | Path | Store) -> Secrets:
    """What is never stored or logged: the passwords of all that this process connects to are among it."""
    secrets = Secrets(known.secrets_file)
    secrets.know_passwords(store if isinstance(store, str) else None, known.queue, known.blobs, known.pools)
    return secrets


def lanes_of(settings: Settings, lane: str) -> Lanes:
    """The lanes of the fleet. Raises UsageError where `lane` is none of them."""
    lanes = Lanes({
        name: Rule(frozenset(each.workflows), frozenset(each.tenants), frozenset(each.services))
        for name, each in settings.lanes.items()
    })  # fmt: skip
    if lane not in lanes.names:
        raise UsageError(
            f"There is no lane {lane!r}: holdfast.toml has {', '.join(sorted(lanes.names))}. Say what belongs to it in"
            f" [lanes.{lane}], for every process of the fleet. Nothing was started."
        )
    return lanes


def doubt_rule_of(settings: Settings) -> DoubtRule | None:
    rules = settings.budget
    return None if rules is None else DoubtRule(rules.doubt_after_h, rules.settle == "unspent", rules.set_by)


def _authority(where: str, store: str | Path | Store, clock: Clock) -> PoolAuthority:
    """The authority over provider pools that HOLDFAST_POOLS names."""
    if where == "process":
        return Book(clock)
    url = str(store) if where == "store" else where
    with needs("fleet", "Counting provider pools for several processes"):
        if is_postgres(url):
            from holdfast.pools.postgres import PostgresAuthority
            from holdfast.stores.postgres.address import Address

            address = Address.of(url)
            return PostgresAuthority(*address.dsns, schema=address.schema)
        if where != "store":
            from holdfast.pools.redis import RedisAuthority

            return RedisAuthority.connect(where)
    raise UsageError(
        "HOLDFAST_POOLS=store: this store cannot count provider pools, PostgreSQL can. Use redis://… for pools that"
        " several processes share, or process for those of one process."
    )


def prices_of(settings: Settings) -> Prices:
    """What calls of models cost, as far as it is known here."""
    return declared_prices(settings.models)


def declared_prices(declared: Mapping[str, settings_.DeclaredModel]) -> Prices:
    return Prices({name: _price(each) for name, each in declared.items()})


def _price(model: settings_.DeclaredModel) -> DeclaredPrice:
    return DeclaredPrice(
        input_usd_per_mtok=model.input_usd_per_mtok,
        output_usd_per_mtok=model.output_usd_per_mtok,
        cache_read_usd_per_mtok=model.cache_read_usd_per_mtok,
        cache_write_usd_per_mtok=model.cache_write_usd_per_mtok,
        context_window_tokens=model.context_tokens,
    )
