"""A simulated GPU: tensors that claim to be on "cuda", but are computed on the processor.

The simulation refuses what a GPU refuses: operations on tensors of both devices, and `numpy()` of a tensor on the GPU.
As in torch, numbers and indices may come from the processor. The processor's kernels compute all other operations, so
code that reads values works unchanged. The simulation does not cover CUDA's own kernels, their memory and speed, or
computations in other threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from epsilometer.core.device import choose

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
_TO_TORCH = torch.device("meta", 1)  # the device that torch, which has no CUDA here, uses instead
_ATEN = torch.ops.aten
_CROSSES = {_ATEN.to, _ATEN._to_copy, _ATEN.copy_, _ATEN.type_as}
_PLACED = {_ATEN.index.Tensor, _ATEN.index_put_.default, _ATEN.index_put.default, _ATEN._index_put_impl_.default}
_READ = {Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__}
_MADE = {torch.tensor, torch.as_tensor}
_most: int | None = None  # maximum number of entries of a tensor


class Mixed(RuntimeError):
    """An operation on tensors of two devices."""


class OnGpu(Tensor):
    """A tensor on the simulated GPU. `own` has its numbers, on the processor."""

    own: Tensor

    @staticmethod
    def __new__(cls, own: Tensor) -> OnGpu:
        with torch.inference_mode(False):  # a view of a weight must not be an inference tensor
            tensor = Tensor._make_wrapper_subclass(
                cls,
                own.size(),
                strides=own.stride(),
                storage_offset=own.storage_offset(),
                dtype=own.dtype,
                device=_TO_TORCH,
            )
        assert own.device == CPU, "numbers are kept by the processor"
        tensor.own = own
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl
    device, is_cuda, is_meta = GPU, True, False  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"OnGpu({self.own})"


class _Factories(TorchDispatchMode):
    """A mode for operations without a tensor on the simulated GPU, which may create one there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Asked(TorchFunctionMode):
    """A mode that intercepts calls that use "cuda" as a device, read numbers, or make tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _READ and isinstance(args[0], OnGpu):
            return func(args[0].own)
        if func is Tensor.__setitem__ and isinstance(args[0], OnGpu):  # torch cannot set values without data
            _put(*args)
            return None
        if func is Tensor.__getitem__ and isinstance(args[0], OnGpu):  # or index such a tensor by lists
            args = args[0], _places(args[1])
        if func in _MADE and _target(kwargs.get("device")) == _TO_TORCH:
            return func(*args, **kwargs | {"device": None}).to(_TO_TORCH)
        if func is Tensor.new_tensor and isinstance(args[0], OnGpu):
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(_TO_TORCH)
        return func(*map(_target, args), **{name: _target(value) for name, value in kwargs.items()})


def _places(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_places, key))
    return torch.as_tensor(key) if isinstance(key, list | np.ndarray) else key


def _put(there: OnGpu, places: Any, values: Any) -> None:
    """Set values in place. Like torch, refuse values on the processor if places are index tensors or lists."""
    leaves = tree_flatten(places)[0]
    listed = any(isinstance(leaf, Tensor) or (leaf is not places and isinstance(leaf, int)) for leaf in leaves)
    if listed and isinstance(values, Tensor) and values.dim() and not isinstance(values, OnGpu):
        raise Mixed(f"values on {values.device} for places of a tensor on {there.device}")
    there.own[tree_map(_own, places)] = _own(values)


def _target(value: Any) -> Any:
    return _TO_TORCH if isinstance(value, str | torch.device) and str(value).startswith("cuda") else value


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    every = tree_flatten((args, kwargs))[0]
    tensors = [leaf for leaf in every if isinstance(leaf, Tensor)]
    there = any(isinstance(tensor, OnGpu) for tensor in tensors)
    assert not there or not any(tensor.is_meta for tensor in tensors), f"{func} of tensors without numbers"
    target = next((leaf for leaf in every if isinstance(leaf, torch.device)), None)
    if target is not None and target.type == "meta" and (there or target.index is not None):
        here = GPU
    else:
        here = _device(func, args, tensors) if target is None else target
    named = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    own_args, own_named = tree_map(
        lambda leaf: CPU if isinstance(leaf, torch.device) and here == GPU else _own(leaf), (args, named)
    )
    out = func(*own_args, **own_named)
    if here.type != "cuda":
        return out
    changed = [
        argument
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if changed:
        return _changed(func, args, kwargs, changed)
    if _most is not None and any(leaf.numel() > _most for leaf in tree_flatten(out)[0] if isinstance(leaf, Tensor)):
        raise torch.cuda.OutOfMemoryError(f"{func} of more than {_most} numbers")
    return tree_map(lambda leaf: OnGpu(leaf) if isinstance(leaf, Tensor) else leaf, out)


def _changed(func: Any, args: Any, kwargs: Any, changed: list[Any]) -> Any:
    """Return the results of an in-place operation: the tensors that it changed."""
    passed = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    whole = tuple(passed[argument.name] for argument in changed)
    return (whole if len(whole) > 1 else whole[0]) if func._schema.returns else None


def _device(func: Any, args: Any, tensors: list[Tensor]) -> torch.device:
    """Return the device of an operation. Raises Mixed if its tensors are on two devices."""
    if func.overloadpacket in _CROSSES:
        like = func in (_ATEN.to.other, _ATEN.type_as.default)
        return args[1 if like else 0].device  # type: ignore[no-any-return]
    places = func in _PLACED and args[0].device == GPU  # torch accepts indices from the processor
    counted = [args[0], *args[2:3]] if places else tensors
    devices = {leaf.device.type for leaf in counted if isinstance(leaf, Tensor) and leaf.dim()}
    if len(devices) > 1:
        raise Mixed(f"{func} on {[(tensor.device.type, tuple(tensor.shape)) for tensor in tensors]}")
    return GPU if "cuda" in (devices or {tensor.device.type for tensor in tensors}) else CPU


def _own(leaf: Any) -> Any:
    return leaf.own if isinstance(leaf, OnGpu) else leaf


@contextmanager
def stand_in(patch: pytest.MonkeyPatch, most: int | None = None) -> Iterator[None]:
    """Make "cuda" the simulated GPU, and choose `device: cuda`, while the context lasts.

    most: the number of entries of a tensor above which memory runs out; None for any number.
    """
    properties = SimpleNamespace(name="no GPU", major=9, minor=0, total_memory=80 << 30)
    with patch.context() as at:
        at.setenv("EPSILOMETER_DEVICE", "cpu")
        choose("cuda")
        at.setattr("tests.support.stand_in_gpu._most", most)
        at.setattr(torch.cuda, "is_available", lambda: True)
        at.setattr(torch.cuda, "_lazy_init", lambda: None)
        at.setattr(torch.cuda, "get_device_properties", lambda number=0: properties)
        at.setattr(torch.cuda, "get_device_capability", lambda number=0: (9, 0))
        with _Factories(), _Asked(), torch.autograd.set_multithreading_enabled(False):
            yield
