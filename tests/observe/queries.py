"""The queries of the dashboard and of the alert rules, in the folder `deploy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "holdfast.json"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"


def alerts() -> dict[str, dict[str, Any]]:
    """Return the rules, by name."""
    (group,) = YAML(typ="safe").load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def panels() -> dict[str, list[str]]:
    """Return the queries of each panel, as Grafana sends them for an interval of 15 s."""
    found = json.loads(DASHBOARD.read_text())["panels"]
    return {
        panel["title"]: [target["expr"].replace("$__rate_interval", "1m") for target in panel["targets"]]
        for panel in found
        if panel["type"] != "row"
    }
