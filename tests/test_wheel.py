"""The package as it is installed elsewhere: the content of the wheel, and audits without the project's folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from epsilometer.core.component import EMBEDDED
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
MINE = """
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Upper:
    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        return Rewrites([text.upper() for text in texts])

    def guarantee(self, epsilon):
        return None
"""
AUDITS = """
import epsilometer, polars as pl
texts = [f"show me {what} from {a} to {b}" for what in ("flights", "fares") for a in "ABCD" for b in "EFGH"]
mine = epsilometer.audit(texts, lambda text, rng: " ".join(sorted(text.split())), trials=100)
assert mine.filter(attack="lexical")["loss"][0] > 2
told = epsilometer.audit(texts[:2], "randomized_response", epsilons=[3], trials=400)
assert 2 < told.filter(attack="likelihood")["point"][0] < 4  # exactly 3, and 4 standard errors of its estimate
print(epsilometer.exact_loss(texts, "randomized_response", epsilons=[2.0])["average"][0])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("dist")
    return build(folder)


def build(folder: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=source, check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_the_package_its_weights_and_licence_and_nothing_else(built) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"epsilometer"}
    weights = {f"epsilometer/embedded/models/{file.relative_to(EMBEDDED)}" for file in EMBEDDED.rglob("*.safetensors")}
    assert weights <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "epsilometer/py.typed" in names
    for name in ("stages.yaml", "params.yaml", "gitignore"):
        assert f"epsilometer/pipeline/template/{name}" in names
    read = {str(file.relative_to(ROOT)) for end in ("j2", "yaml") for file in (ROOT / "epsilometer").rglob(f"*.{end}")}
    assert "epsilometer/corpora/grammars/reviews.yaml" in read <= set(names), "templates and grammars"
    metadata = zipfile.ZipFile(built[0]).read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert "Requires-Python: >=3.11" in metadata, "pip refuses it on an older Python, and names both versions"
    with tarfile.open(built[1]) as archive:
        in_sdist = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "pyproject.toml", "data/embedded/models/SHA256SUMS"} <= in_sdist
    assert not [name for name in in_sdist if name.startswith(("tests/", "flows/", "tasks/", "dvc.lock"))]


def test_building_twice_gives_the_same_bytes(built, tmp_path) -> None:
    for first, second in zip(built, build(tmp_path), strict=True):
        assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_the_core_alone_audits_functions_and_word_mechanisms(built, tmp_path) -> None:
    """In an empty environment outside the repository; what needs an extra names it."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", built[0]], check=True)
    outside = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    outside.pop("PYTHONPATH", None)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)

    audits = run(python, "-c", AUDITS)
    assert audits.returncode == 0, audits.stderr
    assert "epsilometer[models]" in audits.stderr
    command = str(tmp_path / "venv/bin/epsilometer")
    rows = ["original,rewrite,epsilon", *(f"text {i},{'a' if i % 2 else 'b'},1" for i in range(100))]
    (tmp_path / "rewrites.csv").write_text("\n".join(rows))
    (tmp_path / "texts.txt").write_text("\n".join(f"line {i} of {i % 7}" for i in range(60)))
    (tmp_path / "mine.py").write_text(MINE)
    recorded = run(command, "audit", "--rewrites", "rewrites.csv", "--trials", "50")
    assert recorded.returncode == 0, recorded.stderr
    own = run(command, "audit", "texts.txt", "--mechanism", "mine.py", "--trials", "50")
    assert own.returncode == 0, own.stderr
    program = run(command, "audit", "texts.txt", "--command", "tr a-z A-Z", "--trials", "20")
    assert program.returncode == 0, program.stderr
    for words in (("audit", "texts.txt", "--mechanism", "dp_mlm", "--epsilons", "10"), ("repro",)):
        refused = run(command, *words)
        assert refused.returncode == 2
        assert "pip install 'epsilometer[" in refused.stderr


def upgraded(folder: Path) -> Path:
    """The wheel of a version in which one mechanism's file differs."""
    source = folder / "source"
    for name in ("epsilometer", "data/embedded"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    top, mechanism = (source / "epsilometer" / name for name in ("core/version.py", "mechanisms/controls/identity.py"))
    top.write_text(top.read_text().replace("VERSION = ", "VERSION = '99.0'  # before: "))
    mechanism.write_text(mechanism.read_text() + "\n# of another version\n")
    return build(folder / "dist", source)[0]


def test_a_project_on_an_installed_wheel_reruns_what_an_upgrade_changes(built, tmp_path) -> None:
    """In an environment of its own, which has the wheel and borrows what it depends on from this one."""
    venv, project = tmp_path / "venv", tmp_path / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (next(venv.glob("lib/*/site-packages")) / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    path = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
    outside = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), "DVC_NO_ANALYTICS": "1"}
    outside.pop("PYTHONPATH", None)

    def install(wheel: Path) -> None:
        words = (sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "-q", "--no-deps", wheel)
        subprocess.run(words, check=True)

    def said(folder: Path, *words: str) -> str:
        done = subprocess.run(words, cwd=folder, env=outside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    install(built[0])
    (tmp_path / "texts.txt").write_text("\n".join(f"line {i} of {i % 7}" for i in range(60)))
    said(tmp_path, "epsilometer", "init", "mine", "--texts", "texts.txt", "--mechanism", "randomized_response")
    assert str(venv) in str((project / "data/embedded").resolve())
    assert "is valid" in said(project, "epsilometer", "check", "params")
    assert "2 passed" in said(project, "make", "test")
    both = ("rewrite@mine-identity", "rewrite@mine-randomized_response")
    first = said(project, "epsilometer", "pipeline", "repro", *both)
    assert all(f"Running stage '{stage}'" in first for stage in (*both, "embed@mine"))
    install(upgraded(tmp_path))
    assert "controls/identity.py has changed" in said(project, "epsilometer", "pipeline", "why", both[0])
    assert "nothing has changed" in said(project, "epsilometer", "pipeline", "why", both[1])
    again = said(project, "epsilometer", "pipeline", "repro", *both)
    run = {line.split("'")[1] for line in again.splitlines() if line.startswith("Running stage")}
    assert run == {"code", "resources", both[0]}, "the first two look what has changed, and always run"
