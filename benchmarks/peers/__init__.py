"""Speed of the authors' reference code compared with this project, on one thread; see `benchmarks.peers.__main__`."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # must be set before libraries are imported
