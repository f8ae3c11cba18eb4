"""Broken: success over the texts that got a rewrite, under the name of success over all texts."""

from __future__ import annotations

from typing import Any

from epsilometer.auditing.attributes import success as anonymity


def shares(read: anonymity.Read, alpha: float) -> dict[str, Any]:
    row = anonymity.shares(read, alpha)
    return row | {f"rs_all{end}": row[f"rs{end}"] for end in ("", "_low", "_high")}
