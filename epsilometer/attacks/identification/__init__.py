"""Identification attacks, one per file. An attack gets rewrites and candidates, and guesses the sources."""
