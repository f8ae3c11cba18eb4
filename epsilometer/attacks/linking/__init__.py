"""Linking attacks, one per file. An attack gets facts about people, and scores each pair of a person and a rewrite."""
