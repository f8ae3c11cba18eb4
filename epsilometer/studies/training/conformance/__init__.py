"""Conformance tests for membership and reconstruction attacks."""
