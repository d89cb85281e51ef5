"""Workflow files that clients have submitted, kept in a folder so that their runs go on after a restart.

Never here: what is right or wrong in a file (authoring.yaml), what cannot be run here (jobs.refusal).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.authoring.workflow import Workflow
from holdfast.authoring.yaml.load import load
from holdfast.errors import HoldfastError, InvalidFile, UsageError
from holdfast.jobs import refusal
from holdfast.jobs.workflow import workflow_of

MOST_FILES: Final = 1_000
"""Different files that a server knows at once; it holds the workflow of each in memory."""
_UNNAMED: Final = "workflow"
"""What a workflow is called whose file does not say."""


class Shelf:
    """The files of one folder, each under its workflow's hash."""

    def __init__(self, folder: Path, blobs: str) -> None:
        """`blobs` is where large payloads go, as the settings name it. Raises UsageError for a folder that cannot be used."""
        self._folder = folder
        self._blobs = blobs
        self._known: dict[str, Workflow] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            kept = sorted(folder.glob("*.yaml"))
        except OSError as problem:
            raise UsageError(
                f"{folder} cannot be used for workflow files: {problem.strerror}. Nothing was started."
            ) from None
        self._kept = kept

    def workflows(self) -> Iterator[Workflow]:
        """Those of the files that were kept before, the latest first. One that can no longer be used raises UsageError."""
        latest = sorted(self._kept, key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for file in latest[:MOST_FILES]:
            try:
                workflow = self._made(file.read_text(encoding="utf-8"))
            except (HoldfastError, OSError, ValueError) as problem:
                raise UsageError(
                    f"{file} was submitted once and cannot be used any more: {problem}. Mend or remove it; runs of it wait."
                ) from None
            self._known[workflow.hash] = workflow
            yield workflow

    def take(self, text: str) -> Workflow:
        """The workflow of a file's text, when it is on the disk. Raises InvalidFile, UsageError for what cannot be run here."""
        workflow = self._made(text)
        known = self._known.get(workflow.hash)
        if known is not None:
            return known
        if len(self._known) >= MOST_FILES:
            raise UsageError(
                f"This server knows {MOST_FILES} different workflow files, and takes no more. Give what differs between runs"
                " as their input, or remove files that no run needs from its folder and start it anew."
            )
        self._keep(workflow.hash, text)
        self._known[workflow.hash] = workflow
        return workflow

    def _made(self, text: str) -> Workflow:
        try:
            document = load(text, _UNNAMED)
        except InvalidFile as invalid:
            raise InvalidFile(_UNNAMED, invalid.mistakes, is_complete=invalid.is_complete) from None
        refused = [*refusal.unplaced(document), *refusal.unstored(document, self._blobs)]
        if refused:
            why = "".join(f"\n  {each}" for each in refused)
            raise UsageError(f"The file is right, but cannot be run here:{why}\nNothing was started.")
        return workflow_of(document)

    def _keep(self, name: str, text: str) -> None:
        """Write the file whole or not at all; it is on the disk when this returns."""
        place, new = self._folder / f"{name}.yaml", self._folder / f".{name}.{os.getpid()}"
        try:
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(place)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as problem:
            with contextlib.suppress(OSError):
                new.unlink()
            raise UsageError(f"The workflow file cannot be kept: {problem.strerror}. Nothing was started.") from None
