"""`Signal`: what a program sends to a run, by its name and the type of its data, declared once for both ends.

Never here: sending one (engine.operations.signalling, control.command), which wait gets it (core.rules.waits).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Generic, overload

from pydantic import PydanticUserError, ValidationError
from typing_extensions import TypeVar

from holdfast.authoring.values.adapter import TypedAdapter, adapter_of, reader
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.hint import label
from holdfast.errors import HoldfastError, InvalidInput, SchemaMismatch, UsageError

T = TypeVar("T", default=Any)

_MAX_REMEMBERED: Final = 256


class Signal(Generic[T]):
    """A signal with the type of its data: `paid = Signal("paid", Payment)`. `ctx.wait_signal(paid)` returns a Payment;
    `engine.signal(run_id, paid, Payment(...))` and `ctx.signal` send one.

    A flow declares it by naming it as a variable of its module. A process with that code always refuses other data for it; any
    other process does while the run waits.

    Args:
        name: Name of the signal.
        type: Type of its data.

    Raises:
        UsageError: The type cannot be stored.
    """

    @overload
    def __init__(self, name: str, type: type[T]) -> None: ...
    @overload
    def __init__(self: Signal[Any], name: str, type: Any) -> None: ...
    def __init__(self, name: str, type: Any) -> None:  # noqa: A002 - the word of the public surface
        """Raises UsageError for a type that cannot be kept."""
        adapter_of(type)
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<signal {self.name!r} of {label(self.type)}>"

    def read(self, plain: Any) -> T:
        """Return the value that plain data stands for.

        Args:
            plain: JSON data.

        Raises:
            SchemaMismatch: The data does not fit.
        """
        found: T = reader(self.type)(plain)
        return found

    def dump(self, value: Any) -> Any:
        """Return a value as plain data.

        Args:
            value: Value of the signal's type, or data that fits it.

        Raises:
            InvalidInput: The value does not fit.
        """
        try:
            plain = adapter_of(self.type).dump(value)
            self.read(plain)
        except (InvalidInput, SchemaMismatch) as problem:
            raise InvalidInput(
                f"Send the signal {self.name!r} with data that fits {label(self.type)}:"
                f" {self._describe_mismatch(value, problem)}. It was not sent."
            ) from None
        return plain

    def _describe_mismatch(self, value: Any, refused: HoldfastError) -> str:
        """Return what does not fit, field by field; what the refusal says where the type itself takes the value."""
        try:
            schema = TypedAdapter(self.type).schema
            if schema is not None:
                schema.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as problem:
            return describe(problem)
        except UsageError:
            pass
        return refused.message.rstrip(".")


def schema_of(hint: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a type; None where it says nothing, or cannot be held against data."""
    try:
        return _schema_of(hint)
    except TypeError:  # a hint that cannot be hashed
        return None


@lru_cache(_MAX_REMEMBERED)
def _schema_of(hint: Any) -> dict[str, Any] | None:
    if hint in (None, Any, object):
        return None
    from holdfast.core.values import schema  # noqa: PLC0415 - the validator takes 30 ms to load

    try:
        adapter = TypedAdapter(hint).schema
        found = None if adapter is None else adapter.json_schema()
    except (UsageError, PydanticUserError):
        return None
    return found if found and schema.flaw(found) is None else None
