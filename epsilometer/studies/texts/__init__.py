"""The study of texts: source identification among k texts, claims, and the quality of rewrites."""
