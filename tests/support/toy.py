"""A project of six stages that runs in seconds, for tests of failures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from epsilometer.pipeline import composing
from epsilometer.pipeline.composing import fragments
from epsilometer.pipeline.params import read
from epsilometer.project import times
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT, finished
from tests.support.warm import Warm

STAGES = ("code", "resources", "prepare", "embed", "trials", "rewrite", "attack", "estimate")

# Replaces the sentence encoder, which takes longer to load than everything else.
EMBED = """import sys
import numpy as np
from epsilometer.core import tables
from epsilometer.pipeline.guard.entry import run

def main(name):
    audited = (tables.read(f"data/prepared/{name}.parquet", {})["split"] == "train").sum()
    vectors = np.random.default_rng(0).normal(size=(audited, 8)).astype(np.float32)
    tables.write_array(vectors, f"data/embeddings/{name}.npy")
    tables.write_json({}, f"data/embeddings/{name}.json")

run(main, "embed", *sys.argv[1:])
"""

MINE = """import numpy as np
from epsilometer.core.component import component
from epsilometer.core.mechanism import Latents, Rewrites

@component
class Mine:
    def encode(self, texts):
        return np.array([[len(text), text.count("a")] for text in texts], np.float32)

    def rewrite(self, texts, epsilon, noise):
        before = self.encode(texts)
        after = before + (noise.uniforms()[:, :1] / epsilon).astype(np.float32)
        return Rewrites([f"{x:.2f}" for x in after[:, 0]], latents=Latents(before, after))

    def guarantee(self, epsilon):
        return None
"""


class Toy:
    """A project with a data set of 20 texts and a mechanism with latents. It loads no model.

    warm: the process that runs its commands, for tests that do not depend on how commands start and end.
    """

    def __init__(
        self, folder: Path, trials: int = 200, stages: Sequence[str] = STAGES, warm: Warm | None = None
    ) -> None:
        self.folder = folder
        self.warm = warm
        self.environment: dict[str, str] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "SHELL": "/bin/sh",
            "DVC_NO_ANALYTICS": "1",
            "DO_NOT_TRACK": "1",
            "PREFECT_HOME": str(folder / ".prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(int(LAST_RESORT)),
        }
        for name in ("epsilometer", "tasks", "flows"):
            shutil.copytree(ROOT / name, folder / name)  # including compiled files
        for name in (".dvcignore", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        (folder / ".gitignore").write_text("/data/*\n/.prefect/\n__pycache__/\n")
        self.fragments = {name: deepcopy(fragments()[name]) for name in stages}
        if "embed" in stages:
            self.fragments["embed"]["do"]["cmd"] = "python embed.py ${key}"
        for file in (folder / "epsilometer").rglob("stages.yaml"):
            file.write_text("{}")
        (folder / "epsilometer/pipeline/stages.yaml").write_text(yaml.safe_dump(self.fragments, sort_keys=False))
        (folder / "embed.py").write_text(EMBED)
        (folder / "data/embedded/models").mkdir(parents=True)
        (folder / "data/embedded/models/README.md").write_text("none here")
        songs = [f"please play song {i} by artist {chr(97 + i)}" for i in range(20)]
        (folder / "songs.txt").write_text("\n".join(songs) + "\n")
        (folder / "mine.py").write_text(MINE)
        mine = {"mechanism": "mine", "file": "mine.py", "epsilons": [1, 5]}
        self.params: dict[str, Any] = {
            "root": ".",
            "title": "Twenty texts",
            "audit": {"seed": 0, "round": 0, "alpha": 0.01},
            "datasets": {"songs": {"source": "songs.txt", "use": "train", "match": None, "public": True}},
            "embedding": {"model": "all-MiniLM-L6-v2", "precision": "float32"},
            "trials": {"count": trials, "candidates": 2, "temperature": -10000},
            "mechanisms": {"mine": mine},
            "cells": {"songs-mine": {**mine, "dataset": "songs"}},
            "attacks": {"length": {}},
            "instrument": {"epsilons": [1], "trials": 200},
            "runtime": {"block": 65536, "workers": 1},
        }
        self.write_params()
        make_project(folder)

    def write_params(self) -> None:
        """Write params.yaml, and the stages of this project that it needs."""
        (self.folder / "params.yaml").write_text(yaml.safe_dump(self.params, sort_keys=False))
        with patch.object(composing, "fragments", lambda: self.fragments), chdir(self.folder):
            composing.write(read())

    def start(self, *command: str, **keywords: Any) -> subprocess.Popen[str]:
        """Start a command in the project's folder, with standard output and error in one stream."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **keywords,
        )

    def run(self, *command: str, code: int = 0) -> str:
        """Run a command and return its output. Fails unless it ends with this exit code."""
        if self.warm is not None and self.warm.runs(command):
            ended, said = self.warm.run(command, self.folder, self.environment)
            assert ended == code, said
            return said
        process = self.start(*command)
        said, _ = finished(process)
        assert process.returncode == code, said
        return said

    def results(self) -> dict[str, bytes]:
        """Return the bytes of every file that the stages wrote, and of dvc.lock; records of times are left out."""
        paths = [self.folder / "dvc.lock", *(self.folder / "data").rglob("*")]
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in paths
            if path.is_file() and not path.name.startswith(".") and not path.is_relative_to(self.folder / times.FOLDER)
        }
