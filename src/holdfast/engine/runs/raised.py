"""The exception behind an error: its class and its plain data go into the history, and its class catches it in the code again.

`except MyError` around a step works on the first pass and on every replay, since both make the exception of the record. It
is an OperationFailed too. A class is looked for among the modules that are loaded; a history makes nothing be imported, and
no code of the class runs. Never here: what kind of error it is (failure).
"""

from __future__ import annotations

import math
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final

import msgspec

from holdfast.authoring.trace import recorded_module
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord, RaisedError
from holdfast.errors import HoldfastError, ModelError, NonDeterministicStep, OperationFailed, StepError
from holdfast.platform.border import bare, fact

MAX_DATA_BYTES: Final = 4096
"""Of an exception's arguments and attributes: an error is in several events of its run."""
_MAX_DEPTH: Final = 4
_MAX_BASES: Final = 8
_HEAP: Final = 1 << 9
"""Of a class that Python code has made, in its `__flags__`."""
_NEVER: Final = (StopIteration, StopAsyncIteration, OperationFailed, NonDeterministicStep)
"""Exceptions that mean something else to Python, or to the engine."""
_OURS: Final = frozenset({"error", "path", "spent", "message", "args", "parts"})


# --- Recorded -------------------------------------------------------------------------------------------------------------


def of(problem: BaseException, clean: Callable[[Any], bytes]) -> RaisedError | None:
    """Return what is recorded of the exception; None for one that its class could not catch. Raises nothing.

    `clean` encodes plain data without a secret in it. Data that is not plain, or too much, is left out.
    """
    problem = bare(problem)
    try:
        kind = type(problem)
        if not _may_be_raised(kind):
            return None
        module, name = recorded_name(kind.__module__), kind.__qualname__
        return RaisedError(module, name, _encode_data(problem, clean), _bases(kind))
    except BaseException:  # noqa: BLE001 - the class is the user's
        return None


def _encode_data(problem: BaseException, clean: Callable[[Any], bytes]) -> Payload | None:
    try:
        encoded = clean(_data(problem))
    except BaseException:  # noqa: BLE001 - its attributes are the user's, and not all text can be encoded
        return None
    return Payload(json=msgspec.Raw(encoded)) if len(encoded) <= MAX_DATA_BYTES else None


def _bases(kind: type) -> tuple[tuple[str, str], ...]:
    """Return the names of its bases up to Exception; of a class of Python's own none, since that is always there."""
    if not kind.__flags__ & _HEAP:
        return ()
    bases = [each for each in kind.__mro__[1:] if _may_be_raised(each) and each is not Exception]
    return tuple((recorded_name(each.__module__), each.__qualname__) for each in bases[:_MAX_BASES])


def _may_be_raised(kind: type) -> bool:
    if not issubclass(kind, Exception) or issubclass(kind, (*_NEVER, BaseExceptionGroup)):
        return False
    return not issubclass(kind, HoldfastError) or issubclass(kind, StepError | ModelError)


def recorded_name(module: str) -> str:
    """Return the name that a history has for a module: that of its file for a script, which a worker loads by its path."""
    if module != "__main__":
        return recorded_module(module)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else PurePath(getattr(main, "__file__", None) or module).stem


def _data(problem: BaseException) -> dict[str, Any]:
    """Return its arguments, where all are plain, and those of its attributes that are."""
    data: dict[str, Any] = {}
    args = OSError.__reduce__(problem)[1] if isinstance(problem, OSError) else BaseException.args.__get__(problem)  # type: ignore[attr-defined]
    if _is_plain(args := [*args]):
        data["args"] = args
    attributes = {name: value for name, value in _attributes(problem) if name not in _OURS and _is_plain(value)}
    return {**data, "attributes": attributes} if attributes else data


def _attributes(problem: BaseException) -> Iterator[tuple[str, Any]]:
    yield from object.__getattribute__(problem, "__dict__").items()
    for kind in type(problem).__mro__:
        names = vars(kind).get("__slots__", ()) if kind.__flags__ & _HEAP else ()
        for name in (names,) if isinstance(names, str) else names:
            if (value := fact(problem, name)) is not None:
                yield name, value


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True for JSON data that reads back as it was. A tuple would be a list."""
    kind = type(value)
    if kind in (str, int, bool, type(None)):
        return True
    if kind is float:
        return math.isfinite(value)
    if depth == _MAX_DEPTH or kind not in (list, dict):
        return False
    inner = value if kind is list else [*value.values()]
    return all(type(name) is str for name in (value if kind is dict else ())) and all(
        _is_plain(each, depth + 1) for each in inner
    )


# --- Raised again ---------------------------------------------------------------------------------------------------------


def again(error: ErrorRecord, path: Path | None, home: str, *, spent: bool = False) -> OperationFailed:
    """Return the exception to raise for a recorded error; `home` is the module of the code that it is raised in."""
    raised = error.exception
    kind = None if raised is None else _class_of(raised, home)
    data = {} if raised is None or raised.data is None else raised.data.value()
    problem: OperationFailed | None = None if kind is None else _create_instance(kind, data.get("args"))
    if problem is None:
        return OperationFailed(error.message, error=error, path=path, spent=spent)
    for name, value in {**data.get("attributes", {}), "error": error, "path": path, "spent": spent}.items():
        with suppress(AttributeError, TypeError):  # a property, or a slot that is another's
            object.__setattr__(problem, name, value)
    return problem


def _class_of(raised: RaisedError, home: str) -> type | None:
    """Return a class that is an OperationFailed and the recorded class, or else the nearest of its bases; None where none is
    loaded, or can be one."""
    for module, name in ((raised.module, raised.name), *raised.bases):
        homes = (home,) if recorded_name(home) == module else ()
        for place in (*homes, module):
            found: Any = sys.modules.get(place)
            for part in name.split("."):
                found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
            if isinstance(found, type) and _may_be_raised(found) and (combined := _combined(found)) is not None:
                return combined
    return None


@lru_cache(256)
def _combined(kind: type) -> type | None:
    if type(kind) not in (type, ABCMeta):
        return None
    about = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    try:
        return type(kind)(kind.__name__, (_Raised, kind), about)
    except TypeError:  # a final class, or one of another layout
        return None


def _create_instance(kind: type, args: Sequence[Any] | None) -> Any:
    """Return an instance, of which C's part is made as C's is, and nothing by Python code of the class.

    None where it has a part that Python's own classes do not make.
    """
    base: Any = next(each for each in kind.__mro__ if not each.__flags__ & _HEAP)
    for given in (args or (), ()):
        with suppress(Exception):
            problem = base.__new__(kind, *given)
            with suppress(Exception):  # arguments that are not those of its base
                base.__init__(problem, *given)
            return problem
    return None


class _Raised(OperationFailed):
    """The methods of a combined class, which replace those of the user's class."""

    def __init_subclass__(cls) -> None:
        """Keep the user's class, which may count its subclasses, out of this."""

    def __init__(self, *_: Any) -> None:
        """Do nothing: the instance is made of a record."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__!r} has no {name!r} here: of an exception that left a step its history keeps what is plain"
            " JSON data (text, numbers, lists, objects). Keep what you need as that."
        )

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"

    @property
    def message(self) -> str:
        error: ErrorRecord = self.__dict__["error"]
        return error.message

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __getattribute__ = object.__getattribute__
    __setattr__ = object.__setattr__
