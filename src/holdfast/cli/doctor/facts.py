"""The facts that `holdfast doctor` reads: of the store, of the fleet, of this machine. Each read has a bound.

Never here: what is wrong with it (check).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from holdfast import settings as settings_
from holdfast.analytics import OF_ARCHIVES
from holdfast.cli.connect import administering, backend, mask_passwords, opened, server
from holdfast.cli.page.moment import now_ms
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import HoldfastError, UsageError
from holdfast.platform.quiet_requests import quiet_requests
from holdfast.service.declarations import query
from holdfast.service.declarations.query import MOST, View

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend
    from holdfast.core.views.notifications import DeliveryState
    from holdfast.ports import FollowerRow, StoreCondition
    from holdfast.ports.channel import ChannelFigures
    from holdfast.settings import Settings

PROVIDER_S: Final = 3.0
"""Seconds for a provider to answer."""
_MAX_POOLS: Final = 50
"""Pools whose waiting calls are counted."""
_MAX_ADDRESSES: Final = 100
"""Addresses of channels of which it is looked up why they got nothing."""
_OF_PROVIDERS: Final = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com"),
}
"""The variable with a provider's address, and its usual address."""

_OF_FOLLOWERS: Final = {
    "clickhouse": "clickhouse",
    OF_ARCHIVES: "clickhouse",
    "traces": "telemetry",
    "notifications": "channels",
}
"""The setting without which there is no such follower."""


class Disk(NamedTuple):
    """The disk of a folder."""

    folder: str
    free_bytes: int
    total_bytes: int


class Reached(NamedTuple):
    """The answer of a provider's address; `problem` is empty if it answered at all."""

    provider: str
    address: str
    problem: str


class Facts(msgspec.Struct):
    """Everything that was read. A part that could not be read, or that this side does not show, is None or empty."""

    now_ms: int
    """Time of this machine, when the store was asked."""
    place: str = ""
    """Address of the store or of the server."""
    unreachable: str | None = None
    settings_problem: str | None = None
    missing_secrets: tuple[tuple[str, str], ...] = ()
    """Secrets that do not exist, each with the setting that names it."""
    unused: tuple[str, ...] = ()
    """Settings that name a workflow that no process has loaded."""
    condition: StoreCondition | None = None
    disks: tuple[Disk, ...] = ()
    workers: list[View] = []
    are_workers_known: bool = False
    """False for a caller of one tenant, who gets only totals."""
    pools: list[View] = []
    schedules: list[View] = []
    running: list[View] = []
    questions: list[View] = []
    audit_end: tuple[View | None, View | None] | None = None
    """The head of the audit log and its last entry."""
    followers: tuple[FollowerRow, ...] = ()
    removed_followers: frozenset[str] = frozenset()
    """Sinks that no setting names here and no process feeds. A process that feeds one has other settings."""
    channels: tuple[ChannelFigures, ...] = ()
    unsent: dict[tuple[str, str, DeliveryState], str | None] = {}
    """Why the latest waiting and dead messages to an address could not be sent."""
    providers: tuple[Reached, ...] = ()


async def gather(store: str | None, *, providers: bool, thorough: bool) -> Facts:
    """Read everything. What cannot be reached is a fact too."""
    facts = Facts(now_ms())
    if providers:
        facts.providers = await _providers(os.environ)
    try:
        configured = settings_.load()
    except UsageError as problem:
        facts.settings_problem = problem.message
        return facts
    facts.missing_secrets = _missing_secrets(configured)
    address = server(store)
    facts.place = address or mask_passwords(store or configured.store)
    try:
        if address is None:
            await _of_store(facts, store, configured, thorough)
        if address is not None or (facts.condition is not None and not facts.condition.pending):
            async with backend(store, resolve_actor(None)) as service:
                await _of_fleet(facts, service, configured)
    except HoldfastError as problem:
        facts.unreachable = problem.message
    return facts


async def _of_store(facts: Facts, store: str | None, configured: Settings, thorough: bool) -> None:
    async with administering(store) as administration:
        facts.now_ms = now_ms()
        facts.condition = await administration.condition(thorough=thorough)
    folders = [facts.condition.folder, urlsplit(configured.blobs).path if configured.blobs.startswith("file:") else None]
    facts.disks = tuple(disk for each in folders if each is not None and (disk := _disk(each)) is not None)
    if not facts.condition.pending and facts.condition.version:
        async with opened(store) as found:
            facts.followers = tuple(await found.followers.listed())
            facts.removed_followers = _removed(facts.followers, configured, facts.condition.now_ms)
            facts.channels = tuple(await found.outbox.figures())
            for each in facts.channels[:_MAX_ADDRESSES]:
                counts: dict[DeliveryState, int] = {"waiting": each.waiting, "dead": each.dead}
                for state, count in counts.items():
                    if count:
                        problem = await found.outbox.last_problem(each.channel, each.address, state)
                        facts.unsent[each.channel, each.address, state] = problem


def _removed(followers: Sequence[FollowerRow], configured: Settings, now_ms: int) -> frozenset[str]:
    fed = {each.name for each in followers if each.holder and each.until_ms > now_ms}
    return frozenset(
        each.name
        for each in followers
        if each.name in _OF_FOLLOWERS and each.name not in fed and not getattr(configured, _OF_FOLLOWERS[each.name])
    )


def _disk(folder: str) -> Disk | None:
    """Return the room on the disk of a folder; None where there is no such folder."""
    try:
        total, _, free = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(folder, free, total)


async def _of_fleet(facts: Facts, service: Backend, configured: Settings) -> None:
    facts.workers = await service.rows(query.Workers())
    facts.are_workers_known = all("state" in each for each in facts.workers)
    facts.pools = await service.rows(query.Pools())
    for place, each in enumerate(facts.pools[:_MAX_POOLS]):
        facts.pools[place] = await service.row(query.Pool(each["name"]))
    facts.schedules = await service.rows(query.Schedules(), MOST)
    facts.running = await service.rows(query.Runs(status=("running",)), MOST)
    facts.questions = await service.rows(query.Gates(), MOST)
    facts.unused = _unused(configured, {each["workflow"] for each in await service.rows(query.Workflows(), MOST)})
    heads = await service.rows(query.AuditHead())
    entries = await service.rows(query.Audit(order="newest"), 1)
    facts.audit_end = next(iter(heads), None), next(iter(entries), None)


def _missing_secrets(configured: Settings) -> tuple[tuple[str, str], ...]:
    """Return the secrets that settings name and that do not exist, each with the setting."""
    secrets = settings_.Secrets(configured.secrets_file)
    found = _named_secrets(configured.model_dump(exclude_unset=True), "")
    return tuple((name, setting) for setting, name in found if not secrets.has(name))


def _named_secrets(value: Any, path: str) -> list[tuple[str, str]]:
    """Return the settings that name a secret, below a table of them, with the names."""
    if isinstance(value, settings_.SecretName):
        return [(path, value)]
    if isinstance(value, Mapping):
        inner = [(f"{path}.{name}" if path else str(name), each) for name, each in value.items()]
    else:
        inner = [(path, each) for each in value] if isinstance(value, list | tuple) else []
    return [found for place, each in inner for found in _named_secrets(each, place)]


def _unused(configured: Settings, workflows: set[str]) -> tuple[str, ...]:
    named = [(f"[keep_requests_of] {each}", each) for each in configured.keep_requests_of]
    named += [(f"[hold_back.{each}] {each}", each) for each in configured.hold_back]
    named += [(f"[lanes.{lane}] {each}", each) for lane, rules in configured.lanes.items() for each in rules.workflows]
    named += [(f"[hooks.{name}] {each.workflow}", each.workflow) for name, each in configured.hooks.items() if each.workflow]
    return tuple(setting for setting, workflow in named if workflow not in workflows)


# --- Providers --------------------------------------------------------------------------------------------------------


async def _providers(environment: Mapping[str, str]) -> tuple[Reached, ...]:
    """Ask each provider's address for anything, without a key."""
    asked = [
        (name, environment.get(variable) or usual)
        for name, (variable, usual) in _OF_PROVIDERS.items()
        if environment.get(variable) or environment.get(f"{name.upper()}_API_KEY")
    ]
    return tuple(await asyncio.gather(*(_reached(name, address) for name, address in asked)))


async def _reached(provider: str, address: str) -> Reached:
    import httpx2

    try:
        async with asyncio.timeout(PROVIDER_S), httpx2.AsyncClient(timeout=PROVIDER_S) as client:
            with quiet_requests():
                await client.get(address)
    except TimeoutError:
        return Reached(provider, mask_passwords(address), f"no answer within {PROVIDER_S:.0f} s")
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        return Reached(provider, mask_passwords(address), str(problem) or type(problem).__name__)
    return Reached(provider, mask_passwords(address), "")
