"""Attacks, one per file: identification attacks, and linking attacks."""
