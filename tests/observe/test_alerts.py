"""Each alert fires on the figures that it is about, has its page, and is silent on those of a fleet that is well."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from holdfast.observe import metrics
from holdfast.observe.health import prometheus_text
from holdfast.ports.metric import Distribution, Sample
from tests.observe.queries import RULES, alerts

DOCS: Final = "https://docs.example.com"
MOMENTS: Final = 60
"""Of a minute each: longer than the longest alert waits."""


class Case(NamedTuple):
    """Series with their values, minute by minute, and the labels of the alert."""

    series: dict[str, str]
    labels: Mapping[str, str] = MappingProxyType({})
    minute: int = 45


def steady(value: float) -> str:
    return f"{value}+0x{2 * MOMENTS}"


def rising(by: float, start: float = 0) -> str:
    return f"{start}+{by}x{2 * MOMENTS}"


def buckets(name: str, slow: str, fast: str = "0+0x120", labels: str = "") -> dict[str, str]:
    """A histogram of three buckets, whose measurements are all in the last but one."""
    return {
        f'{name}_bucket{{{labels}le="{bound}"}}': value for bound, value in (("0.5", fast), ("300.0", slow), ("+Inf", slow))
    }


FAILED, ENDED = (
    f'holdfast_run_duration_seconds_count{{workflow="refund",outcome="{each}"}}' for each in ("failed", "completed")
)
CALL: Final = 'holdfast_model_calls_total{{model="opus",outcome="{}"}}'
CASES: Final[dict[str, Case]] = {
    "HoldfastProcessDown": Case({'up{job="holdfast",instance="a:1"}': steady(0)}, {"job": "holdfast", "instance": "a:1"}),
    "HoldfastNoLeader": Case({'holdfast_leads{instance="a:1"}': steady(0), 'holdfast_leads{instance="b:1"}': steady(0)}),
    "HoldfastLeaseOld": Case({'holdfast_lease_age_seconds{instance="a:1"}': steady(9)}, {"instance": "a:1"}),
    "HoldfastSweepStuck": Case({'holdfast_sweep_age_seconds{instance="a:1"}': steady(90)}, {"instance": "a:1"}),
    "HoldfastRunsOverdue": Case({"holdfast_sweep_lag_seconds": steady(400)}),
    "HoldfastSlotsFull": Case(
        {
            'holdfast_worker_utilization_ratio{worker="a:1",lane="default"}': steady(1),
            'holdfast_queue_depth{reason="slot"}': steady(3),
        }
    ),
    "HoldfastPoolShort": Case(
        {'holdfast_pool_wanted{pool="GPU"}': steady(9), 'holdfast_pool_limit{pool="GPU"}': steady(3)}, {"pool": "GPU"}
    ),
    "HoldfastAttemptsLost": Case({"holdfast_recovery_duration_seconds_count": rising(1)}),
    "HoldfastRecoverySlow": Case(buckets("holdfast_recovery_duration_seconds", rising(1))),
    "HoldfastRunsFail": Case({FAILED: rising(1), ENDED: rising(4)}, {"workflow": "refund"}),
    "HoldfastModelCallsFail": Case(
        {CALL.format("in_doubt"): rising(1), CALL.format("completed"): rising(4)}, {"model": "opus"}
    ),
    "HoldfastDeadLetters": Case({"holdfast_dead_letters_open": steady(2)}),
    "HoldfastDoubts": Case({'holdfast_doubts_open{kind="effect"}': steady(1)}, {"kind": "effect"}, 65),
    "HoldfastGatesWait": Case(
        {'holdfast_gates_oldest_age_seconds{reason="approval"}': steady(400_000)}, {"reason": "approval"}
    ),
    "HoldfastCostHigh": Case({'holdfast_cost_nanodollars_total{model="opus",tenant="acme"}': rising(3e9)}),
    "HoldfastCommitsSlow": Case(buckets("holdfast_commit_duration_seconds", rising(9))),
    "HoldfastSinkLags": Case({'holdfast_follower_lag_seconds{sink="traces"}': steady(600)}, {"sink": "traces"}),
    "HoldfastTelemetryDropped": Case({'holdfast_telemetry_dropped_total{sink="traces"}': rising(1)}, {"sink": "traces"}),
    "HoldfastNotificationsLate": Case({'holdfast_outbox_oldest_age_seconds{channel="ops"}': steady(2_000)}, {"channel": "ops"}),
    "HoldfastNotificationsDead": Case(
        {'holdfast_notifications_total{channel="ops",outcome="dead"}': rising(1)}, {"channel": "ops"}
    ),
    "HoldfastMetricsStale": Case({"holdfast_metrics_look_age_seconds": steady(300)}),
}
WELL: Final = {
    'up{job="holdfast",instance="a:1"}': steady(1),
    'holdfast_leads{instance="a:1"}': steady(1),
    'holdfast_leads{instance="b:1"}': steady(0),
    'holdfast_lease_age_seconds{instance="a:1"}': steady(2),
    'holdfast_sweep_age_seconds{instance="a:1"}': steady(1),
    "holdfast_sweep_lag_seconds": steady(0),
    'holdfast_worker_utilization_ratio{worker="a:1",lane="default"}': steady(1),
    'holdfast_queue_depth{reason="slot"}': steady(0),
    'holdfast_pool_wanted{pool="GPU"}': steady(3),
    'holdfast_pool_limit{pool="GPU"}': steady(3),
    "holdfast_recovery_duration_seconds_count": steady(4),
    FAILED: rising(1),
    ENDED: rising(40),
    CALL.format("failed"): rising(1),
    CALL.format("completed"): rising(40),
    "holdfast_dead_letters_open": steady(0),
    'holdfast_doubts_open{kind="effect"}': steady(0),
    'holdfast_gates_oldest_age_seconds{reason="approval"}': steady(3_600),
    'holdfast_cost_nanodollars_total{model="opus",tenant="acme"}': rising(1e9),
    **buckets("holdfast_commit_duration_seconds", rising(9), rising(9)),
    **buckets("holdfast_recovery_duration_seconds", rising(1), rising(1)),
    'holdfast_follower_lag_seconds{sink="traces"}': steady(2),
    'holdfast_telemetry_dropped_total{sink="traces"}': steady(5),
    'holdfast_outbox_oldest_age_seconds{channel="ops"}': steady(10),
    'holdfast_notifications_total{channel="ops",outcome="dead"}': steady(3),
    'holdfast_notifications_total{channel="ops",outcome="sent"}': rising(5),
    "holdfast_metrics_look_age_seconds": steady(14),
}


def check_rules(programs: Path, folder: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """Have promtool hold the rules against series."""
    file = folder / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    words = [programs / "promtool", "test", "rules", file]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def case(name: str, series: dict[str, str], minute: int) -> dict[str, Any]:
    """A test in which an alert does not fire."""
    return {
        "interval": "1m",
        "external_labels": {"holdfast_docs": DOCS},
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}],
    }


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == alerts().keys()


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_on_what_it_is_about_and_not_on_a_healthy_fleet(name: str, programs: Path, tmp_path: Path) -> None:
    broken = CASES[name]
    silent = check_rules(programs, tmp_path, [case(name, WELL, broken.minute)])
    assert silent.returncode == 0, silent.stderr + silent.stdout
    fires = check_rules(programs, tmp_path, [case(name, broken.series, broken.minute)])
    assert fires.returncode == 1, "it fires where the test expects that it does not"
    got = (fires.stdout + fires.stderr).partition("got:")[2]
    for label, value in {"alertname": name, **alerts()[name]["labels"], **broken.labels}.items():
        assert f'{label}="{value}"' in got, got
    assert f'runbook_url="{DOCS}/runbooks/' in got
    assert re.search(r'summary="[A-Z0-9a-z][^"]*"', got), got
    assert not re.search("<no value>|error executing", got), got


@pytest.mark.long
def test_promtool_has_no_word_against_names_and_rules(programs: Path) -> None:
    every = [
        Sample(
            each, ("x",) * len(each.labels), Distribution((1,) * (len(each.bounds) + 1), 1.0) if each.kind == "histogram" else 1
        )
        for each in metrics.ALL.values()
    ]
    text = prometheus_text(every)
    found = subprocess.run([programs / "promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
    rules = subprocess.run([programs / "promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert rules.returncode == 0, rules.stderr
    config = RULES.with_name("prometheus.yaml")
    assert subprocess.run([programs / "promtool", "check", "config", config], capture_output=True, check=False).returncode == 0
