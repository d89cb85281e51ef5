"""A step's script as a shell is given it, or why an expression in it cannot be handed over safely.

Never here: how a shell reads a script (binding.py knows).
"""

from __future__ import annotations

import shlex
from typing import Final

from holdfast.actions.binding import PREFIX, bind
from holdfast.actions.expressions import Expression, Template
from holdfast.actions.syntax.document import Binding, Script
from holdfast.actions.syntax.reading import EntryReader, Path
from holdfast.actions.syntax.remedy import Variables, environment_variable, is_there, safe_lines
from holdfast.actions.syntax.source import Scalar

_MAX_BINDINGS: Final = 100
"""Expressions in one script. Each is a variable of the environment."""
_POSIX: Final = {"bash", "sh", "dash"}
"""Others read variables alike, but compute in more places: ksh does so in `[ … -eq … ]`."""


def script_of(reading: EntryReader, template: Template, node: Scalar, path: Path, shell: str | None) -> Script:
    """Return the script with references in the place of its expressions; each that cannot stand is reported."""
    expressions = template.expressions
    if not expressions:
        return Script("".join(str(part) for part in template.parts))
    if len(expressions) > _MAX_BINDINGS:
        reading.wrong(
            node.at,
            path,
            f"there are {len(expressions)} expressions in the script; {_MAX_BINDINGS} are allowed. Give values that"
            " repeat a name with 'env'.",
        )
        return Script("")
    variables = Variables(template)
    if not _is_posix(shell):
        where = f"in a script for {shell!r}, which reads no variables as a shell does"
        for expression in expressions:
            safe = _from_environment(shell, variables, expression) if is_there(expression) else None
            _refuse(reading, node, path, expression, where, safe)
        return Script("")
    is_bash = shell is not None and shlex.split(shell)[0].rpartition("/")[2] == "bash"
    bound = bind([part if isinstance(part, str) else None for part in template.parts], is_bash=is_bash)
    refusals = {refusal.number: refusal for refusal in bound.refusals}
    for number, refusal in refusals.items():
        safe = safe_lines(template, refusals, number, variables)
        _refuse(reading, node, path, expressions[number], refusal.where, safe)
    return Script(bound.text, tuple(Binding(f"{PREFIX}{n}", each) for n, each in enumerate(expressions, 1)))


def _refuse(reading: EntryReader, node: Scalar, path: Path, expression: Expression, place: str, safe: str | None) -> None:
    text = " ".join(expression.text.split())
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    own = environment_variable(expression)
    if own is not None:
        remedy = f"It is in the script's environment already, as ${own}"
    else:
        remedy = "Give it a name with 'env', and have the script read that"
    reading.wrong(
        reading.source.place(node, expression.offset - len("${{")),
        path,
        f"${{{{ {shown} }}}} stands {place}. A value is never pasted into a script, because it could become code; it is"
        f" handed over in a variable of the environment. {remedy}{':' if safe is not None else '.'}",
        safe,
        kind=f"run {place}",
    )


def _from_environment(shell: str | None, variables: Variables, expression: Expression) -> str:
    name = variables.name(expression)
    if shell == "python":
        read = f'run: |\n  import os\n  value = os.environ["{name}"]'
    else:
        read = f"run: ...   # reads {name} from its environment"
    return "\n".join([*variables.lines([expression]), read])


def _is_posix(shell: str | None) -> bool:
    """Return True if scripts for it read `"$NAME"` as sh and bash do."""
    if shell is None or shell in _POSIX:
        return True
    try:
        words = shlex.split(shell)
    except ValueError:
        return False
    # `bash -c '... {0}'` and wrappers read the file's name otherwise; what reads the script is unknown then.
    return bool(words) and words[0].rpartition("/")[2] in _POSIX and words[-1] == "{0}" and "-c" not in words
