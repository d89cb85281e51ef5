"""Rows by which a process sees, when it opens a store, that its keys and what it encrypts are those of the store.

A row is a known text, sealed with a key that has been the first of the tenant `default`: keys may change, and processes with
the old and the new file go on side by side. A row without a text stands for keys that are lost, and says what they encrypted.
Never here: a statement, a key.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.views.sealing import Sealing
from holdfast.errors import Conflict, KeyMissing, StoreUnreadable
from holdfast.ports import OF_NONE, StoreStatus

log = logging.getLogger("holdfast")

_MAX_NAMED = 5


class Canary(NamedTuple):
    """A known text as one key seals it, and whether all payloads of the store are encrypted."""

    sealed: str
    encrypts: bool


def lacking(sealing: Sealing, rows: Sequence[Canary], place: str) -> Canary | None:
    """Return the row that a store lacks of this process. Raises KeyMissing, StoreUnreadable for a process that does not
    fit."""
    encrypts = any(each.encrypts for each in rows)
    own = sealing.canary(OF_NONE)
    if own is None:
        if encrypts:
            raise KeyMissing(
                f"What users store in {place} is encrypted, and no key file is set here: what this process stores would stand"
                " there in the clear. Nothing was done: set key_file and encrypt as the other processes have them"
                " (HOLDFAST_KEY_FILE, HOLDFAST_ENCRYPT=payloads)."
            )
        return None
    known = sealed_of(rows)
    if known and not any(map(sealing.opens, known)):
        raise KeyMissing(
            f"The keys that are set here are not those of {place}: the tenant 'default' has others. This process could not"
            " read the stored data, and other processes could not read its data. Nothing was done: use the key file of the"
            " other processes, in which an old key stays behind the new one. If that file is lost: `holdfast store"
            " forget-keys`."
        )
    if encrypts and sealing.is_undecided:
        raise StoreUnreadable(
            f"What users store in {place} is encrypted, and this process has the keys, but does not say that it encrypts."
            ' Nothing was done: say encrypt = "payloads" as the other processes do (HOLDFAST_ENCRYPT), or "nothing" to store'
            " in the clear from now on."
        )
    wanted = Canary(own, encrypts or sealing.is_on)
    return None if wanted in rows else wanted


def sealed_of(rows: Sequence[Canary]) -> list[str]:
    """Return the texts that keys have sealed which are known of a store."""
    return [each.sealed for each in rows if each.sealed]


def without_keys(rows: Sequence[Canary]) -> Canary:
    """Return the row that stays when the keys of a store are forgotten: what is encrypted stays to be."""
    return Canary("", any(each.encrypts for each in rows))


def expect_at_rest(standing: StoreStatus) -> None:
    """Raise Conflict while a process goes on with the keys that are to be forgotten."""
    if standing.sessions:
        names = ", ".join(each.label for each in standing.sessions[:_MAX_NAMED])
        raise Conflict(
            f"{len(standing.sessions)} processes have a lease on this store, {names} among them: they go on with their keys,"
            " and others could not read what they store. Nothing was forgotten: stop them first, and save their key file if"
            " they have one."
        )


def tell(before: Sequence[Canary], added: Canary, place: str, *, has_runs: bool) -> None:
    """Say in the log that a store is encrypted from now on, and what of it is not."""
    if not added.encrypts or any(each.encrypts for each in before):
        return
    stays = (
        " What was stored before stays readable without a key: in its tables, in archives, in large payloads and in backups."
        if has_runs
        else ""
    )
    log.warning(
        "What users store in %s is encrypted from now on.%s Processes that have it open without these settings go on"
        " storing in the clear: start them again with key_file and encrypt.",
        place,
        stays,
    )
