"""All tables: `make bench`, or `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import masked_lm, sampling, words

if __name__ == "__main__":
    for part in (sampling, words, masked_lm):
        part.main()
