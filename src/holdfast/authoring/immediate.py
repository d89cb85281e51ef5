"""The plain functions that may run at once, in the event loop, and need no thread.

Such a function only puts together its arguments: literals, f-strings, fields of the state, conditions. It has no call and no
loop, and uses nothing of its module but constants. Whatever the data are, it cannot wait, and takes no time to speak of. A
prompt mostly is one, and the way to a thread and back would take longer than all else about it.

The decision reads the function's byte code, which is what runs; an instruction that is not known here, as of a later Python,
means a thread. Never here: running them.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

_HARMLESS: Final = frozenset(
    {
        "RESUME",
        "NOP",
        "CACHE",
        "POP_TOP",
        "COPY",
        "SWAP",
        "LOAD_CONST",
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_LOAD_FAST",
        "STORE_FAST",
        "RETURN_VALUE",
        "RETURN_CONST",
        "BINARY_SUBSCR",
        "BINARY_SLICE",
        "BUILD_SLICE",
        "BUILD_STRING",
        "FORMAT_SIMPLE",
        "CONVERT_VALUE",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
        "BUILD_LIST",
        "BUILD_TUPLE",
        "LIST_EXTEND",
        "UNARY_NOT",
        "TO_BOOL",
        "COMPARE_OP",
        "IS_OP",
        "CONTAINS_OP",
        "JUMP_FORWARD",
        "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE",
        "POP_JUMP_FORWARD_IF_NONE",
        "POP_JUMP_FORWARD_IF_NOT_NONE",
    }
)
_CONSTANTS: Final = (str, bytes, int, float, bool)
"""Not None, which mostly stands for something that is still to come."""
_WITH_SPEC: Final = 4
"""The flag of FORMAT_VALUE for a format of its own, whose width may be anything."""
_IS_ANOTHER: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MODEL: Final = "data"
"""The field of the state that runs the validators of a user's model."""


def is_immediate(function: Callable[..., Any]) -> bool:
    """Return True if it is one."""
    return isinstance(function, FunctionType) and _is_immediate(function)


@lru_cache(1024)
def _is_immediate(function: FunctionType) -> bool:
    if function.__code__.co_flags & _IS_ANOTHER:
        return False
    return all(_is_harmless(each, function) for each in dis.get_instructions(function))


def _is_harmless(each: dis.Instruction, function: FunctionType) -> bool:
    match each.opname:
        case "LOAD_GLOBAL":
            return isinstance(function.__globals__.get(each.argval), _CONSTANTS)
        case "LOAD_ATTR":
            return each.argval != _MODEL and not each.argrepr.startswith("NULL|")  # that would be a method about to be called
        case "FORMAT_VALUE":
            return not (each.arg or 0) & _WITH_SPEC
        case "BINARY_OP":
            return each.argrepr in ("+", "+=")
        case name:
            return name in _HARMLESS
