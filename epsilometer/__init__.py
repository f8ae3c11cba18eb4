"""Epsilometer measures how much privacy a text privatization mechanism really gives."""
