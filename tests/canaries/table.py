"""The places at which something leaves the house, and what each may hold. Whatever is not named at a place must not be there.

`SINKS` names what in the code makes such a place: a new one without a line here fails the test.

Never here: a search.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.canaries.world import KINDS

_RUN: Final = frozenset([*KINDS][7:19])
"""What a run is about: its users own it."""
_NAMES: Final = frozenset({"label", "reason"})


class Place(NamedTuple):
    """A place, why it may hold what it holds, and what has to be found there so that the search is one."""

    may_hold: frozenset[str]
    why: str
    holds: frozenset[str] = frozenset()


PLACES: Final = {
    "log lines": Place(frozenset({"printed by a job"}), "They name runs and steps. What user code prints or logs is its own."),
    "metrics": Place(frozenset(), "Names of workflows, nodes, models and tenants only."),
    "traces": Place(frozenset(), "Payloads are off by default."),
    "rows for ClickHouse": Place(frozenset(), "Names, times and amounts; payloads are off by default."),
    "requests in histories": Place(
        (_RUN | _NAMES) - {"address", "card"}, "By default without personal data.", frozenset({"prompt"})
    ),
    "notifications": Place(frozenset(), "Names and links; details are off by default."),
    "notifications with details": Place(
        frozenset({"question", "exception", "reason"}), "As a rule asks, without personal data.", frozenset({"exception"})
    ),
    "answers to hooks": Place(frozenset({"wrong request"}), "Who signs learns what was wrong.", frozenset({"wrong request"})),
    "headers of traces": Place(
        frozenset({"secret of a receiver"}), "The receiver asks for it.", frozenset({"secret of a receiver"})
    ),
    "arguments of processes": Place(frozenset(), "Each user of the machine sees them."),
    "environment of scripts": Place(
        frozenset({"printed by a job"}), "A script has what its step names.", frozenset({"printed by a job"})
    ),
    "pages of a run": Place(_RUN | _NAMES, "Whoever may see the run sees what it is about.", _RUN - {"exception"}),
    "pages of lists": Place(_RUN | _NAMES, "The same: rows of gates, dead letters and searches.", _NAMES - {"reason"}),
    "questions": Place(_RUN | _NAMES, "A person is asked about it.", frozenset({"question"})),
    "audit log": Place(frozenset(), "Who did what to which thing: never what a run is about."),
    "headers of replies": Place(frozenset(), "Proxies log them."),
    "pages for anyone": Place(frozenset(), "The console is a program; its data come with a token."),
    "errors for strangers": Place(frozenset(), "They are told nothing, not even what they sent."),
    "errors for the sender": Place(frozenset({"wrong request"}), "An error names what was wrong."),
    "files": Place(_RUN | _NAMES, "The store, without encryption at rest.", frozenset({"prompt", "decision", "label"})),
    "commands about a run": Place(_RUN | _NAMES, "Whoever may read the store.", frozenset({"exception"})),
    "commands about the store": Place(frozenset(), "What people send to those who help them."),
    "redacted exports": Place((_RUN | _NAMES) - {"address", "card"}, "Without personal data.", frozenset({"prompt"})),
    "log lines for people": Place(frozenset(), "As log lines."),
    "output of a crash": Place(frozenset({"exception"}), "A traceback says what was raised.", frozenset({"exception"})),
}

OF_COMMANDS: Final = (
    "commands about a run",
    "commands about the store",
    "redacted exports",
    "log lines for people",
    "output of a crash",
)
COMMANDS_ABOUT_A_RUN: Final = (
    "runs show RUN",
    "runs show RUN --json",
    "runs show RUN --operations",
    "runs events RUN",
    "runs explain RUN",
    "logs RUN",
    "runs list",
    "gates list --order closed",
    "dead-letters list",
)
COMMANDS_ABOUT_THE_STORE: Final = (
    "queue",
    "workflows list",
    "costs",
    "pools list",
    "store info",
    "supervisors",
    "admission",
    "doctor",
    "doctor --json",
    "notifications channels",
    "notifications deliveries --json",
)

OTHER_COMMANDS: Final = frozenset(
    [
        "run",
        "chat",
        "conversations",
        "schedules",
        "approvals",
        "effects",
        "worker",
        "serve",
        "up",
        "shared",
        "budget",
        "team-budgets",
        "dev",
        "validate",
        "graph",
        "eval",
        "evals",
        "replay",
        "scores",
        "keys",
        "sessions",
        "audit",
        "top",
        "exec",
        "mcp",
    ]
)
"""Commands that show what pages of the API show, or what their user has just written."""

SINKS: Final = {
    "analytics.clickhouse.ClickHouse": "rows for ClickHouse",
    "telemetry.sink.TraceSink": "traces",
    "engine.background.notifying.Notifier": "notifications",
    "compose.notifying.Webhooks": "notifications",
    "notify.webhook.WebhookChannel": "notifications",
    "notify.slack.SlackChannel": "notifications",
    "notify.mail.MailChannel": "notifications",
}
"""What takes committed events or messages out of the house, and the place that it is."""
