"""Evaluations: what suites of scenarios came to, kept in the store.

Never here: judging (holdfast.evaluation), what of it is remembered (core.nouns.evaluations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns import evaluations as rule
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult, VersionResult
from holdfast.core.values.actor import Actor
from holdfast.engine.runs.version_gate import MAX_COMPARED
from holdfast.errors import InvalidInput, NotFound
from holdfast.ports import MAX_LISTED
from holdfast.service.control.base import ControlBase, word

_TENANT: Final = "default"


class Evaluations(ControlBase):
    """Results of suites. Each is kept once, and nothing in it changes."""

    async def keep_evaluation(
        self,
        suite: str,
        workflow: Workflow,
        results: Sequence[ScenarioResult],
        *,
        min_passed: float,
        by: str | Actor | None = None,
        tenant: str = _TENANT,
    ) -> Evaluation:
        """Save the result of an evaluation suite with a workflow as it is now. All runs are counted; 1,000 are kept one by one,
        those with misses first.

        Args:
            suite: File of the suite.
            workflow: The workflow.
            results: Runs with their verdicts.
            min_passed: Share of the runs that had to pass, 0 to 1.

        Raises:
            InvalidInput: An argument cannot be used.
        """
        if not results:
            raise InvalidInput("An evaluation is of one run at least. Nothing was kept.")
        claim, passed = self._claim(by), sum(each.passed for each in results)
        evaluation = Evaluation(
            id=self.runtime.runs.new_id(),
            tenant=word("tenant", tenant),
            suite=word("name of the suite", self.payloads.redact(suite), "suite"),
            workflow=workflow.name,
            version=workflow.version,
            graph_hash=workflow.graph.hash,
            scenarios=len(results),
            passed=passed,
            replayed=sum(each.replayed for each in results),
            min_passed=min_passed,
            met=passed / len(results) >= min_passed,
            cost_nanousd=rule.spent_nanousd(results),
            at_ms=self.now_ms(),
            by=claim.name or "",
            os_user=claim.os_user,
            client=claim.client,
        )
        clean = [
            ScenarioResult(
                each.scenario, each.run, tuple(map(self.payloads.redact, each.misses)), each.cost_nanousd, each.replayed
            )
            for each in rule.remembered(results)
        ]
        await self.store.evaluations.add(evaluation, clean)
        return evaluation

    async def evaluation(self, id_: str) -> tuple[Evaluation, Sequence[ScenarioResult]]:
        """Return a saved evaluation with its kept runs.

        Args:
            id_: Id of the evaluation.

        Raises:
            NotFound: The evaluation does not exist.
        """
        found = await self.store.evaluations.find(id_)
        if found is None:
            raise not_there(id_)
        return found

    async def evaluations(
        self, *, tenant: str | None = None, workflow: str | None = None, before: str | None = None, limit: int = MAX_LISTED
    ) -> Sequence[Evaluation]:
        """Return saved evaluations, newest first.

        Args:
            before: Id of the last row of the page before.
        """
        return await self.store.evaluations.listed(tenant, workflow, before, limit)

    async def evaluation_versions(
        self, *, tenant: str | None = None, workflow: str | None = None, suite: str | None = None, limit: int = MAX_LISTED
    ) -> Sequence[VersionResult]:
        """Return the results of each suite by version of its workflow, the highest first, of the latest 1,000 evaluations.

        Args:
            suite: Only this suite, by its file as it was named.
        """
        found = await self.store.evaluations.listed(tenant, workflow, None, MAX_COMPARED)
        return rule.by_version([each for each in found if suite in (None, each.suite)])[:limit]


def not_there(id_: str) -> NotFound:
    """Return the error for an id that no evaluation has, or none that is visible to the caller."""
    return NotFound(f"There is no evaluation {id_!r:.100} in this store; `holdfast evals list` shows those that are.")
