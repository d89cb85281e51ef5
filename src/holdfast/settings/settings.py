"""The settings: the environment and `holdfast.toml`, read once into one frozen value.

Never here: a table of holdfast.toml (its module has it), a default that only one adapter knows.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.errors import UsageError
from holdfast.settings.access import PortBounds, SignedTokenRules, SignInRules
from holdfast.settings.capacity import DeclaredModel, LaneRules, PoolRules
from holdfast.settings.hooks import HookName, HookRules
from holdfast.settings.notifications import ChannelRules, NotificationRules, PersonRules
from holdfast.settings.runs import (
    BudgetRules,
    FetchRules,
    HoldBackRules,
    RetentionRules,
    ScriptLimits,
    VariableName,
    VariableValue,
)
from holdfast.settings.table import is_private
from holdfast.settings.telemetry import ClickHouseRules, LogRules, TelemetryRules

LEASE_S: Final = 10.0


class Settings(BaseModel):
    """Everything that is set from outside. Environment variables are `HOLDFAST_STORE`, `HOLDFAST_SECRETS_FILE` …"""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    store: str = "sqlite:///holdfast.db"
    """The store of all runs: `sqlite:///PATH`, or `postgresql://USER@HOST/DATABASE` for a fleet. Environment only."""
    queue: str | None = None
    """The fleet's queue: `redis://HOST:PORT/DB`. Without one, processes find their work in the store."""
    blobs: str = "store"
    """Place for payloads over 64 KiB: `store` (its own table), `file:///FOLDER`, or `s3://BUCKET/PREFIX`."""
    secrets_file: Path | None = None
    """File of `NAME=value` lines with secrets. Secrets in the environment need no file."""
    key_file: Path | None = None
    """File of the tenants' keys that encrypt stored payloads: TOML lines `TENANT = "KEY"`. Without it nothing is encrypted."""
    encrypt: Literal["nothing", "payloads"] | None = None
    """Encrypt new stored payloads, or nothing (the default). Older ones are read with the key file. A store with encrypted
    payloads opens only if this is set."""
    workflow_grace_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Seconds that a runnable run may wait while no live process has its workflow; then a person is asked. A deployment must
    start the new processes within this time."""
    retention_days: int | None = Field(default=None, ge=1)
    """Age in days at which `holdfast store archive`, without a month, archives a month of runs."""
    lease_s: float = Field(default=LEASE_S, ge=1, le=300)
    """Seconds without contact to the store before other processes take over the work of a process. It is renewed five times as
    often."""
    resident_flows_mb: int = Field(default=64, ge=0)
    """Memory for waiting flows in each process, in megabytes, about. A flow in memory continues at once; the others are
    replayed. With 0 none is kept."""
    weights: dict[str, Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]] = {}
    """Relative share of a tenant when slots or pools are short; by default 1: `[weights]` in holdfast.toml."""
    retention: RetentionRules | None = None
    """Automatic archiving: `[retention]` in holdfast.toml. Without it no month is archived by itself."""
    budget: BudgetRules | None = None
    """Rule for money in doubt: `[budget]` in holdfast.toml. Without it the money stays in doubt."""
    hold_back: dict[str, HoldBackRules] = {}
    """Results that new versions of workflows need: `[hold_back.WORKFLOW]` in holdfast.toml."""
    clickhouse: ClickHouseRules | None = None
    """ClickHouse server for analytics: `[clickhouse]` in holdfast.toml. Without it no event is exported there."""
    fetch: FetchRules = FetchRules()
    """Hosts from which content parts are read: `[fetch]` in holdfast.toml."""
    identity: SignedTokenRules | None = None
    """Issuer of signed tokens for gRPC and HTTP ports: `[identity]` in holdfast.toml. Without it none are accepted."""
    public_url: str | None = None
    """Address under which browsers reach the HTTP port, as in `https://holdfast.example.com`, if a proxy changes the header
    `Host`, or if people sign in at a provider."""
    sign_in: SignInRules | None = None
    """Identity provider for the console: `[sign_in]` in holdfast.toml. Without it people sign in with a token."""
    bounds: PortBounds = PortBounds()
    """Load that gRPC and HTTP ports take at a time: `[bounds]` in holdfast.toml."""
    channels: dict[str, ChannelRules] = {}
    """Channels for notifications: `[channels.NAME]` in holdfast.toml."""
    notifications: dict[str, NotificationRules] = {}
    """Rules that say who is notified of what: `[notifications.NAME]` in holdfast.toml."""
    people: dict[str, PersonRules] = {}
    """Addresses of reviewers and roles: `[people.NAME]` in holdfast.toml."""
    limits: ScriptLimits = ScriptLimits()
    """Limits of the scripts of workflow files: `[limits]` in holdfast.toml."""
    logs: LogRules = LogRules()
    """Form and level of log lines: `[logs]` in holdfast.toml, or as JSON in the variable."""
    hooks: Annotated[dict[HookName, HookRules], Field(max_length=500)] = {}
    """Signed requests that start runs, send signals or decide: `[hooks.NAME]` in holdfast.toml."""
    lanes: dict[str, LaneRules] = {}
    """The lanes of the fleet besides `default`, in order; a run belongs to the first that names it."""
    models: dict[str, DeclaredModel] = {}
    keep_requests: Literal["hash", "redacted", "full"] | None = None
    """Form in which histories keep requests to models: `redacted` (the default: without e-mail addresses and long numbers),
    `full` (the default of `holdfast dev`), or `hash`. Known secrets are never kept, the hash always. After a crash and in a
    replay, it shows that the request is the same."""
    keep_requests_of: dict[str, Literal["hash", "redacted", "full"]] = {}
    """The same for workflows by name, as in `WORKFLOW = "full"`: `[keep_requests_of]` in holdfast.toml."""
    send_call_ids: bool = True
    """True to send providers the ids of calls: `X-Client-Request-Id` has run, step, place and attempt, and Anthropic's
    `metadata.user_id` the run."""
    exports: Literal["none", "redacted", "whole"] = "redacted"
    """Records of runs that may be written to files: none, only redacted ones, or any."""
    placement: Literal["least_loaded", "best_fit"] = "least_loaded"
    """Worker that gets a step, among those that fit: the least loaded, or the one with the least left afterwards."""
    pools: dict[str, PoolRules] = {}
    """Pools of a new store: `[pools.NAME]` in holdfast.toml. Existing pools keep the store's values."""
    telemetry: TelemetryRules | None = None
    """Receiver of traces: `[telemetry]` in holdfast.toml. Without it none are sent."""
    vars: Annotated[dict[VariableName, VariableValue], Field(max_length=500)] = {}
    """Values of the context `vars` in workflow files: `[vars]` in holdfast.toml. A run keeps those it began with."""

    @model_validator(mode="before")
    @classmethod
    def _of_environment(cls, values: Any) -> Any:
        """Fill in values that were not given from the environment: tables as JSON, anything else as it is."""
        if not isinstance(values, dict):
            return values
        found = dict(values)
        for name in cls.model_fields:
            variable = f"HOLDFAST_{name.upper()}"
            said = os.environ.get(variable)
            if name in found or said is None:
                continue
            try:
                found[name] = json.loads(said) if _is_table(name) else said
            except ValueError:
                raise ValueError(f'{variable} is no JSON; it holds a table, like {{"NAME": …}}') from None
        return found

    @field_validator("public_url")
    @classmethod
    def _is_an_origin(cls, value: str | None) -> str | None:
        """Return the address as browsers name it in `Origin`."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None or not is_private(value):
            raise ValueError("public_url is the address of the port: https://HOST or https://HOST:PORT, without a path")
        return f"{parts.scheme}://{parts.netloc.lower()}"

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.encrypt == "payloads" and self.key_file is None:
            raise ValueError("encrypt takes a key_file (HOLDFAST_KEY_FILE), in which each tenant has its key")
        if self.sign_in is not None and self.public_url is None:
            raise ValueError("[sign_in] needs public_url: the provider sends browsers back to that address")
        for name, rule in self.notifications.items():
            channel = self.channels.get(rule.channel)
            if channel is not None and channel.kind == "mail" and not rule.to and not channel.to:
                raise ValueError(
                    f"[notifications.{name}] has no recipient: set `to` there or in [channels.{rule.channel}], as addresses,"
                    " names in [people] or @asked"
                )
        return self

    def strategy(self, lane: str) -> Literal["least_loaded", "best_fit"]:
        """Return the rule that chooses among the fitting workers for a step of that lane."""
        rules = self.lanes.get(lane)
        return self.placement if rules is None or rules.placement is None else rules.placement


IN_FILE: Final = frozenset(
    {
        "blobs",
        "bounds",
        "budget",
        "channels",
        "clickhouse",
        "encrypt",
        "fetch",
        "hold_back",
        "hooks",
        "identity",
        "keep_requests",
        "keep_requests_of",
        "key_file",
        "lanes",
        "lease_s",
        "limits",
        "logs",
        "models",
        "notifications",
        "people",
        "placement",
        "pools",
        "public_url",
        "queue",
        "resident_flows_mb",
        "retention",
        "retention_days",
        "secrets_file",
        "send_call_ids",
        "sign_in",
        "telemetry",
        "vars",
        "weights",
        "workflow_grace_s",
    }
)
"""The settings that may stand in holdfast.toml; the others are taken from the environment."""


def _is_table(name: str) -> bool:
    """Return True if a setting is a table in holdfast.toml, and JSON in its environment variable."""
    kind = str(Settings.model_fields[name].annotation)
    return "holdfast.settings." in kind or kind.startswith("dict[")


def load(directory: Path | None = None) -> Settings:
    """The settings of a process that runs in `directory`. Raises UsageError for a holdfast.toml that cannot be used."""
    path = (directory or Path.cwd()) / "holdfast.toml"
    given: dict[str, Any] = {}
    if path.is_file():
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
            raise UsageError(f"holdfast.toml cannot be read: {problem}. Nothing was started.") from None
        unknown = set(given) - IN_FILE
        if unknown:
            raise UsageError(
                f"holdfast.toml: nothing here knows {', '.join(sorted(unknown))}. It may hold"
                f" {', '.join(f'[{name}]' if _is_table(name) else name for name in sorted(IN_FILE))}."
            )
    try:
        return Settings(**given)
    except ValidationError as problem:
        found = "; ".join(_in_words(each) for each in problem.errors(include_url=False, include_input=False))
        raise UsageError(f"The settings cannot be used: {found}. Nothing was started.") from None


_NAMES: Final = {
    r"^[A-Za-z_][A-Za-z0-9_]{0,99}$": "a name has 1 to 100 letters, digits and _, and does not begin with a digit",
    r"^[A-Za-z_][A-Za-z0-9_]{0,63}$": "a name has 1 to 64 letters, digits and _, and does not begin with a digit",
    r"^[A-Za-z0-9-]{1,64}$": "the name of a header has 1 to 64 letters, digits and -",
    r"^[A-Z0-9]{1,40}/[A-Z0-9]{1,40}$": "a person in Slack is TEAM/USER by their ids, like T024BE7LD/U061F7AUR",
    r"^[a-z0-9][a-z0-9_-]{0,63}$": "a name has 1 to 64 small letters, digits, _ and -, and begins with a letter or digit",
}
"""The patterns of names, in words."""


_PLAIN: Final = (
    (re.compile("^Field required$"), "it is missing"),
    (re.compile("^Input should be a valid (dictionary|object).*"), "it must be a table"),
    (re.compile("^Input should be a valid (list|tuple|set|frozenset)$"), "it must be a list"),
    (re.compile("^Input should be a valid string$"), "it must be a text"),
    (re.compile("^Input should be a valid boolean.*"), "it must be true or false"),
    (re.compile("^Input should be a valid integer.*"), "it must be a whole number"),
    (re.compile("^Input should be a valid (number|decimal).*"), "it must be a number"),
    (re.compile("^Input should be greater than or equal to "), "it must be at least "),
    (re.compile("^Input should be less than or equal to "), "it must be at most "),
    (re.compile("^Input should (be|have) "), r"it must \1 "),
    (re.compile("^(String|List|Tuple|Set|Dictionary|Value|Data) should (be|have|match) "), r"it must \2 "),
    (re.compile(r"(?<=\d )items? after validation, not \d+"), "entries"),
)
"""Words of Pydantic about any type, in those of a settings file."""


def _in_words(problem: Any) -> str:
    """Return one problem of Pydantic's as a person reads it: the setting, and what is wrong with it."""
    *place, last = [each for each in problem["loc"] if each != "[key]"] or [""]
    at = ".".join(map(str, [*place, last]))
    if problem["type"] == "extra_forbidden":
        where = f" in [{'.'.join(map(str, place))}]" if place else ""
        return f"nothing here knows {last}{where}"
    words = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "string_pattern_mismatch":
        words = _NAMES.get(problem["ctx"]["pattern"], words)
    for pattern, plain in _PLAIN:
        words = pattern.sub(plain, words)
    return f"{at}: {as_part(words)}" if at else as_part(words)


def as_part(message: str) -> str:
    """Return the message of an error without its end, as part of a longer one that says what was not done."""
    for end in (" Nothing was done.", " Nothing was started."):
        message = message.removesuffix(end)
    return message.rstrip(" .")
