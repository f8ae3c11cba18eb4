"""Build the site: gathers its pages in .site/pages and has zensical build .site/html, strictly (`make docs`).

The pages are those of this folder and a few files of the repository, the README as front page. The page of commands
ends with every option, as `--help` has them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import typer

from epsilometer.cli.app import app

ROOT = Path(__file__).parents[1]
BESIDE = {  # what lies outside docs, and its name on the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
}


def main() -> int:
    """Returns the exit code of zensical, which fails for a broken link or anchor."""
    gather(ROOT / ".site/pages")
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if not done.returncode:
        print("The site is in .site/html/index.html")
    return done.returncode


def gather(folder: Path) -> None:
    """Write the pages to a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name, page in BESIDE.items():
        shutil.copy(ROOT / name, folder / page)
    for page in folder.glob("*.md"):
        page.write_text(moved(page.read_text()))
    with (folder / "commands.md").open("a") as page:
        page.write(options())


def moved(text: str) -> str:
    """Returns a page with its links as they are on the site, where all pages lie in one folder."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text).replace("](results)", "](results/default.md)")
    for name, page in BESIDE.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text


def options() -> str:
    """Returns a section for each command: what it does, its arguments and its options."""
    group: Any = typer.main.get_command(app)
    parts = ["\n## Every command and its options\n"]
    for name, command in group.commands.items():
        context = command.context_class(command, info_name=f"epsilometer {name}", terminal_width=88)
        parts.append(f"### {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
