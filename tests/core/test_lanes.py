"""To which lane a run belongs: the first that names its workflow, its tenant or who started it, else the default one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.capacity.lanes import DEFAULT, Lanes, Rule


def test_a_run_belongs_to_the_first_lane_that_names_its_workflow_tenant_or_starter() -> None:
    lanes = Lanes(
        {
            "chat": Rule(frozenset({"answer"})),
            "acme": Rule(tenants=frozenset({"acme"})),
            "shop": Rule(services=frozenset({"web", "till"})),
            "late": Rule(frozenset({"answer"})),
        }
    )
    assert lanes.of("answer", "acme", "web") == "chat"
    assert lanes.of("report", "acme", "web") == "acme"
    assert lanes.of("report", "other", "web") == lanes.of("invoice", "other", "till") == "shop"
    assert lanes.of("report", "other", "acme") == lanes.of("report", "other", None) == DEFAULT
    assert set(lanes.names) == {DEFAULT, "chat", "acme", "shop", "late"}


WORDS = st.frozensets(st.sampled_from("abc"))


@given(st.dictionaries(st.sampled_from(["x", "y", "z"]), st.builds(Rule, WORDS, WORDS, WORDS)))
def test_a_lane_may_have_a_workflow_exactly_if_a_run_of_it_belongs_there(rules) -> None:
    lanes = Lanes(rules)
    for workflow in "abcd":
        found = {lanes.of(workflow, tenant, service) for tenant in "abcd" for service in "abcd"}
        for lane in lanes.names:
            assert lanes.may_have(lane, workflow) or lane not in found
