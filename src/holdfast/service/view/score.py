"""Scores of runs. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from holdfast.core.nouns.scores import Source
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.scores import Score, ScoreMean


class ScoreRow(TypedDict):
    """A score of a run."""

    name: Annotated[str, doc("Name of the score: `helpful`.")]
    value: Annotated[float, doc("A number on a scale of the author's.")]
    by: Annotated[str, doc("The author: a person, or the name that code gives itself.")]
    by_os_user: Annotated[str | None, doc("The operating system's user who gave it.")]
    by_client: Annotated[str | None, doc("The token or key with which it was given.")]
    source: Annotated[Source, doc("Kind of author: a person or code.")]
    comment: Annotated[str | None, doc("Comment of the author; null without one.")]
    at: Annotated[Time, doc("When it was given.")]


class ScoreMeanRow(TypedDict):
    """The mean score of the runs of a workflow's version."""

    workflow: field.Workflow
    version: field.Version
    name: Annotated[str, doc("Name of the score: `helpful`.")]
    scores: Annotated[int, doc("Number of scores that count.")]
    mean: Annotated[float, doc("Mean of the scores that count.")]
    newest_at: Annotated[Time, doc("When the newest of them was given.")]


def of_score(score: Score) -> ScoreRow:
    return {
        "name": score.name,
        "value": score.value,
        "by": score.by,
        "by_os_user": score.os_user or None,
        "by_client": score.client or None,
        "source": score.source,
        "comment": score.comment or None,
        "at": iso(score.at_ms),
    }


def of_mean(mean: ScoreMean) -> ScoreMeanRow:
    return {
        "workflow": mean.workflow,
        "version": mean.version,
        "name": mean.name,
        "scores": mean.scores,
        "mean": mean.mean,
        "newest_at": iso(mean.newest_at_ms),
    }
