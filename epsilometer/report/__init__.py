"""The page of an audit, its figures, and its numbers in formats for other programs."""
