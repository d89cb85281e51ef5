"""The errors that the codes of problems stand for.

Never here: a status, when something is refused.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import errors
from holdfast.errors import HoldfastError, code_of


def error_of(code: str, status: int, words: str, **facts: Any) -> HoldfastError:
    """Return the error that a server reported with this code and status: of its own class if a message alone makes one."""
    kind = _CLASSES.get(code) or _OF_STATUS.get(status, HoldfastError)
    return kind(words, **facts)


_CLASSES: Final[dict[str, type[HoldfastError]]] = {
    code_of(kind): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind.__init__ is HoldfastError.__init__
}
_OF_STATUS: Final[dict[int, type[HoldfastError]]] = {
    **dict.fromkeys((400, 405, 408, 413, 415, 421, 422), errors.UsageError),
    401: errors.Unauthorized,
    403: errors.NotPermitted,
    404: errors.NotFound,
    **dict.fromkeys((409, 412), errors.Conflict),
    **dict.fromkeys((502, 503, 504), errors.Unreachable),
}
