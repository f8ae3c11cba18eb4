"""Build the site: gathers its pages in .site/pages and has zensical build .site/html, strictly (`make docs`).

The pages are those of this folder and a few files of the repository, the README as front page. Others are written here:
a page for each run in results/ and for each paper in claims/, the settings, the notebook of the tutorial, and the
options of every command, as `--help` has them. Nothing is run for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import notebook
import settings
import typer

from epsilometer.cli.app import app
from epsilometer.report import archive, claims
from epsilometer.report.cited import Figures

ROOT = Path(__file__).parents[1]
BESIDE = {  # what lies outside docs, and its name on the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
}
_LINK = re.compile(r"(\]\()([^)\s#]+)(#(?:[^()\s]|\([^()\s]*\))*)?(?=\))")
_CODE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


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
    for page in folder.rglob("*.md"):
        page.write_text(moved(page.read_text(), "docs" / page.relative_to(folder)))
    for name, page in BESIDE.items():
        text = (ROOT / name).read_text()
        (folder / page).write_text(moved(text, Path(name)) if name.endswith(".md") else text)
    measured(folder)
    with (folder / "reference/commands.md").open("a") as page:
        page.write(options())
    (folder / "reference/settings.md").write_text(settings.page())
    (folder / "tutorial.ipynb").write_text(notebook.notebook((ROOT / "docs/tutorial.md").read_text()))


def measured(folder: Path) -> None:
    """Write a page for each run and each paper, and lists of them."""
    listed = ["# Results of all runs", "For readers who look for a table: the runs, each with its tables."]
    for source in sorted((ROOT / archive.RESULTS).iterdir()):
        run = archive.read(source)
        write(folder / f"results/{source.name}.md", archive.page(run))
        for picture in source.glob("*.svg"):
            shutil.copy(picture, folder / "results")
        listed.append(f"- [{source.name}]({source.name}.md): {run.title.removeprefix(f'{source.name}: ')}")
    write(folder / "results/index.md", "\n\n".join([*listed[:2], "\n".join(listed[2:])]) + "\n")
    figures = Figures(ROOT)
    for file in sorted((ROOT / "claims").glob("*.yaml")):
        page = claims.page(claims.read(file), figures)
        write(folder / f"claims/{file.stem}.md", moved(page, file.relative_to(ROOT)))


def write(page: Path, text: str) -> None:
    """Write a page, and its folder if it is missing."""
    page.parent.mkdir(exist_ok=True)
    page.write_text(text)


def moved(text: str, page: Path) -> str:
    """Returns a page of the repository with its links as they are on the site. page: its path in the repository."""
    place = os.path.dirname(on_site(page.as_posix()))

    def link(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        target = os.path.normpath(page.parent / match[2])
        anchor = "" if target.startswith((archive.RESULTS, "claims")) else match[3] or ""
        return f"{match[1]}{os.path.relpath(on_site(target), place or '.')}{anchor}"

    parts = _CODE.split(text)
    return "".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(parts))


def on_site(path: str) -> str:
    """Returns the path on the site of a file of the repository."""
    if path in BESIDE:
        return BESIDE[path]
    parts = path.split("/")
    if parts[0] == archive.RESULTS:
        return f"results/{parts[1]}.md" if len(parts) > 1 else "results/index.md"
    if parts[0] == "claims":
        return f"claims/{Path(parts[1]).stem}.md" if len(parts) > 1 else "papers/index.md"
    return path.removeprefix("docs/")


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
