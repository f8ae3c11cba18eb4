"""One thin module a DVC stage: parse, read, call, write."""

from __future__ import annotations

import os

# Stages may share the cores with others; threads that wait by spinning then take several times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
