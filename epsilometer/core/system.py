"""A numpy generator that draws every bit from the operating system, for publications.

numpy's own generators are invertible: an adversary who sees enough of their numbers can compute all other numbers.
`generator` instead gives numpy 64-bit words from the operating system. It uses numpy's documented C interface for bit
generators ("Extending"), so all of numpy's distributions are available. Each number takes about 0.5 microseconds;
`words` is faster, since it returns many words at once.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from epsilometer.core.exact_samplers import Words, system_words

_BUFFER = 1 << 10  # words per request to the operating system


class _Interface(ctypes.Structure):
    """numpy's C struct `bitgen_t`."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        ("next_uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
        ("next_double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
        ("next_raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    )


class _SystemBits:
    """A bit generator with the attributes that numpy reads: `capsule` and `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._words = np.empty(0, np.uint64)
        self._used = 0
        kinds: dict[str, Any] = dict(_Interface._fields_)
        self._interface = _Interface(
            state=None,
            next_uint64=kinds["next_uint64"](lambda _: self._next()),
            next_uint32=kinds["next_uint32"](lambda _: self._next() >> 32),
            next_double=kinds["next_double"](lambda _: (self._next() >> 11) * 2.0**-53),
            next_raw=kinds["next_raw"](lambda _: self._next()),
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._name = b"BitGenerator"  # must stay in memory, since the capsule refers to it
        self.capsule = new(ctypes.addressof(self._interface), self._name, None)

    def _next(self) -> int:
        if self._used == len(self._words):
            self._words, self._used = system_words(_BUFFER), 0
        self._used += 1
        return int(self._words[self._used - 1])


def generator() -> np.random.Generator:
    """Return a new generator whose bits come from the operating system."""
    bits: Any = _SystemBits()
    return np.random.Generator(bits)


def is_system(generator: np.random.Generator) -> bool:
    """Return True if a generator comes from `generator`, so that its draws may be published."""
    return isinstance(generator.bit_generator, _SystemBits)


def words(generator: np.random.Generator, count: int) -> Words:
    """Return [count] words of 64 random bits. For a system generator, one request reads all of them."""
    if is_system(generator):
        return system_words(count)
    return generator.integers(0, np.iinfo(np.uint64).max, count, np.uint64, endpoint=True)
