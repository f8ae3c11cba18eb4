"""The study of anonymity: the author attributes that rewrites still reveal, and learning from rewrites."""
