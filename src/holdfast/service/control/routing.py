"""A router's choice for a request, in advance, and the savings of its choices.

Never here: choosing (core.nouns.routing), a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.authoring.agents.router import Route, Router, expect_complexity, expect_latency
from holdfast.core.nouns.routing import Complexity, ModelNeeds, Quote
from holdfast.core.values.money import usd
from holdfast.ports import ModelRequest, UserTurn
from holdfast.service.control.allowance import Allowances

_USUALLY: Final = 4096


class RoutingReport(NamedTuple):
    """The calls of a router's models over some days: how many each had, what was paid for them, and what the same tokens would
    have cost had every call gone to `dearest`, at its plain prices of today; in nano-dollars."""

    calls: dict[str, int]
    cost_nanousd: int
    dearest: str
    dearest_nanousd: int

    @property
    def saved_nanousd(self) -> int:
        """Against always taking the dearest."""
        return self.dearest_nanousd - self.cost_nanousd

    @property
    def saved_percent(self) -> float:
        """The same in hundredths; 0 where nothing was called."""
        return 100 * self.saved_nanousd / self.dearest_nanousd if self.dearest_nanousd else 0.0

    def __str__(self) -> str:
        calls = ", ".join(f"{model} {count}" for model, count in self.calls.items())
        return (
            f"{sum(self.calls.values())} calls ({calls}) for ${usd(self.cost_nanousd)}; all of them with {self.dearest} would"
            f" have cost ${usd(self.dearest_nanousd)}: {self.saved_percent:.0f} % saved"
        )


class Routing(Allowances):
    """Routers, asked outside of any run."""

    async def quote_route(
        self,
        router: Router,
        user: str,
        *,
        system: str = "",
        max_tokens: int = _USUALLY,
        complexity: Complexity | int | None = None,
        max_latency_s: float | None = None,
        workflow: str = "",
        node: str = "",
    ) -> Sequence[Quote]:
        """Return each model of a router with the highest and expected cost and the expected time of a request. `refusal` says
        why a model is not chosen. No model is called; the router takes the cheapest without a refusal.

        Args:
            router: The router.
            user: Prompt.
            system: System prompt.
            max_tokens: Maximum number of tokens of the reply.
            complexity: Difficulty of the task, 1 to 5.
            max_latency_s: Longest expected time to the reply, in seconds.
            workflow: Workflow whose experience with the models counts; by default that of all.
            node: Node of the workflow, likewise.

        Raises:
            UsageError: An option cannot be used.
        """
        request = ModelRequest(router.name, system, (UserTurn(user),), max_tokens)
        needs = ModelNeeds(expect_complexity(complexity), expect_latency(max_latency_s))
        services = self.executor.services
        return services.gateway.quotes(request, Route(router, needs), await services.models.of(workflow, node))

    async def routing_report(
        self, router: Router, first_day: str, last_day: str, *, tenant: str | None = None
    ) -> RoutingReport:
        """Return the cost of the calls to a router's models, as of now, beside the cost with the most expensive of them.

        Args:
            router: The router.
            first_day: First day, like `2026-11-23` (UTC).
            last_day: Last day, included.
            tenant: Only calls of this tenant; by default of all.

        Raises:
            UnknownPrice: A model has no price.
        """
        await self.roll_up_costs()
        names = [each.model for each in router.models]
        rows = [row for row in await self.costs(first_day, last_day, tenant=tenant) if row.model in names]
        calls = {name: sum(row.calls for row in rows if row.model == name) for name in names}
        amounts = sum(row.input_tokens for row in rows), sum(row.output_tokens for row in rows)
        dearest, cost = self.executor.services.gateway.dearest(names, *amounts)
        return RoutingReport(calls, sum(row.cost_nanousd for row in rows), dearest, cost)
