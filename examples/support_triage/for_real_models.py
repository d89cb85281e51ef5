"""The same workflow for the real provider, where the document's invented model does not exist: another one writes."""

from __future__ import annotations

from examples.support_triage.workflow import wf

WRITER = "claude-sonnet-4-6"

wf.nodes["draft_reply"].settings["model"] = WRITER
