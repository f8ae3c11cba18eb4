"""Conformance tests of attacks on trainings."""
