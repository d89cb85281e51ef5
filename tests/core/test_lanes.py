"""To which lane a run belongs: the first that names its workflow or its tenant, else the default one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.lanes import DEFAULT, Lanes, Rule


def test_a_run_belongs_to_the_first_lane_that_names_its_workflow_or_its_tenant() -> None:
    lanes = Lanes({
        "chat": Rule(frozenset({"answer"})), "acme": Rule(tenants=frozenset({"acme"})), "late": Rule(frozenset({"answer"})),
    })  # fmt: skip
    assert lanes.of("answer", "acme") == "chat"
    assert lanes.of("report", "acme") == "acme"
    assert lanes.of("report", "other") == DEFAULT
    assert set(lanes.names) == {DEFAULT, "chat", "acme", "late"}


WORDS = st.frozensets(st.sampled_from("abc"))


@given(st.dictionaries(st.sampled_from(["x", "y", "z"]), st.builds(Rule, WORDS, WORDS)))
def test_a_lane_may_have_a_workflow_exactly_if_somebodys_run_of_it_belongs_there(rules) -> None:
    lanes = Lanes(rules)
    for workflow in "abcd":
        found = {lanes.of(workflow, tenant) for tenant in "abcd"}
        for lane in lanes.names:
            assert lanes.may_have(lane, workflow) or lane not in found
