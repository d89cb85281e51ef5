"""A type's way to JSON and back, made once of a hint: what dumps a value, loads it again and checks what was given.

One that is made of plain JSON data keeps values as they are. All others go through one Pydantic `TypeAdapter`. Never here:
which hint a function has (signature), which plain values JSON can hold (plain).
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, get_args, get_origin, is_typeddict

import msgspec
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import PydanticSerializationError, core_schema

from holdfast.authoring.values.ambiguity import ambiguous
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.hint import ByMsgspec, is_known_to_msgspec, is_plain, label, rewritten
from holdfast.authoring.values.round_trip import Findings, changed, difference, guessed_bytes
from holdfast.authoring.values.view import fields
from holdfast.core.values.payload import SENSITIVE
from holdfast.errors import InvalidInput, SchemaMismatch, UsageError

_BYTES: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_MAX_REMEMBERED: Final = 1024
"""Hints; to make an adapter takes longer than to use it a hundred times."""
_GENERATORS: Final = (
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
)


class Adapter:
    """The adapter of a type that is plain JSON data, or of which nothing is known: values stay as they are, objects come back
    as Fields."""

    is_plain = True
    """True if `dump` returns what it is given."""
    schema: TypeAdapter[Any] | None = None

    @property
    def is_sensitive(self) -> bool:
        """True if a field of it is: its values are shown in no error."""
        return False

    def dump(self, value: Any) -> Any:
        """Return `value` as data that JSON has. Raises InvalidInput for what would not come back as it is."""
        return value

    def load(self, plain: Any) -> Any:
        """Return the value that JSON data stands for. Raises SchemaMismatch where it does not fit."""
        return fields(plain)

    def read(self, plain: Any) -> Any:
        """Return the same of data that is new: nothing recorded it before hints counted. Raises SchemaMismatch."""
        return self.load(plain)

    def sealed(self, plain: Any) -> Any:
        """Return JSON data that a person gives in the place of a value of the type as code would have written that: its
        sensitive fields sealed. Raises SchemaMismatch for what does not fit, InvalidInput for what cannot be written."""
        return plain

    def load_if_fits(self, plain: Any) -> Any:
        """Return the same, or the data itself where other code has made it."""
        try:
            return self.load(plain)
        except SchemaMismatch:
            return fields(plain)

    def written(self, value: Any) -> Any:
        """Return a value that is of the type as data, without a look at whether it comes back."""
        return value


PLAIN: Final = Adapter()


class TypedAdapter(Adapter):
    """The adapter of everything else."""

    is_plain = False

    @property
    def is_sensitive(self) -> bool:
        """See Adapter."""
        assert self.schema is not None
        try:
            return SENSITIVE in str(self.schema.json_schema())
        except PydanticInvalidForJsonSchema:
            return False

    def sealed(self, plain: Any) -> Any:
        """See Adapter."""
        return self.dump(self.read(plain))

    def __init__(self, hint: Any) -> None:
        """Raises UsageError for what cannot be kept, with the remedy."""
        self.label = label(hint)
        self.schema = _adapter(hint)
        self._load = self.schema.validate_python
        self._dump = self.schema.dump_python
        found = Findings(self.schema.core_schema)
        refusal = found.refusal or ambiguous(hint, _adapter)
        if refusal is not None:
            raise UsageError(f"{refusal[0].upper()}{refusal[1:]}.")
        self._found = found if found.has_decimals or (found.classes and not found.is_proved) else None
        self._is_proved = found.is_proved
        self._round_trip = found.round_trip
        self._lossy = found.lossy
        self._was_plain = not _declares(hint)
        self._takes_none = self._reads(None)

    def dump(self, value: Any) -> Any:
        try:
            return self._dumped(value)
        except InvalidInput:
            raise
        except Exception as problem:  # noqa: BLE001 - a user's own serializer, validator or comparison
            raise InvalidInput(
                f"the code that writes or reads {self.label} raised {type(problem).__name__}. Correct that code"
            ) from None

    def _dumped(self, value: Any) -> Any:
        if value is None and not self._takes_none:
            return self._coerced(value)  # which Pydantic writes without a word
        try:
            plain = self._dump(value, mode="json", round_trip=self._round_trip, warnings="error")
        except UnicodeDecodeError:
            raise InvalidInput(self._bytes_refusal()) from None
        except (PydanticSerializationError, ValueError, TypeError, AttributeError, RecursionError) as problem:
            if "utf8" in str(problem) or "utf-8" in str(problem):
                raise InvalidInput(self._bytes_refusal()) from None
            return self._coerced(value)
        if self._found is not None and (remedy := changed(value, self._found)) is not None:
            raise InvalidInput(remedy)
        if self._is_proved:
            self._prove(value, plain)
        return plain

    def written(self, value: Any) -> Any:
        return self._dump(value, mode="json", round_trip=self._round_trip)

    def load(self, plain: Any) -> Any:
        try:
            return self._load(plain, by_alias=True, by_name=True)
        except Exception:  # noqa: BLE001 - a user's own validator
            try:
                return self.read(plain)
            except SchemaMismatch:
                if self._was_plain:
                    return fields(plain)  # recorded before such hints counted
                raise

    def read(self, plain: Any) -> Any:
        try:
            return self._load(plain, by_alias=True, by_name=True)
        except ValidationError as problem:
            return self._loaded_strictly(plain, problem)
        except Exception as problem:  # noqa: BLE001 - a user's own validator
            raise SchemaMismatch(f"The code that reads {self.label} raised {type(problem).__name__}.") from None

    def _reads(self, plain: Any) -> bool:
        try:
            self._load(plain, by_alias=True, by_name=True)
        except ValidationError:
            return False
        return True

    def _coerced(self, value: Any) -> Any:
        """Return the dump of something that is not of the type itself, but fits it: a dict where a model is wanted."""
        try:
            made = self._load(value, by_alias=True, by_name=True)
        except ValidationError as problem:
            raise InvalidInput(
                f"its type {type(value).__name__} does not fit {self.label}: {describe(problem)}. Return a value that fits, or"
                " change the type hint"
            ) from None
        if guessed_bytes(value, made):
            raise InvalidInput(f"{self.label} has bytes where this value has text. Use bytes, such as text.encode()")
        try:
            assert self.schema is not None
            plain = self.schema.dump_python(made, mode="json", round_trip=self._round_trip, warnings=False)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as problem:
            raise InvalidInput(f"{self.label} cannot hold this value: {problem}") from None
        self._prove(made, plain)
        return plain

    def _prove(self, value: Any, plain: Any) -> None:
        """Raise InvalidInput where `plain` does not come back as `value`."""
        try:
            again = self._load(plain, by_alias=True, by_name=True)
        except ValidationError as problem:
            try:
                again = self._loaded_strictly(plain, problem)
            except SchemaMismatch:
                raise InvalidInput(
                    f"{self.label} cannot read what it writes: {describe(problem)}. Give {self.label} a serializer that its"
                    " validators can read"
                ) from None
        where = difference(value, again)
        if where is not None:
            name = where.rpartition(".")[2].partition("[")[0]
            if (known := self._lossy.get(name)) is not None:
                raise InvalidInput(known)
            place = f"its field {where.lstrip('.')!r}" if where else "it"
            raise InvalidInput(
                f"{place} would be changed when {self.label} reads it back. Name one type in the type hint, or give it a"
                " serializer that its validators can read"
            )

    def _loaded_strictly(self, plain: Any, problem: ValidationError) -> Any:
        """Return what JSON itself stands for, which a strict model takes where it does not take the same data from Python."""
        assert self.schema is not None
        try:
            return self.schema.validate_json(msgspec.json.encode(plain), by_alias=True, by_name=True)
        except ValidationError:
            raise SchemaMismatch(f"The recorded value does not fit {self.label}: {describe(problem)}.") from None

    def _bytes_refusal(self) -> str:
        return (
            f"{self.label} stores bytes as text, and these bytes are not UTF-8. Set model_config ="
            " ConfigDict(ser_json_bytes='base64', val_json_bytes='base64') in the model that has the bytes"
        )


class _LateAdapter(Adapter):
    """The adapter of a hint that names what is not there yet: made when it is first used."""

    is_plain = False

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self._make = make

    @functools.cached_property
    def _adapter(self) -> Adapter:
        return self._make()

    @property
    def is_sensitive(self) -> bool:
        """See Adapter."""
        return self._adapter.is_sensitive

    def sealed(self, plain: Any) -> Any:
        """See Adapter."""
        return self._adapter.sealed(plain)

    def dump(self, value: Any) -> Any:
        return self._adapter.dump(value)

    def load(self, plain: Any) -> Any:
        return self._adapter.load(plain)

    def read(self, plain: Any) -> Any:
        return self._adapter.read(plain)


def loader(adapter: Adapter) -> Callable[[Any], Any]:
    """Return what loads a value, without a way round for plain data."""
    return fields if adapter is PLAIN else adapter.load


def reader(hint: Any) -> Callable[[Any], Any]:
    """Return what reads new data that others have sent as a type; `None` is any. It raises SchemaMismatch for what does not
    fit, also where the type is plain data."""
    try:
        return _reader(hint)
    except TypeError:  # a hint that cannot be hashed
        return _create_adapter(hint).read


@functools.lru_cache(_MAX_REMEMBERED)
def _reader(hint: Any) -> Callable[[Any], Any]:
    if hint is None:
        return fields
    if (adapter := adapter_of(hint)) is not PLAIN:
        return adapter.read
    try:
        typed = TypedAdapter(hint)
    except UsageError:
        return fields
    if any(is_typeddict(each) or each is BaseModel for each in _named(hint)):
        return lambda plain: (typed.read(plain), fields(plain))[1]  # what the type does not name stays
    return lambda plain: fields(typed.read(plain))


def late(make: Callable[[], Adapter]) -> Adapter:
    """Return an adapter that is made when it is first used."""
    return _LateAdapter(make)


def adapter_of(hint: Any) -> Adapter:
    """Return the adapter of a hint. Raises UsageError, in words without a place, for a type that cannot be kept."""
    try:
        return _cached(hint)
    except TypeError:  # a hint that cannot be hashed, as Annotated with a dict in it
        return _create_adapter(hint)


def _create_adapter(hint: Any) -> Adapter:
    if is_plain(hint):
        return PLAIN
    try:
        return TypedAdapter(hint)
    except PydanticUndefinedAnnotation:
        return late(lambda: TypedAdapter(hint))


_cached = functools.lru_cache(_MAX_REMEMBERED)(_create_adapter)


def _declares(hint: Any) -> bool:
    """True if a hint names a class with declared fields, which was always read."""
    return any(
        isinstance(each, type) and (issubclass(each, BaseModel | tuple | msgspec.Struct) or (dataclasses.is_dataclass(each)))
        for each in _named(hint)
    )


def _named(hint: Any) -> Iterator[Any]:
    yield get_origin(hint) or hint
    for each in get_args(hint):
        yield from _named(each)


class _Of:
    """Annotates with a type, so that the configuration of the adapter reaches dataclasses and typed dicts."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        schema: core_schema.CoreSchema = handler.generate_schema(self.hint)
        return schema


def _adapter(hint: Any) -> TypeAdapter[Any]:
    """Return Pydantic's adapter. Raises UsageError where there is none."""
    given = rewritten(hint)
    try:
        return _complete(TypeAdapter(Annotated[Any, _Of(given)], config=_BYTES))
    except PydanticUndefinedAnnotation:
        raise
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, AttributeError, KeyError) as problem:
        if is_known_to_msgspec(hint):
            return TypeAdapter(Annotated[Any, ByMsgspec(hint)])
        raise UsageError(_describe_unsupported(hint, problem)) from None


def _complete(adapter: TypeAdapter[Any]) -> TypeAdapter[Any]:
    if not adapter.pydantic_complete:
        raise PydanticUndefinedAnnotation("", "a class that is not complete")
    return adapter


def _describe_unsupported(hint: Any, problem: Exception) -> str:
    if (get_origin(hint) or hint) in _GENERATORS:
        return "The value is a generator, which is not data. Use list(...) instead."
    because = "" if isinstance(problem, PydanticSchemaGenerationError) else f": {problem}".partition("\n")[0].rstrip(".")
    return (
        f"A value of the type {label(hint)} has no form in JSON{because}. Use a Pydantic model, a dataclass or plain JSON data"
        " instead."
    )
