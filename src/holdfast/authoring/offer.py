"""What a model may ask for in an agent loop, each under a name of its own.

Never here: telling a model of it, doing what it asks for (engine.conversation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from holdfast.authoring.tool import Tool
from holdfast.core.demand import NOTHING
from holdfast.errors import UsageError

ANSWER: Final = "final_result"
"""Under which a model gives an answer that has a shape."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Named(Protocol):
    """A workflow, as far as a node has to know it."""

    name: str

    @property
    def input_schema(self) -> dict[str, Any] | None: ...


Offer: TypeAlias = str | Tool | Named
"""A tool, also by its name, or a workflow, which is done by a child."""


def check(offers: Sequence[Offer], *, answers: bool) -> None:
    """Raises UsageError for what no model can be offered, and where two have one name; with `answers` the name of the answer is
    taken as well."""
    taken: set[str] = {ANSWER} if answers else set()
    for each in offers:
        if not isinstance(each, str | Tool):
            _expect_workflow(each)
        elif getattr(each, "demand", NOTHING) is not NOTHING:
            raise UsageError(f"{each!r} asks for a place of its own, which a model cannot wait for; offer a child.")
        name = each if isinstance(each, str) else each.name
        if name in taken:
            raise UsageError(
                f"{name!r} is the name under which a model gives its answer; give what is offered another name."
                if answers and name == ANSWER
                else f"The model is offered two things called {name!r}, and could not say which it means; give one of them"
                " another name."
            )
        taken.add(name)


def _expect_workflow(offer: Named) -> None:
    if not hasattr(type(offer), "input_schema"):
        raise UsageError(
            f"{offer!r} cannot be offered to a model: a tool can, made with @tool or @step(effect=...), and a workflow."
        )
    if not _NAME.fullmatch(offer.name):
        raise UsageError(
            f"The workflow {offer.name!r} cannot be offered to a model: providers take names of 1 to 64 letters, digits,"
            " '_' and '-'. Give it another name."
        )
