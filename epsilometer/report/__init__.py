"""The page of an audit, its figures, and its numbers for other programs."""
