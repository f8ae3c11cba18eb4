"""Benchmarks of speed, memory and utility. Tests do not assert their figures."""
