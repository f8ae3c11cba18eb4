"""Figures of studies are compared with the schema of what draws them."""

from __future__ import annotations

import pytest

from epsilometer.report import figures


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CHECKED", True)
