"""Prefect flows, which order, schedule and report runs; DVC decides what runs.

This module sets defaults in the environment before Prefect reads it. Existing values stay.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit


def _project() -> Path:
    """Return the current folder or its nearest parent with a prefect.yaml, else the folder of this package."""
    here = Path.cwd()
    package = Path(__file__).resolve().parents[3]
    return next((folder for folder in (here, *here.parents) if (folder / "prefect.yaml").is_file()), package)


PROJECT = _project()
_DEFAULTS = {
    "PREFECT_HOME": str(PROJECT / ".prefect"),  # its database stays in the project
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600",  # Prefect's default, 20, is too short on busy cores
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",  # seconds to wait for a locked database; Prefect's default is 10
    # No information about a run leaves the machine.
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
}

SERVERS_SECRET, _CLIENTS_SECRET = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"

for _name, _value in _DEFAULTS.items():
    os.environ.setdefault(_name, _value)


def _secret(file: Path) -> str:
    """Return the project's random secret for server and clients, from a file that only its user can read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.chmod(0o700)  # it also contains Prefect's database, logs and profile
    if not file.exists():
        with tempfile.NamedTemporaryFile("w", dir=file.parent) as new:  # of mode 0600
            new.write(f"epsilometer:{secrets.token_urlsafe(24)}")
            new.flush()
            with suppress(FileExistsError):  # another process was first
                os.link(new.name, file)  # the file appears only once it is complete
    return file.read_text()


def new_secret() -> None:
    """Replace the secret in the file and in this process, for a new server; a secret that the user has set stays."""
    file = Path(os.environ["PREFECT_HOME"], "secret")
    earlier = _secret(file)
    file.unlink()
    secret = _secret(file)
    for name in (SERVERS_SECRET, _CLIENTS_SECRET):
        if os.environ.get(name) == earlier:
            os.environ[name] = secret


_own = _secret(Path(os.environ["PREFECT_HOME"], "secret"))
os.environ.setdefault(SERVERS_SECRET, _own)
# The secret is not for servers on other machines. `localhost` may differ from 127.0.0.1, and anybody may listen there.
if urlsplit(os.environ.get("PREFECT_API_URL", "")).hostname in (None, "127.0.0.1"):
    os.environ.setdefault(_CLIENTS_SECRET, _own)
