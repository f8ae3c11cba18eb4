"""One engine for the law of a sum of independent losses, which accounting and exact losses share.

- `grid` puts the losses of two laws on a grid, so that no figure is understated.
- `spectrum` is the Fourier transform of a sum of independent integers.
- `tilted` is the law of the sum under an exponential tilt, with the errors of the transform, and what follows from it.
"""
