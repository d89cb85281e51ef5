"""Options in groups: a command takes a group as one parameter, `own: Own`, and shows each of its options.

    Own = Annotated[Process, Group(Process, label=(Labels, None), gpus=(Gpus, 0))]

Never here: an option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, get_type_hints


class Group:
    """Options under their names, each with its type and its default, and what their values make together."""

    def __init__(self, make: Callable[..., Any], **options: tuple[Any, Any]) -> None:
        self.make = make
        self.options: Mapping[str, tuple[Any, Any]] = options

    def without(self, *names: str) -> Group:
        """Return the group for a command that has other options of these names, or none."""
        return Group(self.make, **{name: each for name, each in self.options.items() if name not in names})

    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters of which typer makes options."""
        return [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in self.options.items()
        ]


def expanded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options of its groups in their place; itself if it has none."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: group for name, hint in hints.items() if (group := _group_of(hint)) is not None}
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += groups[name].parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**value: Any) -> Any:
        for name, group in groups.items():
            value[name] = group.make(**{option: value.pop(option) for option in group.options})
        return command(**value)

    run.__annotations__ = {}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def _group_of(hint: Any) -> Group | None:
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Group)), None)
