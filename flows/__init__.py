"""Prefect flows: order, schedule, alerts; nothing else.

Defaults of the environment, set before Prefect reads it; what is already set stands.
"""

from __future__ import annotations

import os
from pathlib import Path

_DEFAULTS = {
    "PREFECT_HOME": str(Path(__file__).resolve().parents[1] / ".prefect"),  # its database stays in the project
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # two busy cores need 20 s, which is its own default
    # Nothing about a run leaves the machine.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
}

for _name, _value in _DEFAULTS.items():
    os.environ.setdefault(_name, _value)
