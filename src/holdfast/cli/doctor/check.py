"""The checks of `holdfast doctor`, a function each: what is wrong with what was read, how bad it is, and the remedy.

Never here: reading it (facts), printing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from holdfast.cli.doctor.facts import Facts
from holdfast.cli.page import moment
from holdfast.cli.page.count import counted
from holdfast.cli.page.moment import span
from holdfast.core.rules.questions import WORKFLOW_MISSING

if TYPE_CHECKING:
    from holdfast.core.views.notifications import DeliveryState
    from holdfast.ports.channel import ChannelFigures

Severity: TypeAlias = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """A thing that is wrong: how bad, in a sentence, and what to do."""

    severity: Severity
    text: str
    remedy: str


Check: TypeAlias = Callable[[Facts], Iterator[Finding]]

_SKEW_MS: Final = 1_000
_WRONG_CLOCK_MS: Final = 30_000
_LATE_MS: Final = 60_000
_FAR_BEHIND_MS: Final = 3_600_000
_UNSENT_MS: Final = 600_000
_MB: Final = 2**20
_GB: Final = 2**30
_LONG_LOG: Final = 256 * _MB
_MUCH_FREE: Final = 256 * _MB
_LITTLE_ROOM: Final = _GB
_NO_ROOM: Final = 100 * _MB
_MANY_DEAD: Final = 10_000
_DEAD_SHARE: Final = 0.2
_MAX_NAMED: Final = 10
"""Workflows of one fault that are named, those with the most runs."""
_MIGRATE: Final = "Run `holdfast store migrate`."


def settings(facts: Facts) -> Iterator[Finding]:
    if facts.settings_problem is not None:
        yield Finding("error", facts.settings_problem, "Correct holdfast.toml or the environment; then run this again.")
    for setting in facts.unused:
        is_hook = setting.startswith("[hooks.")
        yield Finding(
            "warning" if is_hook else "note",
            f"holdfast.toml: {setting} is a workflow that no process has loaded.",
            "Correct the name, or remove it." + (" Until then each delivery is answered with 404." if is_hook else ""),
        )


def secrets(facts: Facts) -> Iterator[Finding]:
    for name, setting in facts.missing_secrets:
        yield Finding(
            "warning", f"The setting {setting} names the secret {name}, which does not exist here.",
            f"Set the environment variable {name}, or add it to the file HOLDFAST_SECRETS_FILE.",
        )  # fmt: skip


def reachable(facts: Facts) -> Iterator[Finding]:
    if facts.unreachable is not None:
        yield Finding(
            "error",
            f"{facts.place} does not answer as it should: {facts.unreachable}",
            "Start it, or correct HOLDFAST_STORE or HOLDFAST_URL. Runs continue by themselves when it is back.",
        )


def migrations(facts: Facts) -> Iterator[Finding]:
    found = facts.condition
    if found is not None and found.pending:
        yield Finding("error", f"The tables lack {counted(len(found.pending), 'migration')}: {found.pending[0]} …", _MIGRATE)
    elif found is not None and found.version > found.known:
        yield Finding(
            "error", f"The tables are of version {found.version}; this Holdfast knows {found.known}.", "Upgrade this Holdfast."
        )


def clock(facts: Facts) -> Iterator[Finding]:
    if facts.condition is None:
        return
    skew_ms = facts.condition.now_ms - facts.now_ms
    if abs(skew_ms) >= _SKEW_MS:
        ahead = "ahead of" if skew_ms > 0 else "behind"
        yield Finding(
            "error" if abs(skew_ms) >= _WRONG_CLOCK_MS else "warning",
            f"The clock of the database is {span(skew_ms)} {ahead} the clock of this machine.",
            "Synchronize both clocks (NTP). Runs use the time of the database only.",
        )


def leases(facts: Facts) -> Iterator[Finding]:
    for lease in facts.condition.leases if facts.condition is not None else ():
        if lease.left_ms < 0:
            yield Finding(
                "warning",
                f"The lease of {lease.label} ended {span(lease.left_ms)} ago, and no process has taken over its work.",
                "If it still runs, it is frozen: look at its machine. Otherwise start a worker, which takes over its work.",
            )


def versions(facts: Facts) -> Iterator[Finding]:
    found = facts.condition
    for lease in found.leases if found is not None else ():
        if found is not None and lease.version is not None and lease.version != found.known:
            age = "an older" if lease.version < found.known else "a newer"
            yield Finding(
                "warning",
                f"{lease.label} is {age} Holdfast (tables {lease.version}; this one knows {found.known}).",
                "Finish the deployment, so that all processes have one version.",
            )


def workers(facts: Facts) -> Iterator[Finding]:
    if not facts.are_workers_known:
        return
    live = [each for each in facts.workers if each["state"] == "live"]
    for each in facts.workers:
        if each["state"] == "lost":
            steps = counted(len(each["steps"]), "step")
            yield Finding(
                "warning",
                f"The process {each['worker']} was lost at {moment.second(each['lost_at'])}, with {steps} under way.",
                "Its steps were started elsewhere. Read its log, and the memory and disk of its machine.",
            )
    if facts.running and not live:
        waiting = counted(len(facts.running), "run")
        yield Finding("error", f"No process executes steps, and {waiting} could continue.", "Start one: holdfast worker.")
    elif live and all(not each["free"] for each in live) and any(each["slots"] for each in live):
        yield Finding("note", "All slots of all processes are in use.", "See what waits: holdfast queue list.")


def runs(facts: Facts) -> Iterator[Finding]:
    missing = Counter(each["workflow"] for each in facts.running if each["workflow_missing_since"] is not None)
    for workflow, count in missing.most_common(_MAX_NAMED):
        yield Finding(
            "error",
            f"No live process has the workflow {workflow}; {counted(count, 'run')} of it could continue.",
            f"Start one: holdfast worker FILE.py:{workflow}",
        )
    asked = Counter(each["workflow"] for each in facts.questions if each["reason"] == WORKFLOW_MISSING)
    for workflow, count in asked.most_common(_MAX_NAMED):
        yield Finding(
            "error",
            f"{counted(count, 'run')} of {workflow} cannot continue: no process has had their workflow for long.",
            f"Start one: holdfast worker FILE.py:{workflow} (or migrate or cancel the runs)",
        )


def pools(facts: Facts) -> Iterator[Finding]:
    for each in facts.pools:
        name, is_slots = each["name"], each["kind"] == "slots"
        if is_slots and each.get("granted", each["in_use"]) > each["limit"]:
            lent = each.get("granted", each["in_use"])
            yield Finding(
                "warning",
                f"The pool {name} has lent {lent} of {each['limit']}: it was made smaller while it was in use.",
                "Nothing: what comes back is not lent again until it fits.",
            )
        waiting = each.get("waiting_steps", 0) + each.get("waiting_calls", 0)
        if waiting:
            yield Finding(
                "warning",
                f"{counted(waiting, 'step or call', 'steps and calls')} wait for the pool {name}, which is used up or closed.",
                f"See holdfast pools show {name}; enlarge it with holdfast pools set {name}.",
            )


def schedules(facts: Facts) -> Iterator[Finding]:
    for each in facts.schedules:
        if each["problem"]:
            yield Finding(
                "error",
                f"The schedule {each['name']} of {each['tenant']} could not start its last run: {each['problem']}",
                f"See holdfast schedules show {each['name']} --tenant {each['tenant']}.",
            )
        elif each["missed"]:
            yield Finding(
                "warning",
                f"The schedule {each['name']} of {each['tenant']} has missed {counted(each['missed'], 'time')}.",
                f"Start the runs: holdfast schedules backfill {each['name']}. Keep a process running that has its workflow.",
            )


def followers(facts: Facts) -> Iterator[Finding]:
    for each in facts.followers:
        if each.name in facts.removed_followers:
            yield Finding(
                "note",
                f"{each.name} is no longer in the settings, and no process feeds it.",
                "Nothing. If it comes back, it continues where it was.",
            )
            continue
        behind_ms = 0 if each.waiting_since_ms is None else facts.now_ms - each.waiting_since_ms
        if each.problem or behind_ms > _LATE_MS:
            why = f": {each.problem}" if each.problem else ""
            yield Finding(
                "error" if behind_ms > _FAR_BEHIND_MS else "warning",
                f"{each.name} is {span(behind_ms)} behind the runs{why}",
                "Correct what it says; it continues where it was. Nothing is lost, and no run waits for it.",
            )
        if each.dropped:
            yield Finding(
                "note",
                f"{each.name} could do nothing with {counted(each.dropped, 'event')}.",
                "Read the log of the process that feeds it.",
            )


def outbox(facts: Facts) -> Iterator[Finding]:
    for each in facts.channels:
        name = " ".join(filter(None, (each.channel, each.address)))
        if each.disabled_at_ms is not None:
            yield Finding("warning", f"The channel {name} wants no more messages.", "Enable it when its address is correct.")
        if each.dead:
            yield Finding(
                "warning",
                f"{counted(each.dead, 'message')} to {name} were given up{_reason(facts, each, 'dead', '')}",
                "Correct the channel; then replay the deliveries.",
            )
        if each.oldest_at_ms is not None and facts.now_ms - each.oldest_at_ms > _UNSENT_MS:
            age, why = span(facts.now_ms - each.oldest_at_ms), _reason(facts, each, "waiting", "none has had an answer yet")
            yield Finding(
                "warning",
                f"{counted(each.waiting, 'message')} to {name} wait, the oldest for {age}{why}",
                "See that a process runs that sends them, and that the address answers.",
            )


def _reason(facts: Facts, channel: ChannelFigures, state: DeliveryState, otherwise: str) -> str:
    why = facts.unsent.get((channel.channel, channel.address, state)) or otherwise
    return f": {why}" if why else ""


def indexes(facts: Facts) -> Iterator[Finding]:
    for name in facts.condition.missing_indexes if facts.condition is not None else ():
        yield Finding(
            "error", f"The index {name} is missing or invalid: lists and sweeps read whole tables.",
            "Create it again as the migrations do (src/holdfast/stores/sql), or restore a backup.",
        )  # fmt: skip


def bloat(facts: Facts) -> Iterator[Finding]:
    for each in facts.condition.tables if facts.condition is not None else ():
        if each.dead_rows > _MANY_DEAD and each.dead_rows > _DEAD_SHARE * (each.live_rows + each.dead_rows):
            yield Finding(
                "warning",
                f"The table {each.table} has {each.dead_rows} dead rows beside {each.live_rows} live ones.",
                f"See why autovacuum does not come (old transactions, its settings), or run VACUUM {each.table}.",
            )
    found = facts.condition
    if found is not None and found.free_bytes > _MUCH_FREE and found.free_bytes > found.size_bytes // 2:
        yield Finding(
            "note",
            f"{found.free_bytes // _MB} of {found.size_bytes // _MB} MB of the file hold nothing.",
            "They are used again. To shrink the file, stop all processes and VACUUM it.",
        )


def log(facts: Facts) -> Iterator[Finding]:
    if facts.condition is not None and facts.condition.log_bytes > _LONG_LOG:
        yield Finding(
            "warning",
            f"The write-ahead log of the file has {facts.condition.log_bytes // _MB} MB: a reader keeps it from being emptied.",
            "Look for a process that reads for long, like a backup; end it, and the log is used from its beginning again.",
        )


def integrity(facts: Facts) -> Iterator[Finding]:
    if facts.condition is not None and facts.condition.fault is not None:
        yield Finding(
            "error",
            f"The file is damaged: {facts.condition.fault[:200]}",
            "Stop all processes, copy the file, and restore the latest backup (docs/howto/backup.md).",
        )


def transactions(facts: Facts) -> Iterator[Finding]:
    for each in facts.condition.transactions if facts.condition is not None else ():
        what = "holds back the tail of events" if each.writes else "keeps dead rows from being removed"
        yield Finding(
            "warning", f"A transaction of {each.process} has been open for {span(each.age_ms)}. It {what}.",
            "End it: select pg_terminate_backend(PID).",
        )  # fmt: skip


def disk(facts: Facts) -> Iterator[Finding]:
    for each in facts.disks:
        if each.free_bytes < _LITTLE_ROOM:
            yield Finding(
                "error" if each.free_bytes < _NO_ROOM else "warning",
                f"The disk of {each.folder} has {each.free_bytes // _MB} MB left of {each.total_bytes // _MB}.",
                "Make room, or archive old months: holdfast store archive. Without room, nothing is committed.",
            )


def audit(facts: Facts) -> Iterator[Finding]:
    if facts.audit_end is None:
        return
    head, last = facts.audit_end
    at_head = (0, None) if head is None else (head["number"], head["hash"])
    at_end = (0, None) if last is None else (last["number"], last["hash"])
    if at_end[0] and at_head != at_end:
        yield Finding(
            "error",
            f"The audit log ends with entry {at_end[0]}, and its head says {at_head[0]}: entries were removed or added.",
            "Verify all of it: holdfast audit verify. Compare it with an export.",
        )


def providers(facts: Facts) -> Iterator[Finding]:
    for each in facts.providers:
        if each.problem:
            yield Finding(
                "error",
                f"{each.provider} cannot be reached at {each.address}: {each.problem}",
                "See the network, the proxy and the address. Calls are tried again meanwhile.",
            )


CHECKS: Final[Mapping[str, Check]] = {
    each.__name__: each
    for each in (
        settings,
        secrets,
        reachable,
        migrations,
        clock,
        leases,
        versions,
        workers,
        runs,
        pools,
        schedules,
        followers,
        outbox,
        indexes,
        bloat,
        log,
        integrity,
        transactions,
        disk,
        audit,
        providers,
    )
}
"""Each check by its name, in the order of their findings."""


def findings(facts: Facts) -> list[tuple[str, Finding]]:
    """Return everything that is wrong, with the name of the check."""
    return [(name, finding) for name, check in CHECKS.items() for finding in check(facts)]
