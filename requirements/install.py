"""Installs what `make audit` needs, or what `make test` needs, into the environment of the Python that runs this.

    .venv/bin/python requirements/install.py audit      (or test)

uv installs in a sixth of pip's time. It does not read pip's settings, so that the indexes that pip is set to use are
passed on; where uv fails all the same, pip does the work. What the lock files pin is installed by hash; then torch, of
which each platform has a build of its own, by version, with what it brings. Nothing is compiled here: Python compiles
what it imports, at the first import, which is a small part of what is installed.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
EXTRAS = {"audit": "project,anonymisers", "test": "test"}
LOCKS = {"audit": ["audit"], "test": ["audit", "test"]}
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
PATIENCE = 300  # seconds for a command of uv, which could wait for ever where a network stalls
# pip's setting, and uv's variable for the same.
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
}


def settings(listed: str) -> dict[str, str]:
    """Variables that tell uv what `pip config list` printed; as in pip, a variable of its own overrides a file."""
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's: the best version of all indexes
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        variable = VARIABLES.get(name.rpartition(".")[2])
        if variable is not None:
            places = str(ast.literal_eval(value)).split()
            variables[variable] = ("," if variable == "UV_FIND_LINKS" else " ").join(places)
    return variables


def install(command: list[str], target: str, environment: dict[str, str], seconds: float | None) -> None:
    """Raises SubprocessError where a command fails or takes longer than that."""
    locks = [word for name in LOCKS[target] for word in ("--requirement", str(FOLDER / f"{name}.lock"))]
    subprocess.run([*command, "--require-hashes", "--no-deps", *locks], check=True, env=environment, timeout=seconds)
    project = ["--constraint", str(FOLDER.parent / "constraints.txt"), "--no-build-isolation"]
    project += ["--editable", f"{FOLDER.parent}[{EXTRAS[target]}]"]
    subprocess.run([*command, *project], check=True, env=environment, timeout=seconds)


def main() -> None:
    target, environment = sys.argv[1], dict(os.environ)
    try:
        uv = ["--require-hashes", "--no-deps", "--requirement", str(FOLDER / "uv.lock")]
        subprocess.run([*PIP, "install", "--quiet", *uv], check=True)
        listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True).stdout
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
        install(command, target, environment | settings(listed), PATIENCE)
    except (subprocess.SubprocessError, ValueError, SyntaxError) as error:
        print(f"uv could not install ({error}); pip does it now, in a few minutes.", file=sys.stderr)
        install([*PIP, "install", "--quiet"], target, environment, None)


if __name__ == "__main__":
    main()
