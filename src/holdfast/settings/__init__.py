"""Settings: the environment and `holdfast.toml`, read once into one frozen value; and secrets, by name.

Never here: a default that only one adapter knows, a secret's value in a repr, a message or a file of ours.
"""

from __future__ import annotations

from holdfast.settings.access import PortBounds, SignedTokenRules, SignInRules
from holdfast.settings.capacity import DeclaredModel, LaneRules, PoolRules
from holdfast.settings.hooks import HookPerson, HookRules
from holdfast.settings.notifications import ChannelRules, NotificationRules, PersonRules
from holdfast.settings.runs import BudgetRules, FetchRules, HoldBackRules, RetentionRules, ScriptLimits
from holdfast.settings.secrets import AUDIT_KEY, NameOfSecret, SecretName, Secrets
from holdfast.settings.settings import IN_FILE, LEASE_S, Settings, as_part, load
from holdfast.settings.table import is_private
from holdfast.settings.telemetry import ClickHouseRules, LogRules, TelemetryRules

__all__ = [
    "AUDIT_KEY",
    "IN_FILE",
    "LEASE_S",
    "BudgetRules",
    "ChannelRules",
    "ClickHouseRules",
    "DeclaredModel",
    "FetchRules",
    "HoldBackRules",
    "HookPerson",
    "HookRules",
    "LaneRules",
    "LogRules",
    "NameOfSecret",
    "NotificationRules",
    "PersonRules",
    "PoolRules",
    "PortBounds",
    "RetentionRules",
    "ScriptLimits",
    "SecretName",
    "Secrets",
    "Settings",
    "SignInRules",
    "SignedTokenRules",
    "TelemetryRules",
    "as_part",
    "is_private",
    "load",
]
