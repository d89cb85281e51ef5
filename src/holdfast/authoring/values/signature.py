"""A user's function as its hints describe it: an adapter of what it returns, and of each parameter.

There is one for each function, made when the function is defined. Never here: the JSON of a value (adapter), a call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final

from holdfast.authoring.values.adapter import PLAIN, Adapter, adapter_of, late
from holdfast.authoring.values.hint import label
from holdfast.errors import UsageError

_MAX_REMEMBERED: Final = 1024


class Signature:
    """The adapters of a function's result and of its parameters."""

    def __init__(self, function: Callable[..., Any], names: Mapping[str, Any] | None = None, noun: str | None = None) -> None:
        """`names` are those that hints may use besides its module's; `noun` is how errors call the function.

        Raises UsageError for a result that cannot be kept.
        """
        self._function = _innermost(function)
        self._what = noun or f"The function {getattr(function, '__qualname__', repr(function)):.200}"
        self._hints = _annotations(self._function)
        for name, hint in self._hints.items():
            with suppress(Exception):  # not there yet, or a hint for people
                self._hints[name] = self._evaluated(hint, names)
        self._parameters: dict[str, Adapter] = {}
        self.returns = self._adapter("return")
        """The adapter of its result."""

    def hint(self, name: str) -> Any:
        """Return the hint of a parameter; `inspect.Parameter.empty` where there is none. Raises what evaluating it raises, such
        as NameError where it names what is not there."""
        return self._evaluated(self._hints.get(name, inspect.Parameter.empty))

    def parameter(self, name: str) -> Adapter:
        """Return the adapter of a parameter. Raises UsageError where its type cannot be kept."""
        found = self._parameters.get(name)
        if found is None:
            found = self._parameters[name] = self._adapter(name)
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        code = getattr(self._function, "__code__", None)
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()

    def _adapter(self, name: str, *, is_late: bool = False) -> Adapter:
        if name not in self._hints:
            return PLAIN
        try:
            hint = self.hint(name)
        except NameError:
            # It may be defined further down in the module; where it never is, it is a hint for people.
            return PLAIN if is_late else late(lambda: self._adapter(name, is_late=True))
        except Exception:  # noqa: BLE001 - a hint for people, in whatever words
            return PLAIN
        try:
            return adapter_of(hint)
        except UsageError as problem:
            said = "returns" if name == "return" else f"takes {name!r} as"
            raise UsageError(
                f"{self._what} {said} {label(hint)}, which cannot be stored: {problem.message[0].lower()}{problem.message[1:]}"
            ) from None

    def _evaluated(self, hint: Any, names: Mapping[str, Any] | None = None) -> Any:
        if not isinstance(hint, str):
            return hint
        return eval(hint, getattr(self._function, "__globals__", {}), names)


@lru_cache(_MAX_REMEMBERED)
def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature of a function that was not defined as a step, a tool or a node."""
    return Signature(function)


def _innermost(function: Any) -> Any:
    """Return the function that has the hints: inside partials and decorators that keep its name."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    called = getattr(type(function), "__call__", None)  # noqa: B004 - of an object that is called like one
    return called if inspect.isfunction(called) else function


def _annotations(function: Any) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415

        return dict(annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF))
    return dict(getattr(function, "__annotations__", None) or {})
