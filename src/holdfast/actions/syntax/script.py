"""A step's script as a shell is given it, or why an expression in it cannot be handed over safely.

Never here: how a shell reads a script (binding.py knows).
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from holdfast.actions.binding import PREFIX, bind
from holdfast.actions.expressions import Expression, Template
from holdfast.actions.syntax.document import Binding, Script
from holdfast.actions.syntax.reading import Path, Reading
from holdfast.actions.syntax.source import Scalar

_MOST_BINDINGS: Final = 100
"""Expressions in one script. Each is a variable of the environment."""
_POSIX: Final = {"bash", "sh", "dash"}
"""Others read variables alike, but compute in more places: ksh does so in `[ … -eq … ]`."""


def script_of(reading: Reading, template: Template, node: Scalar, path: Path, shell: str | None) -> Script:
    """The script with references in the place of its expressions; each that cannot stand is told."""
    expressions = template.expressions
    if not expressions:
        return Script("".join(str(part) for part in template.parts))
    if len(expressions) > _MOST_BINDINGS:
        reading.wrong(
            node.at,
            path,
            f"there are {len(expressions)} expressions in the script; {_MOST_BINDINGS} are allowed. Give values that"
            " repeat a name with 'env'.",
        )
        return Script("")
    if not _is_posix(shell):
        for expression in expressions:
            where = f"in a script for {shell!r}, which reads no variables as a shell does"
            _refuse(reading, node, path, expression, where, _from_environment(shell, _variable_for(expression)))
        return Script("")
    bound = bind([part if isinstance(part, str) else None for part in template.parts])
    for refusal in bound.refusals:
        expression = expressions[refusal.number]
        safe = (
            f'run: |\n  ... "${_variable_for(expression)}" ...   # in double quotes, where the shell takes it as data'
        )
        _refuse(reading, node, path, expression, refusal.where, safe)
    return Script(bound.text, tuple(Binding(f"{PREFIX}{n}", each) for n, each in enumerate(expressions, 1)))


def _refuse(reading: Reading, node: Scalar, path: Path, expression: Expression, where: str, safe: str) -> None:
    text = " ".join(expression.text.split())
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    reading.wrong(
        reading.source.place(node, expression.offset - len("${{")),
        path,
        f"${{{{ {shown} }}}} stands {where}. A value is never pasted into a script, because it could become code; it is"
        " handed over in a variable of the environment. Give it a name with 'env', and have the script read that:",
        f"env:\n  {_variable_for(expression)}: ${{{{ {text} }}}}\n{safe}",
    )


def _from_environment(shell: str | None, name: str) -> str:
    if shell == "python":
        return f'run: |\n  import os\n  value = os.environ["{name}"]'
    return f"run: ...   # reads {name} from its environment"


def _is_posix(shell: str | None) -> bool:
    """Whether scripts for it read `"$NAME"` as sh and bash do."""
    if shell is None or shell in _POSIX:
        return True
    try:
        words = shlex.split(shell)
    except ValueError:
        return False
    # `bash -c '... {0}'` and wrappers read the file's name otherwise; nobody can tell what reads the script then.
    return bool(words) and words[0].rpartition("/")[2] in _POSIX and words[-1] == "{0}" and "-c" not in words


def _variable_for(expression: Expression) -> str:
    """A name for a variable that carries the value: the last key that is read."""
    keys = [key for read in expression.names.readings for key in read.keys if key]
    name = re.sub(r"[^A-Za-z0-9_]", "_", keys[-1] if keys else "VALUE").upper().strip("_")[:40]
    return name if re.match(r"[A-Z]", name) else f"VALUE_{name}".rstrip("_")
