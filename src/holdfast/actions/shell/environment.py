"""The environment of a script: a few variables of its worker, those that it is given, and the runner's own, which win.

Nothing else of the worker's environment reaches a script, because it holds the provider keys. Never here: where the values
come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.errors import InvalidInput

INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a script gets of its worker's environment, where it is set."""

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

MAX_VARIABLE_BYTES: Final = 128 * 1024 - 1
"""Linux passes no longer `NAME=value` to a program (MAX_ARG_STRLEN, with the byte that ends it)."""

MAX_BYTES: Final = 1024 * 1024
"""All of it together. Linux takes a quarter of the stack's limit, 2 MiB as a rule, for variables and arguments."""


def environment_of(worker: Mapping[str, str], amount: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The script's environment. Raises InvalidInput for what no program can be given."""
    inherited = {name: worker[name] for name in INHERITED if name in worker}
    together = {"PATH": DEFAULT_PATH, **inherited, **amount, **own}
    total_bytes = sum(_size(name, value) for name, value in together.items())
    if total_bytes > MAX_BYTES:
        raise InvalidInput(
            f"The environment is {total_bytes} bytes; a script is given at most {MAX_BYTES}. Nothing was run."
            " Put large values into a file."
        )
    return together


def encoded(text: str) -> bytes:
    """`text` as a program gets it; a byte of the worker's environment that is no UTF-8 comes through as it was."""
    return text.encode("utf-8", "surrogateescape")


def _size(name: str, value: str) -> int:
    if not name or "=" in name or "\0" in name:
        raise InvalidInput(f"{name!r} cannot name an environment variable (empty, or with = or NUL). Nothing was run.")
    if "\0" in value:
        raise InvalidInput(f"The value of {name} contains NUL, which no variable can hold. Nothing was run.")
    try:
        size = len(encoded(f"{name}={value}"))
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} or its value is no Unicode text (a lone surrogate). Nothing was run.") from None
    if size > MAX_VARIABLE_BYTES:
        raise InvalidInput(
            f"{name} with its value is {size} bytes; the system passes at most {MAX_VARIABLE_BYTES} in one variable."
            " Nothing was run. Put the value into a file and pass the file's name."
        )
    return size + 1
