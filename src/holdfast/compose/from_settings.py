"""The settings as the objects that engines and leaders are made of: queues, limits, secrets, lanes, rules, prices.

Never here: an engine, a default (settings has them).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from holdfast import settings as settings_
from holdfast.core.capacity.lanes import DEFAULT, Lanes, Rule
from holdfast.core.capacity.lending import PERIODS_S, DeclaredPool, RateUnit, declared_pool
from holdfast.core.nouns.evaluations import HoldBack
from holdfast.core.views.sealing import Sealing
from holdfast.engine.background.doubt import DoubtRule
from holdfast.engine.runs.payloads import Payloads
from holdfast.errors import UsageError
from holdfast.models.prices import DeclaredPrice, Prices
from holdfast.platform.extra import needs
from holdfast.platform.masking import IN_A_URL, without_passwords
from holdfast.ports import Blobs, Lending, Queue, Store
from holdfast.queues.none import NoQueue
from holdfast.service.access.identity import Identity, read_token, read_tokens
from holdfast.settings import PoolRules, Secrets, Settings
from holdfast.stores.blobs.moved import FallbackBlobs

if TYPE_CHECKING:
    from holdfast.service.access.provider import Provider

log = logging.getLogger("holdfast")

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
        raise UsageError(f"The queue's URL {without_passwords(url)!r} cannot be read. {IN_A_URL} Nothing was opened.") from None


def identity_of(
    settings: Settings, token_file: Path | None, tokens: Path | None, *, keys: bool = False, is_development: bool = False
) -> Identity:
    """Return the identities that the ports of a process know. Raises UsageError."""
    if token_file is not None and (tokens is not None or keys):
        raise UsageError(
            "--token-file is one token for all, --tokens and --keys distinguish callers: give one or the others. Nothing was"
            " started."
        )
    issuer = None
    if settings.identity is not None and token_file is None:
        with needs("fleet", "A port that takes signed tokens"):
            from holdfast.service.access.signed_token import SignedTokens
        issuer = SignedTokens(settings.identity)
    has_provider = settings.sign_in is not None and token_file is None
    return Identity(
        read_token(token_file),
        read_tokens(tokens),
        issuer,
        takes_keys=keys,
        has_provider=has_provider,
        is_development=is_development,
    )


def provider_of(settings: Settings) -> Provider | None:
    """Return the identity provider at which people sign in. Raises UsageError."""
    rules = settings.sign_in
    if rules is None or settings.public_url is None:
        return None
    with needs("fleet", "Signing in at an identity provider"):
        from holdfast.service.access.provider import Provider
    secrets = Secrets(settings.secrets_file)
    return Provider(rules, settings.public_url, secrets.get(rules.secret) if secrets.has(rules.secret) else None)


def pools_of(settings: Settings) -> list[DeclaredPool]:
    """The pools of holdfast.toml, as a store that does not know them gets them. Raises UsageError."""
    found = [pool for name, rules in settings.pools.items() for pool in _pools_of(name, rules)]
    for pool in found:
        if problems := list(pool.problems()):
            raise UsageError(f"holdfast.toml: [pools] has {pool.name!r}: {'; '.join(problems)}. Nothing was started.")
    return found


def _pools_of(name: str, rules: PoolRules) -> Iterator[DeclaredPool]:
    if rules.slots is not None or rules.rate is not None:
        yield declared_pool(
            name,
            slots=rules.slots,
            rate=rules.rate,
            per_s=None if rules.per is None else PERIODS_S[rules.per],
            burst=rules.burst,
            counts=rules.counts,
            of=rules.of,
        )
    of, at, tenant = name.partition("@")
    for counts, limit in rules.limits.items():
        burst = max(1, int(limit * rules.burst_s / 60))
        yield DeclaredPool(f"{of}/{counts}{at}{tenant}", "rate", limit, 60, burst, cast("RateUnit", counts), of)
    if rules.concurrent is not None:
        yield DeclaredPool(f"{of}/concurrent{at}{tenant}", "slots", rules.concurrent, counts="requests", of=of)


async def seed_pools(store: Lending, pools: Sequence[DeclaredPool]) -> None:
    """Declare the pools that the store does not know. Known pools stay as the store has them, and a difference is reported."""
    known = {pool.name: pool for pool in await store.pools()} if pools else {}
    for pool in pools:
        if pool.name not in known:
            await store.add_pool(pool)  # or, in this moment, a person has
        elif known[pool.name] != pool:
            log.warning(
                "holdfast.toml and the store differ about the pool %s. The store's values apply;"
                " `holdfast pools set` changes them, `holdfast pools remove` makes holdfast.toml apply again.",
                pool.name,
            )


def secrets_of(settings: Settings, store: str | Path | Store) -> Secrets:
    """Return the secrets, which are never stored or logged. They include the passwords of everything that this process connects
    to."""
    secrets = Secrets(settings.secrets_file)
    secrets.know_passwords(store if isinstance(store, str) else None, settings.queue, settings.blobs)
    return secrets


def payloads_of(table: Blobs, elsewhere: Blobs | None, secrets: Secrets, sealing: Sealing) -> Payloads:
    """Users' values: large ones are `elsewhere`, if not in the store's own `table`."""
    return Payloads(FallbackBlobs(elsewhere, table) if elsewhere is not None else table, secrets, table, sealing)


def lanes_of(settings: Settings, lane: str) -> Lanes:
    """The lanes of the fleet. Raises UsageError where `lane` is none of them."""
    lanes = Lanes(
        {
            name: Rule(frozenset(each.workflows), frozenset(each.tenants), frozenset(each.services))
            for name, each in settings.lanes.items()
        }
    )
    if lane not in lanes.names:
        raise UsageError(
            f"There is no lane {lane!r}: holdfast.toml has {', '.join(sorted(lanes.names))}. Say what belongs to it in"
            f" [lanes.{lane}], for every process of the fleet. Nothing was started."
        )
    return lanes


def doubt_rule_of(settings: Settings) -> DoubtRule | None:
    rules = settings.budget
    return None if rules is None else DoubtRule(rules.doubt_after_h, rules.settle == "unspent", rules.set_by)


def hold_back_of(settings: Settings) -> dict[str, HoldBack]:
    """Return the rules for new versions, by workflow."""
    return {
        name: HoldBack(each.suite, each.min_scenarios, each.max_drop, each.reviewers)
        for name, each in settings.hold_back.items()
    }


def prices_of(settings: Settings) -> Prices:
    """Return the prices of model calls, as far as they are known here."""
    return declared_prices(settings.models)


def declared_prices(models: Mapping[str, settings_.DeclaredModel]) -> Prices:
    return Prices({name: _price(each) for name, each in models.items()})


def _price(model: settings_.DeclaredModel) -> DeclaredPrice:
    return DeclaredPrice(
        input_usd_per_mtok=model.input_usd_per_mtok,
        output_usd_per_mtok=model.output_usd_per_mtok,
        cache_read_usd_per_mtok=model.cache_read_usd_per_mtok,
        cache_write_usd_per_mtok=model.cache_write_usd_per_mtok,
        context_window_tokens=model.context_tokens,
    )
