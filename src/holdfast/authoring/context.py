"""`Context`: what a handler that takes `ctx` may do, as a type.

The promise alone, light to import, so that a file of handlers can name it. Never here: doing any of it (engine.context).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar, overload

from pydantic import BaseModel

from holdfast.authoring.tool import Tool
from holdfast.authoring.view import Fields
from holdfast.core.ids import Unique

T = TypeVar("T")


class Answer(Protocol):
    """What a person answered to `ctx.ask`."""

    decision: str
    """`answer`, `approve`, `edit` or `reject`."""
    data: Any
    """What fits the form; plain data, objects with their fields as attributes."""
    by: str | None
    reason: str | None


class Context(Protocol):
    """The operations of a step. Each has its place in the step's journal: a handler that runs again, after a wait, a
    failure or a crash, gets the recorded outcome of every operation that it has come through, and carries on at the first
    that has none.

    An operation that has failed raises OperationFailed with the recorded error. Operations run one after the other;
    `gather` is for those that are to run at the same time.
    """

    @property
    def run_id(self) -> str:
        """The run that this step is of."""
        ...

    @property
    def tenant(self) -> str:
        """Whose run it is."""
        ...

    @property
    def failures(self) -> int:
        """How many attempts of this step have failed so far; lost and suspended ones do not count."""
        ...

    @overload
    async def model(
        self,
        model: str,
        user: Any = None,
        *,
        system: str = "",
        max_tokens: int | None = None,
        output: type[BaseModel],
        temperature: float | None = None,
    ) -> Fields:
        """One model call: its reply as an object that fits `output`, with one chance to mend it."""
        ...

    @overload
    async def model(
        self,
        model: str,
        user: Any = None,
        *,
        system: str = "",
        max_tokens: int | None = None,
        output: None = None,
        temperature: float | None = None,
    ) -> str:
        """One model call: its reply as text."""
        ...

    async def tool(
        self,
        name: str | Tool,
        arguments: dict[str, Any] | None = None,
        /,
        *,
        key: str | None = None,
        unique: Unique = "run",
        **named: Any,
    ) -> Any:
        """Call a tool that this node lists, its arguments as an object or by name; what it returned.

        `key` names the effect by what it is, `unique` in the run or in the tenant: two calls that mean the same thing get the
        same outcome, and waits for it while another has it in flight.
        """
        ...

    async def sleep(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Wait, for seconds or months; nothing is held meanwhile."""
        ...

    async def ask(
        self,
        question: Any,
        *,
        form: type[BaseModel] | None = None,
        reviewers: Sequence[str] = (),
        timeout_s: float | None = None,
        remind_every_s: float | None = None,
        cancel_after_s: float | None = None,
        decisions: Sequence[str] = ("answer", "approve", "edit", "reject"),
    ) -> Answer:
        """Ask a person. Nothing is held while nobody answers."""
        ...

    async def wait_signal(self, name: str, *, timeout_s: float | None = None) -> Any:
        """The data of the next signal `name`. Raises OperationFailed (class `timeout`) after `timeout_s` seconds."""
        ...

    async def gather(self, *branches: Awaitable[T]) -> list[T]:
        """Run operations at the same time; their results in order. The first branch that failed, by position, raises."""
        ...

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run operations at a place that has a name instead of a position: what comes before it may differ from attempt to
        attempt."""
        ...

    async def record(self, name: str, result: Any) -> None:
        """Keep a result (JSON data, not null) under a name, for later attempts of this step."""
        ...

    async def recorded(self, name: str) -> Any:
        """What an earlier attempt of this step has recorded under a name; None if none has."""
        ...

    def now(self) -> datetime.datetime:
        """The time, in UTC; a replay sees the same."""
        ...

    def uuid(self) -> uuid.UUID:
        """A UUID that belongs to this place in this step: a replay gets the same."""
        ...

    def secret(self, name: str) -> str:
        """A secret's value, which is replaced wherever it would be stored. Raises MissingSecret."""
        ...

    def redact(self, text: str) -> str:
        """`text` without the value of any known secret, for what leaves by another way than the history."""
        ...
