"""Labels of runs: keys with texts by which people find, filter and count runs, set at a start and while a run goes on.

Never here: a run's history (events), where they are kept and how they are found (ports.view).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.errors import InvalidInput, Misfit

MAX_LABELS: Final = 32
MAX_VALUE_BYTES: Final = 256
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)

FIRST_KEY: Final = "A"
LAST_KEY: Final = "z\x7f"
"""Between these are all keys, and not the empty one of tags."""

Pair: TypeAlias = tuple[str, str]
"""A key and its value. A tag is kept as a pair with an empty key."""
CountKey: TypeAlias = tuple[str, str, str, str]
"""The key, the value, the workflow and the status of a count: counts are listed in this order."""
BEFORE_ALL_COUNTS: Final[CountKey] = ("", "", "", "")


class LabelCount(NamedTuple):
    """The number of runs of a workflow with a label and a status."""

    key: str
    value: str
    workflow: str
    status: str
    runs: int


def checked(labels: Any, redact: Callable[[str], str], *, removes: bool = False) -> dict[str, str | None]:
    """Return labels without the values of secrets; with `removes` None stands for none. Raises InvalidInput."""
    if not isinstance(labels, Mapping):
        raise _refused(f"labels is {labels!r:.80}; it maps keys to texts")
    for key, value in labels.items():
        if not isinstance(key, str) or _KEY.fullmatch(key) is None:
            words = "a letter, then up to 63 letters, digits, '_', '.' and '-'"
            raise _refused(f"The key {key!r:.80} of a label is none: {words}", str(key))
        if not (value is None and removes) and (problem := _problem(value)):
            raise _refused(f"The label {key!r} {problem}", key)
    return {key: None if value is None else redact(value) for key, value in labels.items()}


def merged(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return labels with changes, in the order of their keys; None removes one."""
    return {key: value for key, value in sorted({**labels, **changes}.items()) if value is not None}


def expect_few(labels: Mapping[str, str]) -> None:
    """Raise InvalidInput for more labels than a run may have."""
    if len(labels) > MAX_LABELS:
        raise _refused(f"{len(labels)} labels: a run has up to {MAX_LABELS}")


def pair(text: str) -> Pair:
    """Return the key and value of `KEY=VALUE`. Raises InvalidInput."""
    key, equals, value = text.partition("=")
    if not equals or _KEY.fullmatch(key) is None:
        raise InvalidInput(f"{text!r:.80} is no label: write KEY=VALUE.", field="label")
    return key, value


def change(text: str) -> tuple[str, str | None]:
    """Return the key and value of `KEY=VALUE`, or of `KEY=`, which removes a label. Raises InvalidInput."""
    key, value = pair(text)
    return key, value or None


def _problem(value: Any) -> str:
    if not isinstance(value, str):
        return f"is {value!r:.80}; a label is a text"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    if "\0" in value:
        return "holds the character NUL, which no store keeps in a text"
    if not value:
        return "is empty; leave it out"
    return "" if size <= MAX_VALUE_BYTES else f"has {size} bytes; it may have {MAX_VALUE_BYTES}"


def _refused(problem: str, key: str | None = None) -> InvalidInput:
    misfits = () if key is None else (Misfit(problem, (key,)),)
    return InvalidInput(f"{problem}. Nothing was done.", field="labels", misfits=misfits)
