"""The rules of labels: people change them at any time, the code of a step sets them once, at its place.

Never here: what a label may be (core.nouns.labels).
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import LABEL
from holdfast.core.nouns.labels import expect_few, merged
from holdfast.core.rules.decision import Decision


def label_run(d: Decision, c: commands.LabelRun) -> None:
    found = merged(d.state.labels, c.labels)
    expect_few(found)
    if found != d.state.labels:
        d.emit(ev.RunLabelled(c.labels, *c.by.event_fields))


def record(d: Decision, c: commands.RecordValues) -> None:
    """Record values of a step, and the labels that its code asks for among them."""
    changes = [value.value for value in c.values if value.kind == LABEL]
    found = d.state.labels
    for labels in changes:
        found = merged(found, labels)
        expect_few(found)
    d.record(c.step, c.values)
    for labels in changes:
        d.emit(ev.RunLabelled(labels, step=c.step))
