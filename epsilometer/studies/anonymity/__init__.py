"""The study of anonymity: author attributes that rewrites still reveal, and learning from rewrites."""
