"""All tables: `make bench`, or `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import exact_loss, generation, judge, latents, masked_lm, sampling, triples, words

if __name__ == "__main__":
    for part in (sampling, words, masked_lm, generation, latents, triples, judge, exact_loss):
        part.main()
