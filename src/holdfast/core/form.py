"""The form of a gate, a JSON Schema: whether it is one, and what in an answer does not fit it. Loaded with the first form.

Never here: a gate. Only the form itself counts: a reference to somewhere else is never fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import referencing.exceptions
import referencing.jsonschema


def mistake(form: Mapping[str, Any]) -> str | None:
    """Why `form` is no JSON Schema, if it is none."""
    try:
        jsonschema.Draft202012Validator.check_schema(form)
    except jsonschema.SchemaError as problem:
        return problem.message
    return None


def misfits(form: Mapping[str, Any], data: Any) -> list[str]:
    """What in `data` does not fit. Raises KeyError with a reference to what is not in the form."""
    checker = jsonschema.Draft202012Validator(form, registry=referencing.jsonschema.EMPTY_REGISTRY)
    try:
        return [f"{'.'.join(map(str, e.absolute_path)) or 'data'}: {e.message}" for e in checker.iter_errors(data)]
    except referencing.exceptions.Unresolvable as problem:
        raise KeyError(problem.ref) from None
