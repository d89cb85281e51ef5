"""Hooks in holdfast.toml: what a signed request does, and who decides in Slack.

Never here: a request, a signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from holdfast.settings.secrets import NameOfSecret
from holdfast.settings.table import TABLE, Networks

_ACTIONS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "start": (frozenset({"workflow"}), frozenset({"version", "input"})),
    "signal": (frozenset({"signal"}), frozenset({"workflow", "run", "key", "data"})),
    "decide": (frozenset({"people"}), frozenset({"allow_private"})),
}
"""The fields that each action of a hook needs, and those that it may have besides."""
_OF_HOOKS: Final = frozenset({"scheme", "secrets", "header", "tenant", "action", "only_if", "delivery"})


class HookPerson(BaseModel):
    """A person who decides in Slack: `{ name = "ann", roles = ["legal"] }`, or the name alone."""

    model_config = TABLE

    name: str = Field(min_length=1, max_length=200)
    """Name under which the person decides."""
    roles: tuple[str, ...] = ()
    """Roles in which the person decides."""
    teams: tuple[str, ...] = ()
    """Teams of the person."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class HookRules(BaseModel):
    """`[hooks.NAME]` in holdfast.toml: what a signed request to `POST /hooks/NAME` does. Texts of `input`, `data`, `run`, `key`
    and `delivery` may hold expressions over the request: `${{ body.order.id }}`, `${{ headers.X-GitHub-Event }}`."""

    model_config = TABLE

    scheme: Literal["standard", "stripe", "github", "slack", "secret"]
    """Signature: `standard` (Standard Webhooks), `stripe`, `github`, `slack`, or `secret`, a shared secret in a header."""
    secrets: tuple[NameOfSecret, ...] = Field(min_length=1, max_length=4)
    """Names of the secrets, the newest first. A request signed with any of them is accepted: two while you rotate."""
    header: str = Field(default="Authorization", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """With `secret`: the header that carries it. In `Authorization` it follows `Bearer`."""
    tenant: str = Field(default="default", min_length=1, max_length=200)
    """Tenant for which it acts."""
    action: Literal["start", "signal", "decide"] = "start"
    """`start` starts a run, `signal` sends one a signal, `decide` takes decisions that people make with buttons in Slack."""
    only_if: str | None = None
    """Condition over the request, like `body.action == 'opened'`. Others are answered with 200 and do nothing."""
    delivery: str | None = None
    """Id of a delivery, which is acted on once. By default that of the scheme (`webhook-id`, `X-GitHub-Delivery`, Stripe's
    event id), else the hash of the body."""
    workflow: str | None = Field(default=None, min_length=1)
    """Workflow to start, or whose runs may be signalled (a pattern; by default any)."""
    version: int = Field(default=0, ge=0)
    """Version to start; 0 means the highest."""
    input: Any = "${{ body }}"
    """Input of the run; by default the body."""
    run: str | None = None
    """Id of the run to signal."""
    key: str | None = None
    """Start key of the run to signal, instead of its id."""
    signal: str | None = Field(default=None, min_length=1)
    """Name of the signal."""
    data: Any = "${{ body }}"
    """Data of the signal; by default the body."""
    people: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z0-9]{1,40}/[A-Z0-9]{1,40}$")], HookPerson] = {}
    """People who decide in Slack, by the ids of team and user: `"T024BE7LD/U061F7AUR" = "ann"`."""
    allow_private: Networks = False
    """Private networks to which answers for Slack may go, as for an HTTP tool: for a proxy or a test."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given, (needs, may) = self.model_fields_set, _ACTIONS[self.action]
        if missing := sorted(needs - given):
            raise ValueError(f"action {self.action!r} needs {missing[0]}")
        if strange := sorted(given - needs - may - _OF_HOOKS):
            raise ValueError(f"{strange[0]} does not go with action {self.action!r}")
        if self.action == "signal" and (self.run is None) == (self.key is None):
            raise ValueError("a signal needs either run or key: the run to which it goes")
        if self.action == "decide" and self.scheme != "slack":
            raise ValueError("action 'decide' is for scheme 'slack'")
        if "header" in given and self.scheme != "secret":
            raise ValueError(f"header does not go with scheme {self.scheme!r}, which has its own")
        return self


HookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
