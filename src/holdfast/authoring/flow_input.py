"""A flow's input: what its function takes besides `ctx`, as its hints say.

One parameter is the whole input; several, or one that is given by name only, are the fields of an object. Never here: the
flow (flow), the schema that processes without its code have (input_schema).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, get_args, get_origin, is_typeddict

import msgspec
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError, create_model
from pydantic.errors import PydanticUserError

from holdfast.authoring.values.adapter import Adapter, TypedAdapter, adapter_of
from holdfast.authoring.values.hint import is_plain, label, rewritten
from holdfast.authoring.values.input_schema import SHOWN_AS, described_parameters, schema_of, shown_schema
from holdfast.authoring.values.round_trip import expect_kept
from holdfast.authoring.values.signature import Signature
from holdfast.errors import InvalidInput, SchemaMismatch, UsageError

_PLAIN: Final = (dict, list, str, int, float, bool, type(None))
"""Data that has no model."""
_EMPTY: Final = inspect.Parameter.empty


class FlowInput:
    """The input of a flow: which parameters take it, and what each of them is given."""

    def __init__(self, name: str, signature: Signature, parameters: list[inspect.Parameter], doc: str | None = None) -> None:
        """`parameters` are those besides `ctx`; `doc` is the docstring. Raises UsageError for a type that cannot be kept."""
        self._what = name
        self._described = described_parameters(doc)
        self._names = [each.name for each in parameters]
        self._is_whole = len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY
        self._default: Any = parameters[0].default if self._is_whole else _EMPTY
        self._check: Adapter | None = None
        """The adapter of plain data."""
        self.model: type[BaseModel] | None = None
        """The Pydantic model of the input; None where it is plain data."""
        self._writes: Adapter | None = None
        if not parameters:
            return
        hints = {each.name: self._hint(signature, each.name) for each in parameters}
        first = hints[self._names[0]]
        self._has_fields = isinstance(first, type) and (
            is_typeddict(first) or (issubclass(first, BaseModel) and not issubclass(first, RootModel))
        )
        self._required: frozenset[str] = getattr(first, "__required_keys__", frozenset())
        self.model = (
            self._create_whole_model(hints[self._names[0]]) if self._is_whole else self._create_fields_model(hints, parameters)
        )
        if self.model is not None:
            self._writes = self._adapter_of(self.model)

    def missing(self, raw: Any) -> str | None:
        """Return the name of the one parameter if it must be given, and `raw` is nothing. The fields of an object are checked
        one by one instead, and nothing is an object without fields where the parameter has no type."""
        if raw is not None or self._default is not _EMPTY or not self._is_whole or self._has_fields:
            return None
        return None if (self.model is None and self._check is None) or self._takes(None) else self._names[0]

    @functools.cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of what a start must fit; of plain data, only that it must be given. With SHOWN_AS beside it, the one
        that a person is shown."""
        if (shown := self._shown_schema) is None:
            return self._enforced
        return {**(self._enforced or {}), SHOWN_AS: shown}

    @functools.cached_property
    def _enforced(self) -> dict[str, Any] | None:
        if self.model is not None:
            return schema_of(self.model)
        if self._default is not _EMPTY or self._check is None or self._takes(None):
            return None
        if not self._has_fields:
            return {"title": self._names[0], "not": {"type": "null"}}
        required = sorted(self._required)
        return {"title": self._names[0], "type": "object", "required": required} if required else None

    @functools.cached_property
    def _shown_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the parameters by their types, defaults and descriptions. None where no one is described, and the
        input has fields: their model says the rest."""
        if not self._is_whole:
            return self._shown_fields()
        if self._has_fields or (self.model is not None and not self._wraps):
            return None
        if self.model is not None:
            shown = dict(schema_of(self.model))
        else:
            check = self._check.typed if isinstance(self._check, _Checked) else self._check
            typed = None if check is None else check.schema
            shown = {} if typed is None else shown_schema(typed)
            if self._default is not _EMPTY:
                with contextlib.suppress(UsageError, InvalidInput, SchemaMismatch):
                    shown["default"] = self._plain(self._default)
        if not shown:
            return None
        name = self._names[0].replace("_", " ").strip()
        description = shown.get("description") or self._described.get(self._names[0])
        shown["title"] = name[:1].upper() + name[1:]
        return {**shown, "description": description} if description else shown

    def _shown_fields(self) -> dict[str, Any] | None:
        if self.model is None or self._described.keys().isdisjoint(self._names):
            return None
        schema = schema_of(self.model)
        properties = {
            name: {"description": self._described[name], **each} if name in self._described else each
            for name, each in schema["properties"].items()
        }
        return {**schema, "properties": properties}

    def validated(self, raw: Any) -> Any:
        """Return `raw`, JSON data or Python objects, as the JSON data that a run starts with. Raises ValidationError,
        SchemaMismatch or InvalidInput."""
        if raw is None and self._default is not _EMPTY:
            raw = self._default
        if self.model is None:
            return self._plain(raw)
        if isinstance(raw, BaseModel) and not isinstance(raw, self.model):
            raw = raw.model_dump(mode="json")
        if raw is None and not self._takes(None):
            raw = {}
        assert self._writes is not None
        return self._writes.dump(_fitted(self.model, raw))

    @property
    def name(self) -> str:
        """Name of the whole input: that of its one parameter, if it has no other."""
        return self._names[0] if self._is_whole else "value"

    def is_named(self, raw: Any) -> bool:
        """Return True if `raw` is an object that names the one parameter, which is the whole input itself."""
        return self._is_whole and isinstance(raw, Mapping) and [*raw] == self._names

    def bind_arguments(self, plain: Any) -> dict[str, Any]:
        """Return the arguments of the function, made of what its run has started with."""
        if not self._names:
            return {}
        if self.model is None:
            return {self._names[0]: self._loaded(plain)}
        if not self._is_whole and not isinstance(plain, dict):
            return {self._names[0]: plain}  # started when one parameter always was the whole input
        assert self._writes is not None
        found = self._writes.load(plain)
        if self._is_whole:
            return {self._names[0]: found.root if isinstance(found, RootModel) and self._wraps else found}
        return {name: found.__dict__[name] for name in self._names}

    # --- How it is made ----------------------------------------------------------------------------------------------

    _has_fields = False
    """True if the one parameter is an object whose fields its type names."""
    _wraps = False
    """True if the model is made around a type that is none."""

    def _hint(self, signature: Signature, name: str) -> Any:
        try:
            return signature.hint(name)
        except NameError as problem:
            raise UsageError(
                f"{self._what}: a hint names what is not there yet ({problem}); define it above the flow."
            ) from None

    def _create_whole_model(self, hint: Any) -> type[BaseModel] | None:
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            return hint
        if hint in (_EMPTY, Any, object):
            return None
        if was_plain(hint):
            self._check = _check_of(hint) if is_plain(hint) else self._adapter(hint)
            return None
        self._wraps = True
        default = ... if self._default is _EMPTY else self._default
        return self._create_model(label(hint), {"root": (self._type(self._names[0], hint), default)})

    def _create_fields_model(self, hints: Mapping[str, Any], parameters: list[inspect.Parameter]) -> type[BaseModel]:
        found = {
            each.name: (
                Any if hints[each.name] is _EMPTY else self._type(each.name, hints[each.name]),
                ... if each.default is _EMPTY else each.default,
            )
            for each in parameters
        }
        return self._create_model("Input", found)

    def _type(self, name: str, hint: Any) -> Any:
        """Return the type of a field. Raises UsageError for what cannot be kept."""
        self._adapter(hint, name)
        return rewritten(hint)

    def _adapter(self, hint: Any, name: str | None = None) -> Adapter:
        name = self._names[0] if name is None else name
        try:
            return adapter_of(hint)
        except UsageError as problem:
            raise UsageError(
                f"{self._what} takes {name!r} as {label(hint)}, which cannot be stored:"
                f" {problem.message[0].lower()}{problem.message[1:]}"
            ) from None

    def _create_model(self, name: str, fields: dict[str, Any]) -> type[BaseModel]:
        base: Any = _Whole if self._wraps else _Fields
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a parameter may be called like a method of a model
                made: type[BaseModel] = create_model(name, __base__=base, **fields)
                return made
        except (PydanticUserError, NameError, ValueError, TypeError) as problem:
            raise UsageError(
                f"{self._what}: call its parameters something else, or give them another type:"
                f" {str(problem).partition(chr(10))[0]}"
            ) from None

    def _adapter_of(self, model: type[BaseModel]) -> Adapter:
        try:
            expect_kept(model)
            return adapter_of(model)
        except UsageError as problem:
            raise UsageError(f"{self._what} cannot take its input: {problem.message[0].lower()}{problem.message[1:]}") from None

    # --- Plain data ----------------------------------------------------------------------------------------------------

    def _plain(self, raw: Any) -> Any:
        if isinstance(raw, BaseModel):
            raw = raw.model_dump(mode="json")
        if self._check is None:
            return {} if raw is None and self._default is _EMPTY else raw
        if raw is None and not self._takes(None):
            raw = {}
        return self._check.dump(self._check.read(raw))

    def _takes(self, raw: Any) -> bool:
        try:
            if self.model is not None:
                self.model.model_validate(raw)
            elif self._check is not None:
                self._check.read(raw)
        except (ValidationError, SchemaMismatch):
            return False
        return True

    def _loaded(self, plain: Any) -> Any:
        """Return plain data as the function gets it. Where a process without its code has started the run without an input,
        the default counts."""
        if plain == {} and self._default is not _EMPTY and self._check is not None and not self._takes({}):
            return self._default
        if self._check is None or isinstance(self._check, _Checked):
            return plain
        try:
            return self._check.load(plain)
        except SchemaMismatch:
            return plain  # started before such hints counted


class _Whole(RootModel[Any]):
    """An input that is one value."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class _Fields(BaseModel):
    """An input that has a field for each parameter."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), ser_json_bytes="base64", val_json_bytes="base64")


class _Checked(Adapter):
    """The adapter of data that is plain but must fit."""

    def __init__(self, hint: Any) -> None:
        self.typed = TypedAdapter(hint)
        self._is_changed = not any(map(is_typeddict, _named(hint)))

    def load(self, plain: Any) -> Any:
        assert self.typed.schema is not None
        found = self.typed.schema.validate_python(plain, by_alias=True, by_name=True)
        return found if self._is_changed else plain

    def dump(self, value: Any) -> Any:
        return self.typed.dump(value) if self._is_changed else value


def _fitted(model: type[BaseModel], raw: Any) -> BaseModel:
    """Return what fits a model, given as Python objects or, where the model is strict about these, as JSON. Raises
    ValidationError."""
    try:
        return model.model_validate(raw)
    except ValidationError:
        try:
            return model.model_validate_json(msgspec.json.encode(raw))
        except (ValidationError, TypeError, NotImplementedError, ValueError, OverflowError, RecursionError):
            pass
        raise


def _check_of(hint: Any) -> Adapter | None:
    try:
        return _Checked(hint)
    except UsageError:
        return None


def _named(hint: Any) -> list[Any]:
    return [hint, *(found for each in get_args(hint) for found in _named(each))]


def was_plain(hint: Any) -> bool:
    """True if a hint names nothing but what JSON data is anyway; its workflow has no schema of its input."""
    bare = get_origin(hint) or hint
    if not all(was_plain(each) for each in get_args(hint)):
        return False
    if not isinstance(bare, type) or bare in (Any, UnionType) or is_typeddict(bare):
        return True
    return issubclass(bare, dict) or any(issubclass(each, bare) for each in _PLAIN)
