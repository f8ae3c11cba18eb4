"""Broken: reports success among texts with a rewrite as success among all texts."""

from __future__ import annotations

from typing import Any

from epsilometer.auditing.attributes import success as anonymity


def shares(read: anonymity.Read, alpha: float) -> dict[str, Any]:
    row = anonymity.shares(read, alpha)
    return row | {f"rs_all{end}": row[f"rs{end}"] for end in ("", "_low", "_high")}
