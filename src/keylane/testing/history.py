"""The history checker, for tests of other projects: `keylane.history` under the name that the test kit has for it."""

from __future__ import annotations

from keylane.history.check import check
from keylane.history.rows import SCHEMA, rows
from keylane.history.verdict import RULES, LaneSeen, Mode, Rule, Settings, Verdict, Violation

__all__ = ["RULES", "SCHEMA", "LaneSeen", "Mode", "Rule", "Settings", "Verdict", "Violation", "check", "rows"]
