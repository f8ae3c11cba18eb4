"""Arithmetic that does not depend on the processor.

NumPy, SciPy, PyTorch and MKL choose their code by the processor, so sums and exponentials may differ in the last bit.
A search or a training amplifies such differences. So sections run without instructions wider than AVX2, and with
kernels that all x86-64 processors with AVX2 have. `fingerprint` shows whether this was enough.
"""

from __future__ import annotations

import math

import numpy as np

from tests.goldens.values import digest

_SIZE = 200


def settings() -> dict[str, str]:
    """Return the environment variables of a process whose results are compared."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in extensions if name.startswith(("AVX512", "X86_V4"))),
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }


def fingerprint() -> str:
    """Return a digest of sums, products, exponentials and a singular value decomposition.

    Where it is another, so are results without any change of code: another processor, or other versions of libraries.
    """
    import scipy.special
    import torch

    normal = np.random.default_rng(0).standard_normal((_SIZE, _SIZE))
    parts = [np.array([math.exp(x) + math.log(abs(x)) for x in normal[0]])]
    for numbers in (normal, normal.astype(np.float32)):
        parts += [np.exp(numbers), np.log(abs(numbers)), numbers @ numbers, numbers.sum(0), np.linalg.svd(numbers)[1]]
        tensor = torch.from_numpy(numbers)
        parts += [part.numpy() for part in (tensor.exp(), tensor @ tensor, tensor.softmax(0), tensor.sum(1))]
    parts.append(scipy.special.betainc(2.5, 3.5, scipy.special.expit(normal)))
    return " ".join(digest(part.tobytes())[:6] for part in parts)
