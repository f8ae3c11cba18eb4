"""Linking attacks, one per file. An attack gets rewrites and facts about people, and scores each person and rewrite."""
