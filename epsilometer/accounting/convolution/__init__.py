"""The law of a sum of independent losses, for accounting and for exact losses.

- `grid` puts the losses of two laws on a grid, so that no epsilon, delta or guess loss is understated.
- `spectrum` is the Fourier transform of a sum of independent integers.
- `tilted` computes epsilon and delta from the exponentially tilted law of the sum, and bounds the transform's errors.
"""
