"""The authors' reference code beside ours, in one run on one thread: see `benchmarks.peers.__main__`."""
