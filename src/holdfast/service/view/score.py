"""Scores of runs. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.nouns.scores import Score, ScoreMean


def of_score(score: Score) -> dict[str, Any]:
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


def of_mean(mean: ScoreMean) -> dict[str, Any]:
    return {
        "workflow": mean.workflow,
        "version": mean.version,
        "name": mean.name,
        "scores": mean.scores,
        "mean": mean.mean,
        "newest_at": iso(mean.newest_at_ms),
    }
