"""Which messages follow from what happened, what they say and when they are sent again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import CallId, GateId, Seq, StepId
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.scopes import ScopeRow, money_family
from holdfast.core.views import notifications
from holdfast.core.views.notifications import (
    LONGEST_DIGEST_S,
    MAX_BODY_BYTES,
    MAX_BUNDLED,
    MAX_TITLE,
    OCCASIONS,
    OF_RUNS,
    RETRIES_S,
    Happening,
    Message,
    Rule,
)

RUN = "01890000-0000-7000-8000-000000000001"
ERROR = ErrorRecord("a", "validation", "card 4111 of ann", retryable=False, at_ms=0)
DAY = money_family("acme", None, "day")


def happened(event: ev.Event, seq: int = 7) -> Happening:
    found = notifications.happening_of("acme", "orders", RUN, Recorded(Seq(seq), 1_700_000_000_000, event), "search")
    assert found is not None
    return found


def opened(**fields: Any) -> ev.GateOpened:
    step = StepId("review#1")
    said: dict[str, Any] = {
        "gate": GateId(f"{RUN}:review#1:0"),
        "reason": "approval",
        "shown": inline({"title": "Refund 12 to ann"}),
    }
    return ev.GateOpened(**said, shown_hash="h1", allowed=("approve", "reject"), step=step, **fields)


def rule(**fields: Any) -> Rule:
    return Rule(**{"tenant": "acme", "name": "asked", "occasions": (*OF_RUNS,), "channel": "ops", **fields})


def message(happening: Happening, base: str | None = "https://h.example", **fields: Any) -> Message:
    wish = rule(**fields)
    return notifications.message_of(notifications.delivery_id(wish, happening), wish, happening, base, ())


def test_each_event_that_somebody_waits_for_is_an_occasion_and_others_are_none() -> None:
    said: list[tuple[ev.Event, str | None]] = [
        (ev.RunFailed(ERROR), "run_failed"),
        (ev.RunCancelled("over"), "run_cancelled"),
        (ev.GateReminded(GateId("g"), 1), "gate_reminder"),
        (ev.GateEscalated(GateId("g"), "gate_deadline_passed"), "gate_escalated"),
        (ev.GateExpired(GateId("g"), ERROR), "gate_expired"),
        (ev.LimitNeared("cost", 80, 8, 10), "budget"),
        (ev.StepFailed(StepId("a#1"), 1, ERROR), "dead_letter"),
        (ev.StepFailed(StepId("a#1"), 1, ERROR, absorbed=True), None),
        (ev.StepFailed(StepId("a#1"), 1, ErrorRecord("a", "rejected", "no", retryable=False, at_ms=0)), None),
        (ev.ModelCallInDoubt(CallId("a#1:0:1"), ERROR), "doubt"),
        (ev.EffectInDoubt(CallId("a#1:0:1"), ERROR), "doubt"),
        (ev.EffectUnanswered(CallId("a#1:0:1"), ERROR), None),
        (ev.RunPaused(), None),
    ]
    for event, occasion in said:
        assert notifications.occasion_of(event) == occasion, event
    assert notifications.occasion_of(ev.RunCompleted()) == "run_completed"
    assert notifications.occasion_of(opened()) == "gate_opened"
    for blocked in (False, True):
        waits = ev.HoldDeferred(StepId("a#1"), 1, "0", "m", "", 5, blocked=blocked)
        assert notifications.occasion_of(waits) == ("run_budget_blocked" if blocked else None)


def test_the_same_event_leads_to_the_same_id_for_each_rule_whoever_looks() -> None:
    found = happened(opened())
    first = notifications.delivery_of(rule(), found, 1, None, ())
    again = notifications.delivery_of(rule(), found, 99, "https://h.example", ())
    others = [rule(name="other"), rule(channel="mail"), rule(tenant="*")]
    ids = {notifications.delivery_id(each, found) for each in others}
    ids |= {notifications.delivery_id(rule(), happened(opened(), seq)) for seq in (8, 9)}
    assert first.id == again.id == again.message.id
    assert len(ids | {first.id}) == 6
    assert "." not in first.id


def test_a_rule_hears_what_its_filters_let_through() -> None:
    found, labels = happened(ev.RunFailed(ERROR)), {"env": "prod", "kind": "a"}
    fits = [{}, {"workflows": ("ord*",)}, {"teams": ("search",)}, {"labels": {"env": "prod"}}, {"tenant": "*"}]
    misses: list[dict[str, Any]] = [
        {"workflows": ("pay*",)},
        {"teams": ("ads",)},
        {"labels": {"env": "test"}},
        {"labels": {"env": "prod", "other": "x"}},
        {"occasions": ("gate_opened",)},
        {"tenant": "globex"},
    ]
    assert all(notifications.matches(rule(**each), found, labels, is_child=False) for each in fits)
    assert not any(notifications.matches(rule(**each), found, labels, is_child=False) for each in misses)


def test_ends_of_children_are_told_only_if_the_rule_says_so() -> None:
    for event in (ev.RunFailed(ERROR), ev.RunCompleted()):
        assert not notifications.matches(rule(), happened(event), {}, is_child=True)
        assert notifications.matches(rule(children=True), happened(event), {}, is_child=True)
    assert notifications.matches(rule(), happened(opened()), {}, is_child=True)


def test_what_users_stored_leaves_only_with_details() -> None:
    for event, text in ((opened(), "Refund 12 to ann"), (ev.RunFailed(ERROR), "4111"), (ev.RunCancelled("for ann"), "for ann")):
        closed = message(happened(event), title="{workflow} {title}")
        shown = message(happened(event), details=True, title="{workflow} {title}")
        assert text not in msgspec.json.encode([closed, msgspec.Raw(closed.body)]).decode()
        assert text in shown.body.decode()


@pytest.mark.parametrize(
    ("event", "closed", "shown"),
    [
        (ev.RunFailed(ERROR), "validation", "card 4111 of ann"),
        (ev.StepFailed(StepId("a#1"), 1, ERROR), "validation", "card 4111 of ann"),
        (ev.ModelCallInDoubt(CallId("a#1:0:1"), ERROR), "validation", "card 4111 of ann"),
        (ev.RunCancelled("for ann"), "", "for ann"),
        (opened(), "approval", "approval"),
        (ev.HoldDeferred(StepId("a#1"), 1, "0", "m", "", 5, blocked=True), "budget", "budget"),
    ],
)
def test_a_template_has_the_reason_of_whatever_has_one(event: ev.Event, closed: str, shown: str) -> None:
    """Texts of users only with details: without, the class of an error is its reason."""
    assert message(happened(event), title="a {reason}").title == f"a {closed}".strip()
    assert message(happened(event), title="a {reason}", details=True).title == f"a {shown}"
    assert "Reason" not in dict(message(happened(ev.RunFailed(ERROR)), details=True).facts), "it stands under Message already"


def test_a_message_about_a_gate_links_to_it_and_says_what_a_button_needs() -> None:
    asked = happened(opened(reviewers=("ann", "leads"), form={"type": "object"}))
    assert message(asked).question is None
    found = message(asked, details=True)
    assert found.link == f"https://h.example/inbox/{RUN}%3Areview%231%3A0"
    assert found.question is not None
    assert (found.question.shown_hash, found.question.allowed) == ("h1", ("approve", "reject"))
    assert found.question.needs_form
    assert dict(found.facts)["Asked"] == "ann, leads"
    body = msgspec.json.decode(found.body)
    assert (body["type"], body["timestamp"]) == ("holdfast.gate_opened", "2023-11-14T22:13:20Z")
    assert (body["data"]["id"], body["data"]["seq"], body["data"]["run"]) == (found.id, 7, RUN)
    assert message(happened(ev.RunFailed(ERROR))).link == f"https://h.example/runs/{RUN}"
    assert message(happened(opened()), base=None).link is None


def test_templates_put_values_in_and_read_nothing_in_a_value() -> None:
    values = {"workflow": "{run}\r\nBcc: x", "run": "r1", "reviewers": ["ann", "bob"]}
    assert notifications.filled("{workflow} of {run}{gate}: {reviewers}", values) == "{run} Bcc: x of r1: ann, bob"
    assert len(notifications.filled("{workflow}" * 9, {"workflow": "x" * 900})) == MAX_TITLE
    for wrong in ("{runs}", "{run.x}", "{0}", "{", "{{run}}", "{run!r}", "", "a\nb", "x" * 201, "{run} }"):
        assert notifications.problem_of_template(wrong) is not None, wrong
    assert notifications.problem_of_template("{workflow}: {run}") is None


def test_every_mistake_in_a_rule_is_named_with_its_field() -> None:
    wrong = rule(name=" x", occasions=("gate_open",), channel="fax", to=("",), digest_s=LONGEST_DIGEST_S + 1, title="{secret}")
    assert [each.path for each in notifications.problems(wrong, {"ops"})] == [
        ("name",),
        ("occasions",),
        ("channel",),
        ("to",),
        ("digest_s",),
        ("title",),
    ]
    assert [*notifications.problems(rule(), {"ops"})] == []
    assert [each.path for each in notifications.problems(rule(occasions=()), {"ops"})] == [("occasions",)]


def test_a_budget_is_told_at_50_80_and_100_percent_once_each() -> None:
    def at(settled: int, held: int = 0, limit: int | None = 100) -> Any:
        return notifications.neared(ScopeRow(f"{DAY}/2026-11-28", limit, settled, held), DAY, 5)

    assert [at(49), at(10, held=90), at(10, limit=None), at(1, limit=0)] == [None] * 4
    found = [at(used) for used in (50, 79, 80, 99, 100, 120)]
    assert [each.values["percent"] for each in found] == [50, 50, 80, 80, 100, 100]
    assert len({each.key for each in found}) == 3
    assert (found[0].tenant, found[0].team, found[0].values["subject"]) == ("acme", None, "tenant acme, day 2026-11-28")
    team = money_family("acme", "search", "month")
    assert notifications.neared(ScopeRow(f"{team}/2026-11", 100, 90), team, 5)._replace(at_ms=0).team == "search"  # type: ignore[union-attr]
    assert notifications.neared(ScopeRow("tree/x", 100, 90), "tree/x", 5) is None


def test_a_limit_that_a_call_ran_into_is_not_told_as_used_up() -> None:
    told = message(happened(ev.LimitNeared("cost", 100, 400_000_000, 1_000_000_000)))
    assert told.title == "Limit reached: limit cost of the run (the next call needs more than is left)"
    assert dict(told.facts).items() >= {("Used, %", "40"), ("Reason", "next_call")}
    assert msgspec.json.decode(told.body)["data"]["percent"] == 40
    assert message(happened(ev.LimitNeared("cost", 100, 10, 10))).title == "100 % used: limit cost of the run"
    assert message(happened(ev.LimitNeared("cost", 80, 8, 10))).title == "80 % used: limit cost of the run"


def test_times_of_retries_are_those_of_standard_webhooks_with_jitter() -> None:
    pauses, now_ms, attempts = [], 0, 1
    while (at_ms := notifications.next_try_ms("msg_1", attempts, now_ms)) is not None:
        pauses.append((at_ms - now_ms) / 1000)
        now_ms, attempts = at_ms, attempts + 1
    assert len(pauses) == len(RETRIES_S) - 1
    for pause_s, least_s in zip(pauses, RETRIES_S[1:], strict=True):
        assert least_s <= pause_s <= least_s * 1.1
    assert now_ms >= 75 * 3_600_000
    assert notifications.next_try_ms("msg_1", 1, 0) != notifications.next_try_ms("msg_2", 1, 0)
    assert notifications.next_try_ms("msg_1", 1, 0, after_s=600.0) == 600_000
    assert notifications.next_try_ms("msg_1", 1, 0, after_s=1e12) == RETRIES_S[-1] * 1000
    assert notifications.next_try_ms("msg_1", len(RETRIES_S), 0, after_s=1.0) is None


def test_many_become_one_under_the_id_of_the_first_and_fit() -> None:
    many = [message(happened(opened(), seq)) for seq in range(MAX_BUNDLED)]
    one = notifications.merged(many)
    assert (one.id, one.occasion, one.question) == (many[0].id, "digest", None)
    assert one.title == "100 notifications: orders asks for a decision"
    assert one.link == "https://h.example/inbox"
    assert len(one.body) <= MAX_BODY_BYTES
    body = msgspec.json.decode(notifications.merged(many[:30]).body)
    assert (body["data"]["count"], [each["id"] for each in body["data"]["notifications"]]) == (
        30,
        [each.id for each in many[:30]],
    )
    assert notifications.merged(many[:1]) is many[0]


def test_each_line_of_a_digest_says_which_run_and_with_details_which_question() -> None:
    both = [message(happened(opened(), seq), details=True) for seq in (7, 8)]
    one = notifications.merged(both)
    assert one.facts[0][0] == "orders asks for a decision"
    for words in ("Refund 12 to ann", "orders", "run …00000001", "https://h.example/inbox/"):
        assert words in one.facts[0][1]
    entry = msgspec.json.decode(one.body)["data"]["notifications"][1]
    gate = f"{RUN}:review#1:0"
    assert entry.items() >= {"run": RUN, "workflow": "orders", "seq": 8, "gate": gate, "step": "review#1"}.items()
    assert "Refund" not in str(notifications.merged([message(happened(opened(), seq)) for seq in (7, 8)]))


def test_a_digest_that_is_cut_says_how_many_more_there_are() -> None:
    many = [message(happened(opened(), seq), title="x" * MAX_TITLE) for seq in range(MAX_BUNDLED)]
    one = notifications.merged(many, 250)
    data = msgspec.json.decode(one.body)["data"]
    assert len(one.body) <= MAX_BODY_BYTES
    assert data["more"] == 250 - len(data["notifications"])
    assert len(one.body) > MAX_BODY_BYTES * 3 // 4
    assert "more" not in msgspec.json.decode(notifications.merged(many[:3]).body)["data"]


def test_a_message_after_a_lost_one_says_so() -> None:
    marked = notifications.after_lost(message(happened(ev.RunCompleted())), 2)
    assert marked.facts[-1] == ("Not delivered before", "2")
    assert msgspec.json.decode(marked.body)["data"]["earlier_lost"] == 2


@pytest.mark.parametrize("occasion", OCCASIONS)
def test_each_occasion_has_a_title_of_its_own(occasion: str) -> None:
    found = Happening(occasion, "", "acme", 0, {"subject": "x", "percent": 50, "step": "a#1"}, workflow="orders")  # type: ignore[arg-type]
    title = message(found).title
    assert title
    assert not any(mark in title for mark in "{}")


def test_a_lost_worker_is_told_by_rules_for_all_tenants_only() -> None:
    found = notifications.lost_worker("s1", "host:1", 5)
    wanted = rule(tenant="*", occasions=("worker_lost",))
    assert notifications.matches(wanted, found, {}, is_child=False)
    own = rule(occasions=("worker_lost",))
    assert not notifications.matches(own, found, {}, is_child=False)
    assert [each.path for each in notifications.problems(own, {"ops"})] == [("occasions",)]
    assert [*notifications.problems(wanted, {"ops"})] == []
