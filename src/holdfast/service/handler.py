"""Handlers: the code behind commands and queries, one function for each, found by what it takes.

    @handles
    async def pause(request: Request, command: PauseSchedule) -> None: ...

Never here: whether a caller may (permission), a transport's fields.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, get_type_hints

import msgspec

from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import RunId
from holdfast.service import view
from holdfast.service.control.base import NOT_GIVEN
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.declarations.declaration import Answer, Rows, declaration_of, declared
from holdfast.service.principal import Principal

if TYPE_CHECKING:
    from holdfast.service.access.key import ApiKeys
    from holdfast.service.access.permission import Permission
    from holdfast.service.access.startable import Startable
    from holdfast.service.control.control import Control
    from holdfast.service.records import Records


class Request(NamedTuple):
    """For whom a handler works, and on what. The caller may do it: that was checked before."""

    who: Principal
    whose: str | None
    """The tenant that is meant; None for all."""
    control: Control
    """The engine, to find something out: what it reads is the caller's tenant's, also where a filter is forgotten."""
    engine: Control
    """The engine, to do something."""
    startable: Startable
    keys: ApiKeys
    permission: Permission
    records: Records
    read: Mapping[str, Any]
    """The records that were read to check the caller, by the fields of a query that name them."""

    @property
    def tenant(self) -> str:
        """The tenant that is meant, where it must be one."""
        return self.whose or DEFAULT_TENANT

    @property
    def by(self) -> Actor:
        """The actor."""
        return self.who.claim


Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
_Function = TypeVar("_Function", bound=Handler)
_HANDLERS: Final[dict[type[msgspec.Struct], Handler]] = {}


def handles(handler: _Function) -> _Function:
    """Register a function for the command or query that its second parameter takes. Raises TypeError where there is one, or
    where it returns something else than that declares."""
    _, parameter, *_ = inspect.signature(handler).parameters
    hints = get_type_hints(handler)
    kind = hints[parameter]
    if kind in _HANDLERS:
        raise TypeError(f"{kind.__name__} is handled by {_HANDLERS[kind].__qualname__} already.")
    if hints["return"] != (declares := _returned(kind)):
        raise TypeError(f"{handler.__qualname__} must return {declares}, as {kind.__name__} declares.")
    _HANDLERS[kind] = handler
    return handler


def _returned(kind: type[msgspec.Struct]) -> Any:
    """Return the type of what the handler of a command or query returns. Of a run that is the id."""
    answers = declaration_of(kind).answers
    if answers in (Answer.NOTHING, Answer.RUN):
        return RunId if answers is Answer.RUN else type(None)
    row = functools.reduce(operator.or_, rows_of(kind))
    return Rows[row] if answers is Answer.PAGE else row  # type: ignore[valid-type]


def handlers() -> Mapping[type[msgspec.Struct], Handler]:
    """Return the handler of each command and query that is declared. Raises TypeError where one has none."""
    if missing := [kind.__name__ for kind in declared() if kind not in _HANDLERS]:
        raise TypeError(f"Nothing handles {', '.join(missing)}: write a function with @handles.")
    return _HANDLERS


def rows_of(kind: type[msgspec.Struct]) -> tuple[type, ...]:
    """Return the types of the rows with which a command or query is answered: several where it is one of them, none where it
    answers nothing."""
    return tuple(getattr(view, name) for name in declaration_of(kind).answer)


def optional_value(value: Any) -> Any:
    """Return the value of a field that may be left out, as the engine takes it."""
    return NOT_GIVEN if value is msgspec.UNSET else value
