"""The lines to write in the place of a script's line in which an expression cannot be handed over safely.

They can be pasted: the file is right then, and a shell does with them what it did with the text that GitHub pastes. Where no
such lines are known there are none, and words must do. Never here: how a shell reads a script (binding.py knows).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.actions.binding import Refusal
from holdfast.actions.expressions import Expression, Template
from holdfast.actions.steering import obeyed_by
from holdfast.actions.syntax.keys import RUNNING

_HOLE: Final = "\0"
_LONGEST_LINE: Final = 300
"""A longer one would not be read."""
_PLAIN_ENV: Final = re.compile(r"env\.([A-Za-z_]\w*)|env\['([A-Za-z_]\w*)'\]")
_TAKEN: Final = re.compile(r"(HOLDFAST|GITHUB|RUNNER)_.*|USER|LOGNAME|PWD|OLDPWD|LANG|LC_.*|TZ|TMPDIR|TERM|SHLVL|CI")
"""Names that mean something to others."""
_UNLIKE_PLAIN: Final = re.compile(r": |:$| #|\n")
"""In a text of YAML without quotes these begin something else."""


class Variables:
    """Names for the variables that carry the values of a script's expressions; the same for the same expression."""

    def __init__(self, template: Template) -> None:
        self._text = " ".join(part for part in template.parts if isinstance(part, str))
        self._names: dict[str, str] = {}

    def name(self, expression: Expression) -> str:
        """For `env.NAME` that variable itself; else after the last key that is read, and no name that the script knows."""
        if (own := environment_variable(expression)) is not None:
            return own
        text = expression.text.strip()
        if text not in self._names:
            self._names[text] = next(name for name in _candidates(expression) if self._is_free(name))
        return self._names[text]

    def _is_free(self, name: str) -> bool:
        is_taken = obeyed_by(name) is not None or _TAKEN.fullmatch(name) is not None or name in self._names.values()
        return not is_taken and re.search(rf"\b{name}\b", self._text) is None

    def lines(self, expressions: Iterable[Expression]) -> list[str]:
        """The `env` that gives them their values; nothing for those that are there already."""
        given = {self.name(each): each for each in expressions if environment_variable(each) is None}
        return ["env:", *(f"  {name}: {_yaml(_value(each))}" for name, each in given.items())] if given else []


def environment_variable(expression: Expression) -> str | None:
    """The name, if all that the expression reads is one variable of the environment, which the script has anyway."""
    found = _PLAIN_ENV.fullmatch(expression.text.strip())
    return None if found is None else found[1] or found[2]


def is_there(expression: Expression) -> bool:
    """True if a step knows every context that the expression reads."""
    return expression.names.contexts <= set(RUNNING)


def safe_lines(template: Template, refusals: Mapping[int, Refusal], number: int, variables: Variables) -> str | None:
    """Return the repaired line for the expression with this number, as `env` and `run`."""
    text = "".join(part if isinstance(part, str) else _HOLE for part in template.parts)
    places = [at for at, sign in enumerate(text) if sign == _HOLE]
    begin = text.rfind("\n", 0, places[number]) + 1
    end = text.find("\n", begin) if "\n" in text[begin:] else len(text)
    here = [n for n, place in enumerate(places) if begin <= place < end]
    expressions = template.expressions
    wrong = [n for n in here if n in refusals]
    if any(not _is_mendable(expressions[n], refusals[n]) for n in wrong):
        return None
    parts = {places[n] - begin: _part(n, expressions[n], refusals, variables) for n in here}
    line = "".join(parts.get(at, sign) for at, sign in enumerate(text[begin:end]))
    line = _tidied(line, {variables.name(expressions[n]) for n in wrong})
    if len(line) > _LONGEST_LINE:
        return None
    shown = ["run: |"]
    numbers = dict.fromkeys(variables.name(expressions[n]) for n in wrong if refusals[n].care == "number")
    shown += [f'  [ "${name}" -eq "${name}" ] || exit 1   # a number, and nothing else' for name in numbers]
    if text[:begin].strip():
        shown.append("  # ...")
    split = dict.fromkeys(f"${variables.name(expressions[n])}" for n in wrong if refusals[n].care == "split")
    if split:
        shown.append(f"  # {', '.join(split)} without quotes: the shell splits it at blanks, as GitHub's text was")
    shown.append(f"  {line.strip(' ')}")
    if text[end:].strip():
        shown.append("  # ...")
    return "\n".join([*variables.lines(expressions[n] for n in wrong), *shown])


def _is_mendable(expression: Expression, refusal: Refusal) -> bool:
    """Return the remedy for an expression that names the command: only the file's own variable may."""
    is_own = environment_variable(expression) is not None
    return refusal.instead is not None and is_there(expression) and (is_own or not refusal.is_command)


def _part(number: int, expression: Expression, refusals: Mapping[int, Refusal], variables: Variables) -> str:
    instead = refusals[number].instead if number in refusals else None
    return f"${{{{ {expression.text.strip()} }}}}" if instead is None else instead.format(variables.name(expression))


def _tidied(line: str, names: Iterable[str]) -> str:
    """Without braces and empty quotes that nothing needs."""
    for name in names:
        reference = re.escape(f'"${{{name}}}"')
        line = re.sub(rf"(?<!\$)(?<!\\)''({reference})", r"\1", line)
        line = re.sub(rf"({reference})''(?!')", r"\1", line)
        line = re.sub(rf"\$\{{{name}\}}(?![A-Za-z0-9_\[])", lambda _, name=name: f"${name}", line)  # type: ignore[misc]
    return line


def _candidates(expression: Expression) -> Iterable[str]:
    keys = [key for read in expression.names.readings for key in read.keys if key]
    name = re.sub(r"[^A-Za-z0-9_]", "_", keys[-1] if keys else "VALUE").upper().strip("_")[:40]
    name = name if re.match(r"[A-Z]", name) else f"VALUE_{name}".rstrip("_")
    yield name
    yield f"VALUE_OF_{name}"
    number = 1
    while True:
        number += 1
        yield f"VALUE_{number}"


def _value(expression: Expression) -> str:
    return f"${{{{ {' '.join(expression.text.split())} }}}}"


def _yaml(text: str) -> str:
    """The text as YAML has it behind a key."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'" if _UNLIKE_PLAIN.search(text) else text
