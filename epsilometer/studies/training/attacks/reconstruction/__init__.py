"""Reconstruction attacks, a file each. They turn a sent gradient into texts."""
