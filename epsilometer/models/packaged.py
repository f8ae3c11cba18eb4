"""Models in packages of the Python package index: a folder of safetensors, or a GGUF file, which is converted once.

A folder of safetensors is used unchanged. A GGUF file holds quantised weights of llama.cpp. The loader of transformers
converts these weights to float32, restores the order of rows in query and key matrices, and reads the tokeniser and the
chat template. The converted folder is stored with checksums in the user's cache, next to the packages' files. It takes
4 bytes per weight, about eight times the size of a 4-bit file. The package is not installed, imported or executed.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import shutil
import tempfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.models.locate import quiet_loading
from epsilometer.runtime import checksums, packages
from epsilometer.runtime.hub import amount
from epsilometer.runtime.packages import Pin
from epsilometer.runtime.progress import say

_WEIGHT = 4  # bytes of a weight in float32
_EXPANDED = 8  # float32 bytes per byte of 4-bit weights
_SUFFIXES = (".gguf", ".safetensors")


def folder(pin: Pin) -> Path:
    """Return the folder of a package's model, after downloading or converting it if necessary.

    Raises UserError as `packages.file` does, for a file that is neither safetensors nor GGUF, and for too little disk
    space (before the download if the pin states sizes). For GGUF, raises UserError if the library gguf is not
    installed, or if the loader does not support the architecture or the quantisation.
    """
    if not pin.file.endswith(_SUFFIXES):
        raise UserError(
            f"{pin}: {pin.file!r} is not a {' or '.join(_SUFFIXES)} file, the formats that models in packages must "
            "have; state such a file in the pin",
            "EPS-N080",
        )
    packages.check_terms(pin)
    if pin.file.endswith(".safetensors"):
        return packages.folder(pin)
    out = _place(pin)
    if (out / checksums.NAME).is_file():
        return out
    if importlib.util.find_spec("gguf") is None:
        raise UserError(f"{pin}: reading GGUF needs the library gguf; pip install 'epsilometer[gguf]'", "EPS-N081")
    _check_space(pin, out, (pin.unpacked or 0) * _EXPANDED)
    source = packages.file(pin)
    _check_space(pin, out, _WEIGHT * _weights(pin, source))
    say(f"{pin}: converting its weights to safetensors, once")
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"partial-{os.getpid()}-") as place:
        _convert(pin, source, Path(place) / out.name)
        os.replace(Path(place) / out.name, out)
    return out


def _place(pin: Pin) -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("epsilometer") / "models" / pin.sha256 / Path(pin.file).stem


def _check_space(pin: Pin, out: Path, needed: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out.parent).free
    if needed > free:
        raise UserError(
            f"{pin} takes {amount(needed)} as safetensors in float32, but only {amount(free)} are free in "
            f"{out.parent}; free some space, or set the environment variable XDG_CACHE_HOME to a larger disk",
            "EPS-N082",
        )


def _weights(pin: Pin, source: Path) -> int:
    """Return the number of weights in a GGUF file. Raises UserError for an unsupported architecture or quantisation."""
    import gguf
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    try:
        reader = gguf.GGUFReader(source)
        architecture = str(reader.fields["general.architecture"].contents())
    except Exception as error:  # a damaged file can cause any error in the library
        raise UserError(
            f"{pin}: {pin.file!r} is not readable GGUF ({type(error).__name__}); state another file", "EPS-N083"
        ) from error
    readable = sorted({*GGUF_SUPPORTED_ARCHITECTURES} - {"general", "tokenizer"})
    if architecture not in readable:
        raise UserError(
            f"{pin} has the architecture {architecture!r}; choose a model of one of the {listed(readable, 'kind')}",
            "EPS-N084",
        )
    for tensor in reader.tensors:
        try:
            gguf.dequantize(tensor.data[:1], tensor.tensor_type)
        except NotImplementedError:
            raise UserError(
                f"{pin}: the weights {tensor.name} are stored as {tensor.tensor_type.name}, which gguf cannot "
                "convert; give a file in another quantisation, such as Q4_0, Q8_0 or F16",
                "EPS-N085",
            ) from None
    return sum(math.prod(map(int, tensor.shape)) for tensor in reader.tensors)


def _convert(pin: Pin, source: Path, out: Path) -> None:
    """Convert a GGUF file to a folder of transformers: weights, configuration, tokeniser and checksums."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_loading(source.parent), redirect_stderr(io.StringIO()):  # hides a progress bar that cannot be turned off
        of: dict[str, Any] = {"gguf_file": source.name}
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, **of
        )
        tokenizer = AutoTokenizer.from_pretrained(source.parent, trust_remote_code=False, **of)
        # transformers does not save quantised models. These weights are in float32 now, so remove the mark.
        model.hf_quantizer, model.is_quantized = None, False  # type: ignore[assignment]
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    checksums.write(out)
