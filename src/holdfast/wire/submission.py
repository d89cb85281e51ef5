"""Workflow files that clients submit, as workflows. That they are known again after a restart is the store's doing.

Never here: what is right or wrong in a file (authoring.yaml), what cannot be run here (jobs.refusal).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.authoring.workflow import Workflow
from holdfast.authoring.yaml.load import load
from holdfast.errors import InvalidFile, UsageError
from holdfast.jobs import refusal
from holdfast.jobs.workflow import workflow_of

MOST_FILES: Final = 1_000
"""Different files that a server takes in its life: it holds the workflow of each in memory."""
_UNNAMED: Final = "workflow"
"""What a workflow is called whose file does not say."""


class Submissions:
    """The workflows of the files that have been submitted so far."""

    def __init__(self, blobs: str, variables: Mapping[str, str]) -> None:
        """`blobs` is where large payloads go, as the settings name it; `variables` are what `vars` has."""
        self._blobs = blobs
        self._variables = variables
        self._known: dict[str, Workflow] = {}

    def take(self, text: str) -> Workflow:
        """The workflow of a file's text. Raises InvalidFile, and UsageError for what cannot be run here."""
        try:
            document = load(text, _UNNAMED)
        except InvalidFile as invalid:
            raise InvalidFile(_UNNAMED, invalid.mistakes, is_complete=invalid.is_complete) from None
        refused = [*refusal.unplaced(document), *refusal.unstored(document, self._blobs)]
        if refused:
            why = "".join(f"\n  {each}" for each in refused)
            raise UsageError(f"The file is right, but cannot be run here:{why}\nNothing was started.")
        workflow = workflow_of(document, variables=self._variables)
        if workflow.hash not in self._known and len(self._known) >= MOST_FILES:
            raise UsageError(
                f"This server has taken {MOST_FILES} different workflow files, and takes no more until it is started anew."
                " Give what differs between runs as their input. Nothing was started."
            )
        return self._known.setdefault(workflow.hash, workflow)
