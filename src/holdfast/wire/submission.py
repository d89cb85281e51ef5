"""Workflow files that clients submit, as workflows. That they are known again after a restart is the store's doing.

Never here: what is right or wrong in a file (actions.syntax), what cannot be run here (actions.jobs.refusal).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.actions.jobs import refusal
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.authoring.workflow import Workflow
from holdfast.errors import InvalidFile, UsageError

_UNNAMED: Final = "workflow"
"""What a workflow is called whose file does not say."""


class Submissions:
    """A parser of submitted workflow files. It keeps none of them."""

    def __init__(self, blobs: str, variables: Mapping[str, str]) -> None:
        """`blobs` is where large payloads go, as the settings name it; `variables` are what `vars` has."""
        self._blobs = blobs
        self._variables = variables

    def take(self, text: str) -> Workflow:
        """The workflow of a file's text. Raises InvalidFile, and UsageError for what cannot be run here."""
        try:
            document = load(text, _UNNAMED)
        except InvalidFile as invalid:
            raise InvalidFile(_UNNAMED, invalid.mistakes, is_complete=invalid.is_complete) from None
        refused = refusal.unstored(document, self._blobs)
        if refused:
            why = "".join(f"\n  {each}" for each in refused)
            raise UsageError(f"The file is right, but cannot be run here:{why}\nNothing was started.")
        workflow = workflow_of(document, variables=self._variables)
        workflow.graph  # noqa: B018 - it is compiled when it is first asked for, and here no caller waits for that
        return workflow
