"""The abilities of this machine and installation, and the work that would be slow here."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from platformdirs import user_cache_dir

from epsilometer.core.component import EMBEDDED
from epsilometer.core.errors import UserError
from epsilometer.core.extras import EXTRAS, installed
from epsilometer.runtime import checksums

_GIB = 2**30
_CORE = ("numpy", "polars", "scipy")
_MODELS = ("torch", "transformers", "sentence-transformers")
_PROJECT = ("dvc", "prefect")


def hardware() -> str:
    """Return the processor, its cores and the memory of this machine."""
    return f"{processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / _GIB:.0f} GiB of memory"


def examined(folder: Path) -> dict[str, str]:
    """Return one line of facts per topic (versions, extras, hardware, ...), for an audit in this folder."""
    free = shutil.disk_usage(folder).free
    return {
        "epsilometer": f"{_version('epsilometer')}, Python {platform.python_version()}, {_versions(_CORE)}",
        "extras": _extras(),
        "models": _versions(_MODELS) if installed("models") else "none: no encoder, no language model",
        "pipeline": _versions(_PROJECT) if installed("project") else "none: audits by one call, no project",
        "weights": _weights(),
        "processor": f"{processor()}, {cores()} of {os.cpu_count()} cores usable",
        "memory": _memory(),
        "GPU": _gpu(),
        "disk": f"{free / _GIB:.0f} GiB free here; cached models in {user_cache_dir('epsilometer')}",
        "slow": "; ".join(_slow()) or "nothing, for embedded models",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _versions(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {_version(name)}" for name in names)


def _extras() -> str:
    there = [extra for extra in EXTRAS if installed(extra)]
    absent = [extra for extra in EXTRAS if extra not in there]
    advice = f"; not installed: {', '.join(absent)} (pip install 'epsilometer[{','.join(absent)}]')" if absent else ""
    return (", ".join(there) or "none") + advice


def _weights() -> str:
    try:
        checksums.check(EMBEDDED)
    except UserError as error:
        return str(error)
    size = sum(file.stat().st_size for file in EMBEDDED.rglob("*") if file.is_file())
    return f"{size / 2**20:.0f} MiB at {EMBEDDED}, checksums verified"


def processor() -> str:
    """Return the processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return name or platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of cores that this process may run on, within the limit of its control group (Linux)."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = Path("/sys/fs/cgroup/cpu.max")
    quota, _, period = (limit.read_text() if limit.is_file() else "max").partition(" ")
    return affinity if quota.strip() == "max" else max(1, min(affinity, round(int(quota) / int(period))))


def _memory() -> str:
    memory = psutil.virtual_memory()
    return f"{memory.total / _GIB:.0f} GiB, {memory.available / _GIB:.0f} free"


def _gpu() -> str:
    if not installed("models"):
        return "not checked: torch is not installed"
    import torch  # imported here because it loads slowly

    if not torch.cuda.is_available():
        return f"none usable by torch {torch.__version__}"
    device = torch.cuda.get_device_properties(0)
    native = "bfloat16" if device.major >= 8 else "no native bfloat16"
    capability = f"compute capability {device.major}.{device.minor}"
    return f"{device.name}, {device.total_memory / _GIB:.0f} GiB, {capability}, {native}"


def _slow() -> list[str]:
    """Return clauses on work that would be slow here or would not fit. `epsilometer check params` covers projects."""
    slow = []
    if "torch" in sys.modules and not sys.modules["torch"].cuda.is_available():
        slow.append("without a GPU, judges and generators of billions of parameters take seconds per text")
    if cores() < 2:
        slow.append("one core: the times in the docs were measured on two")
    if psutil.virtual_memory().available < 4 * _GIB:
        slow.append("less than 4 GiB of free memory: set runtime.block lower")
    return slow
