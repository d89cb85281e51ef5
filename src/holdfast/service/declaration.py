"""What a command or query takes, declared once on its class: a grant, and the things that it is about. One that declares
nothing cannot be served: what serves it does not import.

    @command("operator", about={"name": Thing.SCHEDULE, "workflow": Thing.WORKFLOW}, makes="name")
    class SetSchedule(Struct): ...

Never here: whose a thing is (ownership), refusing somebody (permission).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeVar

import msgspec

from holdfast.core.values.access import GRANTS, Grant

_Kind = TypeVar("_Kind", bound=type[msgspec.Struct])


class Thing(Enum):
    """A kind of thing that belongs to a tenant, and mostly to a workflow of it."""

    RUN = "a run"
    FAILED = "a run, with the tools whose calls it failed of"
    GATE = "a gate of a run"
    GATES = "gates of the run that another field names"
    TOOL_CALL = "the call of a tool"
    MODEL_CALL = "the call of a model"
    LETTER = "a dead letter of a run"
    WORKFLOW = "a workflow, to start runs of it"
    RUNS = "all runs of a workflow"
    SCHEDULE = "a schedule"
    CONVERSATION = "a conversation"
    SUPERVISOR = "a supervisor"
    EVALUATION = "an evaluation"
    APPROVAL = "a standing approval"
    KEY = "a key"
    TOOLS = "the tools whose names fit a pattern"


class Whole(Enum):
    """What a command or query is about that names no thing."""

    TENANT = "what a tenant has as a whole: for a caller who reaches all of its workflows"
    ROWS = "a list: each row says which workflow it is about"
    COUNTS = "what the fleet shares: a caller who acts for a tenant is given its own rows, and counts of the others"
    FLEET = "what the fleet shares: for a caller who acts for every tenant"


class Declaration(NamedTuple):
    """What one command or query takes. A caller needs one of the `grants`, and those that the fields of `also` take where they
    are given. `about` says which field names which thing; the one that `makes` names may be a new one. `whole` is what it is
    about where no field names a thing; in a list the field `rows` of a row names its workflow, its workflows or its run,
    or with `reach` the patterns of those that it reaches."""

    grants: tuple[Grant, ...]
    about: Mapping[str, Thing]
    whole: Whole
    rows: str
    also: Mapping[str, Grant]
    makes: str
    is_command: bool
    repeats: bool = False
    """True where the same command again comes to what it came to once: it sets something, or is refused where it was done."""
    key: str = ""
    """The field by which the engine knows the same command again."""
    any_tool: Mapping[str, tuple[str, ...]] = {}
    """The fields and values with which a command decides about calls of tools that nobody looks up."""
    reach: bool = False


_DECLARED: Final[dict[type[msgspec.Struct], Declaration]] = {}


def command(
    *grants: Grant,
    about: Mapping[str, Thing] = {},
    whole: Whole = Whole.TENANT,
    also: Mapping[str, Grant] = {},
    makes: str = "",
    repeats: bool = False,
    key: str = "",
    any_tool: Mapping[str, tuple[str, ...]] = {},
) -> Callable[[_Kind], _Kind]:
    """Declare what a command takes: one of the grants, and more (`Declaration`). Raises TypeError for what means nothing."""
    return _declaring(Declaration(grants, about, whole, "", also, makes, True, repeats or bool(key), key, any_tool))


def query(
    *grants: Grant, about: Mapping[str, Thing] = {}, whole: Whole = Whole.TENANT, rows: str = "", reach: bool = False
) -> Callable[[_Kind], _Kind]:
    """The same for a query. A list names its `rows`."""
    return _declaring(Declaration(grants, about, Whole.ROWS if rows else whole, rows, {}, "", is_command=False, reach=reach))


def doc(text: str) -> msgspec.Meta:
    """Return a field's description, as OpenAPI shows it: `name: Annotated[str, doc("Name of the schedule.")]`."""
    return msgspec.Meta(description=text)


def declaration_of(kind: type) -> Declaration:
    """Return what a command or query takes. Raises TypeError for one that does not declare it."""
    found = _DECLARED.get(kind)
    if found is None:
        raise TypeError(f"Declare what {kind.__name__} takes, with @command or @query: without that nobody may use it.")
    return found


def declared() -> Mapping[type[msgspec.Struct], Declaration]:
    """Return every command and query with what it takes."""
    return dict(_DECLARED)


def _declaring(declaration: Declaration) -> Callable[[_Kind], _Kind]:
    def declare(kind: _Kind) -> _Kind:
        named = filter(None, [declaration.makes, declaration.key])
        fields = {*declaration.about, *declaration.also, *declaration.any_tool, *named}
        if unknown := sorted(fields - {*kind.__struct_fields__}):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]!r} that could name something.")
        if not declaration.grants or not {*declaration.grants, *declaration.also.values()} <= {*GRANTS}:
            raise TypeError(f"{kind.__name__} takes one grant at least, of: {', '.join(GRANTS)}.")
        _DECLARED[kind] = declaration
        return kind

    return declare
