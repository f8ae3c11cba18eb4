"""Code that several benchmarks use."""
