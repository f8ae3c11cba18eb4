"""Fetch the reference code at its pinned commits into benchmarks/peers/code (ignored by git).

The files listed in sources.json are copied unchanged from bare clones. They are not part of this project.

usage: python -m benchmarks.peers.fetch [--from FOLDER]     FOLDER contains clones, OWNER+NAME/repo or NAME
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
CODE = HERE / "code"


def sources() -> dict[str, dict[str, str]]:
    """Return the repository, commit and files of each peer."""
    return json.loads((HERE / "sources.json").read_text())  # type: ignore[no-any-return]


def _repository(url: str, local: Path | None, scratch: Path) -> Path:
    owner, name = url.split("/")[-2:]
    if local is None:
        subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", url, scratch / name], check=True)
        return scratch / name
    return next(place for place in (local / f"{owner}+{name}" / "repo", local / name) if place.is_dir())


def main(arguments: Sequence[str] = ()) -> None:
    """Write the files, and print the commit of each peer."""
    parser = ArgumentParser(prog="python -m benchmarks.peers.fetch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", metavar="FOLDER", type=Path, dest="local", help="folder of existing clones")
    local = parser.parse_args(arguments).local
    with TemporaryDirectory() as scratch:
        for name, source in sources().items():
            try:
                repository = _repository(source["url"], local, Path(scratch))
            except (StopIteration, subprocess.CalledProcessError):
                print(f"{name}: {source['url']} is not available; its rows will say so")
                continue
            for file in source["files"]:
                wanted = ["git", f"--git-dir={repository}", "show", f"{source['commit']}:{file}"]
                out = CODE / name / file
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_bytes(subprocess.run(wanted, check=True, capture_output=True).stdout)
            print(f"{name}: {source['commit'][:12]}, {len(source['files'])} files")


if __name__ == "__main__":
    main(sys.argv[1:])
