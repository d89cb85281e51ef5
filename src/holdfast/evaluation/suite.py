"""Scenarios, what is expected of each, and how many must pass; written in Python or in YAML.

Never here: judging them (judging), opening a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.values.ids import MAX_NAME_BYTES
from holdfast.errors import InvalidInput, UsageError
from holdfast.evaluation.expectation import Expectation

T = TypeVar("T")

MAX_BYTES: Final = 1_000_000
"""Of a file."""
MAX_SCENARIOS: Final = 1_000
TIMEOUT_S: Final = 60.0


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's answer at a gate.

    Args:
        decision: The decision, like `approve`.
        data: Data of the decision; by default none.
    """

    decision: str
    data: Any = msgspec.UNSET


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run to make, or recorded runs to replay, with the expected path.

    Args:
        id: Name of the scenario, unique in its suite.
        records: File that `holdfast runs export` wrote. Its runs are replayed, and each is evaluated separately.
        runs: Ids of the runs of `records` to replay; by default all.
        input: Input of the run.
        answers: Decisions by gate, in order: a decision, or an Answer with data. A gate without one stays open.
        expect: The expected path.
        cost_limit_usd: Cost limit of the run in dollars; by default the workflow's.
        timeout_s: Time after which the path so far is evaluated, up to 3,600 seconds.
    """

    id: str
    records: str | None = None
    runs: tuple[str, ...] = ()
    input: Any = None
    answers: dict[str, list[str | Answer]] = {}
    expect: Expectation = Expectation()
    cost_limit_usd: str | int | float | None = None
    timeout_s: float = TIMEOUT_S


class Suite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scenarios of one workflow.

    Args:
        workflow: The workflow as on the command line, `FILE.py:WORKFLOW`.
        scenarios: 1 to 1,000 scenarios.
        min_passed: Share of the scenarios that must pass, above 0 and up to 1.
    """

    workflow: str
    scenarios: list[Scenario]
    min_passed: float = 1.0

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        ids = [scenario.id for scenario in self.scenarios]
        if not 1 <= len(ids) <= MAX_SCENARIOS:
            raise InvalidInput(f"A suite has 1 to {MAX_SCENARIOS} scenarios; this has {len(ids)}.")
        twice = next((name for at, name in enumerate(ids) if name in ids[:at]), None)
        if twice is not None:
            raise InvalidInput(f"Two scenarios are called {twice!r}; each needs an id of its own.")
        if any(not name.strip() or len(name.encode()) > MAX_NAME_BYTES for name in ids):
            raise InvalidInput(f"The id of a scenario is 1 to {MAX_NAME_BYTES} bytes.")
        if not 0 < self.min_passed <= 1:
            raise InvalidInput(f"min_passed={self.min_passed:g} is no share; write 0.9 for nine of ten.")
        if any(not 0 < scenario.timeout_s <= 3600 for scenario in self.scenarios):
            raise InvalidInput("The timeout_s of a scenario is more than 0 and at most 3600 seconds.")
        for scenario in self.scenarios:
            _expect_one_kind(scenario)

    def is_met_by(self, passes: int, judged_runs: int | None = None) -> bool:
        """Return True if enough runs pass.

        Args:
            passes: Number of runs that passed.
            judged_runs: Number of evaluated runs; by default one for each scenario.
        """
        return passes / (judged_runs or len(self.scenarios)) >= self.min_passed


def _expect_one_kind(scenario: Scenario) -> None:
    """Raises InvalidInput if a scenario of recorded runs has fields for live ones, or the other way round."""
    if scenario.records is None:
        if scenario.runs:
            raise InvalidInput(f"Scenario {scenario.id!r} names runs; say as `records` in which file they are.")
        return
    fresh = Scenario(id=scenario.id)
    if said := [name for name in _OF_LIVE if getattr(scenario, name) != getattr(fresh, name)]:
        raise InvalidInput(
            f"Scenario {scenario.id!r} is of recorded runs, whose records have their inputs and answers; take out"
            f" {', '.join(said)}."
        )
    if scenario.expect.max_duration_s is not None:
        raise InvalidInput(f"Scenario {scenario.id!r} is of recorded runs, in which time leaps; take out max_duration_s.")


_OF_LIVE: Final = ("input", "answers", "cost_limit_usd", "timeout_s")


def parse_part(value: T | Mapping[str, Any], kind: type[T]) -> T:
    """A part of a suite, as it is or as its file has it. Raises InvalidInput."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"This is no {kind.__name__.lower()}: {problem}.") from None


def read(text: str, name: str) -> Suite:
    """The suite that a YAML file `name` describes. Raises UsageError."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - for those who have one in YAML
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415
    from ruamel.yaml.events import AliasEvent  # noqa: PLC0415

    if len(text.encode()) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES} bytes. Nothing was run.")
    yaml = YAML(typ="safe", pure=True)
    try:
        if any(isinstance(event, AliasEvent) for event in yaml.parse(text)):
            raise UsageError(f"{name} refers to a part of itself with `*`; write that part out. Nothing was run.")
        return msgspec.convert(yaml.load(text), Suite)
    except (YAMLError, RecursionError) as problem:
        raise UsageError(f"{name} is no YAML: {' '.join(str(problem).split())[:300]}. Nothing was run.") from None
    except (msgspec.ValidationError, InvalidInput) as problem:
        raise UsageError(f"{name}: {problem}. Nothing was run.".replace("..", ".")) from None
